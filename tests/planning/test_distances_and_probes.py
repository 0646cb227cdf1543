"""The law of distances and of look-ups: exact where it can be, and true to what was measured on real codes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onlinehash import Codes, FlatIndex, MultiIndex
from onlinehash.planning import distances, probes, sizes
from onlinehash.planning.distances import CLUSTERED, UNIFORM, Data
from tests.support import refused


def test_as_many_codes_as_asked_for_are_within_the_distance() -> None:
    flip, bits, n, k = 0.5, 64, 10**9, 10
    within = [n * sum(math.comb(bits, s) for s in range(d + 1)) / 2**bits for d in range(bits)]
    first = next(d for d, expected in enumerate(within) if expected >= k)
    assert first - 0.5 <= distances.distance(n, k, bits, flip) <= first + 0.5


@pytest.mark.parametrize(("n", "k", "measured"), [(1e6, 10, 15.2), (1e7, 10, 13.5), (8e7, 10, 12.0), (8e7, 100, 14.0)])
def test_uniform_codes_are_as_far_as_they_were_found(n: float, k: int, measured: float) -> None:
    assert distances.mean_distance(n, k, 64, UNIFORM) == pytest.approx(measured, abs=0.4)


@pytest.mark.parametrize(("n", "nearest", "farthest"), [(2e6, 8.6, 11.5), (8e6, 7.6, 10.5), (3.2e7, 6.8, 9.6)])
def test_clustered_codes_are_as_far_as_those_of_five_sets_were_found(n: float, nearest: float, farthest: float) -> None:
    assert nearest < distances.mean_distance(n, 10, 64, CLUSTERED) < farthest


def test_the_nearest_come_closer_with_more_codes_and_move_away_with_more_bits() -> None:
    by_items = [distances.mean_distance(10.0**e, 10, 64, CLUSTERED) for e in range(4, 14)]
    assert by_items == sorted(by_items, reverse=True)
    assert by_items[0] > by_items[-1] >= 0
    by_bits = [distances.mean_distance(1e8, 10, bits, CLUSTERED) for bits in (16, 32, 64, 128, 256, 1024)]
    assert by_bits == sorted(by_bits)
    assert distances.distance(5, 10, 64, 0.5) == 64  # there are not so many


def test_a_measured_distance_gives_the_data_that_have_it() -> None:
    for mean in (2.0, 6.0, 10.5):
        data = distances.with_distance(mean, 1e6, 10, 64)
        assert distances.mean_distance(1e6, 10, 64, data) == pytest.approx(mean, abs=0.05)
    assert "got 40" in str(refused(distances.with_distance, 40.0, 1e6, 10, 64))
    refused(distances.with_distance, -1.0, 1e6, 10, 64)
    refused(distances.with_distance, math.nan, 1e6, 10, 64)


def test_look_ups_by_hand() -> None:
    data = Data(0.5, 0.0, 1.0)
    steps = distances.distance(1e6, 10, 32, 0.5) + 1  # 4.x of them, in two tables of 16 bits
    assert 4 < steps < 6
    # Of each table the distances 0 and 1 (1 + 16 buckets), then a part of 120 buckets at the distance 2.
    look_ups = 2 * 17 + (steps - 4) * 120
    found = probes.probes(1e6, 10, 32, [16, 16], data)
    assert found.look_ups == pytest.approx(look_ups)
    assert found.candidates == pytest.approx(look_ups * 1e6 / 2**16)


def test_look_ups_of_uniform_codes_are_those_of_a_real_index() -> None:
    n, rng = 300_000, np.random.default_rng(0)
    codes = Codes.from_faiss(rng.integers(0, 256, (n, 4), np.uint8), 32)
    queries = Codes.from_faiss(rng.integers(0, 256, (200, 4), np.uint8), 32)
    index = MultiIndex(codes)
    found = index.search(queries, 1)
    assert index.work.scanned.mean() < 0.05
    assert np.array_equal(found.ids, FlatIndex(codes).search(queries, 1).ids)
    expected = probes.probes(n, 1, 32, sizes.widths(n, 32), UNIFORM)
    assert expected.look_ups == pytest.approx(index.work.look_ups.mean(), rel=0.4)
    assert expected.candidates == pytest.approx(index.work.candidates.mean(), rel=0.4)
    assert distances.mean_distance(n, 1, 32, UNIFORM) == pytest.approx(found.distances.mean(), abs=0.4)
