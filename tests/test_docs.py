"""README and docs are executed, and nothing public goes undocumented."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import onlinehash
from onlinehash.learners import registry

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = "\n".join(page.read_text() for page in PAGES)


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.name)
def test_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks(page), 1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), namespace)


@pytest.mark.parametrize("room", [onlinehash, onlinehash.evaluate, onlinehash.streams], ids=lambda m: m.__name__)
def test_every_public_name_is_documented(room):
    missing = [name for name in room.__all__ if not re.search(rf"\b{name}\b", TEXT)]
    assert not missing


@pytest.mark.parametrize("method", registry.METHODS, ids=lambda m: m.name)
def test_every_learner_and_parameter_is_documented(method):
    cls = method.load()
    assert re.search(rf"^## .*\b{method.name}\b", (ROOT / "docs" / "learners.md").read_text(), flags=re.MULTILINE)
    parameters = list(inspect.signature(cls).parameters)
    assert not [name for name in parameters if not re.search(rf"\b{name}\b", inspect.getdoc(cls))]
    assert not [name for name in parameters if f"`{name}`" not in (ROOT / "docs" / "learners.md").read_text()]


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
