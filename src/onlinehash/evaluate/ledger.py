"""What the analysis of a stream needs: the pairs a learner had loss on, and the step it took for each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onlinehash.errors import InvalidInput, InvalidParameter
from onlinehash.learners.base import LearnPairs
from onlinehash.learners.online_hashing import OnlineHashing, dissimilar_distance
from onlinehash.learners.online_hashing_kernels import similarity_loss
from onlinehash.learners.update import Updates


@dataclass(frozen=True, eq=False)
class Trail:
    """One model's way from W1 to W, both `(d, r)`, through the n pairs that it had loss on and learned.

    points `(n, 2, d)`: the two sides as they were hashed, mapped and centred; changes `(n, 2, r)`: g - h;
    R, step (τ) and capped `(n,)`. Pairs without loss are left out: there M = x(g - h)ᵀ and R are zero. A pair
    that was skipped (its flipped side is a zero vector) has M = 0 too, but its loss counts.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing
    >>> from onlinehash.evaluate import bounds
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 4))
    >>> learner = OnlineHashing(n_bits=8, random_state=0)
    >>> trail = bounds.follow(learner, A, B, A[:, 0] * B[:, 0] > 0).models[0]
    >>> np.allclose(trail.W, trail.W1 + trail.combine(trail.step))  # each step adds τM
    True
    >>> U = trail.W
    >>> np.allclose(trail.prediction_losses(U), np.sqrt(trail.R) - trail.pull(U))
    True
    >>> len(trail.norms()) == len(trail.own_losses()) == len(trail)
    True
    """

    W1: np.ndarray
    W: np.ndarray
    points: np.ndarray
    changes: np.ndarray
    R: np.ndarray
    step: np.ndarray
    capped: np.ndarray

    def __len__(self) -> int:
        return len(self.R)

    def pull(self, U: np.ndarray) -> np.ndarray:
        """⟨M, U⟩ = G(U) - H(U) of every pair: how much U prefers g to h."""
        projections = (self.points.reshape(-1, len(U)) @ U).reshape(self.changes.shape)
        return np.asarray(np.einsum("nsk,nsk->n", projections, self.changes))

    def prediction_losses(self, U: np.ndarray) -> np.ndarray:
        """ℓ_U = H(U) - G(U) + √R of every pair."""
        return np.asarray(np.sqrt(self.R) - self.pull(U))

    def combine(self, a: np.ndarray) -> np.ndarray:
        """Σ a M, `(d, r)`."""
        d, r = self.W1.shape
        return np.asarray(self.points.reshape(-1, d).T @ (self.changes * a[:, None, None]).reshape(-1, r))

    def norms(self) -> np.ndarray:
        """|M|² of every pair. Each bit flips on one side only, so the sides do not mix."""
        return np.asarray(((self.points**2).sum(axis=2) * (self.changes**2).sum(axis=2)).sum(axis=1))

    def own_losses(self) -> np.ndarray:
        """ℓ(Wᵗ) of every pair: the learner's own prediction loss when it met the pair."""
        W, losses = self.W1.copy(), np.empty(len(self))
        for t in range(len(self)):
            M = self.points[t].T @ self.changes[t]
            losses[t] = math.sqrt(self.R[t]) - (M * W).sum()
            W += self.step[t] * M
        return losses


@dataclass(frozen=True, eq=False)
class Ledger:
    """A stream of pairs as it was learned: a `Trail` for each model.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing
    >>> from onlinehash.evaluate import bounds
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 4))
    >>> learner = OnlineHashing(n_bits=8, random_state=0)
    >>> ledger = bounds.follow(learner, A, B, A[:, 0] * B[:, 0] > 0)
    >>> ledger.n_pairs, len(ledger.models), ledger.cumulative_loss == learner.cumulative_loss_
    (200, 1, True)
    """

    n_pairs: int
    C: float
    models: tuple[Trail, ...]

    @property
    def cumulative_loss(self) -> float:
        """ΣR over the stream and the models."""
        return float(sum(trail.R.sum() for trail in self.models))

    @property
    def F2(self) -> float:
        """F²: the largest |x(g - h)ᵀ|² met."""
        return max((float(trail.norms().max(initial=0.0)) for trail in self.models), default=0.0)

    @property
    def smallest_C(self) -> float:
        """The least C that Theorems 2 and 3 ask for: max √R / F²."""
        largest = math.sqrt(max(float(trail.R.max(initial=0.0)) for trail in self.models))
        return largest / self.F2 if self.F2 else (math.inf if largest else 0.0)

    @property
    def capped_share(self) -> float:
        """How many of the steps C cut short."""
        n_steps = sum(np.count_nonzero(trail.step) for trail in self.models)
        return float(sum(trail.capped.sum() for trail in self.models)) / max(1, n_steps)


def follow(learner: OnlineHashing, A: ArrayLike, B: ArrayLike, similar: ArrayLike) -> Ledger:
    """Let a learner learn pairs, and keep what the analysis needs of them.

    It learns exactly what `learner.partial_fit_pairs(A, B, similar)` would. W1 is the learner's matrix before the
    first pair, whatever it learned until then; pairs that waited for a feature map are followed too.

    Parameters
    ----------
    learner : OnlineHashing or MultiModelOnlineHashing
        With `n_rounds=1`, and not with `centre="median"`.
    A, B : array-like of shape (n_pairs, n_features)
        The first and the second vectors of the pairs.
    similar : array-like of shape (n_pairs,)
        Bools, 1 and -1, or 1 and 0.

    Returns
    -------
    Ledger

    Raises
    ------
    InvalidInput
        If the learner is of another method, or values or shapes do not fit.
    InvalidParameter
        If the analysis does not hold for the learner's parameters.
    NotReady
        If the feature map still waits for points after these pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing
    >>> from onlinehash.evaluate.ledger import follow
    >>> A, B = np.random.default_rng(0).standard_normal((2, 100, 8))
    >>> ledger = follow(OnlineHashing(n_bits=8, random_state=0), A, B, A[:, 0] * B[:, 0] > 0)
    >>> ledger.n_pairs, len(ledger.models), ledger.cumulative_loss > 0
    (100, 1, True)
    """
    if not isinstance(learner, OnlineHashing):
        raise InvalidInput(
            expected="OnlineHashing or MultiModelOnlineHashing, as the analysis is theirs", got=repr(learner)
        )
    if learner.n_rounds != 1:
        raise InvalidParameter(
            expected="n_rounds=1, because the analysis knows one round only", got=f"{learner.n_rounds}"
        )
    if learner.centre == "median":
        raise InvalidParameter(expected="hash functions without thresholds, as in the analysis", got="centre='median'")
    recorder = _Recorder(learner)
    for _ in learner.learn_pairs_by(recorder.step, A, B, similar):
        pass  # the recorder has noted what the block did
    return recorder.ledger()


class _Recorder:
    """Makes a learner take the pairs one by one, and records what each of them did."""

    def __init__(self, learner: OnlineHashing) -> None:
        self.learner = learner
        self.W1: np.ndarray | None = None
        self.n_pairs = 0
        self.notes: list[list[tuple[Any, ...]]] = []

    def step(
        self,
        learn: LearnPairs,
        A: np.ndarray,
        B: np.ndarray,
        similar: np.ndarray,
        weights: np.ndarray,
        updates: Updates,
    ) -> None:
        """The `step` of `Learner.learn_pairs_by`."""
        if self.W1 is None:
            self.W1 = self._matrices()
            self.notes = [[] for _ in self.W1]
        for t in range(len(A)):
            one = slice(t, t + 1)
            update = updates.view(one)
            learn(A[one], B[one], similar[one], weights[one], update)
            self.n_pairs += 1
            if update.loss[0] > 0:
                mean = self.learner.mean_.astype(A.dtype)  # which the pair was centred with
                points = np.concatenate([A[one], B[one]]) - mean
                self._note(points.astype(np.float64), int(similar[t]), update)

    def _note(self, points: np.ndarray, s: int, update: Updates) -> None:
        flips = update.flips.reshape(-1, 1, self.learner.n_bits).astype(np.float64)
        side_j = np.rint(flips / 3)
        changes = 2 * np.concatenate([flips - 3 * side_j, side_j], axis=1)
        R = self._losses(points, s, np.count_nonzero(flips[:, 0], axis=1))
        for m in np.flatnonzero(R):
            self.notes[m].append((points, changes[m], R[m], update.step[0, m], update.capped[0, m]))

    def _losses(self, points: np.ndarray, s: int, n_flips: np.ndarray) -> np.ndarray:
        """R of each model that learned the pair, zero for the others; flips tell the distance there was."""
        alpha = self.learner.similar_radius
        b = dissimilar_distance(self.learner.dissimilar_ratio, self.learner.n_bits)
        distances = alpha + n_flips if s > 0 else math.ceil(b - 1e-9) - n_flips
        learned = n_flips > 0
        if not np.square(points).sum(axis=1).all():
            # A zero vector: models that flip nothing may have skipped the pair.
            bits = points @ self._matrices() >= 0
            distances = np.where(learned, distances, (bits[:, 0] != bits[:, 1]).sum(axis=1))
            learned |= s < 0
            if not learned.any():
                learned[distances.argmin()] = True
        return np.array([similarity_loss(D, s, alpha, b) for D in distances]) * learned

    def _matrices(self) -> np.ndarray:
        """W of every model, `(T, d, r)`."""
        W = self.learner.projection_.astype(np.float64)
        return W.reshape(-1, *W.shape[-2:])

    def ledger(self) -> Ledger:
        W = self._matrices()  # refuses a learner whose feature map still waits for anchors
        assert self.W1 is not None
        return Ledger(self.n_pairs, float(self.learner.C), tuple(map(_trail, self.W1, W, self.notes)))


def _trail(W1: np.ndarray, W: np.ndarray, notes: list[tuple[Any, ...]]) -> Trail:
    """The notes of one model, as arrays."""
    (d, r), n = W.shape, len(notes)
    points, changes, R, step, capped = zip(*notes, strict=True) if notes else ((),) * 5
    return Trail(
        W1,
        W,
        np.reshape(points, (n, 2, d)).astype(np.float64),
        np.reshape(changes, (n, 2, r)).astype(np.float64),
        np.array(R, np.float64),
        np.array(step, np.float64),
        np.array(capped, np.bool_),
    )
