"""Streaming spectral binary coding (SSBC): a reconstruction.

Mina Ghashami, Amirali Abdullah: *Binary coding in stream*. 2015, arXiv 1503.06271.

We found no public code, and papers that compare with it say little more than that it sketches rows of Gaussian
affinities by frequent directions. So this is a reconstruction from that description, not the authors' program:
- The sample that affinities are taken to is the first points of the stream: `features=RbfAnchors(m)`.
- Affinities are centred with the library's mean, which takes away the trivial first eigenvector (all ones); no
  division by degrees.
- Bits are signs of the leading singular vectors themselves, as in spectral hashing: there is no rotation.
- Each new vector takes the place and sign of the old function that it resembles most, so that codes do not change
  because two vectors of nearly equal strength have changed places.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.learners.base import Traits
from onlinehash.learners.buffer import Rows
from onlinehash.learners.chunks import ChunkLearner
from onlinehash.learners.frequent_directions import FrequentDirections
from onlinehash.types import RandomState, State


class StreamSpectralHashing(ChunkLearner):
    """Hashes by the leading singular vectors of a stream of affinities (a reconstruction of SSBC).

    Each point becomes the row a(x) of its affinities to a fixed sample: with `features=RbfAnchors(m)`, which is the
    method of the paper, Gaussian affinities to the first m points. Without a feature map the vectors stand for
    themselves (linear affinities). Centred rows feed a frequent-directions sketch B of ℓ rows; with V the r leading
    right singular vectors of B,

        h(x) = sgn(Vᵀ(a(x) - mean))

    Bits for which there is no singular vector (yet) are random projections.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    sketch_size : int, default=200
        Rows ℓ of the sketch, raised to 2r where that is more; memory is O(n_inputs (ℓ + chunk_size)).
    chunk_size : int, default=1000
        Points learned at once.
    features, centre, burn_in, random_state
        As for every learner: see `Learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import StreamSpectralHashing
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = StreamSpectralHashing(n_bits=8, chunk_size=100, random_state=0)
    >>> learner.partial_fit(X).encode(X)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="nothing", unit="chunk")

    def __init__(
        self,
        n_bits: int = 64,
        *,
        sketch_size: int = 200,
        chunk_size: int = 1000,
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.sketch_size = sketch_size
        self.chunk_size = chunk_size
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {"sketch_size": checks.integer(2, 10**6), "chunk_size": checks.integer(1, 10**7)}

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(rng.standard_normal((1, n_inputs, self.n_bits)))
        self._lay_out_chunk(n_inputs)
        self._sketch = FrequentDirections(min(max(-(-self.sketch_size // 2), self.n_bits), n_inputs), n_inputs)

    def _learn_chunk(self, chunk: Rows) -> np.ndarray:
        self._sketch.insert(chunk.X.astype(np.float64))
        V = self._sketch.directions(self.n_bits)
        before = self._W.copy()
        old = self._W[:, : self._n_inputs].astype(np.float64)
        lengths = np.linalg.norm(old, axis=1, keepdims=True)
        likeness = V.T @ (old / np.where(lengths > 0, lengths, 1.0)).T
        vectors, bits = linear_sum_assignment(-np.abs(likeness))
        signs = np.where(likeness[vectors, bits] < 0, -1.0, 1.0)
        self._W[bits, : self._n_inputs] = (V[:, vectors] * signs).T
        return np.asarray((before != self._W).any(axis=1))

    def _get_method_state(self) -> State:
        return super()._get_method_state() | {"sketch": self._sketch.get_state()}

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        self._sketch.set_state(state["sketch"])
