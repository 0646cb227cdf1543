"""The threat model names a test for each attack: all of them are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_test_that_the_page_names_is_there() -> None:
    page = (ROOT / "docs" / "explanation" / "threat-model.md").read_text()
    named = re.findall(r"`(tests/\S+\.py)::(\w+)`", page)
    assert len(named) > 40
    missing = [f"{file}::{name}" for file, name in named if f"def {name}(" not in (ROOT / file).read_text()]
    assert missing == []
