"""Several processes and servers, some of which are killed: nothing is lost, and nobody sees a half of anything."""

from __future__ import annotations

import multiprocessing
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from onlinehash import OnlineHashing, PostgresIndex, refresh
from tests.servers import PATIENCE
from tests.stores import postgres_worker as worker
from tests.stores.conftest import Home
from tests.stores.postgres_worker import ids_of, vectors_of
from tests.support import state_bytes, thorough

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::UserWarning"),
]  # a stream of few similar pairs warns

FIRST = [f"first/{i}" for i in range(120)]
#: Processes of their own, from one that has loaded all they need.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([worker.__name__])


def make(home: Home, policy: Any = None) -> PostgresIndex:
    """An index with items, whose learner knows more than its codes show."""
    learner = OnlineHashing(n_bits=24, burn_in=20, random_state=0)
    index = PostgresIndex.create(home.address, learner, policy or refresh.by_hand(), **home.options)
    index.batch_rows = 10
    index.add(FIRST, vectors_of(FIRST))
    A, B = (vectors_of([f"{side}/{t}" for t in range(40)]) for side in "ab")
    index.learn_pairs(A, B, np.arange(40) % 2 == 0)
    return index


class Process:
    """A process that works on the index, until it is done or killed; what it says comes through a pipe."""

    def __init__(self, home: Home, task: str, name: str = "") -> None:
        self._pipe, theirs = PROCESSES.Pipe(duplex=False)
        self._process = PROCESSES.Process(target=worker.main, args=(home.address, home.schema, task, name, theirs))
        self._process.start()
        theirs.close()

    def said(self) -> str:
        assert self._pipe.poll(PATIENCE), "the process said nothing"
        told: str = self._pipe.recv()
        return told

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.join(PATIENCE)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()


def check_all(index: PostgresIndex) -> None:
    """The law of the live index, and vectors that belong to their ids."""
    assert index.codes == index.encoder.encode(index.vectors)
    assert np.array_equal(index.vectors, vectors_of(index.ids.tolist()))


@pytest.mark.thorough
def test_processes_that_write_at_the_same_time(stock_home: Home) -> None:
    home = stock_home
    names = [f"writer{number}" for number in range(thorough(2, 5))]
    with make(home, refresh.every(10)) as index:
        with ExitStack() as stack:
            writers = [stack.enter_context(Process(home, "write", name)) for name in names]
            assert {writer.said() for writer in writers} == {"done"}
        left = [id for name in names for number in range(worker.ROUNDS) for id in ids_of(name, number)[1:]]
        assert sorted(index.ids.tolist()) == sorted(FIRST + left)
        assert index.learner.n_pairs_seen_ == 40 + len(names) * worker.ROUNDS * worker.PAIRS
        assert index.get(left[0]).payload == {"by": names[0]}
        check_all(index)
        with PostgresIndex.open(home.address, schema=home.schema) as again:  # which learns it all again from the log
            assert state_bytes(again.learner) == state_bytes(index.learner)
            ours, theirs = (one.search(vectors_of(FIRST[:9]), 5) for one in (index, again))
            assert np.array_equal(ours.ids, theirs.ids)
            assert np.array_equal(ours.distances, theirs.distances)


def test_processes_that_are_killed(stock_home: Home) -> None:
    home = stock_home
    with make(home) as index:
        before, serial = index.codes, index.serial
        assert index.behind.bits > 0
        with Process(home, "add", "lost") as adding:
            assert adding.said() == "middle"
            assert index.ids.tolist() == FIRST
            adding.kill()
        assert index.ids.tolist() == FIRST
        with Process(home, "refresh") as refreshing:
            assert refreshing.said() == "middle"
            assert index.codes == before
            refreshing.kill()
        index.add(ids_of("lost", 0), vectors_of(ids_of("lost", 0)))  # amid the refresh that nobody is at
        assert index.serial == serial
        check_all(index)
        index.refresh()
        assert index.serial == serial + 1
        assert index.behind.bits == 0
        assert index.ids.tolist() == FIRST + ids_of("lost", 0)
        check_all(index)
