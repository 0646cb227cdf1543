"""Floating-point operations that learning one pair costs: beside a time, they tell a slow method from slow code.

Counted is what the method asks for, by its leading terms: products and the additions that belong to them. Comparisons,
sorting, centring, and what our code repeats to be kind to the caches are not. A pair is two points for every method.
What happens with some pairs only is weighed with how often it did, as the learner itself has counted.

In the formulas d is the length of a vector, D the number of inputs after the feature map, r the bits of a code, T the
models; u is the share of pairs that moved something, b the hash functions moved and l the loss, both per pair; c points
or pairs are a chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onlinehash.features import RbfAnchors
from onlinehash.learners import blended_pairs, damping, smooth_pairs
from onlinehash.learners.base import Learner

#: All eigenvalues and vectors of a symmetric n x n matrix take 9 n³, all singular ones of a square matrix 22 n³ (Golub
#: and Van Loan, Matrix Computations); an orthonormal basis of k columns of length n takes 4 n k².
EIGEN, SINGULAR, ORTHONORMAL = 9, 22, 4


@dataclass(frozen=True)
class Shapes:
    """What the formulas are made of, and the learner for what only one of them asks."""

    D: int
    r: int
    T: int
    u: float
    b: float
    loss: float
    learner: Learner

    @property
    def c(self) -> int:
        """Points or pairs of a chunk."""
        return int(self.learner.chunk_size)


def flops_per_pair(learner: Learner) -> float | None:
    """Operations per pair, from what was learned so far; None for batch methods, other packages' and new learners."""
    formula = FORMULAS.get(type(learner).__name__)
    if formula is None or not type(learner).__module__.startswith("onlinehash."):
        return None
    takes_pairs = learner.traits.learns_from == "pairs"
    n = getattr(learner, "n_pairs_seen_", 0) if takes_pairs else getattr(learner, "n_points_seen_", 0) / 2
    if not n:
        return None
    projection = learner.projection_
    T = projection.shape[0] if projection.ndim == 3 else 1
    D, r = projection.shape[-2:]
    shapes = Shapes(
        D, r, T, learner.n_updates_ / n, learner.n_bits_moved_ / n, float(learner.cumulative_loss_) / n, learner
    )
    mapped = _feature_map(learner, D)
    return None if mapped is None else float(mapped + formula(shapes))


def state_bytes(learner: Learner) -> int:
    """Bytes of the arrays in a learner's state."""
    return _bytes_in(learner.get_state())


def _bytes_in(value: object) -> int:
    if isinstance(value, dict):
        return sum(_bytes_in(part) for part in value.values())
    if isinstance(value, list | tuple):
        return sum(_bytes_in(part) for part in value)
    return value.nbytes if isinstance(value, np.ndarray) else 0


def _feature_map(learner: Learner, D: int) -> float | None:
    """2 points x 2dD for the distances to D anchors; not known for maps of others."""
    if learner.features is None:
        return 0.0
    return 4.0 * learner.n_features_in_ * D if isinstance(learner.features, RbfAnchors) else None


# ------------------------------------------------------------------ one pair at a time


def _online_hashing(s: Shapes) -> float:
    """4DrT projections; with loss, both lengths (4D) and 2D for each changed column."""
    return 4 * s.D * s.r * s.T + s.u * 4 * s.D + 2 * s.D * s.b


def _minimal_loss(s: Shapes) -> float:
    """6D unit length, 4Dr projections; for each changed row 2D to move it and 3D for its unit length."""
    return 6 * s.D + 4 * s.D * s.r + 5 * s.D * s.b


def _adaptive(s: Shapes) -> float:
    """6D unit length, 4Dr projections; with loss WᵀW and W(WᵀW - I), 2r²D each; l bits move by both points, 4D each."""
    to_orthogonality = 4 * s.r**2 * s.D if s.learner.orthogonality > 0 else 0
    return 6 * s.D + 4 * s.D * s.r + s.u * to_orthogonality + 4 * s.D * s.loss + 3 * s.D * s.b


def _lego(s: Shapes) -> float:
    """2D² for Az, 4D for the lengths of z; with loss 2D² for A, 2Dr for zᵀW, and 2D for each changed column."""
    return 2 * s.D**2 + 4 * s.D + s.u * (2 * s.D**2 + 2 * s.D * s.r) + 2 * s.D * s.b


# ------------------------------------------------------------------ one labelled point at a time


def _hadamard(s: Shapes) -> float:
    """Two points: 3D unit length and 2Dr projections each; 2D for each changed column. So do HCOH and OECC."""
    return 6 * s.D + 4 * s.D * s.r + 2 * s.D * s.b


def _hadamard_matching(s: Shapes) -> float:
    """The same, but 4D for each mistake (the loss counts them): the perceptron and the sum of all."""
    return 6 * s.D + 4 * s.D * s.r + 4 * s.D * s.loss


def _mutual_information(s: Shapes) -> float:
    """The point and its n companions are projected, 2Dr each; 2r for each of their distances, 2r for its slope."""
    n = min(int(s.learner.sample_size), int(s.learner.n_points_seen_))
    return 6 * s.D + 4 * s.D * s.r * (1 + n) + 8 * n * s.r + 2 * s.D * s.b


def _projected_codes(s: Shapes) -> float:
    """Two points: unit length 3D, hash functions and Q 2Dr each, P 2r²; both change with nearly every point."""
    return 6 * s.D + 8 * s.D * s.r + 4 * s.D * s.r + 8 * s.r**2


def _similarity_learning(s: Shapes) -> float:
    """Two points are hashed, 2Dr each; Mb 2r², M 4r² and its mean 3r²."""
    return 4 * s.D * s.r + 9 * s.r**2


# ------------------------------------------------------------------ chunks


def _smooth_pairs(s: Shapes) -> float:
    """Four products of points with W or its gradient, 4Dr each, and what `_wide_rows` adds; second moments 2D², of some
    chunks. The step is one for a chunk, and directions are found so seldom that they do not count."""
    return 6 * s.D + 16 * s.D * s.r + _wide_rows(s) + 2 * s.D**2 / smooth_pairs.SOME


def _blended_pairs(s: Shapes) -> float:
    """Three products of points with W or its gradient, 4Dr each, and two more of some chunks; then as smooth pairs. The
    beginning happens so seldom that it does not count."""
    products = 4 * s.D * s.r * (3 + 2 / blended_pairs.LOOKED_AT) + _wide_rows(s)
    return 6 * s.D + products + 2 * s.D**2 / blended_pairs.BlendedPairHashing._some


def _wide_rows(s: Shapes) -> float:
    """Points are multiplied with k directions, 4Dk, and what comes of it with r columns, twice 4kr."""
    k = min(damping.N_DIRECTIONS, s.D)
    return 4 * s.D * k + 8 * k * s.r


def _mini_batch(s: Shapes) -> float:
    """8Dr projections on arrival and in the chunk, 8cD products with its points, and l flips of 4c and 2D.

    One sweep of the ascent is counted, and every pair as if it had a loss.
    """
    c = s.c
    return 8 * s.D * s.r + 8 * c * s.D + (4 * c + 2 * s.D) * s.loss


def _balanced_similarity(s: Shapes) -> float:
    """A chunk: XW 2cDr, its bits and BᵀB 4cr², and a ridge regression with the smaller of two matrices."""
    c, D, r = s.c, s.D, s.r
    n, other = (c, D) if c < D else (D, c)
    regression = 2 * n * n * other + n**3 / 3 + 2 * n * n * r + 2 * c * D * r
    return 2 / c * (2 * c * D * r + 4 * c * r * r + regression)


def _sketching(s: Shapes) -> float:
    """A chunk fills half of the sketch 2c/l times; then its r directions, turned and rotated."""
    c, half = s.c, _half_of_sketch(s, min(s.r, s.D))
    return 2 / c * (2 * c * s.D + c / half * _shrinking(2 * half, half, s.D) + _turned_directions(s, half))


def _fast_sketching(s: Shapes) -> float:
    """The same, but a chunk is mixed by log2(c) additions for each number, and fills half of the sketch once."""
    c, half = s.c, _half_of_sketch(s, min(s.r, s.D))
    if c <= half:
        return _sketching(s)
    levels = (c - 1).bit_length()
    mixing = (1 << levels) * levels * s.D
    return 2 / c * (2 * c * s.D + mixing + _shrinking(2 * half, half, s.D) + _turned_directions(s, half))


def _spectral(s: Shapes) -> float:
    """As sketching, but its directions are only compared with those of before, 2Dr²."""
    c, half = s.c, _half_of_sketch(s, s.r)
    directions = _directions(s, half) + 2 * s.D * s.r**2
    return 2 / c * (c / half * _shrinking(2 * half, half, s.D) + directions)


def _half_of_sketch(s: Shapes, least: int) -> int:
    return min(max(-(-int(s.learner.sketch_size) // 2), least), s.D)


def _shrinking(n: int, kept: int, D: int) -> float:
    """The leading right singular vectors of n rows, from the smaller Gram matrix."""
    if n > D:
        return 2 * n * D**2 + EIGEN * D**3
    return 2 * n**2 * D + EIGEN * n**3 + 2 * kept * n * D


def _directions(s: Shapes, half: int) -> float:
    """Of a sketch that is, on average, three quarters full."""
    k = min(s.r, s.D)
    return _shrinking(3 * half // 2, k, s.D) + ORTHONORMAL * s.D * k**2


def _turned_directions(s: Shapes, half: int) -> float:
    """V; the old V out of W, VᵀV_old and V times the turn 2Dk² each, W = VR 2Dkr, k = min(r, D)."""
    k = min(s.r, s.D)
    return _directions(s, half) + 4 * s.D * k * s.r + 4 * s.D * k**2 + (SINGULAR + 2) * k**3


def _nothing(s: Shapes) -> float:
    """Learns nothing, so its feature map is all."""
    return 0.0


FORMULAS: dict[str, Callable[[Shapes], float]] = {
    "OnlineHashing": _online_hashing,
    "MultiModelOnlineHashing": _online_hashing,
    "MinimalLossHashing": _minimal_loss,
    "AdaptiveHashing": _adaptive,
    "LegoLSH": _lego,
    "HadamardHashing": _hadamard,
    "HadamardMatchingHashing": _hadamard_matching,
    "OnlineSupervisedHashing": _hadamard,
    "MutualInformationHashing": _mutual_information,
    "BlendedPairHashing": _blended_pairs,
    "SmoothPairHashing": _smooth_pairs,
    "MiniBatchOnlineHashing": _mini_batch,
    "BalancedSimilarityHashing": _balanced_similarity,
    "ProjectedCodesHashing": _projected_codes,
    "SimilarityLearningHashing": _similarity_learning,
    "OnlineSketchingHashing": _sketching,
    "FastSketchingHashing": _fast_sketching,
    "StreamSpectralHashing": _spectral,
    "LSH": _nothing,
    "KernelLSH": _nothing,
}
