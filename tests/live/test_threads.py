"""Many threads at one live index: each answer is that of a state that was published, never of a mixture."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing, refresh
from onlinehash.errors import InvalidInput, UnknownId
from onlinehash.live import storage, vectors
from onlinehash.live.check import check
from onlinehash.live.sqlite import records, segments
from onlinehash.live.table import ItemTable
from tests.live.model import pairs_of, ranked
from tests.support import refused_without_a_trace, state_bytes

WIDTH, N_READERS = 8, 2


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(segments, "BLOCK_ROWS", 32)
    monkeypatch.setattr(segments, "READ_ROWS", 64)
    monkeypatch.setattr(records, "CODES_CHUNK", 16)
    monkeypatch.setattr(storage, "LEAST_LOG", 4000)
    monkeypatch.setattr(storage, "PART_BYTES", 100)
    monkeypatch.setattr(vectors, "BLOCK_ROWS", 64)


def learner() -> OnlineHashing:
    return OnlineHashing(n_bits=16, burn_in=50, random_state=0)


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def follows_the_law(index: LiveIndex) -> bool:
    return index.encoder is not None and index.codes == index.encoder.encode(index.vectors)


# ---------------------------------------------------------------------------------------------- readers and a writer


class Published(NamedTuple):
    """What a search could see at one moment."""

    encoder: Any
    ids: list[Any]
    bits: np.ndarray
    red: np.ndarray

    def answer(self, query: np.ndarray, only_red: bool) -> list[tuple[int, Any]]:
        chosen = self.red if only_red else np.ones(len(self.ids), bool)
        ids = [id for id, is_chosen in zip(self.ids, chosen, strict=True) if is_chosen]
        return ranked(self.encoder, ids, self.bits[chosen], query)


@pytest.fixture
def published(monkeypatch) -> list[Published]:
    """All that any index publishes, in order, each noted just before it can be seen."""
    found: list[Published] = []

    def note(holdings: ItemTable, name: str, value: Any) -> None:
        if name == "view" and value.encoder is not None:
            positions = value.items.positions()
            texts = [holdings.payloads.text(position) or "" for position in positions.tolist()]
            red = np.array(["red" in text for text in texts], bool)
            found.append(Published(value.encoder, value.ids.tolist(), value.items.at(positions).bits(), red))
        object.__setattr__(holdings, name, value)

    monkeypatch.setattr(ItemTable, "__setattr__", note)
    return found


class Reader(threading.Thread):
    """Asks until it is told to stop, and compares what it hears with all that was published meanwhile."""

    def __init__(self, index: LiveIndex, published: list[Published], stop: threading.Event, seed: int) -> None:
        super().__init__()
        self.index, self.published, self.stop = index, published, stop
        self.rng, self.n_asked, self.error = np.random.default_rng(seed), 0, ""
        self.held: list[tuple[Any, bytes]] = []

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.ask()
                self.n_asked += 1
        except Exception as error:
            self.error = repr(error)
            self.stop.set()

    def ask(self) -> None:
        query, what = self.rng.standard_normal(WIDTH).astype(np.float32), self.rng.integers(5)
        first = max(0, len(self.published) - 2)
        if what == 0:
            self.get()
            return
        if what == 1:
            codes = self.index.codes
            self.held.append((codes, codes.rows().tobytes()))
            return
        only_red = bool(what == 3)
        where = {"colour": "red"} if only_red else None
        hits = self.index.within(query, 5, where) if what == 4 else self.index.search(query, 7, where)
        heard = pairs_of(hits)
        for version in self.published[first:]:
            answer = version.answer(query, only_red)
            if heard == ([pair for pair in answer if pair[0] <= 5] if what == 4 else answer[:7]):
                return
        raise AssertionError(f"{heard} is the answer of none of {len(self.published) - first} versions")

    def get(self) -> None:
        """An item's vector and payload belong together: its first value is the payload's stamp."""
        try:
            item = self.index.get(int(self.rng.choice(self.published[-1].ids)))
        except UnknownId:
            return  # it went just now
        assert item.payload is not None
        assert item.vector[0] == item.payload["stamp"], item


class Writer:
    """Adds, changes, removes and teaches, while the policy refreshes in the background."""

    def __init__(self, index: LiveIndex) -> None:
        self.index, self.rng, self.n_used, self.stamp = index, np.random.default_rng(7), 0, 0

    def items(self, n: int) -> tuple[np.ndarray, list[dict[str, Any]]]:
        X = self.rng.standard_normal((n, WIDTH)).astype(np.float32)
        X[:, 0] = np.arange(self.stamp, self.stamp + n) % 1000
        self.stamp += n
        colours = self.rng.choice(["red", "green", "blue"], n)
        return X, [{"stamp": int(x[0]), "colour": str(c)} for x, c in zip(X, colours, strict=True)]

    def add(self, n: int) -> None:
        self.index.add(list(range(self.n_used, self.n_used + n)), *self.items(n))
        self.n_used += n

    def step(self) -> None:
        what, ids = self.rng.integers(6), self.index.ids
        some = self.rng.choice(ids, 5, replace=False).tolist()
        if what == 0:
            self.add(5)
        elif what == 1:
            self.index.update(some, *self.items(5))
        elif what == 2 and len(ids) > 150:
            self.index.remove(some)
        elif what == 3:
            self.index.refresh(wait=False)
        elif what == 4 and self.rng.random() < 0.3:
            self.index.cancel()
        else:
            A, B = (self.rng.standard_normal((3, WIDTH)).astype(np.float32) for _ in "AB")
            self.index.learn_pairs(A, B, self.rng.random(3) < 0.5)


@pytest.mark.filterwarnings("ignore:.* more than 100 times as long as a typical one")
@pytest.mark.parametrize(("durable", "kind"), [(False, "flat"), (True, "multi")], ids=["memory", "durable"])
def test_readers_hear_what_was_published_while_a_writer_works(durable, kind, published, tmp_path):
    path = tmp_path / "items" if durable else None
    with LiveIndex(learner(), refresh.every(10), kind, path, background=True, sync="batch") as index:
        writer = Writer(index)
        writer.add(200)
        stop = threading.Event()
        readers = [Reader(index, published, stop, seed) for seed in range(N_READERS)]
        for reader in readers:
            reader.start()
        n_steps = 0
        try:
            while not stop.is_set() and (n_steps < 100 or not index.refreshes or min(r.n_asked for r in readers) < 5):
                writer.step()
                n_steps += 1
        finally:
            stop.set()
            for reader in readers:
                reader.join()
        assert [reader.error for reader in readers] == [""] * N_READERS
        assert all(reader.n_asked > 0 for reader in readers)
        assert all(codes.rows().tobytes() == then for reader in readers for codes, then in reader.held)
        index.cancel()
        assert index.refreshes > 0
        assert follows_the_law(index)


# ---------------------------------------------------------------------------------------------- beside changes


def test_a_refresh_beside_changes_ends_with_the_law(tmp_path):
    with LiveIndex(learner(), refresh.by_hand(), path=tmp_path / "items") as index:
        writer = Writer(index)
        writer.add(300)
        for _ in range(5):
            index.learn_pairs(rows(20, 1), rows(20, 2), np.arange(20) % 2 == 0)
            newest = index.newest
            with index._lock:  # all of these come after its start and before its end
                job = index.refresh(wait=False)
                writer.add(80)
                index.update([*index.ids[[3, 250]].tolist(), writer.n_used - 1], *writer.items(3))
                index.remove([writer.n_used - 2, *index.ids[:2].tolist()])
                assert follows_the_law(index)
            assert job.wait()
            assert job.done
            assert index.encoder is newest
            assert follows_the_law(index)
            index.remove(index.ids[10:110].tolist())  # and positions are counted anew when it is over
            assert follows_the_law(index)


def test_changes_come_between_the_parts_of_a_refresh(tmp_path, monkeypatch):
    """Codes are written ahead in parts; whoever looks at the disk meanwhile sees the old ones, whole."""
    parts, n_parts = storage.Storage.parts_ahead, []
    with LiveIndex(learner(), refresh.by_hand(), path=tmp_path / "items") as index:
        writer = Writer(index)
        writer.add(300)

        def interleaved(self: storage.Storage, codes: np.ndarray) -> Any:
            for number, write in enumerate(parts(self, codes)):
                yield write
                writer.add(2)
                index.update([index.ids[number].item()], *writer.items(1))
                index.remove([index.ids[-1].item()])
                assert reader.reload()
                assert follows_the_law(reader)
                assert reader.serial == index.serial
                n_parts.append(number)

        monkeypatch.setattr(storage.Storage, "parts_ahead", interleaved)
        with LiveIndex.open(tmp_path / "items", read_only=True) as reader:
            for turn in range(3):
                index.learn_pairs(rows(20, turn), rows(20, turn + 9), np.arange(20) % 2 == 0)
                if turn == 0:
                    index.refresh()
                else:
                    with index._lock:
                        job = index.refresh(wait=False)
                    assert job.wait()
                assert follows_the_law(index)
                assert reader.reload()
                assert follows_the_law(reader)
                assert np.array_equal(reader.ids, index.ids)
        assert len(n_parts) > 15
        serial, codes = index.serial, index.codes
    assert check(tmp_path / "items").ok
    with LiveIndex.open(tmp_path / "items") as again:
        assert (again.serial, again.codes) == (serial, codes)
        assert follows_the_law(again)


def held_up(monkeypatch) -> tuple[threading.Event, threading.Event]:
    """Refreshes stop after their first block: one event says that they are there, the other lets them go on."""
    there, go_on, blocks = threading.Event(), threading.Event(), vectors.MemoryVectors.blocks

    def slowly(self: Any, n: int) -> Any:
        for number, block in enumerate(blocks(self, n)):
            if number == 1:
                there.set()
                assert go_on.wait(10)
            yield block

    monkeypatch.setattr(vectors.MemoryVectors, "blocks", slowly)
    return there, go_on


def test_a_cancelled_refresh_leaves_everything_as_it_was(monkeypatch):
    index = LiveIndex(learner(), refresh.by_hand())
    index.add(None, rows(300))
    for seed in (1, 2):
        index.learn_pairs(rows(20, seed), rows(20, seed + 5), np.arange(20) % 2 == 0)
        index.refresh()
    index.roll_back()
    before = index.serial, index.versions, index.counters, index.encoder, index.codes.rows().tobytes(), index.behind
    there, go_on = held_up(monkeypatch)
    job = index.refresh(wait=False)
    assert there.wait(10)
    job.cancel()
    go_on.set()
    assert job.wait(10) is False
    after = index.serial, index.versions, index.counters, index.encoder, index.codes.rows().tobytes(), index.behind
    assert after == before
    index.policy = refresh.always()
    index.learn_pair(*rows(2, 9), True)
    assert index.serial == before[0]  # the pause after roll_back goes on as well
    index.refresh()
    assert follows_the_law(index)
    assert index.behind == (0, 0)


def test_closing_ends_a_refresh(tmp_path):
    index = LiveIndex(learner(), refresh.by_hand(), path=tmp_path / "items")
    index.add(None, rows(2000))
    index.learn_pairs(rows(20, 1), rows(20, 2), np.arange(20) % 2 == 0)
    job = index.refresh(wait=False)
    index.close()
    assert job.done
    assert job.error is None
    with LiveIndex.open(tmp_path / "items") as again:
        assert again.refreshes == job.wait()
        assert follows_the_law(again)


def test_several_threads_may_change_an_index():
    index = LiveIndex(learner(), refresh.every(3), background=True)
    index.add(None, rows(500))
    errors: list[Exception] = []

    def work(seed: int) -> None:
        rng, number = np.random.default_rng(seed), 1_000_000 * seed
        mine: list[int] = []
        try:
            for _ in range(40):
                number += 5
                mine += range(number, number + 5)
                index.add(mine[-5:], rows(5, number))
                index.update(rng.choice(mine, 3, replace=False).tolist(), rows(3, number + 1))
                index.learn_pairs(rows(2, number), rows(2, number + 2), [True, False])
                (index.refresh, index.cancel, lambda: index.refresh(wait=False))[rng.integers(3)]()
                index.remove([mine.pop(0), mine.pop(1)])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    index.cancel()
    assert errors == []
    assert follows_the_law(index)
    index.remove(index.ids[::2].tolist())
    assert follows_the_law(index)


# ---------------------------------------------------------------------------------------------- what is held, and owned


def test_a_durable_index_lets_nobody_else_teach_its_learner(tmp_path):
    oh = learner()
    with LiveIndex(oh, path=tmp_path / "items") as index:
        index.add(None, rows(100))
        A, B, similar = rows(4, 1), rows(4, 2), [True, False, True, False]
        for call in (
            lambda: oh.learn_pair(A[0], B[0], True),
            lambda: oh.partial_fit_pairs(A, B, similar),
            lambda: oh.observe(A),
            lambda: oh.partial_fit(A, [0, 1, 0, 1]),
            lambda: oh.fit(A, [0, 1, 0, 1]),
            lambda: oh.flush(),
            lambda: oh.set_state({}),
        ):
            error = refused_without_a_trace(oh, call)
            assert isinstance(error, InvalidInput)
            assert "learn through the index" in str(error)
        index.learn_pairs(A, B, similar)
        state = state_bytes(oh)
    with LiveIndex.open(tmp_path / "items") as again:
        assert state_bytes(again.learner) == state
