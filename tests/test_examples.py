"""The examples in docstrings run and print what they say."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import onlinehash
from onlinehash.gpu.twins import Twins
from tests.doc_modules import doc_module
from tests.gpu.test_card_codes import has_card

#: What starts processes or a database, which takes seconds.
SLOW = {"MilvusIndex", "PostgresIndex"}
#: What has an entry in the reference.
THINGS: dict[str, Any] = {
    name: thing
    for name, thing in doc_module("reference_pages").described_things().items()
    if name not in SLOW and (callable(thing) or isinstance(thing, ModuleType))
}


def methods() -> dict[str, Any]:
    """Of public classes, once each; those of `VectorIndex` run in tests/index/test_api.py."""
    found = {}
    for cls in filter(inspect.isclass, THINGS.values()):
        for home in cls.__mro__:
            if home.__module__.startswith("onlinehash") and home.__name__ != "VectorIndex":
                for name, method in vars(home).items():
                    if not name.startswith("_") and isinstance(method, FunctionType | classmethod | staticmethod):
                        found[f"{home.__name__}.{name}"] = getattr(home, name)
    return found


@pytest.mark.parametrize("things", [THINGS, methods()], ids=["public names", "methods"])
def test_examples_run(things: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in an empty folder."""
    if not has_card():
        monkeypatch.setattr(onlinehash.GpuIndex, "_make_runs", lambda self, shape: Twins(shape))
    said: list[str] = []
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for name, thing in things.items():
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        for test in finder.find(thing, name, module=inspect.getmodule(thing), globs={}):
            runner.run(test, out=said.append)
    assert runner.tries > 100
    assert "".join(said) == ""
