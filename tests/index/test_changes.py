"""Items that come, change and go: both indexes beside a dictionary, step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from onlinehash import Codes, FlatIndex, MultiIndex
from onlinehash.errors import InvalidInput, UnknownId
from onlinehash.index import costs, multi_index
from tests.reference.search import Shelf


class Beside(RuleBasedStateMachine):
    """What a flat and a multi-index answer after any changes, and what a dictionary does."""

    @initialize(
        n=st.sampled_from((0, 1, 64, 100)),
        n_bits=st.sampled_from((3, 16, 64, 70)),
        n_models=st.sampled_from((1, 1, 2)),
        fusion=st.sampled_from(("min", "sum")),
        strings=st.booleans(),
        seed=st.integers(0, 2**32 - 1),
    )
    def begin(self, n, n_bits, n_models, fusion, strings, seed):
        self.rng = np.random.default_rng(seed)
        self.columns, self.n_models, self.strings, self.used = n_bits * n_models, n_models, strings, 0
        self.shelf = Shelf(n_models, fusion)
        bits, ids = self.draw_bits(n), self.draw_ids(n)
        self.shelf.items = dict(zip(ids, bits, strict=True))
        self.indexes = [make(Codes.from_bits(bits, n_models), ids, fusion=fusion) for make in (FlatIndex, MultiIndex)]

    def draw_bits(self, n):
        centres = np.random.default_rng(0).random((3, self.columns)) < 0.5
        return centres[self.rng.integers(0, 3, n)] ^ (self.rng.random((n, self.columns)) < 0.1)

    def draw_ids(self, n):
        self.used += n
        numbers = self.rng.permutation(np.arange(self.used - n, self.used))
        return [f"item {i}" for i in numbers] if self.strings else numbers.tolist()

    def some_ids(self, share):
        return [id for id in self.shelf.items if self.rng.random() < share]

    def codes(self, bits):
        return Codes.from_bits(bits.reshape(-1, self.columns), self.n_models)

    @rule(n=st.sampled_from((0, 1, 5, 70)))
    def add(self, n):
        bits, ids = self.draw_bits(n), self.draw_ids(n)
        for index in self.indexes:
            index.add(self.codes(bits), ids)
        self.shelf.items |= dict(zip(ids, bits, strict=True))

    @rule(share=st.sampled_from((0.02, 0.3, 1.0)))
    def update(self, share):
        ids = self.some_ids(share)
        self.rng.shuffle(ids)
        bits = self.draw_bits(len(ids))
        for index in self.indexes:
            index.update(ids, self.codes(bits))
        self.shelf.items |= dict(zip(ids, bits, strict=True))

    @rule(share=st.sampled_from((0.02, 0.3, 1.0)))
    def remove(self, share):
        ids = self.some_ids(share)
        for index in self.indexes:
            index.remove(ids)
        for id in ids:
            del self.shelf.items[id]

    @precondition(lambda self: self.shelf.items)
    @rule(n_columns=st.sampled_from((0, 1, 3)))
    def replace(self, n_columns):
        bits = np.array(list(self.shelf.items.values()))
        for column in self.rng.integers(0, self.columns, n_columns):
            bits[:, column] = self.rng.random(len(bits)) < 0.5
        for index in self.indexes:
            index.replace(self.codes(bits))
        self.shelf.items = dict(zip(self.shelf.items, bits, strict=True))

    @rule()
    def refuse(self):
        known = next(iter(self.shelf.items), None)
        bits = self.draw_bits(2)
        for index in self.indexes:
            with pytest.raises(UnknownId):
                index.remove(["nobody"] if self.strings else [-1])
            with pytest.raises(UnknownId):
                index.update(["nobody"] if self.strings else [-1], self.codes(bits[:1]))
            with pytest.raises(InvalidInput):
                index.add(self.codes(bits), [self.draw_ids(1)[0]])
            if known is not None:
                with pytest.raises(InvalidInput):
                    index.add(self.codes(bits), [self.draw_ids(1)[0], known])
                with pytest.raises(InvalidInput):
                    index.update([known], self.codes(bits))

    @invariant()
    def answers_agree(self):
        if not hasattr(self, "shelf"):
            return
        query = self.draw_bits(1)[0]
        ranked = self.shelf.ranked(query)
        for index in self.indexes:
            assert len(index) == len(self.shelf.items)
            assert index.ids.tolist() == list(self.shelf.items)
            np.testing.assert_array_equal(
                index.codes.bits(), np.array(list(self.shelf.items.values())).reshape(-1, self.columns)
            )
            hits = index.search(query, 7)
            assert list(zip(hits.distances.tolist(), hits.ids.tolist(), strict=True)) == ranked[:7]
            hits = index.within(query, self.columns // 4)
            inside = [pair for pair in ranked if pair[0] <= self.columns // 4]
            assert list(zip(hits.distances.tolist(), hits.ids.tolist(), strict=True)) == inside


@pytest.mark.parametrize("patient", [False, True])
def test_indexes_beside_a_dictionary(patient, monkeypatch):
    if patient:  # the tables are always asked, and wait longer before they are built anew
        monkeypatch.setattr(costs, "SCAN_ONE", 1e9)
        monkeypatch.setattr(multi_index, "FEW_BLOCKS", 4)
    run_state_machine_as_test(Beside, settings=settings(max_examples=8, stateful_step_count=15, deadline=None))
