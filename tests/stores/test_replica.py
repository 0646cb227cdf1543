"""A replica holds what the database holds, whatever others do to it, and reads all of it only when it must."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from onlinehash import OnlineHashing, RbfAnchors, refresh
from onlinehash.embed import Embedding
from onlinehash.errors import ServiceUnavailable
from onlinehash.live.receipts import MadeAlready
from onlinehash.serve.changes import Changes, Retry
from onlinehash.serve.settings import Limits
from onlinehash.serve.writer import Writer
from onlinehash.stores import replica as replicas
from onlinehash.stores.index import StoreIndex
from onlinehash.stores.replica import Replica
from tests.servers import wait_until
from tests.stores.memory_backend import MemoryBackend, Tables

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a stream of few similar pairs warns

WIDTH = 4


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def tables(**options: Any) -> Tables:
    return Tables.create(OnlineHashing(n_bits=12, burn_in=10, random_state=0, **options), refresh.by_hand())


def opened(of: Tables, follow: bool = False) -> StoreIndex:
    index = StoreIndex(MemoryBackend(of), follow=follow)
    index.batch_rows = 4
    return index


def replica_of(index: StoreIndex) -> Replica:
    found = index._replica
    assert found is not None
    return found


def full_reads(index: StoreIndex) -> int:
    return replica_of(index).full_reads


def check_same(writer: StoreIndex, reader: StoreIndex) -> None:
    """The reader, which follows, has what the other one reads from the tables."""
    reader.reload()
    view: Any = reader.view
    assert (reader.epoch, len(reader), reader.serial) == (writer.epoch, len(writer), writer.serial)
    encoder: Any = writer.encoder
    if encoder is None:
        assert (len(view), reader.encoder) == (0, None)
        return
    assert reader.encoder is view.encoder
    assert view.encoder.version == encoder.version
    assert view.ids.tolist() == writer.ids.tolist()
    assert view.codes == writer.codes
    if len(writer):
        queries = rows(3, seed=9)
        hits, used = reader.searched(queries, 5)
        assert same(hits, writer.search(queries, 5))
        assert (hits.epoch, used) == (writer.epoch, view.encoder)


def same(found: Any, expected: Any) -> bool:
    """Whether two hits have the same ids and distances."""
    return all(np.array_equal(*columns) for columns in zip(found, expected, strict=True))


@pytest.fixture
def pair() -> Iterator[tuple[StoreIndex, StoreIndex]]:
    """An index that reads the tables, and one that follows them."""
    of = tables()
    with opened(of) as writer, opened(of, follow=True) as reader:
        yield writer, reader


@pytest.mark.parametrize("seed", [1, 2])
def test_it_follows_any_program_without_reading_all_again(seed: int) -> None:
    rng, next_id = np.random.default_rng(seed), 0
    of = tables(features=RbfAnchors(6)) if seed == 2 else tables()
    with opened(of) as writer, opened(of, follow=True) as reader:
        for step in range(40):
            ids = writer.ids
            some = rng.choice(ids, min(len(ids), int(rng.integers(1, 6))), replace=False)
            action = rng.integers(6)
            if action <= 1 or len(ids) < 5:
                n = int(rng.integers(1, 9))
                writer.add(range(next_id, next_id + n), rows(n, step))
                next_id += n
            elif action == 2:
                writer.update(some, rows(len(some), step))
            elif action == 3:
                writer.remove(some)
            elif action == 4:
                writer.learn_pairs(rows(6, step), rows(6, step + 100), np.arange(6) % 2 == 0)
            elif writer.encoder is not None:
                writer.refresh()
            if rng.random() < 0.7:  # else several changes are followed at once
                check_same(writer, reader)
        check_same(writer, reader)
        assert full_reads(reader) == 1


def test_a_gap_is_noticed_and_all_is_read_again(pair: tuple[StoreIndex, StoreIndex]) -> None:
    writer, reader = pair
    writer.add(range(9), rows(9))
    check_same(writer, reader)
    backend = writer._reader.backend
    assert isinstance(backend, MemoryBackend)
    with backend.tables.lock:  # as if a process of an older version had written
        writer.add([50], rows(1))
        backend.tables.deltas.clear()
    check_same(writer, reader)
    assert full_reads(reader) == 2
    writer.remove([50])
    check_same(writer, reader)
    assert full_reads(reader) == 2


def test_a_change_reads_what_others_have_changed_just_before(pair: tuple[StoreIndex, StoreIndex]) -> None:
    """Also where this process has not heard of it: a mark is on the vector that an item has now, not had."""
    writer, reader = pair
    changes = Changes(reader, Writer(Limits()))
    backend = reader._reader.backend
    assert isinstance(backend, MemoryBackend)
    reader._embedder = Embedding(lambda texts: np.array([[len(text)] * WIDTH for text in texts], np.float32), "lengths")
    writer.add(range(9), rows(9), [{"seen": 0}] * 9)

    def fail(name: str) -> None:
        if name == "news":
            raise ServiceUnavailable("nothing is heard.")

    calls: list[tuple[Callable[[int], Any], bool]] = [  # and whether item 0 is in the pair
        (lambda id: reader.learn_pairs_by_id([id], [0], [True]), True),
        (lambda id: changes.learn_by_id([id], [0], [True]).result(10), True),
        (lambda id: changes.learn_by_id([id], [0], [True], request=Retry(f"key {id}", "digest")).result(10), True),
        (lambda id: changes.learn_with_items(rows(1, 99), [id], [True], None, None, 0).result(10), False),
        (lambda id: reader.learn_text("a text", [id], True), False),
    ]
    for number, (call, is_with_first) in enumerate(calls, 9):
        reader.reload()
        backend.before_read = fail
        new, other = rows(1, number), rows(1, 50 + number)
        writer.add([number], new)
        writer.update([0], other)
        assert number not in reader.view, "it is behind"
        call(number)
        backend.before_read = lambda name: None
        learned = np.concatenate(reader.recent_pairs[:2])
        assert (learned == new).all(axis=1).any()
        assert (learned == other).all(axis=1).any() == is_with_first
    for update in (
        lambda: reader.update_texts([1], ["abc"]),
        lambda: changes.update([1], rows(1), None, None, 0, ["abcd"]).result(10),
    ):
        reader.reload()
        backend.before_read = fail
        writer.update([1], payloads=[{"seen": 1, "by": "others"}])
        update()
        backend.before_read = lambda name: None
        reader.reload()
        payload = reader.get(1).payload
        assert payload is not None
        assert payload["by"] == "others"
        writer.update([1], payloads=[{"seen": 2}])
    changes._writer.close()


def of_stores(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What replicas said: threads that other tests left behind, such as a Kafka client's, may speak meanwhile."""
    return [record for record in caplog.records if record.name == "onlinehash.stores"]


def test_how_far_it_is_behind(
    pair: tuple[StoreIndex, StoreIndex], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replicas, "LISTEN_SECONDS", 0.02)
    monkeypatch.setattr(replicas, "RETRY_SECONDS", 0.01)
    caplog.set_level("INFO")
    writer, reader = pair
    backend, is_down = reader._reader.backend, True
    assert isinstance(backend, MemoryBackend)

    def fail(name: str) -> None:
        if is_down and name == "news":
            raise ServiceUnavailable("the server is gone.")

    backend.before_read = fail
    writer.add([1], rows(1))
    wait_until(lambda: reader.lag > 0.1, "the lag to grow")
    assert reader.epoch < writer.epoch
    is_down = False
    wait_until(lambda: reader.lag == 0 and reader.epoch == writer.epoch, "the replica to catch up")
    wait_until(lambda: len(of_stores(caplog)) == 2, "it to be told")
    assert [record.levelname for record in of_stores(caplog)] == ["WARNING", "INFO"], "once, however often it tried"


def test_it_goes_on_after_any_failure_and_says_so(
    pair: tuple[StoreIndex, StoreIndex], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replicas, "LISTEN_SECONDS", 0.02)
    monkeypatch.setattr(replicas, "RETRY_SECONDS", 0.02)
    writer, reader = pair
    failures: list[Exception] = [ValueError("a bug"), ServiceUnavailable("the server is gone."), RuntimeError("two")]

    def fail(name: str) -> None:
        if name == "news" and failures:
            raise failures.pop()

    backend_of(reader).before_read = fail
    writer.add([1], rows(1))
    wait_until(lambda: not failures and len(reader) == 1, "the replica to catch up")
    assert [record.levelname for record in of_stores(caplog)] == ["ERROR", "WARNING", "ERROR"]
    assert all("tries again" in record.message for record in of_stores(caplog))


def test_two_processes_with_one_key(pair: tuple[StoreIndex, StoreIndex]) -> None:
    first, second = pair
    with first.once("key", "digest"):
        first.add(None, rows(2))
    stored = second.receipt("key")
    assert stored is not None
    assert (stored.digest, stored.outcome.tolist()) == ("digest", [0, 1])
    with pytest.raises(MadeAlready), second.once("key", "digest"):
        pass
    assert second.receipt("another") is None
    asked, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        with second.once("race", "digest"):
            asked.set()
            go_on.wait(10)
            with pytest.raises(MadeAlready):
                second.learn_pairs(rows(2), rows(2, 1), [True, False])

    thread = threading.Thread(target=slow)
    thread.start()
    asked.wait(10)
    with first.once("race", "digest"):
        first.learn_pairs(rows(2), rows(2, 1), [True, False])
    go_on.set()
    thread.join()
    second.reload()  # what it hears of while a change is under way, it learns with the next read
    assert first.learner.n_pairs_seen_ == second.learner.n_pairs_seen_ == 2


def backend_of(index: StoreIndex) -> MemoryBackend:
    found = index._reader.backend
    assert isinstance(found, MemoryBackend)
    return found
