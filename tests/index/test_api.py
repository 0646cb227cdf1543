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
from onlinehash.index.api import Capability, VectorIndex
from onlinehash.stores.index import StoreIndex
from tests.stores.memory_backend import MemoryBackend, Tables
from tests.support import refused

OF = {
    Capability.BACKUP: ["backup"],
    Capability.GROUP_COMMIT: ["group_commit"],
    Capability.LEARNER: ["learner", "taught", "has_shared_learner", "sample", "recent_pairs", "clock"],
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


def test_examples_run(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.DocTestFinder().find(VectorIndex, "VectorIndex")
    examples = [test for test in found if test.examples and test.name != "VectorIndex"]
    assert len(examples) > 30
    for example in examples:
        with live() as index:
            index.add(["a", "b", "c", "d"], X[:4], [{"red": True}, {"red": True}, None, None])
            example.globs = {"index": index, "X": X, "np": np, "LiveIndex": LiveIndex}
            runner = doctest.DocTestRunner()
            said: list[str] = []
            runner.run(example, out=said.append, clear_globs=False)
            assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("cls", [LiveIndex, StoreIndex, RemoteIndex])
def test_implementations_are_called_as_the_contract_says(cls: type[VectorIndex]) -> None:
    assert not inspect.isabstract(cls)
    for name, thing in vars(VectorIndex).items():
        if inspect.isfunction(thing) and not name.startswith("_"):
            expected, found = (inspect.signature(f).parameters.values() for f in (thing, getattr(cls, name)))
            assert [(p.name, p.default, p.kind) for p in found] == [(p.name, p.default, p.kind) for p in expected], name


def entered(result: Any) -> Any:
    """A call that is to be used by `with` says so when it is entered, at the latest."""
    return result.__enter__() if hasattr(result, "__enter__") else result


@pytest.mark.parametrize("make", [live, in_a_store, lambda: RemoteIndex.__new__(RemoteIndex)])
def test_what_is_not_supported_says_so(make: Any) -> None:
    index = make()
    arguments = {"clock": (), "reload": (), "receipt": ("key",), "backup": ("path",), "group_commit": ()}
    for capability in Capability:
        assert index.supports(capability) == index.supports(str(capability)) == (capability in index.capabilities)
        for name in () if index.supports(capability) else OF[capability]:
            if isinstance(inspect.getattr_static(type(index), name), property):
                assert not hasattr(index, name)
            else:
                error = refused(lambda name=name: entered(getattr(index, name)(*arguments.get(name, ("a", "b")))))
                assert isinstance(error, NotSupported)
