"""Locality-sensitive hashing (LSH) by random projections.

Moses Charikar: *Similarity estimation techniques from rounding algorithms*. STOC 2002. The data-independent baseline,
and the W¹ that Online Hashing starts from: with the same seed, features and centring their first codes are equal.
"""

from __future__ import annotations

import numpy as np

from onlinehash.features import Transformer
from onlinehash.features.centring import MODES
from onlinehash.learners.base import Traits
from onlinehash.learners.linear import LinearLearner
from onlinehash.types import RandomState


class LSH(LinearLearner):
    """`h(x) = sgn(Wᵀx)` with W drawn once from N(0, I): two vectors' bits differ with probability angle / π.

    It learns nothing; points only feed the mean and the medians, and pairs count as points.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    features, centre, burn_in, random_state
        As for every learner: see `Learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import LSH
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = LSH(n_bits=8, random_state=0)
    >>> learner.fit(X).encode(X)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="nothing", unit="point")
    _centre_modes = MODES

    def __init__(
        self,
        n_bits: int = 64,
        *,
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.random_state = random_state

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(rng.standard_normal((1, n_inputs, self.n_bits)))
