"""Whatever happens to a live index, in any order, it holds and answers what a dictionary and brute force do."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sklearn.base import clone

from onlinehash import LiveIndex, MultiModelOnlineHashing, OnlineHashing, RbfAnchors, refresh
from onlinehash.errors import NotReady
from onlinehash.index import costs, multi_index
from onlinehash.live import index as live_index
from onlinehash.live import storage, vectors
from onlinehash.live.sqlite import records, segments
from tests.live.model import Model, pairs_of, same_functions
from tests.strategies import TEXTURES, points
from tests.support import refused, state_bytes, thorough

WIDTH = 5
COLOURS = ("red", "green", "blue")

LEARNERS: dict[str, Any] = {
    "MMOH": lambda: MultiModelOnlineHashing(n_bits=9, n_models=2, burn_in=60, random_state=0),
    "OH that waits": lambda: OnlineHashing(n_bits=12, features=RbfAnchors(12), burn_in=60, random_state=0),
}

POLICIES: dict[str, Any] = {
    "always": refresh.always,
    "every": lambda: refresh.every(3),
    "when_changed": lambda: refresh.when_changed(0.05),
    "by_hand": refresh.by_hand,
}

#: Filters, and what they mean.
FILTERS: list[tuple[dict[str, Any], Any]] = [
    ({"colour": "red"}, lambda p: p is not None and p.get("colour") == "red"),
    ({"price": {"<": 5}}, lambda p: p is not None and p["price"] < 5),
    ({"colour": ["red", "blue"], "price": {">=": 3}}, lambda p: p and p["colour"] != "green" and p["price"] >= 3),
    ({"colour": {"exists": False}}, lambda p: p is None),
    ({"colour": "violet"}, lambda p: False),
]


class Beside(RuleBasedStateMachine):
    """A live index, and the model of it."""

    durable: ClassVar[bool]
    kind: ClassVar[str]
    learner: ClassVar[str]

    @initialize(
        policy=st.sampled_from(sorted(POLICIES)),
        background=st.booleans(),
        strings=st.booleans(),
        texture=st.sampled_from(TEXTURES),
        dtype=st.sampled_from(("float32", "float64")),
        seed=st.integers(0, 2**32 - 1),
    )
    def begin(self, policy, background, strings, texture, dtype, seed):
        self.rng, self.used, self.copies = np.random.default_rng(seed), 0, 0
        self.policy, self.background, self.strings = policy, background, strings
        self.texture, self.dtype = texture, dtype
        self.folder = Path(tempfile.mkdtemp(prefix="onlinehash-test-"))
        self.path = self.folder / "items" if self.durable else None
        self.model = Model(LEARNERS[self.learner]().keep_metric())
        self.index = LiveIndex(
            LEARNERS[self.learner](), POLICIES[policy](), self.kind, self.path, background=background
        )

    def teardown(self):
        if hasattr(self, "index"):
            self.index.close()
            shutil.rmtree(self.folder)

    # ------------------------------------------------------------------ what is drawn

    def draw(self, n):
        return points(self.rng, self.texture, n, WIDTH, self.dtype)

    def draw_ids(self, n):
        self.used += n
        numbers = self.rng.permutation(np.arange(self.used - n, self.used)).tolist()
        return [f"item {number}" for number in numbers] if self.strings else numbers

    def draw_payloads(self, n):
        def one() -> dict[str, Any] | None:
            if self.rng.random() < 0.3:
                return None
            return {"colour": COLOURS[self.rng.integers(3)], "price": int(self.rng.integers(10))}

        return [one() for _ in range(n)]

    def some(self, share):
        ids = [id for id in self.model.ids if self.rng.random() < share]
        self.rng.shuffle(ids)
        return ids

    # ------------------------------------------------------------------ items

    @rule(n=st.sampled_from((1, 2, 20, 70)), with_payloads=st.booleans())
    def add(self, n, with_payloads):
        X, ids = self.draw(n), self.draw_ids(n)
        payloads = self.draw_payloads(n) if with_payloads else None
        self.index.add(ids, X, payloads)
        self.model.add(ids, X, payloads)

    @rule(share=st.sampled_from((0.02, 0.3, 1.0)), what=st.sampled_from(("vectors", "payloads", "both")))
    def update(self, share, what):
        ids = self.some(share)
        if not ids:
            return
        X = None if what == "payloads" else self.draw(len(ids))
        payloads = None if what == "vectors" else self.draw_payloads(len(ids))
        self.index.update(ids, X, payloads)
        self.model.update(ids, X, payloads)

    @rule(share=st.sampled_from((0.02, 0.2, 0.2, 1.0)))
    def remove(self, share):
        ids = self.some(share)
        self.index.remove(ids)
        self.model.remove(ids)

    # ------------------------------------------------------------------ learning

    @rule(similar=st.booleans(), weight=st.sampled_from((0.5, 1.0)))
    def learn_pair(self, similar, weight):
        a, b = self.draw(2)
        mine = self.index.learn_pair(a, b, similar, weight)
        theirs = self.model.learner.learn_pair(a, b, similar, weight)
        assert (mine.loss, mine.pending, list(mine.bits)) == (theirs.loss, theirs.pending, list(theirs.bits))

    @precondition(lambda self: len(self.model.vectors) >= 2)
    @rule(n=st.sampled_from((1, 3)), similar=st.booleans())
    def learn_by_id(self, n, similar):
        a, b = (self.rng.choice(len(self.model.vectors), n) for _ in "ab")
        ids, matrix = self.model.ids, self.model.matrix()
        if n == 1:
            self.index.learn_pair_by_id(ids[a[0]], ids[b[0]], similar)
        else:
            self.index.learn_pairs_by_id([ids[i] for i in a], [ids[i] for i in b], [similar] * n)
        self.model.learner.learn_pairs(matrix[a], matrix[b], [similar] * n)

    @rule(n=st.sampled_from((2, 20)))
    def learn_pairs(self, n):
        A, B, similar = self.draw(n), self.draw(n), self.rng.random(n) < 0.5
        self.index.learn_pairs(A, B, similar)
        self.model.learner.learn_pairs(A, B, similar)

    # ------------------------------------------------------------------ encoders

    @rule()
    def refresh(self):
        newest = self.model.newest()
        if newest is None:
            with pytest.raises(NotReady):
                self.index.refresh()
            return
        self.index.refresh()
        self.model.refresh(newest)

    @rule(
        changes=st.lists(st.sampled_from(("add", "update", "payloads", "remove", "learn")), max_size=6),
        cancelled=st.sampled_from((False, False, True)),
    )
    def refresh_beside_changes(self, changes, cancelled):
        newest = self.model.newest()
        if newest is None:
            return
        with self.index._lock:  # so that it cannot end before the changes
            job = self.index.refresh(wait=False)
            for change in changes:
                if change == "add":
                    self.add(int(self.rng.choice([1, 70])), True)
                elif change == "learn":
                    self.learn_pairs(2)
                elif change == "remove":
                    self.remove(0.3)
                else:
                    self.update(0.3, "payloads" if change == "payloads" else "both")
            if cancelled:
                job.cancel()
        assert job.wait() is not cancelled
        if not cancelled:
            self.model.refresh(newest)

    @precondition(lambda self: self.model.older())
    @rule(far=st.booleans())
    def roll_back(self, far):
        older = self.model.older()
        self.index.roll_back(older[0] if far else None)
        self.model.roll_back(older[0] if far else older[-1])

    # ------------------------------------------------------------------ questions

    @precondition(lambda self: self.model.encoder is not None)
    @rule(k=st.sampled_from((0, 1, 7, 1000)), filter=st.sampled_from([(None, lambda p: True), *FILTERS]))
    def ask(self, k, filter):
        where, admits = filter
        queries = self.draw(3)
        expected = [self.model.ranked(query, admits) for query in queries]
        together = self.index.search(queries, k, where)
        for i, query in enumerate(queries):
            one = self.index.search(query, k, where)
            assert pairs_of(one) == expected[i][:k]
            assert pairs_of(one) == pairs_of(type(one)(together.ids[i], together.distances[i]))
            radius = int(self.rng.integers(6))
            inside = [pair for pair in expected[i] if pair[0] <= radius]
            assert pairs_of(self.index.within(query, radius, where)) == inside
            near = self.index.rerank(query, one, 5)
            assert near.ids.tolist() == self.model.reranked(query, one.ids.tolist())[:5]

    # ------------------------------------------------------------------ other places

    @rule()
    def backup_and_open(self):
        copy = self.another_folder()
        self.index.backup(copy)
        with LiveIndex.open(copy, read_only=bool(self.rng.integers(2))) as found:
            self.compare(found)

    @precondition(lambda self: self.durable)
    @rule(anew=st.booleans())
    def close_and_reopen(self, anew):
        self.index.close()
        if anew:
            learner = clone(self.index.learner)
            self.index = LiveIndex(learner, POLICIES[self.policy](), path=self.path, background=self.background)
        else:
            self.index = LiveIndex.open(self.path, background=self.background)
            assert self.index.policy == POLICIES[self.policy]()

    @precondition(lambda self: self.durable)
    @rule()
    def crash_and_reopen(self):
        crashed = self.another_folder()
        shutil.copytree(self.path, crashed)  # as the disk is now: nothing was closed
        self.index.close()
        self.path = crashed
        self.index = LiveIndex.open(crashed, background=self.background)

    def another_folder(self):
        self.copies += 1
        return self.folder / f"copy {self.copies}"

    # ------------------------------------------------------------------ what is refused

    @rule()
    def refuse(self):
        index, X = self.index, self.draw(2)
        new, known = self.draw_ids(2), next(iter(self.model.vectors), None)
        broken = X.copy()
        broken[1, 0] = np.nan
        nobody = "nobody" if self.strings else -1
        calls = [
            lambda: index.add(new, broken),
            lambda: index.add(new, X, [{"price": 1}, "no dict"]),
            lambda: index.add(new, X, [{"price": float("nan")}, None]),
            lambda: index.add(new, X, [None]),
            lambda: index.add([new[0], new[0]], X),
            lambda: index.add(new[:1], X),
            lambda: index.update([nobody], X[:1]),
            lambda: index.remove([nobody]),
            lambda: index.learn_pair(X[0], X[1], 2),
            lambda: index.learn_pair(X[0], broken[1], True),
            lambda: index.learn_pair_by_id(nobody, nobody, True),
            lambda: index.roll_back(10**6),
        ]
        if hasattr(self.model.learner, "n_features_in_"):
            calls += [lambda: index.add(new, X[:, 1:]), lambda: index.learn_pair(X[0, 1:], X[1, 1:], True)]
        if known is not None:
            calls += [
                lambda: index.add([new[0], known], X),
                lambda: index.update([known, nobody], X),
                lambda: index.update([known, known], X),
                lambda: index.update([known], broken[1:]),
                lambda: index.update([known], X),
                lambda: index.update([known], X[:1], ["no dict"]),
                lambda: index.update([known], payloads=[{1: 2}]),
                lambda: index.update([known]),
                lambda: index.remove([known, nobody]),
                lambda: index.remove([known, known]),
                lambda: index.learn_pair_by_id(known, nobody, True),
            ]
        self.settle()
        before = self.index.serial, self.index.versions, self.index.counters
        for call in calls:
            refused(call)
            assert state_bytes(index.learner) == state_bytes(self.model.learner)
            assert index.ids.tolist() == self.model.ids
        assert (self.index.serial, self.index.versions, self.index.counters) == before

    # ------------------------------------------------------------------ the law

    def settle(self):
        """Wait for refreshes that the policy began; each must be to what the learner is now."""
        refresher = self.index._refresher
        while True:
            if refresher.job is not None:
                refresher.job.wait()
            if (self.index.serial, self.index.refreshes) != (self.model.serial, self.model.refreshes):
                assert not self.model.paused
                newest = self.model.newest()
                assert newest is not None
                self.model.refresh(newest)
            asked, done = refresher._asked_at, (self.index.serial, self.index.refreshes)
            self.index._before_reading()
            running = refresher.job is not None and not refresher.job.done
            if not running and (asked, *done) == (
                refresher._asked_at,
                self.index.serial,
                self.index.refreshes,
            ):
                return

    @invariant()
    def holds(self):
        if not hasattr(self, "index"):
            return
        self.settle()
        self.compare(self.index)
        newest = self.model.newest()
        assert (self.model.encoder is None) == (newest is None)
        if newest is None or self.model.paused:
            return
        if self.policy == "always":
            assert same_functions(self.index.encoder, newest)
        elif self.policy == "every":
            assert self.index.pairs_behind < 3 or self.index.encoder.version == newest.version

    def compare(self, index):
        """Everything of an index beside the model."""
        model = self.model
        assert state_bytes(index.learner) == state_bytes(model.learner)
        assert (len(index), list(index)) == (len(model.vectors), model.ids)
        assert (index.serial, index.refreshes) == (model.serial, model.refreshes)
        assert [version.serial for version in index.versions] == sorted(model.versions)
        for version in index.versions:
            assert same_functions(version.encoder, model.versions[version.serial])
        assert same_functions(index.encoder, model.encoder)
        if model.vectors:
            np.testing.assert_array_equal(index.vectors, model.matrix(), strict=True)
        if model.vectors and model.encoder is not None:
            codes = model.encoder.encode(model.matrix())
            assert index.codes == codes
            assert index.codes.rows().tobytes() == codes.rows().tobytes()
        for id in model.ids[:: 1 + len(model.vectors) // 10]:
            item = index.get(id)
            assert id in index
            assert (item.id, item.payload) == (id, model.payloads[id])
            np.testing.assert_array_equal(item.vector, model.vectors[id], strict=True)
        assert ("nobody" if self.strings else -1) not in index


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """So that a few items fill blocks, and tables are asked and built anew."""
    monkeypatch.setattr(segments, "BLOCK_ROWS", 16)
    monkeypatch.setattr(segments, "READ_ROWS", 64)
    monkeypatch.setattr(records, "CODES_CHUNK", 8)
    monkeypatch.setattr(storage, "LEAST_LOG", 2000)
    monkeypatch.setattr(storage, "PART_BYTES", 40)
    monkeypatch.setattr(vectors, "BLOCK_ROWS", 64)
    monkeypatch.setattr(live_index, "BLOCK_ROWS", 16)
    monkeypatch.setattr(costs, "SCAN_ONE", 1e9)
    monkeypatch.setattr(multi_index, "FEW_BLOCKS", 2)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::UserWarning")  # a feature map that waited for long says so
@pytest.mark.parametrize(("learner", "kind"), [("MMOH", "multi"), ("OH that waits", "flat")])
@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
def test_a_live_index_beside_its_model(durable, learner, kind):
    machine = type("Machine", (Beside,), {"durable": durable, "kind": kind, "learner": learner})
    many = settings(
        max_examples=thorough(3, 30),
        stateful_step_count=thorough(20, 50),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=many)
