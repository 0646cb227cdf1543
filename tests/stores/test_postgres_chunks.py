"""Codes cut into chunks, and in which order their values are looked up: what needs no database."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onlinehash.stores.backend import Found, Layout
from onlinehash.stores.postgres import buckets, multi_index
from onlinehash.stores.postgres.buckets import Buckets
from onlinehash.stores.postgres.chunks import MOST, WIDTH, Chunks, bit_texts
from onlinehash.stores.postgres.multi_index import Steps
from tests.stores.codes_of import LAYOUTS, away, drawn


@pytest.mark.parametrize("layout", [*LAYOUTS, Layout(1024, 1, "min"), Layout(16, 20, "min")], ids=str)
def test_chunks_hold_each_bit_once_and_no_padding(layout: Layout) -> None:
    chunks = Chunks(layout)
    assert chunks.columns == [f"chunk{number}" for number in range(len(chunks.columns))]
    assert [number for group in chunks.of_group for number in group] == list(range(len(chunks.columns)))
    assert all(1 <= width <= WIDTH for width in chunks.widths)
    used = layout.n_bits if layout.fusion == "min" else layout.n_bits * layout.n_models
    most = max(1, MOST // len(layout.groups))
    assert [sum(chunks.widths[j] for j in group) for group in chunks.of_group] == [min(used, most * WIDTH)] * len(
        layout.groups
    )
    ones = drawn(layout, np.ones((1, layout.n_models * layout.n_bits), np.bool_))
    assert chunks.values(ones)[0].tolist() == [2**width - 1 for width in chunks.widths]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
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


def test_keys_are_all_values_at_a_distance() -> None:
    chunks = Chunks(Layout(20, 1, "min"), width=10)
    for radius in range(11):
        keys = chunks.keys(0b1100110011, 10, radius)
        assert len(set(keys)) == len(keys) == math.comb(10, radius)
        assert all((key ^ 0b1100110011).bit_count() == radius and 0 <= key < 1024 for key in keys)


def test_bits_are_written_as_the_bytes_are() -> None:
    code = np.array([0b10000001, 0b00000111, 0b00000010, 0b00000001], np.uint8)
    assert bit_texts(Layout(10, 2, "min"), code) == ["1000000100000111", "0000001000000001"]
    assert bit_texts(Layout(10, 2, "sum"), code) == ["10000001000001110000001000000001"]


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


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout.n_bits < 100], ids=str)
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


def test_what_is_far_is_given_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi_index, "FEW", 0)
    monkeypatch.setattr(multi_index, "STATEMENT", 300)
    monkeypatch.setattr(multi_index, "FIRST", 300)
    layout = Layout(64, 1, "min")
    rng = np.random.default_rng(2)
    codes = drawn(layout, rng.random((10_000, 64)) < 0.5)
    table = Table(layout, codes, 12)
    for query in codes[:2]:
        table.cost = 0.0
        assert table.nearest(~query, 5000) is None
        assert table.cost < multi_index.SHARE * len(codes)
    assert table.statements > 0


def test_it_is_told_from_a_sample_how_far_the_nearest_are() -> None:
    layout = Layout(64, 1, "min")
    chunks = Chunks(layout)
    codes = drawn(layout, np.random.default_rng(3).random((800, 64)) < 0.5)
    met = [[100.0] * (width + 1) for width in chunks.widths]
    known = Buckets(1e5, met, buckets._within(chunks.values(codes), chunks, 1e5))
    pairs = [away(layout, codes, code) for code in codes]
    for k in (10, 1000, 50_000):
        counted = [sum((distances <= d).sum() - (d >= 0) for distances in pairs) for d in range(65)]
        shares = np.array(counted) / (800 * 799) * 1e5
        assert known.distance(k) == int(np.flatnonzero(shares >= k)[0])
    assert Steps(chunks, [0] * 3, known).is_hopeless(10)
    near = known._replace(within=np.full(65, 1e5))
    assert not Steps(chunks, [0] * 3, near).is_hopeless(10)
    assert not Steps(chunks, [0] * 3, Buckets(1e5, met)).is_hopeless(10)  # nothing is known


def test_few_items_are_not_looked_up() -> None:
    layout = Layout(64, 1, "min")
    chunks = Chunks(layout)
    nothing = Buckets(0, [[0.0] * (width + 1) for width in chunks.widths])
    for known in (nothing, nothing._replace(n=10_000)):
        assert Steps(chunks, [0] * len(chunks.widths), known).take(math.inf) is None


def test_uneven_chunks_are_taken_last() -> None:
    layout = Layout(36, 1, "min")
    chunks = Chunks(layout, 12)
    met = [[50_000.0] + [1.0] * 12, [10.0] * 13, [10.0] * 13]  # the first chunk is the same for half of all items
    steps = Steps(chunks, [1, 2, 3], Buckets(200_000, met))
    keys = steps.take(1)
    assert keys is not None
    assert keys == [[], [2], [3]]
    assert steps.covered == 1
