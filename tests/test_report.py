"""The technical report: every number in it stands on a page that its paragraph links to, beside its command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[1] / "docs/explanation"
#: Numbers that were measured: three decimals, or a percentage with one.
NUMBER = re.compile(r"(?<![\w.])(?:\d\.\d{3}|\d+\.\d %)(?![\d])")
PARTS = [part for part in re.split(r"\n\n|\n(?=- )", (PAGES / "report.md").read_text()) if NUMBER.search(part)]


@pytest.mark.parametrize("part", PARTS, ids=range(len(PARTS)))
def test_every_number_stands_on_a_page_that_is_named_beside_it(part):
    pages = set(re.findall(r"\]\(([\w/-]+\.md)", part))
    told = " ".join((PAGES / name).read_text() for name in pages)
    for number in NUMBER.findall(part):
        value = number.replace(" %", "")
        assert re.search(rf"(?<![\d.]){re.escape(value)}(?!\d)", told), f"{number} is on none of {sorted(pages)}"


@pytest.mark.parametrize("part", PARTS, ids=range(len(PARTS)))
def test_the_command_that_prints_a_number_is_named_beside_it(part):
    assert re.search(r"`(?:experiment\s(?:claims|table)|python benchmarks/)", part)


def test_it_has_numbers():
    assert len(PARTS) > 8
