"""The law of distances and of look-ups: exact where it can be, and true to what was measured on real codes."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import Codes, FlatIndex, MultiIndex
from onlinehash.planning import distances, probes, sizes
from onlinehash.planning.distances import UNIFORM
from tests.support import refused


def test_a_measured_distance_gives_the_data_that_have_it() -> None:
    for mean in (2.0, 6.0, 10.5):
        data = distances.with_distance(mean, 1e6, 10, 64)
        assert distances.mean_distance(1e6, 10, 64, data) == pytest.approx(mean, abs=0.05)
    assert "got 40" in str(refused(distances.with_distance, 40.0, 1e6, 10, 64))
    refused(distances.with_distance, -1.0, 1e6, 10, 64)


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
