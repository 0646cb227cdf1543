"""Online sketching hashing (OSH): rotated principal directions of a stream, from a sketch of it.

Cong Leng, Jiaxiang Wu, Jian Cheng, Xiao Bai, Hanqing Lu: *Online sketching hashing*. CVPR 2015.

Where this departs from public code:
- The sketch, the mean and the count live as long as the learner. The code most papers compare with loses them after
  every batch, and so hashes by the principal directions of its last 50 points.
- The rotation is drawn once. Redrawn with every chunk, as in public code, it changes all codes although the subspace
  stays; for the same reason the new directions V are turned, within their span, as near to the old ones as they go.
- A chunk never shrinks a sketch that is not full.
- Any number of bits works: the sketch is at least 2r rows, directions that the data do not have (yet) are random ones,
  and more bits than features are r directions in the space of all features, evenly spread (a tight frame).
"""

from __future__ import annotations

import numpy as np

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.io.format import whole
from onlinehash.learners.base import Traits
from onlinehash.learners.buffer import Rows
from onlinehash.learners.chunks import ChunkLearner
from onlinehash.learners.frequent_directions import FrequentDirections, completed
from onlinehash.numeric.threads import one_thread
from onlinehash.types import RandomState, State


class OnlineSketchingHashing(ChunkLearner):
    """Hashes by the principal directions of the stream so far, randomly rotated, without labels.

    A frequent-directions sketch B of ℓ rows stands for the centred scatter of all points. A chunk of m points with
    mean μ_c, after n points with mean μ, adds to it

        the rows of X - μ_c, and the row √(nm / (n + m)) (μ_c - μ)

    so that BᵀB is the scatter about the mean of all n + m points: exactly where ℓ is at least twice the dimension,
    and within 2/ℓ of its trace otherwise. Then, with V the r leading right singular vectors of B,

        W = V R,  h(x) = sgn(Wᵀ(x - μ))

    The rotation R spreads the variance over the bits; it is drawn once. V is turned towards the V before it. Until the
    first chunk is full, W is a random projection.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    sketch_size : int, default=200
        Rows ℓ of the sketch, raised to 2r where that is more; memory is O(n_inputs (ℓ + chunk_size)).
    chunk_size : int, default=1000
        Points learned at once.
    features, random_state
        As for every learner: see `Learner`. The method keeps its own mean, so there is no `centre`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineSketchingHashing
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = OnlineSketchingHashing(n_bits=8, chunk_size=100, random_state=0)
    >>> learner.partial_fit(X).encode(X)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="nothing", unit="chunk")
    centre, burn_in = "none", 1
    _keeps_mean = True

    def __init__(
        self,
        n_bits: int = 64,
        *,
        sketch_size: int = 200,
        chunk_size: int = 1000,
        features: Transformer | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.sketch_size = sketch_size
        self.chunk_size = chunk_size
        self.features = features
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {"sketch_size": checks.integer(2, 10**6), "chunk_size": checks.integer(1, 10**7)}

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(rng.standard_normal((1, n_inputs, self.n_bits)))
        self._lay_out_chunk(n_inputs)
        rank = min(self.n_bits, n_inputs)
        with one_thread():
            self._rotation = np.linalg.qr(rng.standard_normal((self.n_bits, rank)))[0].T  # orthonormal rows
        self._half = max(-(-self.sketch_size // 2), rank)
        self._sketch = FrequentDirections(min(self._half, n_inputs), n_inputs)
        self._n_learned = 0

    def _learn_chunk(self, chunk: Rows) -> np.ndarray:
        X = chunk.X.astype(np.float64)
        mean = X.mean(axis=0)
        n, m = self._n_learned, len(X)
        if n:
            self._sketch.insert(np.sqrt(n * m / (n + m)) * (mean - self._mean)[None])
        self._sketch.insert(self._reduced(X - mean))
        W, thresholds = (array.copy() for array in self._functions())
        self._mean = self._mean + m / (n + m) * (mean - self._mean)
        self._n_learned = n + m
        self._W[:, : self._n_inputs] = (self._turned_directions() @ self._rotation).T
        now = self._functions()
        return np.asarray((now[0] != W).any(axis=1) | (now[1] != thresholds))

    def _reduced(self, rows: np.ndarray) -> np.ndarray:
        """What the sketch takes for the centred rows of a chunk; the fast form takes fewer."""
        return rows

    def _turned_directions(self) -> np.ndarray:
        """V, turned within its span to where it is nearest to the V of before (a Procrustes problem)."""
        R = self._rotation
        old = (R @ self._W[:, : self._n_inputs]).T
        V = self._sketch.directions(len(R))
        if V.shape[1] < len(R):
            V = completed(V, old, len(R))
        U, _, T = np.linalg.svd(V.T @ old)
        return np.asarray(V @ (U @ T))

    def _get_method_state(self) -> State:
        own = {"sketch": self._sketch.get_state(), "n_learned": self._n_learned}
        return super()._get_method_state() | own

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        self._sketch.set_state(state["sketch"])
        self._n_learned = whole(state["n_learned"], "n_learned")
