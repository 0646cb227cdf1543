"""The examples in docstrings run and print what they say, and neither a public name nor its methods are without one."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import onlinehash
from onlinehash.errors import OnlineHashError
from onlinehash.gpu.twins import Twins
from tests.doc_modules import doc_module
from tests.gpu.test_card_codes import has_card
from tests.servers import PostgresServer

reference_pages = doc_module("reference_pages")

#: What has an entry in the reference.
THINGS: dict[str, Any] = reference_pages.described_things()
#: Data say what they are in the docstring of their package.
EXPLAINED = {name: thing for name, thing in THINGS.items() if callable(thing) or isinstance(thing, ModuleType)}
#: Packages need an example only for the data in them; what else they have speaks for itself.
PACKAGES = {name for name, thing in THINGS.items() if isinstance(thing, ModuleType)}
#: What starts processes or a database, which takes seconds.
SLOW = {"MilvusIndex", "PostgresIndex", "parallel.ParallelModels", "parallel.learn_on_shards"}
#: Where examples have PostgreSQL; the tests start one elsewhere.
POSTGRES = "127.0.0.1:5432"


def example(thing: Any, name: str) -> doctest.DocTest | None:
    (found,) = doctest.DocTestFinder(recurse=False).find(thing, name, module=inspect.getmodule(thing), globs={})
    return found if found.examples else None


def code(thing: Any) -> str:
    """The lines of the example in a docstring."""
    return "".join(part.source for part in doctest.DocTestParser().get_examples(inspect.getdoc(thing) or ""))


def run(test: doctest.DocTest) -> None:
    said: list[str] = []
    runner = doctest.DocTestRunner()
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


def methods() -> Iterator[tuple[str, type, str]]:
    """The methods of public classes that pages describe: the name of the class, the class, and the method."""
    for name, cls in THINGS.items():
        if inspect.isclass(cls) and not issubclass(cls, OnlineHashError):
            for method in sorted(set(dir(cls)) - reference_pages.between_parts(cls)):
                home = next(base for base in cls.__mro__ if method in vars(base))
                is_method = isinstance(vars(home)[method], FunctionType | classmethod | staticmethod)
                if not method.startswith("_") and is_method and home.__module__.startswith("onlinehash"):
                    yield name, cls, method


def own_examples() -> dict[str, Any]:
    """Methods with an example of their own, once each; those of `VectorIndex` run in tests/index/test_api.py."""
    found = {}
    for _, cls, method in methods():
        home = next(base for base in cls.__mro__ if method in vars(base))
        if home.__name__ != "VectorIndex" and ">>>" in str(getattr(home, method).__doc__):
            found[f"{home.__name__}.{method}"] = getattr(home, method)
    return found


def cases() -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.long] * (name in SLOW)) for name in EXPLAINED]


@pytest.mark.parametrize("name", cases())
def test_every_public_name_has_an_example_that_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    if name == "GpuIndex" and not has_card():
        monkeypatch.setattr(onlinehash.GpuIndex, "_make_runs", lambda self, shape: Twins(shape))
    test = example(THINGS[name], name)
    if test is None:
        assert name in PACKAGES
        return
    if name == "PostgresIndex":
        with PostgresServer() as server:
            for part in test.examples:
                part.source = part.source.replace(POSTGRES, f"127.0.0.1:{server.port}")
            run(test)
    else:
        run(test)


def test_data_are_in_the_examples_of_their_package() -> None:
    data = THINGS.keys() - EXPLAINED.keys()
    assert len(data) >= 2
    for name in data:
        package, _, own = name.rpartition(".")
        assert f".{own}" in code(THINGS[package]), name


def test_every_method_has_an_example() -> None:
    """Its own, or that of its class or of the contract that it fulfils.

    Exempt are methods by which parts of the library work together (`reference_pages.BETWEEN_PARTS`), which no page
    describes, and `due` and `parameters` of policies, which the index calls. What `AsyncRemoteIndex` has is that of
    `RemoteIndex`, awaited.
    """
    without = []
    for name, cls, method in methods():
        homes = [base for base in (*cls.__mro__, *THINGS["RemoteIndex"].__mro__) if hasattr(base, method)]
        texts = [code(base) for base in homes] + [code(getattr(base, method)) for base in homes]
        if not any(re.search(rf"\b{method}\(", text) for text in texts) and method not in ("due", "parameters"):
            without.append(f"{name}.{method}")
    assert not without


@pytest.mark.parametrize("name", own_examples())
def test_examples_of_methods_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    test = example(own_examples()[name], name)
    assert test is not None
    run(test)


def test_functions_say_what_they_return() -> None:
    for name, thing in THINGS.items():
        if inspect.isfunction(thing) and inspect.signature(thing).return_annotation != "None":
            assert "\nReturns\n-------" in str(inspect.getdoc(thing)), name


def test_all_errors_are_documented() -> None:
    errors = vars(onlinehash.errors).values()
    assert all(thing.__doc__ for thing in errors if isinstance(thing, type) and issubclass(thing, OnlineHashError))
