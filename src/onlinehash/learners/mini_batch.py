"""Mini-batch Online Hashing (MBOH): many pairs at one time, the future work of the online hashing paper.

Long-Kai Huang, Qiang Yang, Wei-Shi Zheng: *Online Hashing*. IEEE Transactions on Neural Networks and Learning
Systems, 2017, doi 10.1109/TNNLS.2017.2689242. Nobody has published this form; it is derived here from the paper's
objective, in the letters of `online_hashing`.

**The objective.** For one pair the paper asks for the W nearest to Wᵗ whose prediction loss is at most a slack ξ,
min ½|W - Wᵗ|² + C ξ. With M = x (g - h)ᵀ that loss is ℓ(W) = H(W) - G(W) + √R = √R - ⟨W, M⟩, so for the pairs n of a
chunk, with weights w_n, it becomes

    Wᵗ⁺¹ = argmin ½|W - Wᵗ|² + C Σ w_n ξ_n     such that  ⟨W, M_n⟩ ≥ √R_n - ξ_n,  ξ_n ≥ 0.

**The dual.** The Lagrangian is ½|W - Wᵗ|² + Σ C w_n ξ_n + Σ τ_n (√R_n - ⟨W, M_n⟩ - ξ_n) - Σ λ_n ξ_n. It is stationary
in W at W = Wᵗ + Σ τ_n M_n and in ξ_n where τ_n + λ_n = C w_n, that is, for 0 ≤ τ_n ≤ C w_n; put back, it leaves

    max  𝒟(τ) = Σ τ_n ℓ_n - ½|Σ τ_n M_n|²      such that  0 ≤ τ_n ≤ C w_n,      ℓ_n = √R_n - ⟨Wᵗ, M_n⟩.

In one coordinate, the others kept, its maximum is τ_n ← clip(τ_n + (√R_n - ⟨W, M_n⟩) / |M_n|², 0, C w_n), W being
Wᵗ + Σ τ_m M_m at that moment. From τ_n = 0 that is the step of online hashing. Coordinates are raised in turn until the
duality gap Σ C w_n max(0, ℓ_n(W)) - τ_n ℓ_n(W) is below a thousandth of 𝒟.

**Where M_n comes from.** g_n, h_n and R_n are inferred when the ascent first comes to pair n, at the W of that moment,
and stay for the chunk. So its first pass is online hashing, pair by pair: a pair that was right at Wᵗ but is wrong
after those before it takes part, and one that they have put right does not. To infer them all at Wᵗ is what one would
write first; its bound is weaker (below), and it is not better on data.

**The two kinds.** A chunk knows how many of its N pairs are similar and how many are not. Where one kind is rare it is
outvoted: nearly every τ_n stands at its cap C w_n, so what a kind may pull is its number. So a pair of a kind that N_k
of the N pairs are, of K kinds that are there, has its weight w_n multiplied by (N / (K N_k))^balance: with 0 all pairs
weigh alike, with 1 both kinds do, and the default lies between. A chunk of one pair has one kind, and the factor is 1.

**The loss.** For any U and any τ, with ℓ_U,n = √R_n - ⟨U, M_n⟩, the chunk's step gives, without any inequality,

    |Wᵗ - U|² - |Wᵗ⁺¹ - U|² = 2 𝒟(τ) - 2 Σ τ_n ℓ_U,n                                  (Lemma 1, for a chunk)

The first pass raises 𝒟 by τ_n (ℓ_n - ½ τ_n |M_n|²) ≥ ½ τ_n ℓ_n at each pair, ℓ_n being its loss at its turn, and what
follows only raises it further, however early it stops. So with F² ≥ |M_n|² and C w_n ≥ √R_n / F², as in the paper's
Theorem 2, Σ R_n ≤ 2 F² 𝒟(τ) over a chunk, and over the stream

    Σ R_n ≤ F² (|U - W¹|² + 2 Σ τ_n ℓ_U,n) ≤ F² (|U - W¹|² + 2 C Σ w_n max(0, ℓ_U,n)).

This is Theorem 2, with the same constants for every size of chunk. R_n is the loss at the pair's turn in the pass. The
loss on arrival, under Wᵗ, which `Update.loss` tells, can be larger: of it the theorem bounds what the first wrong pair
of each chunk adds, since that pair meets Wᵗ itself. Nothing better holds in general: a pair with one wrong bit that
comes N times in a chunk has N losses on arrival and is learned once. (With every M_n inferred at Wᵗ, 𝒟 is at least its
value at the mean of the single steps, so the bound holds for the loss on arrival with N F² in place of F², N being the
pairs with loss in a chunk.)
"""

from __future__ import annotations

import numpy as np

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.learners import mini_batch_kernels as kernels
from onlinehash.learners.base import Traits
from onlinehash.learners.buffer import Rows
from onlinehash.learners.chunks import ChunkLearner
from onlinehash.learners.online_hashing import (
    dissimilar_distance,
    drawn_init,
    given_init,
    loss_rules,
    n_inputs_of,
    warn_of_overlap,
)
from onlinehash.numeric.dots import aligned_zeros
from onlinehash.types import Init, RandomState


class MiniBatchOnlineHashing(ChunkLearner):
    """Online hashing that learns a chunk of pairs at one time, by one step that weighs them against each other.

    Like `OnlineHashing`, but W takes the smallest step that satisfies all pairs of a chunk as far as the slack allows;
    how much each pair pulls is the solution of a quadratic program. Codes change once per chunk, not once per pair,
    so an index has several times fewer bits to re-hash.

        W ← W + Σ τ_n M_n,  M_n = x_n (g_n - h_n)ᵀ
        τ = argmax Σ τ_n ℓ_n - ½|Σ τ_n M_n|²,  0 ≤ τ_n ≤ C w_n,  ℓ_n = √R_n - ⟨W, M_n⟩

    A chunk of one pair is `OnlineHashing`, byte for byte.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    chunk_size : int, default=100
        Pairs learned at one time; 1 is `OnlineHashing`.
    similar_radius : int, default=0
        α: similar pairs may be this many bits apart.
    dissimilar_ratio : float, default=0.4
        β: dissimilar pairs should be at least this share of the bits apart.
    C : float, default=0.1
        The most one pair may pull the functions; `sample_weight` scales it.
    balance : float, default=0.5
        How far the rarer kind of pairs in a chunk, similar or not, is given more weight: from 0 (each pair counts the
        same) to 1 (each kind does).
    init : {"gaussian", "unit"} or array of shape (n_inputs, n_bits), default="gaussian"
        W¹: independent normal values, columns of unit length, or your own (n_inputs is the number of features).
    features, centre, burn_in, similar_share, reservoir_size, random_state
        As for every learner: see `Learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import MiniBatchOnlineHashing
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 16))
    >>> learner = MiniBatchOnlineHashing(n_bits=8, random_state=0)
    >>> learner.partial_fit_pairs(A, B, A[:, 0] * B[:, 0] > 0).encode(A)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="pairs", unit="chunk")

    def __init__(
        self,
        n_bits: int = 64,
        *,
        chunk_size: int = 100,
        similar_radius: int = 0,
        dissimilar_ratio: float = 0.4,
        C: float = 0.1,
        balance: float = 0.5,
        init: Init = "gaussian",
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        similar_share: float | None = None,
        reservoir_size: int = 512,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.chunk_size = chunk_size
        self.similar_radius = similar_radius
        self.dissimilar_ratio = dissimilar_ratio
        self.C = C
        self.balance = balance
        self.init = init
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.similar_share = similar_share
        self.reservoir_size = reservoir_size
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return loss_rules(self.n_bits) | {"chunk_size": checks.integer(1, 4096), "balance": checks.real(0, 1)}

    def _check_parameters(self, rows: np.ndarray) -> None:
        super()._check_parameters(rows)
        self._given_init(n_inputs_of(self.features, rows.shape[1]), rows.dtype)
        warn_of_overlap(self.similar_radius, self.dissimilar_ratio, self.n_bits)

    def _given_init(self, n_inputs: int | None, dtype: np.dtype) -> np.ndarray | None:
        return given_init(type(self).__name__, self.init, None, n_inputs, self.n_bits, dtype)

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        W = self._given_init(n_inputs, self.dtype_)
        self._lay_out(drawn_init(self.init, (1, n_inputs, self.n_bits), rng) if W is None else W)
        self._lay_out_chunk(n_inputs)
        self._points = aligned_zeros((2 * self.chunk_size, n_inputs), self.dtype_)  # the kernels' room to work in

    def _limits(self) -> tuple[float, float]:
        return float(self.similar_radius), dissimilar_distance(self.dissimilar_ratio, self.n_bits)

    def _learn_chunk(self, chunk: Rows) -> np.ndarray:
        caps = self.C * chunk.weights * _weights_of_kinds(chunk.similar, self.balance)
        of, _, _ = self._solve(chunk.A, chunk.B, chunk.similar, caps)
        self._pull = float(of.tau.sum())
        return np.asarray(of.flips[of.tau > 0].any(axis=0))

    def _step_of_chunk(self) -> float:
        return self._pull

    def _solve(
        self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, caps: np.ndarray
    ) -> tuple[kernels.Constraints, float, float]:
        """Move W by the step of a chunk: its constraints with their τ, the dual value and the duality gap."""
        n, r = len(A), self.n_bits
        of = kernels.Constraints(
            flips=np.zeros((n, r), np.int8),
            chosen=np.zeros((n, r + 1), np.int64),
            n_chosen=np.zeros(n, np.int64),
            R=np.zeros(n),
            norms=np.zeros(n),
            caps=caps,
            tau=np.zeros(n),
        )
        P, K = aligned_zeros((r, 2 * n), self.dtype_), aligned_zeros((2 * n, 2 * n), self.dtype_)
        X = self._side_by_side(A, B)
        dual, gap = kernels.learn_chunk(self._W, X, P, K, similar, self.similar_radius, self._limits()[1], of)
        return of, dual, gap

    def _side_by_side(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """The points of each pair in rows 2n and 2n + 1, padded for the row kernels."""
        X = self._points[: 2 * len(A)]
        X[0::2, : self._n_inputs], X[1::2, : self._n_inputs] = A, B
        return X


def _weights_of_kinds(similar: np.ndarray, balance: float) -> np.ndarray:
    """(N / (K N_k))^balance for each of N pairs, N_k of them being of its kind, of K kinds that are there."""
    n_similar = np.count_nonzero(similar > 0)
    counts = np.where(similar > 0, n_similar, len(similar) - n_similar)
    return (len(similar) / (len(np.unique(similar)) * counts)) ** balance
