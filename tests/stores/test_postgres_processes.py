"""Several processes and servers, some of which are killed: nothing is lost, and nobody sees a half of anything."""

from __future__ import annotations

import json
import multiprocessing
import threading
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from onlinehash import OnlineHashing, PostgresIndex, refresh
from onlinehash.errors import ServiceUnavailable
from onlinehash.stores import index as stores_index
from onlinehash.stores.backend import FOREVER
from onlinehash.stores.postgres.change import PostgresChange
from onlinehash.stores.postgres.connections import connect
from tests.servers import PATIENCE, PostgresServer, wait_until
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
@pytest.mark.parametrize("kind", ["stock", "sharded"])
def test_processes_that_write_at_the_same_time(kind: str, request: pytest.FixtureRequest) -> None:
    home: Home = request.getfixturevalue(f"{kind}_home")
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


@pytest.mark.parametrize("kind", ["stock", "sharded"])
def test_processes_that_are_killed(kind: str, request: pytest.FixtureRequest) -> None:
    home: Home = request.getfixturevalue(f"{kind}_home")
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


@pytest.mark.parametrize("ahead_items", [0, 50_000])
def test_workers_share_a_refresh_and_one_is_killed(
    stock_home: Home, monkeypatch: pytest.MonkeyPatch, ahead_items: int
) -> None:
    """What it had claimed is taken up because its connection is gone, not because somebody lost patience."""
    monkeypatch.setattr(stores_index, "AHEAD_ITEMS", ahead_items)
    monkeypatch.setattr(stores_index, "PATIENCE", 1e9)
    with make(stock_home) as index:
        before, serial, n_parts = index.codes, index.serial, -(-len(FIRST) // index.batch_rows)
        assert n_parts > 3
        with Process(stock_home, "take part") as other:
            assert other.said() == "middle"
            job = index.refresh(wait=False)
            assert job is not None
            wait_until(lambda: written_ahead(stock_home) == list(range(2, n_parts)), "all parts but the claimed one")
            assert not job.done
            assert index.codes == before
            index.update(FIRST[11:12], vectors_of(FIRST[11:12]))  # in the part that is being computed
            index.update(FIRST[31:32], vectors_of(FIRST[31:32]))  # in one that is written
            other.kill()
        assert job.wait(PATIENCE)
        assert index.serial == serial + 1
        assert index.behind.bits == 0
        check_all(index)


def written_ahead(home: Home) -> list[int]:
    """Parts of the refresh that is under way, beyond the first that is not written."""
    with connect(home.address) as connection:
        (state,) = connection.execute(f'SELECT state FROM "{home.schema}".head').fetchone() or ("",)
    return list((json.loads(state)["pending"] or {"ahead": []})["ahead"])


class Reader(threading.Thread):
    """Searches all the time with a connection of its own, and compares with brute force by the encoder it was told."""

    def __init__(self, home: Home) -> None:
        super().__init__()
        self._index = PostgresIndex.open(home.address, refresh.by_hand(), schema=home.schema)
        self._ended = threading.Event()
        self._vectors = vectors_of(FIRST)
        self.versions: list[int] = []
        self.unavailable = 0
        self.wrong: list[Any] = []

    def run(self) -> None:
        query = vectors_of(["query"])[0]
        while not self._ended.is_set():
            try:
                hits, encoder = self._index.searched(query, 20)
            except ServiceUnavailable:
                self.unavailable += 1
                continue
            except BaseException as error:
                self.wrong.append(error)
                return
            bits = encoder.encode(self._vectors).bits() != encoder.encode(query[None]).bits()
            distances = bits.sum(axis=1)
            nearest = np.lexsort([np.arange(len(FIRST)), distances])[:20]
            if (
                hits.ids.tolist() != [FIRST[i] for i in nearest]
                or hits.distances.tolist() != distances[nearest].tolist()
            ):
                self.wrong.append((hits, encoder.version))
            self.versions.append(encoder.version)

    def wait_for(self, what: str) -> None:
        """For another answer, or another failure."""
        seen = len(self.versions), self.unavailable

        def happened() -> bool:
            more = len(self.versions) > seen[0] if what == "answer" else self.unavailable > seen[1]
            return more or bool(self.wrong)

        wait_until(happened, f"an {what} of the reader")

    def stop(self) -> None:
        self._ended.set()
        self.join(PATIENCE)
        self._index.close()


def kill_amid(server: PostgresServer, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server dies after so many writes of codes, in the middle of a change."""
    add_codes, calls = PostgresChange.add_codes, 0

    def add(self: PostgresChange, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        add_codes(self, *arguments)
        if calls == at:
            server.kill()

    monkeypatch.setattr(PostgresChange, "add_codes", add)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_server_that_is_killed_amid_a_refresh(
    victim: int, sharded_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = sharded_home.shards[victim]
    with make(sharded_home) as index:
        old = index.encoder.version
        reader = Reader(sharded_home)
        reader.start()
        try:
            reader.wait_for("answer")
            kill_amid(shard, 5, monkeypatch)
            with pytest.raises(ServiceUnavailable, match=f"127.0.0.1:{sharded_home.server.port}"):
                index.refresh()
            reader.wait_for("failure")
            with pytest.raises(ServiceUnavailable):
                index.add("new", vectors_of(["new"])[0])
            shard.start()
            reader.wait_for("answer")
            assert set(reader.versions) == {old}
            index.refresh()
            reader.wait_for("answer")
            reader.wait_for("answer")
        except BaseException:
            shard.kill()
            shard.start()  # other tests need it
            raise
        finally:
            reader.stop()
        assert reader.wrong == []
        assert reader.versions[-1] == index.encoder.version > old
        assert index.behind.bits == 0
        assert index.ids.tolist() == FIRST
        check_all(index)


def test_what_was_committed_on_one_server_alone_is_undone(sharded_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of two servers is asked first to commit, one of these two deaths leaves rows on the other."""
    left = 0
    with make(sharded_home) as index:
        for victim, other in (sharded_home.shards, sharded_home.shards[::-1]):
            with monkeypatch.context() as patch:
                kill_amid(victim, 1, patch)
                with pytest.raises(ServiceUnavailable):
                    index.add(ids_of("half", 0), vectors_of(ids_of("half", 0)))
            victim.start()
            left += count_alive(other, sharded_home.schema) > 0
            assert index.ids.tolist() == FIRST
        assert left >= 1
        index.add(ids_of("whole", 0), vectors_of(ids_of("whole", 0)))
        assert index.ids.tolist() == FIRST + ids_of("whole", 0)
        assert not any(count_alive(shard, sharded_home.schema) for shard in sharded_home.shards)
        check_all(index)


def test_a_change_waits_for_the_end_of_one_that_was_cut_off(sharded_home: Home) -> None:
    """The first server is gone and back, while another one still commits what it was told: that is undone too."""
    address, schema = sharded_home.shards[0].address(), sharded_home.schema
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with make(sharded_home) as index, connect(address) as orphan, connect(address) as onlooker:
        with connect(sharded_home.address) as first:
            first.execute(f"INSERT INTO {schema}.unfinished DEFAULT VALUES")
            ((epoch,),) = first.execute(f"SELECT epoch FROM {schema}.head").fetchall()
        changing = threading.Thread(target=lambda: index.remove(FIRST[0]))
        with orphan.transaction():
            orphan.execute(f"UPDATE {schema}.gates SET passed = passed + 1")
            orphan.execute(f"INSERT INTO {schema}.items VALUES (999, {epoch + 1}, {FOREVER}, '', 'half/999', NULL)")
            changing.start()
            wait_until(lambda: onlooker.execute(waiting).fetchone() == (1,), "the change to wait")
        changing.join(PATIENCE)
        assert index.ids.tolist() == FIRST[1:]
        assert count_alive(sharded_home.shards[0], schema) == 0
        check_all(index)


def count_alive(server: PostgresServer, schema: str) -> int:
    """Rows of the change that failed."""
    with connect(server.address()) as connection:
        (n,) = connection.execute(f"SELECT count(*) FROM {schema}.items WHERE id LIKE 'half/%'").fetchone() or (0,)
    return int(n)
