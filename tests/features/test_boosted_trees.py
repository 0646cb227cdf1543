"""Boosted trees as a feature map: scores, files, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

import onlinehash
from onlinehash import Encoder
from onlinehash.errors import FormatError
from onlinehash.features import BoostedTrees, make_map, same_map

N_BITS, N_TREES, DEPTH = 3, 4, 2


def trees(n_inputs: int = 5, inner: Any = None, seed: int = 0) -> BoostedTrees:
    rng = np.random.default_rng(seed)
    nodes = (N_BITS, N_TREES, 2**DEPTH - 1)
    return BoostedTrees.of(
        inner,
        rng.standard_normal(n_inputs),
        rng.integers(n_inputs, size=nodes, dtype=np.int32),
        rng.standard_normal(nodes),
        rng.standard_normal((N_BITS, N_TREES, 2**DEPTH)),
    )


def slow_scores(trees: BoostedTrees, X: np.ndarray) -> np.ndarray:
    scores = np.zeros((len(X), N_BITS))
    for n, x in enumerate((X - trees.mean).astype(X.dtype)):
        for k in range(N_BITS):
            for t in range(N_TREES):
                node = 0
                while node < 2**DEPTH - 1:
                    right = x[trees.feature[k, t, node]] > trees.threshold[k, t, node]
                    node = 2 * node + (2 if right else 1)
                scores[n, k] += trees.value[k, t, node - (2**DEPTH - 1)]
    return scores.astype(X.dtype)


def encoder_of(trees: BoostedTrees, n_features: int) -> Encoder:
    return Encoder(np.eye(N_BITS), np.zeros(N_BITS), trees, n_features, 1, "min", 7, "FastSupervisedHashing")


def test_scores_are_sums_of_leaves_in_any_company() -> None:
    X, forest = np.random.default_rng(1).standard_normal((50, 5)), trees()
    scores = forest.map_rows(X)
    np.testing.assert_array_equal(scores, slow_scores(forest, X))
    np.testing.assert_array_equal(scores[17:18], forest.map_rows(X[17:18]))


@pytest.mark.parametrize("features", [None, StandardScaler()])
def test_an_encoder_with_trees_is_saved_and_loaded(features: Any, tmp_path: Path) -> None:
    X = np.random.default_rng(1).standard_normal((400, 5))
    inner = make_map(features)
    if inner is not None:
        inner.partial_fit(X)
    encoder = encoder_of(trees(5 if inner is None else inner.map_rows(X[:1]).shape[1], inner), 5)
    onlinehash.save(encoder, tmp_path / "encoder")
    loaded = onlinehash.load(tmp_path / "encoder")
    assert loaded.encode(X) == encoder.encode(X)
    assert loaded.version == 7
    assert len(loaded.changed_bits(encoder)) == 0


def test_other_trees_are_another_map() -> None:
    assert same_map(trees(), trees())
    assert not same_map(trees(), trees(seed=1))
    assert len(encoder_of(trees(), 5).changed_bits(encoder_of(trees(seed=1), 5))) == N_BITS


def test_arrays_that_the_kernel_must_not_see() -> None:
    for name, value in (
        ("feature", np.full((N_BITS, N_TREES, 3), 5, np.int32)),
        ("feature", np.full((N_BITS, N_TREES, 3), -1, np.int32)),
        ("feature", np.zeros((N_BITS, N_TREES, 2), np.int32)),
        ("threshold", np.full((N_BITS, N_TREES, 3), np.nan)),
        ("value", np.zeros((N_BITS, 4))),
        ("value", None),
        ("mean", np.zeros((5, 5))),
        ("inner", {}),
    ):
        with pytest.raises(FormatError):
            BoostedTrees().set_state(trees().get_state() | {name: value})
