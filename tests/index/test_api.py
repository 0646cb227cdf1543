"""`VectorIndex`: one contract, documented once, whose examples run; and what an index does that cannot do all of it."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing, refresh
from onlinehash.client.remote_index import RemoteIndex
from onlinehash.errors import NotSupported
from onlinehash.index import api
from onlinehash.index.api import Capability, VectorIndex
from onlinehash.stores.index import StoreIndex
from tests.stores.memory_backend import MemoryBackend, Tables
from tests.support import refused

IMPLEMENTATIONS = (LiveIndex, StoreIndex, RemoteIndex)
OF = {
    Capability.BACKUP: ["backup"],
    Capability.GROUP_COMMIT: ["group_commit"],
    Capability.LEARNER: [
        "learner",
        "taught",
        "n_changed",
        "has_shared_learner",
        "is_learning",
        "sample",
        "recent_pairs",
        "clock",
    ],
    Capability.POSITIONS: ["positions", "reached", "put_position"],
    Capability.RECEIPTS: ["once", "receipt"],
    Capability.RELOAD: ["reload"],
    Capability.VIEW: ["view"],
}
X = np.random.default_rng(0).normal(size=(6, 4))


def learner() -> OnlineHashing:
    return OnlineHashing(n_bits=16, random_state=0)


def live() -> LiveIndex:
    return LiveIndex(learner(), refresh=refresh.by_hand())


def in_a_store() -> StoreIndex:
    return StoreIndex(MemoryBackend(Tables.create(learner(), refresh.by_hand())))


def public() -> dict[str, Any]:
    return {name: thing for name, thing in vars(VectorIndex).items() if not name.startswith("_")}


def methods() -> list[str]:
    return [name for name, thing in public().items() if inspect.isfunction(thing)]


#: Those of methods; that of the class makes the index that they go on with.
FOUND = doctest.DocTestFinder().find(VectorIndex, "VectorIndex")
EXAMPLES = {test.name: test for test in FOUND if test.examples and test.name != "VectorIndex"}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("make", [live, in_a_store])
def test_examples_run(name: str, make: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = EXAMPLES[name]
    with make() as index:
        needed = next((capability for capability, names in OF.items() if name.split(".")[-1] in names), None)
        if name == "VectorIndex.supports" or (needed is not None and not index.supports(needed)):
            index = live()
        index.add(["a", "b", "c", "d"], X[:4], [{"red": True}, {"red": True}, None, None])
        example.globs = {"index": index, "X": X, "np": np, "LiveIndex": LiveIndex}
        runner = doctest.DocTestRunner()
        said: list[str] = []
        runner.run(example, out=said.append, clear_globs=False)
        assert runner.failures == 0, "".join(said)


def test_every_method_has_an_example() -> None:
    assert {f"VectorIndex.{name}" for name in methods()} == set(EXAMPLES)


def test_every_name_is_documented() -> None:
    plain = ("policy", "background")
    for name, thing in public().items():
        assert name in plain or inspect.getdoc(thing), name
    for name in methods():
        annotation = inspect.signature(getattr(VectorIndex, name)).return_annotation
        assert annotation == "None" or "\nReturns\n-------" in str(inspect.getdoc(getattr(VectorIndex, name))), name


@pytest.mark.parametrize("cls", IMPLEMENTATIONS)
def test_implementations_are_called_as_the_contract_says_and_do_not_repeat_its_words(cls: type[VectorIndex]) -> None:
    assert not inspect.isabstract(cls)
    for name, thing in public().items():
        own = inspect.getattr_static(cls, name)
        if inspect.isfunction(thing):
            expected, found = (inspect.signature(f).parameters.values() for f in (thing, getattr(cls, name)))
            assert [(p.name, p.default, p.kind) for p in found] == [(p.name, p.default, p.kind) for p in expected], name
        if own is not thing and inspect.isfunction(own):
            assert own.__doc__ is None, name


@pytest.mark.parametrize("cls", IMPLEMENTATIONS)
def test_an_index_is_at_most_three_classes_deep(cls: type[VectorIndex]) -> None:
    ours = [base for base in cls.__mro__ if base.__module__.startswith("onlinehash")]
    assert len(ours) <= 3


def entered(result: Any) -> Any:
    """A call that is to be used by `with` says so when it is entered, at the latest."""
    return result.__enter__() if hasattr(result, "__enter__") else result


@pytest.mark.parametrize("cls", IMPLEMENTATIONS)
@pytest.mark.parametrize("capability", Capability)
def test_what_is_not_supported_says_so(cls: type[VectorIndex], capability: Capability) -> None:
    index = {LiveIndex: live, StoreIndex: in_a_store, RemoteIndex: lambda: RemoteIndex.__new__(RemoteIndex)}[cls]()
    arguments = {"clock": (), "reload": (), "receipt": ("key",), "backup": ("path",), "group_commit": ()}
    assert index.supports(capability) == index.supports(str(capability)) == (capability in index.capabilities)
    for name in OF[capability]:
        if index.supports(capability):
            assert inspect.getattr_static(cls, name) is not inspect.getattr_static(VectorIndex, name), name
            continue
        if isinstance(inspect.getattr_static(cls, name), property):
            assert not hasattr(index, name)
        else:
            error = refused(lambda name=name: entered(getattr(index, name)(*arguments.get(name, ("a", "b")))))
            assert isinstance(error, NotSupported)
            assert str(error) == f"{cls.__name__} does not support {capability.value}."


def test_the_list_of_capabilities_is_complete() -> None:
    assert set(OF) == set(api.Capability)
    assert not [name for names in OF.values() for name in names if name not in public()]
