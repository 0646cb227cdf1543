"""A reader that follows its writer is, after each reload, what an index is that is opened at that moment."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash import LiveIndex, MultiModelOnlineHashing, OnlineHashing, RbfAnchors, refresh
from onlinehash.errors import FormatError
from onlinehash.io import files
from onlinehash.live import storage
from onlinehash.live.sqlite import changes, records, segments
from onlinehash.live.sqlite.store import Store
from tests.support import state_bytes

WIDTH = 5
LEARNERS = {
    "OH": lambda: OnlineHashing(12, burn_in=30, random_state=0),
    "MMOH": lambda: MultiModelOnlineHashing(9, n_models=2, burn_in=30, fusion="sum", random_state=0),
    "kernel": lambda: OnlineHashing(8, features=RbfAnchors(60), random_state=0),  # has no codes at first
}
STEPS = {
    "add": 4,
    "add many": 1,
    "update": 3,
    "payloads": 2,
    "remove": 3,
    "remove most": 1,
    "add again": 1,
    "learn": 3,
    "refresh": 2,
    "roll back": 1,
    "once": 1,
    "reopen": 1,
    "reload": 6,
}


def rows(n, rng):
    return rng.standard_normal((n, WIDTH)).astype(np.float32)


def payloads(n, rng):
    return [None if value == 3 else {"colour": int(value)} for value in rng.integers(4, size=n)]


@contextmanager
def small(few=10**9):
    """Everything happens after a few items; a difference is never too large."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(segments, "BLOCK_ROWS", 20)
        patched.setattr(records, "CODES_CHUNK", 16)
        patched.setattr(storage, "LEAST_LOG", 3000)
        patched.setattr(changes, "FEW", few)
        yield patched


class Program:
    """A writer that does what it is told, and a reader beside it."""

    def __init__(self, path, kind, learner, seed):
        self.path, self.kind = path, kind
        self.rng, self.removed, self.n_keys = np.random.default_rng(seed), [], 0
        self.writer = LiveIndex(LEARNERS[learner](), refresh.every(30), kind, path, sync="batch")
        self.reader = LiveIndex.open(path, read_only=True)

    def step(self, what):
        getattr(self, what.replace(" ", "_"))()

    def chosen(self, share):
        n = len(self.writer)
        return self.rng.choice(self.writer.ids, min(n, max(1, int(share * n))), replace=False)

    def add(self, n=None):
        n = int(self.rng.integers(1, 12)) if n is None else n
        self.writer.add(None, rows(n, self.rng), payloads(n, self.rng))

    def add_many(self):
        self.add(65)

    def add_again(self):
        if self.removed:
            self.writer.add([self.removed.pop()], rows(1, self.rng))

    def update(self):
        if len(self.writer):
            ids = self.chosen(self.rng.choice([0.01, 0.2, 0.6]))
            self.writer.update(ids, rows(len(ids), self.rng))

    def payloads(self):
        if len(self.writer):
            ids = self.chosen(0.1)
            self.writer.update(ids, payloads=payloads(len(ids), self.rng))

    def remove(self, share=0.1):
        if len(self.writer):
            ids = self.chosen(share)
            self.writer.remove(ids)
            self.removed += ids.tolist()

    def remove_most(self):
        self.remove(self.rng.choice([0.7, 1.0]))

    def learn(self):
        n = int(self.rng.integers(1, 20))
        self.writer.learn_pairs(rows(n, self.rng), rows(n, self.rng), self.rng.random(n) < 0.5)

    def refresh(self):
        if self.writer.encoder is not None:
            self.writer.refresh()

    def roll_back(self):
        if any(version.serial < self.writer.serial for version in self.writer.versions):
            self.writer.roll_back()

    def once(self):
        self.n_keys += 1
        with self.writer.once(f"key {self.n_keys}", "digest"):
            self.add()

    def reopen(self):
        self.writer.close()
        self.writer = LiveIndex.open(self.path, sync="batch")

    def reload(self):
        behind = self.reader._storage.store._state.commit != self.writer._storage.store._state.commit
        assert self.reader.reload() == behind
        assert self.reader.reload() is False
        with LiveIndex.open(self.path, read_only=True) as fresh:
            self.compare(fresh)

    def compare(self, fresh):
        reader = self.reader
        assert reader.ids.tolist() == fresh.ids.tolist()
        assert len(reader) == len(fresh)
        for name in ("serial", "behind", "pairs_behind", "refreshes", "bits_rehashed", "bits_skipped", "bits_flipped"):
            assert getattr(reader, name) == getattr(fresh, name), name
        assert [v[:2] for v in reader.versions] == [v[:2] for v in fresh.versions]
        for version, other in zip(reader.versions, fresh.versions, strict=True):
            assert files.to_bytes(version.encoder) == files.to_bytes(other.encoder)
        assert reader.vectors.tobytes() == fresh.vectors.tobytes()
        assert reader.sample.tobytes() == fresh.sample.tobytes()
        assert [reader.get(id).payload for id in reader] == [fresh.get(id).payload for id in fresh]
        assert all(id not in reader for id in self.removed)
        assert state_bytes(reader.learner) == state_bytes(fresh.learner)
        assert repr(reader.policy) == repr(fresh.policy)
        for number in range(1, self.n_keys + 1):
            assert reader.receipt(f"key {number}").outcome.tolist() == fresh.receipt(f"key {number}").outcome.tolist()
        assert (reader.encoder is None) == (fresh.encoder is None)
        if reader.encoder is not None:
            assert files.to_bytes(reader.encoder) == files.to_bytes(fresh.encoder)
            assert reader.codes == fresh.codes
            assert len(reader) == 0 or reader.codes == reader.encoder.encode(reader.vectors)
            queries = rows(3, np.random.default_rng(1))
            for where in (None, {"colour": [0, 2]}):
                for found, expected in zip(
                    reader.search(queries, 5, where), fresh.search(queries, 5, where), strict=True
                ):
                    assert found.tolist() == expected.tolist()

    def close(self):
        self.writer.close()
        self.reader.close()


steps = st.lists(st.sampled_from([name for name, weight in STEPS.items() for _ in range(weight)]), max_size=40)


@given(
    steps=steps,
    kind=st.sampled_from(["flat", "multi", "auto"]),
    learner=st.sampled_from(sorted(LEARNERS)),
    seed=st.integers(0, 99),
)
def test_it_equals_an_index_that_is_opened_then(tmp_path_factory, steps, kind, learner, seed):
    with small() as patched:
        program = Program(tmp_path_factory.mktemp("index") / "items", kind, learner, seed)
        patched.setattr(LiveIndex, "_recover", None)  # no reload may need it
        for step in [*steps, "reload"]:
            program.step(step)
        program.close()


def filled(path, n=200, learner="OH", **options):
    program = Program(path, "flat", learner, 0)
    program.add(n)
    program.reload()
    return program


@contextmanager
def counting(method):
    """How often everything was read, without those who open an index meanwhile."""
    calls = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            Store, "_read", lambda store, commit, read=Store._read: (calls.append(1), read(store, commit))[1]
        )
        yield calls


def test_only_what_changed_is_read(tmp_path):
    with small():
        program = filled(tmp_path / "items")
        for _ in range(3):
            program.learn()
        program.refresh()
        program.reader.reload()
        for step in ("add", "add many", "update", "payloads", "remove", "learn", "refresh", "roll back", "once"):
            program.step(step)
            with counting("_read") as calls:
                assert program.reader.reload()
                assert not calls
        program.reload()
        program.close()


def test_everything_is_read_where_changes_were_forgotten(tmp_path):
    with small() as patched:
        patched.setattr(changes, "MOST_NOTES", 4)
        program = filled(tmp_path / "items")
        for n in (3, 4, 5):
            for _ in range(n):
                program.update()
            with counting("_read") as calls:
                assert program.reader.reload()
                assert bool(calls) == (n > 4) or n in (3, 4)
            program.reload()
        assert program.writer._storage.store._state.totals["changes"][0] <= 4
        program.close()


def test_a_reader_that_could_not_read_tries_again(tmp_path, monkeypatch):
    with small():
        program = filled(tmp_path / "items")
        program.update()

        def fail(*arguments):
            raise FormatError("expected a whole disk, got half of one.")

        with monkeypatch.context() as patched:
            patched.setattr(Store, "difference", fail)
            patched.setattr(Store, "_read", fail)
            with pytest.raises(FormatError):
                program.reader.reload()
            program.reader.search(rows(1, program.rng), 3)  # as it was
            patched.undo()
            patched.setattr("onlinehash.live.payloads.Payloads.put", None)
            patched.setattr(Store, "_read", fail)
            with pytest.raises(FormatError):
                program.reader.reload()
        assert program.reader.reload()
        program.reload()
        program.close()


def test_searches_see_all_of_a_change_or_nothing(tmp_path):
    """The writer adds two items at a time whose vectors are the same, then moves both; one is never seen alone."""
    program = filled(tmp_path / "items")
    stop, problems = threading.Event(), []

    def ask():
        while not stop.is_set():
            try:
                hits, _ = program.reader.searched(rows(4, np.random.default_rng(0)), 10**6)
                if len(hits.ids[0]) % 2:
                    problems.append("one of two")
                found = program.reader.search(rows(1, np.random.default_rng(0))[0], 10**6, {"pair": {"exists": True}})
                if len(found.ids) % 2:
                    problems.append("one of two that are filtered")
            except Exception as error:
                problems.append(repr(error))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    rng = np.random.default_rng(3)
    for i in range(20):
        x = rows(1, rng)
        program.writer.add([1000 + 2 * i, 1001 + 2 * i], np.repeat(x, 2, 0), [{"pair": i}] * 2)
        if i % 4 == 1:
            program.writer.update([1000, 1001], np.repeat(x, 2, 0))
        if i % 5 == 2:
            program.learn()
            program.writer.refresh()
        if i % 7 == 3:
            program.writer.remove([1000 + 2 * i, 1001 + 2 * i])
        program.reader.reload()
    stop.set()
    for thread in threads:
        thread.join()
    assert not problems, problems[0]
    program.reload()
    program.close()
