"""The tests notice code that was broken on purpose; `python tools/mutations.py` says which."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def mutations() -> Any:
    spec = importlib.util.spec_from_file_location("mutations", ROOT / "tools" / "mutations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


TOOL = mutations()


@pytest.mark.parametrize("name", TOOL.MUTATIONS)
def test_what_a_mutation_changes_is_there(name: str) -> None:
    mutation = TOOL.MUTATIONS[name]
    assert (ROOT / "src" / "onlinehash" / mutation.module).read_text().count(mutation.old) == 1
    assert (ROOT / mutation.tests.split("::")[0]).exists()


@pytest.mark.long
@pytest.mark.parametrize("name", TOOL.MUTATIONS)
def test_broken_code_is_noticed(name: str) -> None:
    assert not TOOL.survives(TOOL.MUTATIONS[name])
