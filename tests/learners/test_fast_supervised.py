"""Fast supervised hashing: cuts against brute force, trees against their definition, and the index that follows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from onlinehash import LiveIndex
from onlinehash.learners import block_cuts
from onlinehash.learners import fast_supervised_kernels as kernels
from onlinehash.learners.fast_supervised import FastSupervisedHashing
from tests.reference.fast_supervised import best_block, best_gain, gain, kept
from tests.support import clusters

SMALL: dict[str, Any] = {"n_bits": 12, "n_trees": 8, "random_state": 0}


def blocks(seed: int, sizes: tuple[int, ...] = (5, 7, 6)) -> tuple[np.ndarray, np.ndarray]:
    """Random symmetric weights, negative inside blocks and of any sign between them; where blocks start."""
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    number = np.repeat(np.arange(len(sizes)), sizes)
    A = rng.integers(-9, 10, (len(number), len(number))) * (rng.random((len(number), len(number))) < 0.6)
    A = np.triu(np.where(number[:, None] == number, -np.abs(A) // 2, A), 1)
    return A + A.T, starts


def noisy(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X, y = clusters(n, seed, n_classes=5, d=20)
    return X + np.random.default_rng(seed + 7).standard_normal(X.shape), y


# ------------------------------------------------------------------ cuts


@pytest.mark.parametrize("most", [2**31 - 1, 25])  # the latter divides the capacities
@pytest.mark.parametrize("seed", range(2))
def test_a_cut_is_the_best_of_all_bits(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_cuts, "MOST_CAPACITY", most)
    A, starts = blocks(seed)
    z = np.random.default_rng(seed).choice([-1, 1], len(A))
    for start, stop in pairwise(starts):
        one = np.array([start, stop])
        best, before = best_block(A, z, np.arange(start, stop)), block_cuts.energy(csr_array(A), z)
        found = block_cuts.lower(csr_array(A), one, z, 1)
        assert found[0] == before
        assert found[1] == block_cuts.energy(csr_array(A), z) <= before
        assert found[1] == best or most == 25
        assert set(z) <= {-1, 1}


# ------------------------------------------------------------------ trees


def test_trees_are_greedy_fits_to_weighted_bits() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 6))
    z = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(150) > 0, 1.0, -1.0)
    offered = np.stack([np.sort(rng.permutation(6)[:4]) for _ in range(5)])
    edges = kernels.bin_edges(X)
    bins = kernels.bins_of(X, edges)
    np.testing.assert_array_equal(bins, (X[:, :, None] > edges).sum(axis=2))
    feature, cut, value = np.zeros((5, 7), np.int32), np.zeros((5, 7), np.uint8), np.zeros((5, 8))
    scores = np.empty(150)
    kernels.boost(bins, z, offered, 3, feature, cut, value, scores)
    F = np.zeros(150)
    for t in range(5):
        w = np.exp(-z * F)
        rows, every = {0: np.flatnonzero(kept(w))}, {0: np.arange(150)}
        for node in range(7):
            f, edge = feature[t, node], np.append(edges[feature[t, node]], np.inf)[cut[t, node]]
            here = rows[node]
            assert f in offered[t]
            best = best_gain(X[here], edges, offered[t], w[here], z[here])
            assert gain(w[here], z[here], X[here, f] <= edge) >= best * (1 - 1e-9)
            for of in (rows, every):
                left = X[of[node], f] <= edge
                of[2 * node + 1], of[2 * node + 2] = of[node][left], of[node][~left]
        for leaf in range(8):
            here = rows[7 + leaf]
            mean = w[here] @ z[here] / w[here].sum() if len(here) else 0.0
            assert value[t, leaf] == pytest.approx(mean, abs=1e-12)
            F[every[7 + leaf]] += value[t, leaf]
    np.testing.assert_allclose(scores, F, rtol=0, atol=1e-12)
    assert ((scores >= 0) == (z > 0)).mean() > 0.8


# ------------------------------------------------------------------ the learner


def test_it_learns_what_projections_cannot() -> None:
    """Classes that are the parity of two signs."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 4))
    y = (X[:, 0] > 0) ^ (X[:, 1] > 0)
    learner = FastSupervisedHashing(8, n_trees=20, random_state=0).fit(X[:1000], y[:1000])
    assert learner.score(X[1000:], y[1000:]) > 0.9


def test_few_classes_and_rows() -> None:
    X, y = noisy(30)
    for rows, labels in ((X, np.zeros(30)), (X, np.arange(30) == 4), (X[:1], y[:1])):
        assert FastSupervisedHashing(**SMALL).fit(rows, labels).transform(rows).shape == (len(rows), 12)


def test_a_live_index_follows_trees() -> None:
    """Margins are measured on the trees' scores; other trees are other functions, whatever the weights."""
    X, y = noisy(300)
    learner = FastSupervisedHashing(**SMALL).fit(X[:150], y[:150])
    index = LiveIndex(learner)
    index.add(np.arange(200), X[:200])
    assert index.codes == learner.encode(X[:200])
    first = learner.snapshot()
    learner.fit(X, y)
    assert learner.encode(X) != first.encode(X)
    index.refresh()
    assert index.codes == learner.encode(X[:200])
    index.add(np.arange(200, 300), X[200:])
    index.update([5], X[6:7])
    vectors = np.concatenate([X[:5], X[6:7], X[6:]])
    assert index.codes == learner.encode(vectors)
    ids, distances = index.search(X[7], k=5)
    expected = (learner.transform(vectors) != learner.transform(X[7:8])).sum(axis=1)
    np.testing.assert_array_equal(distances, np.sort(expected)[:5])
    assert expected[ids].tolist() == list(distances)
