"""An index in a database: several writers, refreshes in batches, failures everywhere, and what readers meet meanwhile.

That it does what `LiveIndex` does is the matter of `test_congruence`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onlinehash import OnlineHashing, RbfAnchors, refresh
from onlinehash.stores import index as module
from onlinehash.stores.index import StoreIndex
from tests.programs import plain
from tests.stores.memory_backend import Failure, MemoryBackend, Tables
from tests.support import state_bytes

WIDTH = 6
Call = Callable[[Any], Any]


def learner(**params: Any) -> OnlineHashing:
    return OnlineHashing(**{"n_bits": 11, "burn_in": 20, "random_state": 0} | params)


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32) + 0.3


def lesson(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return rows(n, seed), rows(n, seed + 1000), np.arange(n) % 2 == 0


def new_tables(policy: Any = None, **params: Any) -> Tables:
    return Tables.create(learner(**params), policy or refresh.by_hand())


def open_index(tables: Tables, is_atomic: bool = True, batch_rows: int = 4, **options: Any) -> StoreIndex:
    index = StoreIndex(MemoryBackend(tables, is_atomic), **options)
    index.batch_rows = batch_rows
    return index


def backend_of(index: StoreIndex) -> MemoryBackend:
    backend = index._reader.backend
    assert isinstance(backend, MemoryBackend)
    return backend


def copied(tables: Tables) -> Tables:
    return replace(tables, blobs=dict(tables.blobs), items=list(tables.items), codes=list(tables.codes))


def filled(n: int = 13, seed: int = 0, policy: Any = None) -> Tables:
    """An index with codes, some of them behind the learner."""
    tables = new_tables(policy)
    with open_index(tables) as index:
        index.add(None, rows(n, seed), [{"i": i} for i in range(n)])
        index.learn_pairs(*lesson(20, seed + 1))
        index.refresh()
        index.learn_pairs(*lesson(20, seed + 2))
    return tables


def law(index: Any) -> bool:
    """The codes are what the encoder makes of the vectors, and a search finds them so."""
    if len(index) == 0:
        return True
    vectors, encoder = index.vectors, index.encoder
    expected = encoder.encode(vectors)
    found = index.search(vectors[:2], len(index))
    bits = expected.bits()
    order = np.argsort((bits[:2, None] != bits[None]).sum(axis=2), axis=1, kind="stable")
    return bool((index.codes.rows() == expected.rows()).all()) and bool((found.ids == index.ids[order]).all())


def everything(index: Any) -> Any:
    """All that an index holds and tells, in values that can be compared."""
    return plain(
        [
            index.ids,
            index.vectors,
            index.get_many(index.ids.tolist()),
            index.codes if index.serial else None,
            index.encoder,
            index.serial,
            index.paused,
            [version[:2] for version in index.versions],
            [index.refreshes, index.bits_rehashed, index.bits_flipped],
            index.positions,
            state_bytes(index.learner),
        ]
    )


# ------------------------------------------------------------------ refreshes in batches


def random_change(index: Any, rng: np.random.Generator, number: int) -> None:
    ids = index.ids.tolist()
    some = [ids[i] for i in rng.permutation(len(ids))[:2]]
    choice = rng.integers(4)
    if choice == 0 or len(ids) < 6:
        index.add(None, rows(2, number), [{"new": number}] * 2)
    elif choice == 1:
        index.update(some, rows(2, number))
    elif choice == 2:
        index.remove(some)
    else:
        index.update(some, None, [{"changed": number}] * 2)


@pytest.mark.parametrize("first", [False, True], ids=["another encoder", "the first encoder"])
def test_others_change_items_between_batches(first: bool) -> None:
    seed, tables = 0, filled(23)
    if first:  # a feature map that still waits, and items without codes
        tables = Tables.create(learner(features=RbfAnchors(60)), refresh.by_hand())
    index, other, reader = (open_index(tables, batch_rows=3) for _ in range(3))
    if first:
        other.add(None, rows(23, seed))
        assert other.encoder is None
    rng, numbers, before = np.random.default_rng(seed), [0], plain(reader.encoder)

    def between() -> None:
        numbers[0] += 1
        if numbers[0] < 12 and tables_pending(tables):
            random_change(other, rng, numbers[0])
            assert plain(reader.encoder) == before
            assert reader.encoder is None or law(reader)

    backend_of(index).after_change = between
    index.flush() if first else index.refresh()
    assert numbers[0] > 5
    assert plain(reader.encoder) == plain(index.newest)
    for each in (index, other, reader):
        assert law(each)
    assert reader.refreshes == (0 if first else 2)


def tables_pending(tables: Tables) -> Any:
    return MemoryBackend(tables).head().state["pending"]


# ------------------------------------------------------------------ refreshes that were left


def left_halfway(is_atomic: bool, n_batches: int = 3) -> Tables:
    """A refresh whose process died in the middle of a batch."""
    tables = filled(20)
    index = open_index(tables, is_atomic, batch_rows=4)
    heads = [0]

    def die(name: str) -> None:
        heads[0] += name == "put_head"
        if heads[0] == n_batches and name == "add_codes":
            raise Failure

    backend_of(index).before_write = die
    with pytest.raises(Failure):
        index.refresh()
    assert tables_pending(tables)["done"] >= 3
    return tables


def test_a_refresh_that_was_left_is_finished_by_who_notices(monkeypatch: Any) -> None:
    tables = left_halfway(is_atomic=False)
    index, now = open_index(tables, is_atomic=False, refresh=refresh.by_hand()), [0.0]
    monkeypatch.setattr(index, "clock", lambda: now[0])
    newest = plain(index.newest)
    done = tables_pending(tables)["done"]
    index.update([1, 15], rows(2, 7))
    now[0] += module.PATIENCE - 1
    index.remove([2])
    assert index.serial == 2  # its worker may still be there
    assert law(index)
    now[0] += 1
    read = []
    backend_of(index).before_read = read.append
    index.update([3], None, [{"x": 1}])
    assert (index.serial, plain(index.encoder)) == (3, newest)
    assert law(index)
    assert done > 0
    assert index.refreshes == 2


def of_another_processor(index: StoreIndex, monkeypatch: Any) -> None:
    """Let the learner's last digits be others here, so much that it shows in codes."""
    snapshot = index.learner.snapshot

    def rounded() -> Any:
        return replace(snapshot(), weights=np.round(snapshot().weights, 1))

    monkeypatch.setattr(index.learner, "snapshot", rounded)


def test_whoever_takes_up_a_refresh_encodes_with_its_encoder(monkeypatch: Any) -> None:
    tables = left_halfway(is_atomic=True)
    with open_index(tables) as index, open_index(tables) as other:
        wanted = plain(index.newest)
        of_another_processor(other, monkeypatch)
        assert plain(other.newest) != wanted
        other.refresh()
        assert other.serial == index.serial == 3
        assert plain(index.encoder) == plain(other.encoder) == wanted
        assert law(index)
        assert law(other)


def test_a_refresh_that_another_process_begins_again_has_that_ones_encoder(monkeypatch: Any) -> None:
    tables = filled(20)
    with open_index(tables) as index, open_index(tables) as other:
        of_another_processor(other, monkeypatch)
        fail_at(index, 7)
        with pytest.raises(Failure):
            index.refresh()
        other.cancel()
        other.refresh()
        assert other.serial == index.serial == 3
        assert plain(index.encoder) == plain(other.encoder) == plain(other.newest)
        assert law(index)
        assert law(other)


# ------------------------------------------------------------------ failures


def fail_at(index: StoreIndex, n: int) -> None:
    """The n-th write fails, and all that follow."""
    count = [0]

    def fail(name: str) -> None:
        count[0] += 1
        if count[0] >= n:
            raise Failure

    backend_of(index).before_write = fail


CHANGES: dict[str, Call] = {
    "add": lambda index: index.add(None, rows(3, 5), [{"a": 1}, None, {}]),
    "update": lambda index: index.update([1, 5], rows(2, 5)),
    "remove": lambda index: index.remove([3, 0]),
    "learn_pairs": lambda index: index.learn_pairs(*lesson(3, 5)),
    "put_position": lambda index: index.put_position("a", [1, "2"]),
    "refresh": lambda index: index.refresh(),
}


def test_a_change_that_fails_anywhere_changes_nothing() -> None:
    kept = filled(8)
    for name, call in CHANGES.items():
        expected, names = open_index(copied(kept), batch_rows=100), list[str]()
        before, held = everything(expected), state_bytes(expected.learner)
        backend_of(expected).before_write = names.append
        call(expected)
        after = everything(expected)
        assert names
        for n in range(1, len(names) + 1):
            tables = copied(kept)
            index = open_index(tables, batch_rows=100)
            fail_at(index, n)
            with pytest.raises(Failure):
                call(index)
            backend_of(index).before_write = lambda name: None
            assert state_bytes(index._shared.learner) == held  # without another look at the backend
            assert everything(index) == everything(open_index(tables)) == before, name
            call(index)
            assert everything(index) == everything(open_index(tables)) == after, name
            assert law(index)


# ------------------------------------------------------------------ readers meanwhile


@pytest.mark.parametrize("what", ["rows", "blobs"])
def test_whoever_reads_while_all_is_replaced_and_cleared_away(what: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "LEAST_DEAD", 0)
    tables = filled(20)
    index, reader = open_index(tables), open_index(tables)
    X, ids, changes = index.vectors, index.ids, [0]

    def meanwhile(name: str) -> None:
        if name == what and changes[0] < 3:  # what is read is gone before it is read, three times over
            changes[0] += 1
            index.learn_pairs(*lesson(20, changes[0]))
            index.update(ids[:9], X[:9], [{"i": i} for i in range(9)])
            index.refresh()

    backend_of(reader).before_read = meanwhile
    for _ in range(4):
        hits, encoder = reader.searched(X[:3], 20, {"i": {">=": 4}})
        distances = (encoder.transform(X[:3])[:, None] != encoder.transform(X)[None]).sum(axis=2)[:, 4:]
        assert (np.sort(distances, axis=1) == hits.distances).all()
        assert (reader.vectors == X).all()
        assert [item.payload for item in reader.get_many([3, 9, 3])] == [{"i": 3}, {"i": 9}, {"i": 3}]
        codes = reader.codes
        assert any((codes.rows() == version.encoder.encode(X).rows()).all() for version in index.versions)
        assert reader.newest.n_bits == 11
        changes[0] = 0
