"""The two orders in which the scan reads memory give the same answers, on every machine."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import Codes, FlatIndex
from onlinehash.codes.lanes import GROUP
from onlinehash.codes.layout import LANES
from onlinehash.index import flat, scan
from tests.reference import search as reference

#: Bits of a model: a few, whole bytes, where distances no longer fit a byte, and two portions of planes.
WIDTHS = (9, 64, 248, 300)

#: Codes: less than a group, whole groups, groups and a rest, and several chunks.
GROUP_CODES = GROUP * LANES
SIZES = (1, LANES + 1, GROUP_CODES - 1, GROUP_CODES, GROUP_CODES + 1, 3 * GROUP_CODES + 2 * LANES + 5)


def in_both_orders(monkeypatch, search):
    answers = []
    for kernels in (scan.IN_ORDER, scan.IN_STREAMS):
        monkeypatch.setattr(scan, "kernels", kernels)
        answers.append(search())
    return answers


def assert_as_defined(monkeypatch, base, queries, n_models, fusion, removed, ks, radii, n_jobs=1):
    """Ids and distances, ties in the order of insertion, of all that is left after a removal."""
    index = FlatIndex(Codes.from_bits(base, n_models), fusion=fusion, n_jobs=n_jobs)
    index.remove(removed)
    left = np.setdiff1d(np.arange(len(base)), removed)
    expected = reference.distances(queries, base[left], n_models, fusion)
    order = np.argsort(expected, axis=1, kind="stable")
    ranked = np.take_along_axis(expected, order, axis=1)
    asked = Codes.from_bits(queries, n_models)
    for k in ks:
        for hits in in_both_orders(monkeypatch, lambda k=k: index.search(asked, k)):
            np.testing.assert_array_equal(hits.distances, ranked[:, :k])
            np.testing.assert_array_equal(hits.ids, left[order[:, :k]])
    for radius in radii:
        for found in in_both_orders(monkeypatch, lambda radius=radius: index.within(asked, radius)):
            for hits, distances, places in zip(found, ranked, order, strict=True):
                np.testing.assert_array_equal(hits.distances, distances[distances <= radius])
                np.testing.assert_array_equal(hits.ids, left[places[distances <= radius]])


@pytest.mark.parametrize("n_bits", WIDTHS)
def test_both_orders_at_every_width(monkeypatch, n_bits):
    """Few centres, so that there are many ties; a far one and the farthest, where a byte would wrap."""
    rng = np.random.default_rng(n_bits)
    for i, (n, n_models, fusion) in enumerate(
        (n, n_models, fusion) for n in SIZES for n_models, fusion in ((1, "min"), (2, "min"), (3, "sum"))
    ):
        centres = rng.random((3, n_models * n_bits)) < 0.5
        noise = (0.0, 0.03, 0.3)[i % 3]
        base = centres[rng.integers(0, 2, n)] ^ (rng.random((n, n_models * n_bits)) < noise)
        queries = np.vstack([centres, ~centres[:1], base[-1:]])
        base[rng.integers(0, n, 2)] = ~centres[2]
        removed = np.flatnonzero(rng.random(n) < 0.1)
        radii = (0, n_bits // 4, n_bits // 2, n_bits - 1, 4 * n_bits)
        assert_as_defined(monkeypatch, base, queries, n_models, fusion, removed, (1, 10, n), radii)


@pytest.mark.parametrize(("n_bits", "n_models", "n_jobs"), [(64, 1, 3), (48, 3, 1)])
def test_both_orders_over_many_chunks(monkeypatch, n_bits, n_models, n_jobs):
    """Once the nearest so far exclude most codes, groups are passed over; the near ones lie anywhere in a chunk."""
    monkeypatch.setattr(flat, "LEAST_WORK", 0)
    n = 5 * scan.CHUNK_BYTES // (n_bits * n_models // 8) + 3 * LANES + 7
    rng = np.random.default_rng(n_bits)
    base = rng.random((n, n_bits * n_models)) < 0.5
    queries = rng.random((3, n_bits * n_models)) < 0.5
    near = rng.integers(0, n, 200)
    base[near] = queries[near % 3] ^ (rng.random((200, n_bits * n_models)) < 0.1)
    removed = np.concatenate([near[:50], np.arange(2 * GROUP_CODES, 3 * GROUP_CODES)])
    radii = (n_bits // 8, n_bits // 4)
    assert_as_defined(monkeypatch, base, queries, n_models, "min", np.unique(removed), (1, 10, 100), radii, n_jobs)
