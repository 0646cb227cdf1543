"""Codes cut into chunks, and in which order their values are looked up: what needs no database."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash.stores.backend import Found, Layout
from onlinehash.stores.postgres import buckets, multi_index
from onlinehash.stores.postgres.buckets import Buckets
from onlinehash.stores.postgres.chunks import Chunks
from onlinehash.stores.postgres.multi_index import Steps
from tests.stores.codes_of import away, drawn


@pytest.mark.parametrize("layout", [Layout(64, 1, "min"), Layout(20, 3, "min"), Layout(100, 1, "min")], ids=str)
def test_chunks_are_never_farther_apart_than_codes(layout: Layout) -> None:
    rng = np.random.default_rng(0)
    codes = drawn(layout, rng.random((50, layout.n_models * layout.n_bits)) < 0.5)
    chunks = Chunks(layout)
    values = chunks.values(codes)
    apart = np.bitwise_count(values[0] ^ values)
    of_groups = np.stack([apart[:, group].sum(axis=1) for group in chunks.of_group])
    everything = all(
        sum(chunks.widths[j] for j in group) >= used for group, used in zip(chunks.of_group, layout.groups, strict=True)
    )
    nearest = of_groups.min(axis=0)
    assert (nearest <= away(layout, codes, codes[0])).all()
    if everything:
        assert np.array_equal(nearest, away(layout, codes, codes[0]))


# ------------------------------------------------------------------ steps


class Table:
    """Codes in memory that are looked up as in a database; it counts what that takes."""

    def __init__(self, layout: Layout, codes: np.ndarray, width: int) -> None:
        self.layout, self.codes, self.chunks = layout, codes, Chunks(layout, width)
        self.values = self.chunks.values(codes)
        met = [buckets._met(self.values[:1000, j], width, len(codes)) for j, width in enumerate(self.chunks.widths)]
        self.buckets = Buckets(len(codes), met)
        self.cost, self.statements = 0.0, 0

    def steps(self, code: np.ndarray) -> Steps:
        return Steps(self.chunks, self.chunks.values(code[None])[0].tolist(), self.buckets)

    def found(self, code: np.ndarray, among: np.ndarray) -> list[Found]:
        distances = away(self.layout, self.codes[among], code)
        return sorted(Found(int(d), int(place), str(place)) for d, place in zip(distances, among, strict=True))

    def look_up(self, code: np.ndarray, k: int):
        def look_up(keys: list[list[int]]) -> list[Found]:
            met = np.zeros(len(self.codes), np.bool_)
            for j, of_chunk in enumerate(keys):
                met |= np.isin(self.values[:, j], of_chunk)
                self.cost += multi_index.LOOK_UP * len(of_chunk)
            self.cost += multi_index.FETCH * met.sum()
            self.statements += 1
            return self.found(code, np.flatnonzero(met))[:k]

        return look_up

    def nearest(self, code: np.ndarray, k: int) -> list[Found] | None:
        look_up = self.look_up(code, k)
        (found,) = multi_index.nearest_all([self.steps(code)], k, lambda asked: {0: look_up(asked[0])})
        return found


@pytest.mark.parametrize("layout", [Layout(64, 1, "min"), Layout(20, 3, "sum")], ids=str)
def test_steps_find_the_nearest_and_all_ties(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_UP", "FETCH", "STATEMENT", "FIRST", "FEW"):  # so that few items are enough
        monkeypatch.setattr(multi_index, name, getattr(multi_index, name) / 40)
    rng = np.random.default_rng(1)
    centres = rng.random((40, layout.n_models * layout.n_bits)) < 0.5
    bits = centres[rng.integers(0, 40, 5000)]
    codes = drawn(layout, bits ^ (rng.random(bits.shape) < 0.04))
    table = Table(layout, codes, 12)
    answered = 0
    for query in codes[:5]:
        for k in (1, 10, 50):
            expected = table.found(query, np.arange(len(codes)))[:k]
            found = table.nearest(query, k)
            assert found is None or found == expected
            answered += found is not None
        farther = expected[10].distance
        everybody = [one for one in table.found(query, np.arange(len(codes))) if one.distance <= farther]
        look_up = table.look_up(query, len(codes))
        found = multi_index.within(table.steps(query), farther, lambda keys, look_up=look_up: look_up(keys))
        assert found is None or [one for one in found if one.distance <= farther] == everybody
    assert answered > 0 or layout.n_bits == 1  # two values for all are nothing to look up
