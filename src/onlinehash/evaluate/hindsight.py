"""The comparison matrix that makes the paper's bound smallest, found when the whole stream is known.

    minimise over U   |U - W1|² + 2C Σ max(0, ℓ_U)            a support vector machine that starts at W1

Its dual has one number a, from 0 to C, for each pair with loss, and U = W1 + Σ a M with M = x(g - h)ᵀ:

    maximise over a   2 Σ a ℓ_W1 - |Σ a M|²

The learner's steps τ are such numbers, and its pass over the stream is one round of coordinate ascent on this
dual: at a = τ the dual's value is Σ τ (2ℓ(Wᵗ) - τ|M|²), the part of Lemma 1 that does not depend on U.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinehash.evaluate.ledger import Ledger, Trail

#: The duality gap to reach, as a share of the value. Where C is large and pairs contradict each other, the
#: solver may stop too early; begun anew from where it stopped, it goes on.
TOLERANCE = 1e-6
RESTARTS = 20


@dataclass(frozen=True, eq=False)
class Hindsight:
    """U `(T, d, r)`, a matrix for each model; `value`, which it attains; `dual`, below which nothing can.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing
    >>> from onlinehash.evaluate import bounds
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 4))
    >>> ledger = bounds.follow(OnlineHashing(n_bits=8, random_state=0), A, B, A[:, 0] * B[:, 0] > 0)
    >>> found = bounds.best_in_hindsight(ledger)
    >>> found.U.shape, found.dual <= found.value, found.gap < 1e-3
    ((1, 4, 8), True, True)
    """

    U: np.ndarray
    value: float
    dual: float

    @property
    def gap(self) -> float:
        """How far from the best U may be, as a share of the value."""
        return (self.value - self.dual) / self.value if self.value else 0.0


def best_in_hindsight(ledger: Ledger) -> Hindsight:
    """The best U for each model.

    Returns
    -------
    Hindsight

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing
    >>> from onlinehash.evaluate import bounds
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 4))
    >>> ledger = bounds.follow(OnlineHashing(n_bits=8, random_state=0), A, B, A[:, 0] * B[:, 0] > 0)
    >>> bounds.best_in_hindsight(ledger).gap < 1e-3
    True
    """
    U, values, duals = zip(*(_solve(trail, ledger.C) for trail in ledger.models), strict=True)
    return Hindsight(np.stack(U), sum(values), sum(duals))


def _solve(trail: Trail, C: float) -> tuple[np.ndarray, float, float]:
    """U, its value and the dual's, by a quasi-Newton method on the dual, starting at the learner's steps."""
    if len(trail) == 0:
        return trail.W1, 0.0, 0.0
    from scipy.optimize import Bounds, minimize

    at_start = trail.prediction_losses(trail.W1)
    lengths = np.sqrt(trail.norms())
    scale = 1.0 / np.where(lengths > 0, lengths, 1.0)  # in units of 1 / |M| the problem is well conditioned

    def less_dual(z: np.ndarray) -> tuple[float, np.ndarray]:
        a = z * scale
        V = trail.combine(a)
        return float((V**2).sum() - 2 * a @ at_start), -2 * scale * (at_start - trail.pull(V))

    a = np.where(lengths > 0, trail.step, C)
    options = {"maxiter": 10_000, "maxfun": 20_000, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-10}
    for _ in range(RESTARTS):
        bounds = Bounds(0, C / scale)
        found = minimize(less_dual, a / scale, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        a = np.clip(found.x * scale, 0, C)
        V = trail.combine(a)
        value = float((V**2).sum() + 2 * C * np.maximum(at_start - trail.pull(V), 0).sum())
        dual = float(2 * a @ at_start - (V**2).sum())
        if value - dual <= TOLERANCE * value:
            break
    return trail.W1 + V, value, dual
