"""Hashing with mutual information (MIHash).

Fatih Cakir, Kun He, Sarah Adel Bargal, Stan Sclaroff: *MIHash: Online Hashing with Mutual Information*. ICCV 2017.

The released online code takes the sample's codes as 0 to 1 in the derivative but as -1 to +1 in the distance; its step
has a mean cosine of 0.73 with the gradient, and now and then points downhill. Here both are -1 to +1, and the gradient
agrees with finite differences.

Readings taken:
- Points are centred and scaled to unit length, and codes of the sample are held fixed in the derivative, as in the
  paper; they are those of the present W, computed anew for every point.
- Learning begins with the second point; nothing is learned where the sample has only neighbours, or none. The released
  code first fills a part of the sample.
- A neighbour is who shares a label.
- When to refresh an index (the paper's "trigger update") is a policy of the index, for any method, and not in here.
"""

from __future__ import annotations

import numpy as np

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.io.format import like, whole
from onlinehash.learners import mutual_information_kernels as kernels
from onlinehash.learners.base import Traits
from onlinehash.learners.label_kernels import trace_of
from onlinehash.learners.linear import LinearLearner, unit_columns
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import aligned_zeros
from onlinehash.types import RandomState, State


class MutualInformationHashing(LinearLearner):
    """Learns codes whose distances tell neighbours from others, in bits of information, one labelled point at a time.

    A point x is compared with a uniform sample of the points before it. The distances d of its code to theirs, made
    smooth, fall into soft bins: p⁺ for its neighbours (who share a label), p⁻ for the others, p for all. Its step goes
    uphill on what a distance tells about being a neighbour:

        φ(x) = tanh(A Wᵀx / 2),   d = (r - φ(x)ᵀφ(x')) / 2
        I = H(p) - P⁺ H(p⁺) - P⁻ H(p⁻),   W ← W + η ∇I,   η = step / (1 + decay t)

    The loss is what the distance leaves unknown, H(P⁺) - I.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    sample_size : int, default=200
        Points kept to compare with; a step takes time in proportion.
    n_bins : int, default=16
        K: distances are put into K + 1 soft bins.
    sharpness : float, default=10.0
        A: how near the smooth codes are to signs.
    step : float, default=1.0
        The first step size.
    decay : float, default=0.0
        How fast the step size falls with the number t of points learned.
    features, centre, burn_in, random_state
        As for every learner: see `Learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import MutualInformationHashing
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = MutualInformationHashing(n_bits=8, random_state=0)
    >>> learner.partial_fit(X, X[:, 0] > 0).encode(X)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="labels", unit="point", several_labels=True)

    def __init__(
        self,
        n_bits: int = 64,
        *,
        sample_size: int = 200,
        n_bins: int = 16,
        sharpness: float = 10.0,
        step: float = 1.0,
        decay: float = 0.0,
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.sample_size = sample_size
        self.n_bins = n_bins
        self.sharpness = sharpness
        self.step = step
        self.decay = decay
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {
            "sample_size": checks.integer(2, 10**6),
            "n_bins": checks.integer(1, 4096),
            "sharpness": checks.real(0, above=True),
            "step": checks.real(0, above=True),
            "decay": checks.real(0),
        }

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(unit_columns(n_inputs, self.n_bits, rng))
        self._rng = np.random.default_rng([self._seed, 2])
        self._n_taught = 0
        self._keys = np.full(self.sample_size, 2.0)  # above any key: there is room
        self._points = aligned_zeros((self.sample_size, n_inputs), self.dtype_)
        self._members = np.full((self.sample_size, 1), -1, np.int64)

    def _learn_labelled(self, X: np.ndarray, members: np.ndarray, updates: Updates) -> None:
        wider = int((members >= 0).sum(axis=1).max()) - self._members.shape[1]
        if wider > 0:
            self._members = np.pad(self._members, ((0, 0), (0, wider)), constant_values=-1)
        self._n_taught = kernels.learn(
            self._W,
            kernels.Sample(self._keys, self._points, self._members),
            self._n_taught,
            X,
            members,
            self._rng.random(len(X)),
            kernels.Rule(self.n_bins, float(self.sharpness), float(self.step), float(self.decay)),
            trace_of(updates),
        )

    def _get_method_state(self) -> State:
        return super()._get_method_state() | {
            "rng": self._rng.bit_generator.state,
            "n_taught": self._n_taught,
            "keys": self._keys,
            "points": np.ascontiguousarray(self._points[:, : self._n_inputs]),
            "members": self._members,
        }

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        self._rng.bit_generator.state = state["rng"]
        self._n_taught = whole(state["n_taught"], "n_taught")
        self._keys = like(state["keys"], self._keys, "keys")
        self._points[:, : self._n_inputs] = like(state["points"], self._points[:, : self._n_inputs], "points")
        members = state["members"]
        room = np.zeros((self.sample_size, np.shape(members)[1]), np.int64)
        self._members = like(members, room, "members", -1, len(self._classes) - 1)
