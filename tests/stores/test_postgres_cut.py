"""The connection to PostgreSQL is cut at every message in turn: a change is whole or not there, and what is said of it
is true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from onlinehash import OnlineHashing, PostgresIndex, refresh
from onlinehash.errors import ServiceUnavailable
from tests.servers import PostgresServer
from tests.stores.conftest import Home
from tests.stores.cut_connection import CutConnection
from tests.support import state_bytes

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 6)).astype(np.float32)
IDS = [f"item {i}" for i in range(40)]
SIMILAR = np.arange(10) % 2 == 0

CALLS: dict[str, Callable[[PostgresIndex], Any]] = {
    "add": lambda index: index.add(IDS[30:], X[30:], [{"n": i} for i in range(10)]),
    "update": lambda index: index.update(IDS[2:4], X[30:32], [{"new": True}] * 2),
    "remove": lambda index: index.remove(IDS[5:7]),
    "learn": lambda index: index.learn_pairs(X[:10], X[10:20], SIMILAR),
    "refresh": lambda index: index.refresh(),
}

#: What a change that was made cannot do afterwards is a warning.
pytestmark = pytest.mark.filterwarnings("ignore:a refresh by .* failed:UserWarning")

UNKNOWN = "may or may not have been kept"


@pytest.fixture(scope="module")
def way(stock: PostgresServer) -> Iterator[CutConnection]:
    with CutConnection(stock.port) as way:
        yield way


def made(home: Home) -> Home:
    learner = OnlineHashing(n_bits=16, burn_in=20, random_state=0)
    with PostgresIndex.create(home.address, learner, refresh.by_hand(), **home.options) as index:
        index.add(IDS[:30], X[:30], [{"n": i} for i in range(30)])
        index.learn_pairs(X[20:30], X[10:20], SIMILAR)
    return home


def everything(home: Home) -> tuple[Any, ...]:
    """What a process finds that comes later."""
    with PostgresIndex.open(home.address, refresh.by_hand(), schema=home.schema) as index:
        assert index.codes == index.encoder.encode(index.vectors), "the law of the live index"
        found = [(id, item.vector.tobytes(), str(item.payload)) for id in index if (item := index.get(id))]
        return found, index.serial, state_bytes(index.learner)


def by_way_of(way: CutConnection, home: Home) -> str:
    return home.address.replace(f":{home.server.port}/", f":{way.port}/")


@pytest.mark.long
@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", CALLS)
def test_a_change_is_whole_or_not_there(
    name: str, answered: bool, stock_home: Home, way: CutConnection, record_property: Callable[[str, object], None]
) -> None:
    home = made(stock_home)
    number, said = 0, []
    while True:
        before = everything(home)
        with PostgresIndex.open(by_way_of(way, home), refresh.by_hand(), schema=home.schema) as index:
            way.arm(number, answered)
            try:
                CALLS[name](index)
                problem = None
            except ServiceUnavailable as error:
                problem = str(error)
            was_cut = way.is_cut
            way.arm(-1)
            after = everything(home)
            if problem is not None:
                said.append(problem)
                if after != before:
                    assert UNKNOWN in problem
                    assert answered
                    with PostgresIndex.open(home.address, refresh.by_hand(), schema=home.schema) as other:
                        assert state_bytes(index.learner) == state_bytes(other.learner)
                        assert index.ids.tolist() == other.ids.tolist()
                else:
                    CALLS[name](index)  # the next call works
            assert (problem is not None) <= was_cut
        if not was_cut:
            break
        home = made(home.fresh())
        number += 3 if name == "refresh" else 1  # which sends many more messages than the others
    assert len(said) >= 3
    record_property("tried", ("messages to PostgreSQL at which it goes away", len(said)))


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
def test_of_a_commit_that_nobody_answered_it_is_said_that_it_may_have_been_kept(
    answered: bool, stock_home: Home, way: CutConnection
) -> None:
    home = made(stock_home)
    before = everything(home)
    with PostgresIndex.open(by_way_of(way, home), refresh.by_hand(), schema=home.schema) as index:
        for number in range(9):  # what is read for the change is committed before, and of that everybody knows
            way.arm(number, answered, b"COMMIT")
            with pytest.raises(ServiceUnavailable) as problem:
                index.learn_pairs(X[:10], X[10:20], SIMILAR)
            assert way.is_cut
            way.arm(-1)
            if UNKNOWN in str(problem.value):
                break
            assert everything(home) == before
        else:
            raise AssertionError("nothing was said")
        assert (everything(home) != before) == answered
        assert index.learner.n_pairs_seen_ == (20 if answered else 10)  # it is asked again what was kept
