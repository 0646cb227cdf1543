"""The examples in docstrings run and print what they say, and no public name is without one."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import onlinehash
from onlinehash.errors import OnlineHashError
from onlinehash.evaluate import ledger
from onlinehash.gpu.twins import Twins
from onlinehash.learners import base
from tests.gpu.test_card_codes import has_card

#: Modules whose docstrings have examples besides those of public names.
MODULES = (base, ledger)
#: What starts processes, which takes seconds; docs/how-to/parallel.md runs it.
SLOW = "parallel.learn_on_shards"


def public() -> dict[str, Any]:
    """Classes and functions of the package, and functions of its public modules; results and errors need no example."""
    found = {name: getattr(onlinehash, name) for name in onlinehash.__all__}
    for name, module in list(found.items()):
        if isinstance(module, ModuleType):
            del found[name]
            names = getattr(module, "__all__", vars(module))
            found |= {f"{name}.{inner}": getattr(module, inner) for inner in names if needs_example(module, inner)}
    return {name: thing for name, thing in found.items() if name != SLOW}


def needs_example(module: ModuleType, name: str) -> bool:
    thing = getattr(module, name)
    is_ours = getattr(thing, "__module__", "").startswith("onlinehash.")
    return is_ours and (inspect.isfunction(thing) or hasattr(thing, "due"))


def example(thing: Any, name: str) -> list[doctest.DocTest]:
    found = doctest.DocTestFinder(recurse=False).find(thing, name, module=inspect.getmodule(thing), globs={})
    return [test for test in found if test.examples]


def run(test: doctest.DocTest) -> None:
    said: list[str] = []
    runner = doctest.DocTestRunner()
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("name", public())
def test_every_public_name_has_an_example_that_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if name == "GpuIndex" and not has_card():
        monkeypatch.setattr(onlinehash.GpuIndex, "_make_runs", lambda self, shape: Twins(shape))
    (test,) = example(public()[name], name)
    run(test)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_of_methods(module: ModuleType) -> None:
    tests = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert tests
    for test in tests:
        run(test)


def test_functions_say_what_they_return() -> None:
    for name, thing in public().items():
        if inspect.isfunction(thing) and inspect.signature(thing).return_annotation != "None":
            assert "\nReturns\n-------" in str(inspect.getdoc(thing)), name


def test_all_errors_are_documented() -> None:
    errors = vars(onlinehash.errors).values()
    assert all(thing.__doc__ for thing in errors if isinstance(thing, type) and issubclass(thing, OnlineHashError))
