"""`bulk.ground_truth` on a card, beside the CPU's."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import bulk
from onlinehash.bulk import truth
from onlinehash.errors import MissingExtra, NotReady
from onlinehash.gpu import neighbours
from tests.bulk.data import QUERIES, X, written
from tests.gpu.test_card_codes import has_card, needs_card


@pytest.mark.parametrize("on", ["twins", pytest.param("card", marks=needs_card)])
@pytest.mark.parametrize("card_bytes", [12_000, 2**28])
def test_the_same_neighbours_and_distances(on, card_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr(truth, "CARD_BYTES", card_bytes)
    if on == "twins":
        monkeypatch.setattr(neighbours, "Sieve", neighbours.SieveTwin)
        monkeypatch.setattr(truth, "load_cupy", lambda purpose: None)
    queries = np.concatenate([QUERIES, X[:3]])  # some are rows of the source themselves
    source = bulk.open_source(written("parquet", tmp_path), partition_rows=430)
    bases = []
    searched = neighbours.nearest_first
    monkeypatch.setattr(neighbours, "nearest_first", lambda *given: bases.append(len(given[1])) or searched(*given))
    for k in (1, 7, 250):
        expected = bulk.ground_truth(queries, source, k, on="local://1")
        found = bulk.ground_truth(queries, source, k, folder=tmp_path / f"near {k}", device="cuda")
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_array_equal(found.squared_distances, expected.squared_distances)
        resumed = bulk.ground_truth(queries, source, k, on="local://1", folder=tmp_path / f"near {k}")
        np.testing.assert_array_equal(resumed.rows, expected.rows)
    n_blocks = len(bases) // 3
    joined = bulk.ground_truth(queries, source, 7, device="cuda")
    np.testing.assert_array_equal(joined.rows, bulk.ground_truth(queries, source, 7, on="local://1").rows)
    assert len(bases) - 3 * n_blocks == (1 if card_bytes == 2**28 else n_blocks)  # partitions are joined too


@pytest.mark.skipif(has_card(), reason="there is a card")
def test_without_a_card_there_is_one_sentence(tmp_path):
    with pytest.raises((MissingExtra, NotReady), match=r"^ground_truth on a card needs [^\n]+$"):
        bulk.ground_truth(QUERIES, written("npy", tmp_path), 3, device="cuda")
