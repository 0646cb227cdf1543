"""Multi-Model Online Hashing (MMOH).

Huang, Yang, Zheng: *Online Hashing*, section "Multi-Model Online Hashing"; the step is the one of `online_hashing`.

Readings taken where the paper leaves a choice:
- Ties for the least loss among the models go to the first.
- How the T distances become one is not said ("multi-index technique"); `min` follows its logic that one agreeing model
  is enough for a similar pair, `sum` is the Hamming distance of the T codes written one after the other.
- Its Theorem 3 speaks of one W¹ for all models; each model has its own, so the bound sums |U - W_m¹|² over them.
"""

from __future__ import annotations

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.learners.online_hashing import OnlineHashing
from onlinehash.types import Init, RandomState


class MultiModelOnlineHashing(OnlineHashing):
    """T online hashing models that specialise, so that one pair biases only some of them.

    A similar pair needs only one model that agrees, so only the model of least loss learns it; a dissimilar pair is
    wrong wherever it looks similar, so every model with loss learns it. Each learns by the step of `OnlineHashing`;
    with one model it is `OnlineHashing`, byte for byte.

    Parameters
    ----------
    n_bits : int, default=64
        Bits per model; an item takes `n_models * n_bits` bits.
    n_models : int, default=4
        T.
    fusion : {"min", "sum"}, default="min"
        The distance of two items: their least distance over the models, or the sum of all.
    init : {"gaussian", "unit"} or array of shape (n_models, n_inputs, n_bits), default="gaussian"
        As in `OnlineHashing`, one per model.
    similar_radius, dissimilar_ratio, C, n_rounds
        As in `OnlineHashing`.
    features, centre, burn_in, similar_share, reservoir_size, random_state
        As for every learner: see `Learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import MultiModelOnlineHashing
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 16))
    >>> learner = MultiModelOnlineHashing(n_bits=8, n_models=3, random_state=0)
    >>> learner.partial_fit_pairs(A, B, A[:, 0] * B[:, 0] > 0).projection_.shape
    (3, 16, 8)
    >>> learner.transform(A).shape
    (200, 24)
    """

    _per_model = True

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_models: int = 4,
        fusion: str = "min",
        similar_radius: int = 0,
        dissimilar_ratio: float = 0.4,
        C: float = 0.1,
        n_rounds: int = 1,
        init: Init = "gaussian",
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        similar_share: float | None = None,
        reservoir_size: int = 512,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(
            n_bits,
            similar_radius=similar_radius,
            dissimilar_ratio=dissimilar_ratio,
            C=C,
            n_rounds=n_rounds,
            init=init,
            features=features,
            centre=centre,
            burn_in=burn_in,
            similar_share=similar_share,
            reservoir_size=reservoir_size,
            random_state=random_state,
        )
        self.n_models = n_models
        self.fusion = fusion

    def _rules(self) -> dict[str, checks.Rule]:
        return {"n_models": checks.integer(1, 1024), "fusion": checks.one_of("min", "sum"), **super()._rules()}

    @property
    def _n_models(self) -> int:
        return self.n_models

    @property
    def _fusion(self) -> str:
        return self.fusion
