"""An index in a database: several writers, refreshes in batches, failures everywhere, and what readers meet meanwhile.

That it does what `LiveIndex` does is the matter of `test_congruence`.
"""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onlinehash import LSH, LiveIndex, OnlineHashing, RbfAnchors, refresh
from onlinehash.errors import FormatError, InvalidInput, ServiceUnavailable
from onlinehash.learners.iterative_quantization import IterativeQuantization
from onlinehash.live import storage
from onlinehash.live.refresher import VERSIONS_KEPT
from onlinehash.stores import creation, ids
from onlinehash.stores import index as module
from onlinehash.stores.backend import ERA, Head
from onlinehash.stores.index import StoreIndex
from onlinehash.stores.manifest import State
from tests.programs import plain
from tests.stores.memory_backend import Failure, MemoryBackend, Tables
from tests.support import refused, state_bytes, thorough

pytestmark = pytest.mark.long

WIDTH = 6
BOTH = pytest.mark.parametrize("is_atomic", [True, False], ids=["atomic", "not atomic"])

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


# ------------------------------------------------------------------ several writers


def program(seed: int, n: int) -> list[Call]:
    """Changes that can be made in any order with those of another seed."""
    rng = np.random.default_rng(seed)
    calls: list[Call] = []
    mine: list[str] = []
    for number in range(n):
        choice = rng.integers(5) if len(mine) > 3 else 0
        some = [mine[i] for i in rng.permutation(len(mine))[:2]]
        new, X = [f"{seed}/{number}/{i}" for i in range(3)], rows(3, int(rng.integers(10**6)))
        if choice == 0:
            mine += new
            calls.append(lambda index, new=new, X=X: index.add(new, X, [{"new": id} for id in new]))
        elif choice == 1:
            calls.append(lambda index, some=some, X=X: index.update(some, X[:2]))
        elif choice == 2:
            mine = [id for id in mine if id not in some]
            calls.append(lambda index, some=some: index.remove(some))
        elif choice == 3:
            pairs = lesson(3, int(rng.integers(10**6)))
            calls.append(lambda index, pairs=pairs: index.learn_pairs(*pairs))
        else:
            calls.append(lambda index, some=some: index.learn_pair_by_id(*some, True))
    return calls


@pytest.mark.parametrize("policy", [refresh.by_hand(), refresh.every(4), refresh.always()], ids=repr)
@pytest.mark.parametrize("least_log", [1 << 18, 400], ids=["lessons", "checkpoints"])
def test_writers_by_turns_are_one_writer(policy: Any, least_log: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(storage, "LEAST_LOG", least_log)
    tables, model = new_tables(policy), LiveIndex(learner(), policy)
    indexes = [open_index(tables) for _ in range(3)]
    rng = np.random.default_rng(3)
    for number, call in enumerate(program(1, 40)):
        call(model)
        call(indexes[rng.integers(3)])
        if number % 5 == 0:
            assert everything(indexes[rng.integers(3)]) == everything(model)
    for index in indexes:
        assert law(index)
        assert everything(index) == everything(model)


@pytest.mark.thorough
@BOTH
def test_writers_at_the_same_time_are_one_writer_in_some_order(is_atomic: bool) -> None:
    tables, model = new_tables(refresh.every(6)), LiveIndex(learner(), refresh.by_hand())
    done: list[Call] = []
    errors: list[BaseException] = []

    def work(calls: list[Call]) -> None:
        current: list[Call] = []

        def note(name: str) -> None:
            if name == "put_head" and current:
                done.append(current.pop())  # others wait for the lock of the backend

        try:
            with open_index(tables, is_atomic) as index:
                backend_of(index).before_write = note
                for call in calls:
                    current.append(call)
                    call(index)
                    assert not current
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(program(seed, thorough(20, 200)),)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert len(done) == 3 * thorough(20, 200)
    for call in done:
        call(model)
    with open_index(tables, is_atomic) as index:
        assert index.refreshes > 0
        assert law(index)
        for each in (index, model):
            each.refresh()
        assert state_bytes(index.learner) == state_bytes(model.learner)
        assert plain(index.get_many(index.ids)) == plain(model.get_many(model.ids))
        assert plain(index.codes) == plain(model.codes)


def test_a_learner_without_a_seed_is_the_same_for_all() -> None:
    tables = new_tables(random_state=None)
    first, second = open_index(tables), open_index(tables)
    first.add(None, rows(5))
    second.learn_pairs(*lesson(4, 1))
    first.learn_pairs(*lesson(4, 2))
    assert state_bytes(first.learner) == state_bytes(second.learner) == state_bytes(open_index(tables).learner)


def test_the_learner_stays_the_same_object_and_belongs_to_the_index() -> None:
    tables = filled()
    first, second = open_index(tables), open_index(tables)
    held = first.learner
    second.learn_pairs(*lesson(4, 5))
    assert first.learner is held
    assert state_bytes(held) == state_bytes(second.learner)
    assert "owns this" in str(refused(held.observe, rows(1)))
    first.close()
    held.observe(rows(1))


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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("first", [False, True], ids=["another encoder", "the first encoder"])
def test_others_change_items_between_batches(seed: int, first: bool) -> None:
    tables = filled(23, seed)
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


@pytest.mark.parametrize("seed", range(3))
def test_others_change_items_while_a_part_is_computed(seed: int) -> None:
    tables = filled(23, seed)
    index, other = (open_index(tables, batch_rows=3) for _ in range(2))
    rng, n_changes = np.random.default_rng(seed), 0

    def beside(name: str) -> None:
        nonlocal n_changes
        if name == "rows" and tables_pending(tables) and backend_of(index)._writer is None and n_changes < 12:
            n_changes += 1
            random_change(other, rng, n_changes)

    backend_of(index).before_read = beside
    index.refresh()
    assert n_changes > 3
    assert plain(other.encoder) == plain(index.newest)
    assert law(index)
    assert law(other)


def test_workers_share_the_parts_of_a_refresh() -> None:
    tables = filled(30)
    one, two = (open_index(tables, batch_rows=3) for _ in range(2))
    claims, steps = set[int](), 0

    @contextmanager
    def claimed(part: int) -> Iterator[bool]:
        if part in claims:
            yield False
            return
        claims.add(part)
        yield True
        claims.remove(part)

    def between() -> None:
        """Another worker joins while the first one is at its second part, and a third one at a part, for a while."""
        nonlocal steps
        steps += 1
        if steps == 2:
            claims.add(5)
            threading.Timer(0.05, claims.remove, [5]).start()
            two.refresh()

    for index in (one, two):
        backend_of(index).claimed = claimed  # type: ignore[method-assign]
    backend_of(one).after_change = between
    one.refresh()
    assert steps == 2  # the other one did the rest
    assert one.serial == two.serial == 3
    assert law(one)
    assert law(two)


def test_a_refresh_beside_other_changes() -> None:
    tables = filled(50)
    index, other = open_index(tables, batch_rows=2), open_index(tables)
    job = index.refresh(wait=False)
    assert job is not None
    rng = np.random.default_rng(0)
    for number in range(20):
        random_change((index, other)[number % 2], rng, number)
        with other._reader.pinned(other._reader.fresh()):  # else the refresh may end between two looks
            assert law(other)
    assert job.wait(60)
    assert law(index)
    assert plain(other.encoder) == plain(index.newest)


def test_a_refresh_writes_only_what_differs_and_is_one_step_to_readers() -> None:
    tables = filled(40)
    index, reader = open_index(tables, batch_rows=10), open_index(tables)
    before, epoch = {row.place: row.code for row in tables.codes}, backend_of(index).head().epoch
    seen, already = set(), index.bits_flipped
    backend_of(index).after_change = lambda: seen.add((reader.serial, plain(reader.codes)))
    index.refresh()
    assert len(seen) == 2  # the codes before, and those after
    era = (epoch // ERA + 1) * ERA
    assert backend_of(index).head().epoch == era
    written = [row for row in tables.codes if row.born == era]
    assert 0 < len(written) < 40
    assert all(row.code != before[row.place] for row in written)
    flipped = [int.from_bytes(row.code) ^ int.from_bytes(before[row.place]) for row in written]
    assert index.bits_flipped - already == sum(map(int.bit_count, flipped))


def disturbed_refresh(disturb: Call) -> tuple[StoreIndex, StoreIndex, bool, int]:
    """A refresh in parts, of which another process hears after the second: the two indexes, whether the refresh ended
    as it should, and how many changes it made."""
    tables = filled(20)
    index, other = open_index(tables, batch_rows=3), open_index(tables)
    steps: list[int] = []

    def between() -> None:
        steps.append(1)
        if len(steps) == 2:
            disturb(other)

    backend_of(index).after_change = between
    job = index.refresh(wait=False)
    assert job is not None
    return index, other, job.wait(60), len(steps)


def test_a_refresh_helps_the_one_that_another_process_works_on() -> None:
    """And then begins its own, as pairs were learned meanwhile: neither cancels the other."""

    def learn_and_refresh(other: StoreIndex) -> None:
        other.learn_pairs(*lesson(20, 9))
        other.refresh()

    index, other, is_done, _ = disturbed_refresh(learn_and_refresh)
    assert is_done
    assert plain(index.encoder) == plain(other.newest)
    assert law(index)
    assert index.refreshes == 3


def test_returning_to_older_codes_cancels_a_refresh() -> None:
    index, _, is_done, n_changes = disturbed_refresh(lambda other: other.roll_back(1))
    assert not is_done
    assert n_changes == 2  # and no batch after that
    assert index.paused
    assert law(index)


def test_two_processes_refresh_at_the_same_time(monkeypatch: Any) -> None:
    tables = filled(20)
    index, other = open_index(tables), open_index(tables)
    newest, called = index._refresher.newest_version, []

    def meanwhile(index: Any) -> Any:
        version = newest(index)
        if not called:
            called.append(1)
            other.learn_pairs(*lesson(20, 9))
            other.refresh()
        return version

    monkeypatch.setattr(index._refresher, "newest_version", meanwhile)
    index.refresh()
    assert plain(index.encoder) == plain(other.newest)  # not what the learner was before that
    assert [version.serial for version in index.versions] == [1, 2, 3]
    assert law(index)


def test_a_policy_gives_way_to_the_refresh_of_another_process(monkeypatch: Any) -> None:
    tables = filled(20)
    index, other = open_index(tables), open_index(tables, refresh=refresh.always())
    begin_if_due, called = other._begin_if_due, []

    def meanwhile() -> None:
        if not called:
            called.append(index.refresh(wait=False))
            assert steps.acquire(timeout=20)
        begin_if_due()
        go_on.set()

    steps, go_on = threading.Semaphore(0), threading.Event()

    def between() -> None:
        steps.release()
        assert go_on.wait(20)

    backend_of(index).after_change = between
    monkeypatch.setattr(other, "_begin_if_due", meanwhile)
    other.learn_pairs(*lesson(9, 9))
    assert called[0].wait(20)
    assert (index.serial, index.refreshes) == (3, 2)
    assert law(index)


@pytest.mark.parametrize("who", ["the same", "another"])
def test_a_refresh_that_is_cancelled_was_never_begun(who: str) -> None:
    tables = filled(20)
    index, other = open_index(tables, batch_rows=3), open_index(tables)
    before, steps = everything(other), threading.Semaphore(0)
    go_on = threading.Event()

    def between() -> None:
        steps.release()
        assert go_on.wait(20)

    backend_of(index).after_change = between
    job = index.refresh(wait=False)
    assert job is not None
    assert steps.acquire(timeout=20)
    if who == "another":
        other.cancel()
        assert tables_pending(tables) is None
        go_on.set()
        assert not job.wait(20)
    else:
        job.cancel()
        go_on.set()
        assert not job.wait(20)
    assert everything(other) == everything(index) == before
    assert all(row.died > 2**62 for row in tables.codes if row.born <= backend_of(index).head().epoch < row.died)
    index.refresh()
    assert law(index)


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


@BOTH
def test_a_refresh_that_was_left_is_finished_by_who_notices(is_atomic: bool, monkeypatch: Any) -> None:
    tables = left_halfway(is_atomic)
    index, now = open_index(tables, is_atomic, refresh=refresh.by_hand()), [0.0]
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


@BOTH
def test_a_refresh_that_failed_here_goes_on_with_the_next_change(is_atomic: bool) -> None:
    tables = filled(20)
    index = open_index(tables, is_atomic)
    for n in (2, 7, 12):
        fail_at(index, n)
        with pytest.raises(Failure):
            index.refresh()
        backend_of(index).before_write = lambda name: None
        assert law(index)
    assert index.serial == 2
    index.update([3], None, [{"x": 1}])
    assert index.serial == 3
    assert law(index)
    assert tables_pending(tables) is None


@BOTH
@pytest.mark.parametrize("how", ["refresh", "cancel", "roll_back"])
def test_a_refresh_that_was_left_gives_way(how: str, is_atomic: bool) -> None:
    tables = left_halfway(is_atomic)
    with open_index(tables, is_atomic) as index:
        if how == "roll_back":
            index.roll_back(1)
        else:
            index.learn_pairs(*lesson(20, 9))
            getattr(index, how)()
        assert law(index)
        assert index.serial == {"refresh": 4, "cancel": 2, "roll_back": 1}[how]  # a refresh ends the one before first
        assert tables_pending(tables) is None
        index.refresh()
        assert law(index)
        assert plain(index.encoder) == plain(index.newest)
        used = {f"encoder/{v.serial}.{v.encoder.version}" for v in index.versions}
        index.put_position("x", 1)
        assert {name for name in tables.blobs if name.startswith("encoder")} == used


@BOTH
def test_what_was_given_up_can_be_begun_again(is_atomic: bool) -> None:
    tables = left_halfway(is_atomic)
    index = open_index(tables, is_atomic, batch_rows=100)
    index.cancel()
    index.refresh()  # to the same encoder, whose blob was about to be dropped
    index.put_position("x", 1)
    with open_index(tables, is_atomic) as other:
        assert plain(other.encoder) == plain(index.newest)
        assert law(other)


def of_another_processor(index: StoreIndex, monkeypatch: Any) -> None:
    """Let the learner's last digits be others here, so much that it shows in codes."""
    snapshot = index.learner.snapshot

    def rounded() -> Any:
        return replace(snapshot(), weights=np.round(snapshot().weights, 1))

    monkeypatch.setattr(index.learner, "snapshot", rounded)


@BOTH
def test_whoever_takes_up_a_refresh_encodes_with_its_encoder(is_atomic: bool, monkeypatch: Any) -> None:
    tables = left_halfway(is_atomic)
    with open_index(tables, is_atomic) as index, open_index(tables, is_atomic) as other:
        wanted = plain(index.newest)
        of_another_processor(other, monkeypatch)
        assert plain(other.newest) != wanted
        other.refresh()
        assert other.serial == index.serial == 3
        assert plain(index.encoder) == plain(other.encoder) == wanted
        assert law(index)
        assert law(other)


@BOTH
def test_a_refresh_that_another_process_begins_again_has_that_ones_encoder(is_atomic: bool, monkeypatch: Any) -> None:
    tables = filled(20)
    with open_index(tables, is_atomic) as index, open_index(tables, is_atomic) as other:
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


def test_a_paused_index_finishes_the_refresh_that_was_asked_for() -> None:
    tables = filled(20)
    index = open_index(tables)
    index.refresh()
    index.roll_back()
    fail_at(index, 7)
    with pytest.raises(Failure):
        index.refresh()
    backend_of(index).before_write = lambda name: None
    assert index.paused
    index.remove([1])
    assert not index.paused
    assert index.serial == 4
    assert law(index)


# ------------------------------------------------------------------ failures


def fail_at(index: StoreIndex, n: int) -> None:
    """The n-th write fails, and all that follow."""
    count = [0]

    def fail(name: str) -> None:
        count[0] += 1
        if count[0] >= n:
            raise Failure

    backend_of(index).before_write = fail


def writes_of(index: StoreIndex, call: Call) -> int:
    names: list[str] = []
    backend_of(index).before_write = names.append
    call(index)
    backend_of(index).before_write = lambda name: None
    return len(names)


CHANGES: dict[str, Call] = {
    "add": lambda index: index.add(None, rows(3, 5), [{"a": 1}, None, {}]),
    "update": lambda index: index.update([1, 5], rows(2, 5)),
    "update payloads": lambda index: index.update([1, 5], None, [{"b": 2}, None]),
    "remove": lambda index: index.remove([3, 0]),
    "learn_pairs": lambda index: index.learn_pairs(*lesson(3, 5)),
    "learn_pair_by_id": lambda index: index.learn_pair_by_id(1, 2, False),
    "learn_labelled": lambda index: index.learn_labelled(rows(4, 5), [0, 1, 0, 1]),
    "flush": lambda index: index.flush(),
    "put_position": lambda index: index.put_position("a", [1, "2"]),
    "refresh": lambda index: index.refresh(),
}


@BOTH
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("least_log", [1 << 18, 0], ids=["lessons", "checkpoints"])
def test_a_change_that_fails_anywhere_changes_nothing(
    name: str, least_log: int, is_atomic: bool, monkeypatch: Any
) -> None:
    monkeypatch.setattr(storage, "LEAST_LOG", least_log)
    kept, call = filled(8), CHANGES[name]
    expected = open_index(copied(kept), is_atomic, batch_rows=100)
    before, held = everything(expected), state_bytes(expected.learner)
    n_writes = writes_of(expected, call)
    after = everything(expected)
    assert n_writes > 0
    for n in range(1, n_writes + 1):
        tables = copied(kept)
        index = open_index(tables, is_atomic, batch_rows=100)
        fail_at(index, n)
        with pytest.raises(Failure):
            call(index)
        backend_of(index).before_write = lambda name: None
        assert state_bytes(index._shared.learner) == held  # without another look at the backend
        assert everything(index) == everything(open_index(tables, is_atomic)) == before
        assert call(index) is None or name in ("add", "learn_pairs", "learn_pair_by_id")
        assert everything(index) == everything(open_index(tables, is_atomic)) == after
        assert law(index)


def test_a_backend_that_cannot_be_read_after_a_failure_is_read_later() -> None:
    tables = filled()
    index, held = open_index(tables), state_bytes(open_index(tables).learner)

    def down(name: str) -> None:
        raise Failure

    def fail(name: str) -> None:
        backend_of(index).before_read = down
        raise Failure

    backend_of(index).before_write = fail
    with pytest.raises(Failure):
        index.learn_pairs(*lesson(4, 1))
    with pytest.raises(Failure):
        _ = index.learner
    backend_of(index).before_read = backend_of(index).before_write = lambda name: None
    assert state_bytes(index.learner) == held


def test_a_policy_whose_refresh_fails_is_no_fault_of_the_change() -> None:
    index = open_index(filled(policy=refresh.always()))
    heads = [0]

    def fail(name: str) -> None:
        heads[0] += name == "put_head"
        if heads[0] > 1:
            raise Failure("no room")

    backend_of(index).before_write = fail
    with pytest.warns(UserWarning, match="the codes stay as they were: Failure: no room"):
        index.learn_pairs(*lesson(4, 1))
    assert law(index)
    backend_of(index).before_write = lambda name: None
    index.learn_pairs(*lesson(4, 2))
    assert index.behind == (0, 0)


# ------------------------------------------------------------------ readers meanwhile


@pytest.mark.parametrize("what", ["head", "places", "rows", "ranked", "blobs"])
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


def test_a_reader_who_never_comes_to_an_end_is_told(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "LEAST_DEAD", 0)
    tables = filled(8)
    index, reader = open_index(tables), open_index(tables)

    def meanwhile(name: str) -> None:
        if name == "rows":
            index.update(list(range(8)), rows(8, 3))

    backend_of(reader).before_read = meanwhile
    with pytest.raises(ServiceUnavailable, match="deleted 8 times"):
        _ = reader.vectors


def test_dead_rows_are_cleared_away_but_none_that_anybody_needs(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "LEAST_DEAD", 10)
    tables = filled(20)
    index, reader = open_index(tables), open_index(tables)
    rng = np.random.default_rng(0)
    largest = 0
    for number in range(60):
        random_change(index, rng, number)
        if number % 10 == 9:
            index.learn_pairs(*lesson(10, number))
            index.refresh()
        assert law(reader)
        largest = max(largest, len(tables.items) + len(tables.codes))
    assert index._state.horizon > 0
    assert largest < 200
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST_DEAD", 0)
        index.remove(index.ids[:10])
    alive = len(index)
    assert (len(tables.items), len(tables.codes)) == (alive, alive)
    assert law(reader)


def test_what_cannot_be_cleared_away_is_no_fault_of_the_change(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "LEAST_DEAD", 0)
    index = open_index(filled())

    def fail(name: str) -> None:
        if name == "purge":
            raise ServiceUnavailable("expected a database, got none.")

    backend_of(index).before_write = fail
    with pytest.warns(UserWarning, match="could not be cleared away"):
        index.remove([1, 2, 3, 4])
    assert len(index) == 9
    assert law(index)


def test_nothing_is_cleared_away_while_a_refresh_is_under_way(monkeypatch: Any) -> None:
    tables = left_halfway(True)
    monkeypatch.setattr(module, "LEAST_DEAD", 0)
    index = open_index(tables)
    index.update(list(range(12)), rows(12, 4))
    assert index._state.horizon == 0
    index.cancel()
    index.remove([1])
    assert index._state.horizon > 0
    assert law(index)


# ------------------------------------------------------------------ positions


def test_positions_are_kept_with_the_change_that_was_made_of_them() -> None:
    tables = filled()
    index, other = open_index(tables), open_index(tables)
    with index.reached("topic/0", 5):
        index.learn_pairs(*lesson(3, 1))
    index.put_position("weird \0 \ud800", {"offset": [1, None]})
    assert other.positions == {"topic/0": 5, "weird \0 \ud800": {"offset": [1, None]}}
    with pytest.raises(InvalidInput), index.reached("topic/0", 6):
        index.learn_pairs(rows(1), rows(2), [True])
    fail_at(index, 2)
    with pytest.raises(Failure), index.reached("topic/0", 6):
        index.add(None, rows(1))
    backend_of(index).before_write = lambda name: None
    assert other.positions["topic/0"] == 5
    with other.reached("topic/0", 7):
        other.refresh()
    with other.reached("topic/0", 8):
        other.remove([1])
        assert "only one change can be made inside reached('topic/0')" in str(refused(other.remove, [2]))
    assert index.positions["topic/0"] == 8
    with other.reached("topic/0", 9):
        pass
    assert index.positions["topic/0"] == 8


def test_the_refresh_that_a_change_brings_about_does_not_count_as_one() -> None:
    index = open_index(filled(policy=refresh.always()))
    with index.reached("a", 1):
        index.learn_pairs(*lesson(8, 1))
    assert index.refreshes > 1
    assert index.positions == {"a": 1}


# ------------------------------------------------------------------ ids, samples, opening and closing


@pytest.mark.parametrize("id", ["", "a\0b", "\\", "\\0", "\0", "\\\0\\\\0", "a\\0", "ünit/\U0001f600", "7"])
def test_any_text_can_be_an_id(id: str) -> None:
    index = open_index(new_tables())
    index.add([id, "other"], rows(2))
    assert index.get(id).id == id
    assert id in index
    assert index.ids.tolist() == [id, "other"]
    assert ids.ids_of(ids.texts_of(index.ids), index._state).tolist() == [id, "other"]
    index.remove(id)
    assert id not in index


def test_the_kind_of_ids() -> None:
    index = open_index(new_tables())
    assert index.ids_kind == "range"
    index.add(None, rows(2))
    assert index.ids_kind == "range"
    index.remove([0, 1])
    index.add(None, rows(2))
    assert (index.ids_kind, index.ids.tolist()) == ("range", [2, 3])
    index.add([-7, 2**63 - 1], rows(2))
    assert (index.ids_kind, index.ids.tolist()) == ("integers", [2, 3, -7, 2**63 - 1])
    refused(index.add, None, rows(1))


def test_a_sample_out_of_many_places_most_of_which_are_empty(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "MANY_ITEMS", 100)
    index = open_index(new_tables(), batch_rows=1000)
    index.add(None, rows(900))
    index.remove(list(range(20, 620)))
    sample, vectors = index.sample, {row.tobytes() for row in index.vectors}
    assert len({row.tobytes() for row in sample}) == len(sample) == 256
    assert all(row.tobytes() in vectors for row in sample)


def test_an_index_that_is_closed() -> None:
    tables = filled()
    with open_index(tables) as index:
        assert repr(index) == "StoreIndex(OnlineHashing, n=13, refresh=by_hand(), address='memory')"
    assert backend_of(index).is_closed
    assert "closed" in repr(index)
    for call in (lambda: index.search(rows(1), 1), lambda: index.add(None, rows(1)), lambda: index.positions):
        assert "the index is closed" in str(refused(call))
    index.close()
    index.cancel()


def test_an_index_is_not_copied() -> None:
    index = open_index(filled())
    for call in (pickle.dumps, copy.copy):
        assert "open it again where it is needed" in str(refused(call, index))


def test_policies_that_cannot_be_kept_are_given_again() -> None:
    class Mine:
        def due(self, index: Any) -> bool:
            return True

    tables = new_tables(Mine())
    assert "give it again by refresh=" in str(refused(open_index, tables))
    index = open_index(tables, refresh=Mine())
    index.add(None, rows(30))
    index.learn_pairs(*lesson(9, 1))
    assert index.behind == (0, 0)
    for wrong in (3, refresh.every, "always"):
        assert "expects refresh to be a policy" in str(refused(lambda wrong=wrong: open_index(tables, refresh=wrong)))
        assert "expects refresh to be a policy" in str(refused(creation.first, learner(), wrong))
    assert "background" in str(refused(lambda: open_index(tables, background=1)))


def test_policies_may_work_in_the_background() -> None:
    index = open_index(filled(policy=refresh.always()), background=True)
    for seed in range(5):
        index.learn_pairs(*lesson(5, seed))
    while index.behind.bits:
        index.flush()  # asks the policy again, once the last refresh has ended and a while has passed
    assert law(index)
    index.close()


def test_a_learner_that_has_learned_already() -> None:
    taught = learner().partial_fit_pairs(*lesson(30, 1))
    tables, model = Tables.create(taught), LiveIndex(copy.deepcopy(taught))
    index = open_index(tables)
    assert index.encoder is None
    for each in (index, model):
        assert each.search(rows(1)[0], 3).ids.tolist() == []
    assert everything(index) == everything(model)
    for each in (index, model):
        each.add(None, rows(9))
    assert everything(index) == everything(model)
    taught.observe(rows(3))  # the index has a copy


def test_learners_that_cannot_be_kept() -> None:
    assert "call fit first" in str(refused(creation.first, IterativeQuantization(n_bits=4)))
    assert "expected a learner" in str(refused(creation.layout_of, 3))
    fitted = IterativeQuantization(n_bits=4, random_state=0).fit(rows(30))
    index = StoreIndex(MemoryBackend(Tables.create(fitted)))
    index.add(None, rows(9))
    assert law(index)
    assert StoreIndex(MemoryBackend(Tables.create(LSH(n_bits=5)))).n_bits == 5


def test_a_head_of_something_else() -> None:
    head, _ = creation.first(learner())
    assert State.of(head, "here").json() == head.state
    for wrong in ({}, head.state | {"log": 3}, head.state | {"later": 1}, head.state | {"pending": {"to": [1]}}):
        with pytest.raises(FormatError, match="expected the head of an index in here"):
            State.of(Head(0, wrong), "here")


def test_a_backend_without_its_learner() -> None:
    tables = filled()
    tables.blobs.clear()
    with pytest.raises(FormatError, match=r"parts of the learner in .* are missing"):
        open_index(tables)


def test_a_backend_is_closed_if_no_index_comes_of_it() -> None:
    for options in ({"refresh": "often"}, {"background": 1}):
        backend = MemoryBackend(new_tables())
        with pytest.raises(InvalidInput):
            StoreIndex(backend, **options)  # type: ignore[arg-type]
        assert backend.is_closed


def test_others_refresh_while_one_begins_to_return_to_the_oldest_encoder(monkeypatch: Any) -> None:
    """They have forgotten it by then; it is kept again."""
    tables = filled(20)
    index, other = open_index(tables), open_index(tables)

    def learn_and_refresh(seed: int) -> None:
        other.learn_pairs(*lesson(20, seed))
        other.refresh()

    for seed in range(30, 34):
        learn_and_refresh(seed)
    oldest, launch = index.versions[0], index._launch
    assert len(index.versions) == VERSIONS_KEPT

    def late(task: Any, wait: bool) -> Any:
        learn_and_refresh(40)
        return launch(task, wait)

    monkeypatch.setattr(index, "_launch", late)
    index.roll_back(oldest.serial)
    assert (index.serial, plain(index.encoder)) == (oldest.serial, plain(oldest.encoder))
    assert len(index.versions) == VERSIONS_KEPT
    assert law(index)


def test_a_refresh_that_was_left_is_given_up_just_when_one_would_finish_it(monkeypatch: Any) -> None:
    tables = left_halfway(True)
    index, other = open_index(tables), open_index(tables)
    monkeypatch.setattr(module, "PATIENCE", 0.0)

    def give_up() -> None:
        backend_of(index).after_change = lambda: None
        other.cancel()
        other.put_position("x", 1)  # the next change drops the encoder that nobody needs

    backend_of(index).after_change = give_up
    index.update([3], None, [{"x": 1}])  # without a warning
    assert tables_pending(tables) is None
    assert index.serial == 2
    assert law(index)


@pytest.mark.parametrize(("n", "n_ahead"), [(19, 0), (20, 2)])
def test_from_how_many_items_on_parts_are_computed_ahead(n: int, n_ahead: int, monkeypatch: Any) -> None:
    """Which has nothing to do with how many of them a sample is drawn from by rank."""
    assert (module.AHEAD_ITEMS, module.MANY_ITEMS) == (50_000, 65_536)
    monkeypatch.setattr(module, "AHEAD_ITEMS", 20)
    asked, ahead = list[int](), module.Ahead

    def recorded(recoder: Any, reader: Any, n_ahead: int) -> Any:
        asked.append(n_ahead)
        return ahead(recoder, reader, n_ahead)

    tables = filled(n)
    monkeypatch.setattr(module, "Ahead", recorded)
    with open_index(tables) as index:
        index.refresh()
        assert law(index)
    assert asked == [n_ahead]


def test_a_sample_of_what_others_have_cleared_away_meanwhile(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "MANY_ITEMS", 0)
    monkeypatch.setattr(module, "LEAST_DEAD", 0)
    tables = filled(20)
    index, other = open_index(tables), open_index(tables)
    other.remove([0])
    calls: list[str] = []

    def clear(name: str) -> None:
        calls.append(name)
        if calls.count("rows") == 1 and name == "rows":
            other.remove(list(range(2, 20)))

    backend_of(index).before_read = clear
    assert index.sample.tolist() == other.vectors.tolist()


# ------------------------------------------------------------------ find


def test_find_reads_each_thing_once_and_waits_for_no_change() -> None:
    tables = filled(600)
    query = rows(1, 7)[0]
    with open_index(tables) as index, open_index(tables) as other:
        asked: list[str] = []
        first = index.find(query)
        backend_of(index).before_read = asked.append
        holding, done = threading.Event(), threading.Event()

        def hold() -> None:
            with index._lock:
                holding.set()
                done.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        assert holding.wait(60)
        again = index.find(query)  # while another thread of this process makes a change
        done.set()
        thread.join()
        assert again.ids.tolist() == first.ids.tolist()
        assert asked.count("head") == 2  # at the beginning, and as rows may have gone meanwhile
        assert set(asked) == {"head", "ranked"}  # vectors were compared before, and the learner is known
        other.learn_pairs(query[None], other.vectors_of([int(first.ids[0])]), [False])
        assert first.ids[0] not in index.find(query).ids  # what another process taught counts in the next call
        other.update([int(first.ids[1])], rows(1, 8))
        assert index.find(rows(1, 8)[0], 1).ids.tolist() == [first.ids[1]]  # and another vector does
