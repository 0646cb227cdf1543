"""Smooth pair hashing: the library's own learner from pairs alone.

Online hashing learns one pair at a time, by signs: it flips the bits of a pair that is wrong and forgets the pair. Here
a chunk of pairs acts at once, and the sign is relaxed to tanh, so that a pair that is nearly right pulls a little and
one that is very wrong pulls no more than its share. The rest makes the defaults fit data of any scale:

- Points are centred and scaled to unit length, which no code depends on.
- The gradient of a bit is divided by its own running length, and the step is taken in coordinates in which no direction
  of the data dominates (`damping`). So a step size is a number without a unit, and the same for all data.
- Where similar pairs are rare they weigh more: √((1 - p) / p) times as much, p being their share of late. The full
  (1 - p) / p would let the few wrong ones among them decide.
- The step falls as η₀ / √(1 + n / n₀), but not to zero; and it begins again when the loss of late is clearly above what
  it was, because then the world has changed.
- What is learned moves every bit a little with every chunk. An index need not hear of that: a bit is *published* when
  its function has moved so far that a share of recent points would change theirs.

Constants were chosen on MNIST, CIFAR-10 and 20 Newsgroups and confirmed on pairs and data that played no part;
docs/reference/learners/pairs-compared.md has the figures, docs/explanation/smooth-pairs.md what was tried.
"""

from __future__ import annotations

import math

import numpy as np

from onlinehash import checks
from onlinehash.errors import FormatError
from onlinehash.features import Transformer
from onlinehash.io.format import like, listed, real, whole
from onlinehash.learners.base import Traits
from onlinehash.learners.buffer import Rows
from onlinehash.learners.chunks import ChunkLearner
from onlinehash.learners.damping import WINDOW, Damping
from onlinehash.learners.smooth_kernels import descend, load_unit_rows, projections, pulls, share_of_flips, weigh
from onlinehash.learners.surprise import Surprise
from onlinehash.learners.update import Updates
from onlinehash.numeric.threads import one_thread
from onlinehash.types import RandomState, State

#: A similar pair should agree at least so much, a dissimilar one at most so much (inner product of codes over r); how
#: sharply the loss turns there.
AGREE, DIFFER, SHARPNESS = 0.5, 0.1, 8.0

#: η₀, the least step, and n₀: the step in units of a typical gradient.
FIRST_STEP, LEAST_STEP, STEADY = 2.4, 0.3, 1250

#: Running means: of the gradient, of its square, of the share of flips; and the decay of W for each unit of step.
MOMENTUM, OF_SQUARES, OF_FLIPS, DECAY = 0.8, 0.99, 0.9, 0.001

#: Root mean square of the first projections: tanh is still nearly straight there.
FIRST_SCALE = 0.5

#: Pairs after which only some chunks enter the second moments, which no longer change much; and one in how many.
MANY_PAIRS, SOME = 2000, 8

#: Multiples of this, but for whole numbers, are a pattern without a period.
GOLDEN = (math.sqrt(5) - 1) / 2

#: Directions are looked for at 1, 2, 4, ... times the first chunk, at most so many pairs apart.
FARTHEST_APART = 32_768


class SmoothPairHashing(ChunkLearner):
    """Learning from pairs by gradient steps on a smooth loss of small chunks, with nothing to tune.

    With x centred and of unit length, f = tanh(Wᵀx), and c = fₐᵀf_b / r the agreement of a pair, a chunk lowers

        Σ_similar √((1 - p) / p) softplus(8 (0.5 - c)) / 8  +  Σ_dissimilar softplus(8 (c - 0.1)) / 8

        w_k ← (1 - 0.001 η) (w_k - η P² m_k / |P g_k|)      m, |·|: running means of the gradient g and of its length

    in coordinates Px that shorten the leading directions of the data. The codes are those of *published* functions,
    which follow W one by one: bit k when more than `stale_share` of recent points would change theirs, and all bits
    at `flush()`.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    chunk_size : int, default=32
        Pairs learned at one time.
    stale_share : float, default=0.05
        A bit is published when so large a share of recent points would change theirs; with 0, when any would.
    features, centre, burn_in, similar_share, reservoir_size, random_state
        As for every learner: see `Learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import SmoothPairHashing
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 16))
    >>> learner = SmoothPairHashing(n_bits=8, random_state=0)
    >>> learner.partial_fit_pairs(A, B, A[:, 0] * B[:, 0] > 0).encode(A)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="pairs", unit="chunk")

    _is_by_blas = False  # its own products are quicker; `damping` sees to its one thread itself

    #: After many pairs, one chunk in how many enters the second moments.
    _some = SOME

    def __init__(
        self,
        n_bits: int = 64,
        *,
        chunk_size: int = 32,
        stale_share: float = 0.05,
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        similar_share: float | None = None,
        reservoir_size: int = 512,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.chunk_size = chunk_size
        self.stale_share = stale_share
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.similar_share = similar_share
        self.reservoir_size = reservoir_size
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {"chunk_size": checks.integer(1, 10**6), "stale_share": checks.real(0, 1)}

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        first = rng.standard_normal((n_inputs, self.n_bits))
        self._lay_out(first[None])
        self._lay_out_chunk(n_inputs)
        self._pattern = np.modf(np.arange(1, n_inputs + 1) * GOLDEN)[0]
        self._damping = Damping(n_inputs, rng, self.dtype_)
        self._surprise = Surprise()
        self._learning = self._damping.widened(first.T)  # W: wide functions, a row each (see `damping`)
        self._momentum = np.zeros_like(self._learning)  # m
        self._squares = np.zeros(self.n_bits)  # |P g|²
        self._flip_rates = np.zeros(self.n_bits)
        self._n_chunks = 0
        self._n_learned = 0
        self._directions_at = 0
        self._share = np.array([0.5, 2.0])  # p, and the weight of the pairs it is the mean of
        self._mean_weight = np.ones(1)

    # ------------------------------------------------------------------ a chunk

    def _limits(self) -> tuple[float, float]:
        """In bits: the loss of a pair is by how many the published codes miss the agreement that they should have."""
        return (1 - AGREE) / 2 * self.n_bits, (1 - DIFFER) / 2 * self.n_bits

    def _fill(self, updates: Updates, last: int, **rows: np.ndarray) -> None:
        """A whole chunk need not wait, nor be copied."""
        if self._chunk.count == 0 and len(rows["A"]) == self.chunk_size:
            self._learn_rows(Rows(**rows), updates, last)
        else:
            super()._fill(updates, last, **rows)

    def _learn_chunk(self, chunk: Rows) -> np.ndarray | None:
        if not chunk.weights.any():
            return None
        n, similar = len(chunk.A), chunk.similar > 0
        X = self._damping.rows(2 * n)
        load_unit_rows(chunk.A, chunk.B, self._pattern, X, np.empty(2 * n))
        weights = weigh(chunk.weights, similar, self._rate(n), WINDOW, self._mean_weight, self._share)
        self._follow(X, n)
        if not self._damping.has_directions:  # all points are the mean itself
            return None
        if self._n_chunks == 0:
            self._learning = self._first_functions(X[:, : self._n_inputs])
        learned = self._damping.completed_projections(self._learning, X)
        loss, pull = pulls(np.tanh(learned), similar, weights, self._share[0], AGREE, DIFFER, SHARPNESS)
        self._n_chunks += 1
        self._surprise.enter(loss, n)
        self._step(X, pull, n / self.chunk_size, 1.0, self._n_chunks)
        return self._publish(X, learned)

    def _first_functions(self, X: np.ndarray) -> np.ndarray:
        """Where learning begins: what was drawn at random, scaled to the first chunk."""
        with one_thread():
            W = self._damping.once(self._learning[:, : self._n_inputs])
            return self._damping.widened(W * (FIRST_SCALE / max(rms(X @ W.T), 1e-30)))

    def _rate(self, n: int) -> float:
        """What n pairs count in the mean of weights."""
        return min(max(n / min(self._n_learned + n, WINDOW), 1e-3), 1.0)

    def _follow(self, X: np.ndarray, n: int) -> None:
        """Points of n pairs enter the second moments, of which directions are found now and then."""
        if self._n_learned < MANY_PAIRS or self._n_chunks % self._some == 0:
            self._damping.enter(X[:, : self._n_inputs])
        self._n_learned += n
        if self._n_learned >= self._directions_at or not self._damping.has_directions:
            self._find_directions()
            self._directions_at = min(2 * self._n_learned, self._n_learned + FARTHEST_APART)

    def _find_directions(self) -> None:
        """W and m stay what they are, in other coordinates."""
        W, M = self._damping.joined(self._learning), self._momentum[:, : self._n_inputs]
        self._damping.find_directions()
        self._learning, self._momentum = self._damping.widened(W), self._damping.widened(M)
        self._damping.complete(self._momentum)

    def _step(self, X: np.ndarray, pull: np.ndarray, part: float, weight: float, t: float) -> None:
        """Move W by a part of a step, with m and |·| means of t chunks, of which this one counts as `weight`."""
        eta = part * max(LEAST_STEP, FIRST_STEP / math.sqrt(1 + self._surprise.n_since / STEADY))
        descend(
            pull,
            X,
            self._damping.signs,
            self._damping.factor,
            MOMENTUM**weight,
            OF_SQUARES**weight,
            1 - OF_SQUARES**t,
            eta / (1 - MOMENTUM**t),
            1 - DECAY * eta,
            self._squares,
            self._momentum,
            self._learning,
        )

    # ------------------------------------------------------------------ what codes show of it

    def _publish(self, X: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Bits of which too many points would change theirs (before this chunk's step); all, the first time."""
        self._note_flips(X, wanted, OF_FLIPS)
        return self._show((self._flip_rates > self.stale_share) | (self._n_chunks == 1))

    def _note_flips(self, X: np.ndarray, wanted: np.ndarray, keep: float) -> None:
        """The share of points whose published bit has another sign than these projections enters its running mean."""
        flips = np.empty(self.n_bits)
        share_of_flips(wanted, projections(self._W, X), flips)
        self._flip_rates = keep * self._flip_rates + (1 - keep) * flips

    def _show(self, columns: np.ndarray) -> np.ndarray:
        """Publish these columns; which of them differ."""
        if not columns.any():
            return columns
        shown, functions = self._W[:, : self._n_inputs], self._to_publish(columns)
        differ = (shown[columns] != functions).any(axis=1)
        shown[columns] = functions
        self._flip_rates[columns] = 0.0
        changed = columns.copy()
        changed[columns] = differ
        return changed

    def _to_publish(self, columns: np.ndarray) -> np.ndarray:
        """The functions that these columns should show now, a row each."""
        return self._damping.joined(self._learning[columns])

    def _settle(self, updates: Updates) -> None:
        if self._n_chunks:
            updates.flips[0] |= self._show(np.ones(self.n_bits, np.bool_))
            updates.n_moved[0] = np.count_nonzero(updates.flips[0])
            updates.step[0] = self._step_of_chunk() if updates.n_moved[0] else 0.0

    # ------------------------------------------------------------------ state

    def _get_method_state(self) -> State:
        learning, back = self._damping.parts(self._learning)
        momentum, along = self._damping.parts(self._momentum)
        return super()._get_method_state() | {
            "learning": learning,
            "back": back,
            "momentum": momentum,
            "along": along,
            "squares": self._squares,
            "flip_rates": self._flip_rates,
            "share": self._share,
            "mean_weight": float(self._mean_weight[0]),
            "counts": [self._n_chunks, self._n_learned, self._directions_at],
            "damping": self._damping.get_state(),
            "surprise": self._surprise.get_state(),
        }

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        self._share = like(state["share"], self._share, "share")
        self._squares = like(state["squares"], self._squares, "squares", 0)
        self._flip_rates = like(state["flip_rates"], self._flip_rates, "flip_rates", 0)
        counts = (whole(count, "a count") for count in listed(state["counts"], "counts", 3))
        self._n_chunks, self._n_learned, self._directions_at = counts
        self._damping.set_state(state["damping"])
        self._learning, self._momentum = self._wide(state, "learning", "back"), self._wide(state, "momentum", "along")
        if "along" not in state:
            self._damping.complete(self._momentum)
        self._surprise.set_state(state["surprise"])
        self._mean_weight[0] = real(state["mean_weight"], "mean_weight", 0)
        if not 0 < self._share[0] < 1 <= self._share[1]:
            raise FormatError("the share of similar pairs is not between 0 and 1, or of a weight below 1.")

    def _wide(self, state: State, name: str, of_directions: str) -> np.ndarray:
        """Wide rows from the two parts of a state; files from before functions were wide have only the first."""
        values, coordinates = self._damping.parts(self._damping.zeros(self.n_bits))
        values = like(state[name], values, name)
        return self._damping.of_parts(values, like(state.get(of_directions, coordinates), coordinates, of_directions))


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values * values)))
