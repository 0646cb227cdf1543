"""Kernelised locality-sensitive hashing (KLSH).

Brian Kulis, Kristen Grauman: *Kernelized locality-sensitive hashing*. IEEE Transactions on Pattern Analysis and Machine
Intelligence 34(6), 2012.

Where this departs from public code:
- The kernel between a query and the anchors is centred as the kernel among the anchors is. One public version leaves
  that out and so hashes by hyperplanes that miss the data, and takes another kernel width for queries than for anchors.
- The anchors of a bit are drawn without replacement.
- Eigenvalues of the centred kernel that are rounding errors count as zero; the others are not cut off.
"""

from __future__ import annotations

import numpy as np

from onlinehash import checks
from onlinehash.features import RbfAnchors, Transformer
from onlinehash.learners.base import Traits
from onlinehash.learners.buffer import Buffer
from onlinehash.learners.linear import LinearLearner
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import pad_rows
from onlinehash.numeric.threads import one_thread
from onlinehash.types import RandomState, State


class KernelLSH(LinearLearner):
    """Random projections in the space of a kernel, made from a few anchor points.

    Hyperplanes in that space are sums of anchors: over t of the p anchors at random, whitened by the centred kernel
    matrix K_c of all p, they are nearly Gaussian (central limit theorem):

        w = K_c^(-1/2) e_S,  S a sample of t = min(p/4, 30) anchors
        h(x) = sgn(Σ_i w_i κ_c(x, a_i)) = sgn(w . (κ(x) - μ)),  κ(x) = [κ(x, a_1), ..., κ(x, a_p)], μ = mean_i κ(a_i)

    The second form holds because w sums to zero. With `features=RbfAnchors(p)`, which is the method of the paper, κ is
    the Gaussian kernel and the anchors are the map's. With any other features z (or none), κ is their dot product and
    the first `n_anchors` points are the anchors; until these have come, or `flush` is called, W is a random projection.
    Nothing is learned afterwards.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    n_anchors : int, default=300
        The first points that serve as anchors (p), where `features` is not an RbfAnchors, which has anchors of its own.
    features, random_state
        As for every learner: see `Learner`. Centring is part of the method, so there is no `centre`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import KernelLSH
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = KernelLSH(n_bits=8, n_anchors=100, random_state=0)
    >>> learner.partial_fit(X).encode(X)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="nothing", unit="point")
    centre, burn_in = "none", 1
    _keeps_mean = True

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_anchors: int = 300,
        features: Transformer | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.features = features
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {"n_anchors": checks.integer(1, 100_000)}

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(rng.standard_normal((1, n_inputs, self.n_bits)))
        self._anchors: Buffer | None = None
        self._has_anchors = isinstance(self._map, RbfAnchors)
        if isinstance(self._map, RbfAnchors):
            K = self._map.map_rows(self._map.anchors_).astype(np.float64)
            self._take(K, np.eye(len(K)), K.mean(axis=0))
        else:
            self._anchors = Buffer(self.n_anchors, {"X": ((n_inputs,), self.dtype_)})

    def _observe(self, X: np.ndarray, updates: Updates) -> None:
        if self._anchors is not None and not self._has_anchors:
            some = X[: self._anchors.room, : self._n_inputs]
            self._anchors.put(X=some)
            if not self._anchors.room:
                updates.moved[len(some) - 1] = self._start_with_anchors()

    def _end_chunk(self, updates: Updates) -> None:
        if self._anchors is not None and self._anchors.count:
            updates.moved[0] = self._start_with_anchors()

    def _start_with_anchors(self) -> bool:
        """The points collected become the anchors of the linear kernel."""
        assert self._anchors is not None
        A = self._anchors.take().X.astype(np.float64)
        self._has_anchors = True
        mean = A.mean(axis=0)
        scale = np.abs(A - mean).max() or 1.0  # whose squares could overflow or vanish
        A = (A - mean) / scale
        with one_thread():
            K = A @ A.T
        self._take(K, A.T, mean)
        return True

    def _take(self, K: np.ndarray, to_inputs: np.ndarray, mean: np.ndarray) -> None:
        """W from the kernel among the anchors; `to_inputs` turns weights of anchors into weights of inputs."""
        rng = np.random.default_rng([self._seed, 2])
        with one_thread():
            W = to_inputs @ anchor_weights(K, self.n_bits, float(np.finfo(self.dtype_).eps), rng)
        lengths = np.linalg.norm(W, axis=0)
        found = lengths > 0  # anchors that are all alike have no directions: those bits stay random
        self._W[found] = pad_rows((W[:, found] / lengths[found]).T.astype(self.dtype_))
        self._mean = mean

    def _get_method_state(self) -> State:
        anchors = {} if self._anchors is None else {"anchors": self._anchors.get_state()}
        return super()._get_method_state() | {"has_anchors": self._has_anchors} | anchors

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        self._has_anchors = bool(state["has_anchors"])
        if self._anchors is not None:
            self._anchors.set_state(state["anchors"])


def anchor_weights(K: np.ndarray, n_bits: int, eps: float, rng: np.random.Generator) -> np.ndarray:
    """K_c^(-1/2) e_S for a sample S of anchors per bit, `(p, n_bits)`; eps is the precision of K."""
    p = len(K)
    K_c = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values, U = np.linalg.eigh((K_c + K_c.T) / 2)
    real = values > p * eps * np.abs(K).max()
    roots = np.divide(1.0, np.sqrt(values, where=real, out=np.ones(p)), where=real, out=np.zeros(p))
    t = max(min(p // 4, 30), 1)
    sample = rng.permuted(np.tile(np.arange(p), (n_bits, 1)), axis=1)[:, :t]
    e_S = np.zeros((p, n_bits))
    e_S[sample, np.arange(n_bits)[:, None]] = 1.0
    return np.asarray(U @ (roots[:, None] * (U.T @ e_S)))
