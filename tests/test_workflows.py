"""What the code host runs is what people run: targets of the Makefile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_command_is_a_target(workflow: Path) -> None:
    text = workflow.read_text()
    targets = set(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)[0].split())
    of_matrix = re.findall(r"^ *target: \[(.*)\]$", text, flags=re.MULTILINE)
    commands = re.findall(r"^ *(?:- )?run: *(.*)$", text, flags=re.MULTILINE)
    assert commands
    for command in commands:
        program, target, *_ = command.replace("${{ matrix.target }}", "MATRIX").split()
        assert program == "make", command
        wanted = set(", ".join(of_matrix).split(", ")) if target == "MATRIX" else {target}
        assert wanted <= targets, command


def test_the_site_that_is_published_is_the_one_that_make_builds() -> None:
    text = (ROOT / ".github" / "workflows" / "site.yml").read_text()
    (folder,) = re.findall(r"^ *path: (\S+)/$", text, flags=re.MULTILINE)
    (recipe,) = re.findall(r"^docs:.*\n\t(.*)$", MAKEFILE, flags=re.MULTILINE)
    assert recipe.split()[-1] == folder
