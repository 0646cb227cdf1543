"""How much does the Hamming distance of a pair tell about its similarity? In bits, with no threshold to choose."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.evaluate.pairs import pair_distances
from onlinehash.evaluate.ranking import encoder_of
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder


def mutual_information(model: Learner | Encoder, A: ArrayLike, B: ArrayLike, similar: ArrayLike) -> float:
    """Measure how much the distance of a pair tells about whether it is similar, in bits.

    I(D; S) = H(D) - Σ P(s) H(D | s), with D the fused distance of a pair and S whether it is similar: from 0, where
    similar and dissimilar pairs lie at the same distances, to H(S), which is 1 with as many of each, where no distance
    occurs in both (MIHash, Cakir et al. 2017; one bin a distance). Few pairs make it too large by about
    (distances met - 1) / (1.4 pairs), so compare models on the same pairs.

    Parameters
    ----------
    model : Learner or Encoder
    A, B : array-like of shape (n, n_features)
    similar : array-like of n bools, of 1 and -1, or of 1 and 0

    Returns
    -------
    float

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
    >>> 0 <= evaluate.mutual_information(learner, X[:150], X[150:], y[:150] == y[150:]) <= 1
    True
    """
    distances = pair_distances(model, A, B)
    s = checks.similarities(similar, len(distances)) > 0
    if s.all() or not s.any():
        raise InvalidInput(expected="both similar and dissimilar pairs", got=f"{len(s)} of one kind")
    fused = distances.min(axis=1) if encoder_of(model).fusion == "min" else distances.sum(axis=1)
    unexplained = s.mean() * _entropy(fused[s]) + (~s).mean() * _entropy(fused[~s])
    return max(0.0, float(_entropy(fused) - unexplained))  # rounding may take it below


def _entropy(values: np.ndarray) -> float:
    counts = np.bincount(values)
    p = counts[counts > 0] / len(values)
    return float(-(p * np.log2(p)).sum())
