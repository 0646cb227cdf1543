"""Are similar held-out pairs closer than dissimilar ones? Ask before and after learning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.evaluate.ranking import encoder_of
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.online_hashing import dissimilar_distance

#: Pairs encoded at once.
BLOCK_PAIRS = 8192


@dataclass(frozen=True)
class PairReport:
    """What codes make of some pairs.

    auc: the probability that a similar pair is closer than a dissimilar one, a tie counting half.
    similar_distance, dissimilar_distance: mean Hamming distance of each kind, as a share of the bits.
    loss: mean similarity loss R, in bits.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import LSH, evaluate
    >>> A = np.random.default_rng(0).standard_normal((100, 8))
    >>> B = np.where(np.arange(100)[:, None] < 50, A, -A)  # the first fifty are equal, the others opposite
    >>> report = evaluate.pairs(LSH(n_bits=16, centre="none", random_state=0).fit(A), A, B, np.arange(100) < 50)
    >>> report.auc, report.similar_distance, report.dissimilar_distance, report.n_similar
    (1.0, 0.0, 1.0, 50)
    """

    auc: float
    similar_distance: float
    dissimilar_distance: float
    loss: float
    n_similar: int
    n_dissimilar: int


def pairs(
    model: Learner | Encoder,
    A: ArrayLike,
    B: ArrayLike,
    similar: ArrayLike,
    similar_radius: int | None = None,
    dissimilar_ratio: float | None = None,
) -> PairReport:
    """Report what codes make of pairs: row t of A with row t of B.

    Parameters
    ----------
    model : Learner or Encoder
    A, B : array-like of shape (n, n_features)
    similar : array-like of n bools, of 1 and -1, or of 1 and 0
        Which of the pairs ought to be close.
    similar_radius, dissimilar_ratio : optional
        α and β of the loss; by default the model's own, or else 0 and 0.4.

    Returns
    -------
    PairReport

    Raises
    ------
    InvalidInput
        If all pairs are similar, or none is.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, evaluate
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=300)
    >>> X = np.eye(3)[y] + 0.1 * rng.standard_normal((300, 3))
    >>> learner = OnlineHashing(n_bits=16, random_state=0).fit(X, y)
    >>> report = evaluate.pairs(learner, X[:150], X[150:], y[:150] == y[150:])
    >>> report.similar_distance < report.dissimilar_distance
    True
    """
    distances = pair_distances(model, A, B)
    s = checks.similarities(similar, len(distances)) > 0
    if s.all() or not s.any():
        raise InvalidInput(expected="both similar and dissimilar pairs", got=f"{len(s)} of one kind")
    encoder = encoder_of(model)
    losses = _losses(distances, s, encoder.n_bits, *_margins(model, similar_radius, dissimilar_ratio))
    fused = distances.min(axis=1) if encoder.fusion == "min" else distances.sum(axis=1)
    width = encoder.n_bits if encoder.fusion == "min" else encoder.n_columns
    return PairReport(
        auc=_share_closer(fused[s], fused[~s]),
        similar_distance=float(fused[s].mean() / width),
        dissimilar_distance=float(fused[~s].mean() / width),
        loss=float(losses.mean()),
        n_similar=int(s.sum()),
        n_dissimilar=int((~s).sum()),
    )


def similarity_losses(
    model: Learner | Encoder,
    A: ArrayLike,
    B: ArrayLike,
    similar: ArrayLike,
    similar_radius: int | None = None,
    dissimilar_ratio: float | None = None,
) -> np.ndarray:
    """Return the similarity loss R of every pair, without learning.

    Several models are counted as MMOH does: the least loss for a similar pair, the sum for a dissimilar one.

    Parameters
    ----------
    model, A, B, similar, similar_radius, dissimilar_ratio
        As in `pairs`.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, evaluate
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=300)
    >>> X = np.eye(3)[y] + 0.1 * rng.standard_normal((300, 3))
    >>> learner = OnlineHashing(n_bits=16, random_state=0).fit(X, y)
    >>> evaluate.similarity_losses(learner, X[:150], X[150:], y[:150] == y[150:]).shape
    (150,)
    """
    distances = pair_distances(model, A, B)
    s = checks.similarities(similar, len(distances)) > 0
    return _losses(distances, s, encoder_of(model).n_bits, *_margins(model, similar_radius, dissimilar_ratio))


def pair_distances(model: Learner | Encoder, A: ArrayLike, B: ArrayLike) -> np.ndarray:
    """Hamming distance of each pair under each model, `(n, n_models)`."""
    encoder = encoder_of(model)
    A, B = checks.vectors(A, "A", encoder.weights.dtype), checks.vectors(B, "B", encoder.weights.dtype)
    checks.same_length("B", len(B), len(A), "A")
    for X, name in ((A, "A"), (B, "B")):
        checks.width(X, encoder.n_features, f"this encoder of {encoder.method}", name)
    blocks = []
    for start in range(0, len(A), BLOCK_PAIRS):
        rows = slice(start, start + BLOCK_PAIRS)
        differ = encoder.encode_queries(A[rows]).bits() != encoder.bits_of(B[rows])
        blocks.append(differ.reshape(-1, encoder.n_models, encoder.n_bits).sum(axis=2))
    return np.concatenate(blocks)


def _margins(model: Learner | Encoder, similar_radius: int | None, dissimilar_ratio: float | None) -> tuple[int, float]:
    """α and β: as asked for, else the model's own, else the paper's."""
    alpha = getattr(model, "similar_radius", 0) if similar_radius is None else similar_radius
    beta = getattr(model, "dissimilar_ratio", 0.4) if dissimilar_ratio is None else dissimilar_ratio
    checks.parameters(
        "the similarity loss",
        {"similar_radius": alpha, "dissimilar_ratio": beta},
        {"similar_radius": checks.integer(0), "dissimilar_ratio": checks.real(0, 1, above=True)},
    )
    return alpha, beta


def _losses(distances: np.ndarray, similar: np.ndarray, n_bits: int, alpha: int, beta: float) -> np.ndarray:
    b = dissimilar_distance(beta, n_bits)
    too_far, too_near = np.maximum(0, distances - alpha), np.maximum(0, b - distances)
    losses: np.ndarray = np.where(similar, too_far.min(axis=1), too_near.sum(axis=1))
    return losses.astype(np.float64)


def _share_closer(near: np.ndarray, far: np.ndarray) -> float:
    """P(near < far) + P(near = far) / 2, from two histograms."""
    length = max(near.max(), far.max()) + 1
    n, f = np.bincount(near, minlength=length), np.bincount(far, minlength=length)
    farther = f[::-1].cumsum()[::-1] - f
    return float((n * (farther + f / 2)).sum() / (len(near) * len(far)))
