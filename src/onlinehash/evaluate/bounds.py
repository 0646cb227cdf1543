"""The paper's statements about the cumulative loss, computed for a stream that was learned.

    ledger = bounds.follow(learner, A, B, similar)     learn the pairs and keep what the analysis needs
    print(bounds.report(ledger))                       against the best matrix in hindsight
    print(bounds.report(ledger, U))                    against a matrix of yours

For a comparison matrix U let ℓ_U = H(U) - G(U) + √R be its prediction loss on a pair, and M = x(g - h)ᵀ.

    Lemma 1     Σ τ (2ℓ(Wᵗ) - τ|M|² - 2ℓ_U) ≤ |U - W1|²; the slack is |W - U|², W being the last matrix
    Theorem 2   ΣR ≤ F² (|U - W1|² + 2C Σ ℓ_U), where F² ≥ |M|² and C ≥ √R / F² for every pair
    Theorem 3   the same for several models, summed

Theorem 2 as printed puts C for τ in Σ τ ℓ_U, which needs ℓ_U ≥ 0 on every pair; with max(0, ℓ_U) it holds for
any U. `docs/explanation/loss.md` has the whole story, with measurements.

Examples
--------
>>> import numpy as np
>>> from onlinehash import OnlineHashing
>>> from onlinehash.evaluate import bounds
>>> A, B = np.random.default_rng(0).standard_normal((2, 200, 4))
>>> ledger = bounds.follow(OnlineHashing(n_bits=8, random_state=0), A, B, A[:, 0] * B[:, 0] > 0)
>>> found = bounds.report(ledger)
>>> found.cumulative_loss <= found.safe
True
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from onlinehash.errors import InvalidInput
from onlinehash.evaluate.hindsight import Hindsight, best_in_hindsight
from onlinehash.evaluate.ledger import Ledger, Trail, follow

__all__ = ["Hindsight", "Ledger", "Report", "Trail", "best_in_hindsight", "follow", "report", "scaled"]


@dataclass(frozen=True, eq=False)
class Report:
    """What the analysis says about one stream and one comparison matrix; arrays have an entry per model.

    lemma_left, lemma_right: the two sides of Lemma 1; distance: |W - U|²; prediction_loss: Σ ℓ_U;
    hinge_loss: Σ max(0, ℓ_U); negative_share: of the pairs with loss, those with ℓ_U < 0; gap: the duality
    gap, where U is the best in hindsight. Three right-hand sides bound `cumulative_loss`: `stepwise`, with
    Σ τ ℓ_U, and `safe`, with C Σ max(0, ℓ_U), if C is large enough; `printed`, with C Σ ℓ_U, only where no
    ℓ_U is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing
    >>> from onlinehash.evaluate import bounds
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 4))
    >>> ledger = bounds.follow(OnlineHashing(n_bits=8, random_state=0), A, B, A[:, 0] * B[:, 0] > 0)
    >>> found = bounds.report(ledger)
    >>> bool((found.lemma_left <= found.lemma_right).all()), found.is_C_enough
    (True, True)
    """

    n_pairs: int
    n_losses: int
    cumulative_loss: float
    C: float
    smallest_C: float
    capped_share: float
    F2: float
    lemma_left: np.ndarray
    lemma_right: np.ndarray
    distance: np.ndarray
    prediction_loss: np.ndarray
    hinge_loss: np.ndarray
    negative_share: float
    stepwise: float
    safe: float
    printed: float
    gap: float | None

    @property
    def slack(self) -> np.ndarray:
        """Of Lemma 1; equal to `distance` up to rounding."""
        return np.asarray(self.lemma_right - self.lemma_left)

    @property
    def is_C_enough(self) -> bool:
        """Whether C satisfies the theorems' condition."""
        return self.smallest_C <= self.C

    def __str__(self) -> str:
        models = f" ({len(self.distance)} models together)" if len(self.distance) > 1 else ""
        theorem = "Theorem 3" if models else "Theorem 2"
        U = "a given U" if self.gap is None else f"the best U in hindsight (duality gap {self.gap:.0e})"
        lines = [
            f"{self.n_pairs:,} pairs, {self.n_losses:,} with loss{models}; cumulative loss {self.cumulative_loss:,.1f}",
            f"C = {self.C:g}, which cut {self.capped_share:.1%} of the steps short; {theorem} asks for "
            f"{self.smallest_C:.2g} or more (F² = {self.F2:,.1f}): {'yes' if self.is_C_enough else 'NO'}",
            f"compared with {U}:",
            f"  Lemma 1    {self.lemma_left.sum():,.2f} <= {self.lemma_right.sum():,.2f}, "
            f"slack {self.slack.sum():,.2f}, |W - U|² {self.distance.sum():,.2f}",
            f"  ℓ_U        sum {self.prediction_loss.sum():,.1f}, positive part "
            f"{self.hinge_loss.sum():,.1f}, {self.negative_share:.1%} negative",
        ]
        for form in ("stepwise", "safe", "printed"):
            right = getattr(self, form)
            # The other two are theorems: they can fail only where C does not meet their condition.
            is_promised = form == "printed" or self.is_C_enough
            sign = "<=" if self.cumulative_loss <= right else f"> ({'VIOLATED' if is_promised else 'C is too small'})"
            lines.append(f"  {theorem}, {form + ':':9} {self.cumulative_loss:,.1f} {sign} {right:,.1f}")
        return "\n".join(lines)


def report(ledger: Ledger, U: ArrayLike | None = None) -> Report:
    """All of it for U: `(d, r)` for every model, `(T, d, r)`, one for each, or None: the best in hindsight.

    For several models `stepwise` and `safe` sum over them, each with its own W1. `printed` is the paper's
    T F² (|U - W1|² + 2C Σ ℓ_U); it does not say whose W1 and ℓ_U are meant: those that make it largest.

    Returns
    -------
    Report

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing
    >>> from onlinehash.evaluate import bounds
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 4))
    >>> ledger = bounds.follow(OnlineHashing(n_bits=8, random_state=0), A, B, A[:, 0] * B[:, 0] > 0)
    >>> print(str(bounds.report(ledger)).split(";")[0])
    200 pairs, 97 with loss
    """
    hindsight = best_in_hindsight(ledger) if U is None else None
    matrices = _comparison(ledger, U) if hindsight is None else hindsight.U
    C, F2 = ledger.C, ledger.F2
    rows = []
    for trail, U_m in zip(ledger.models, matrices, strict=True):
        tau, norms, ell = trail.step, trail.norms(), trail.prediction_losses(U_m)
        # A skipped pair has τ = min(C, ℓ / 0) = C: it moves nothing (M = 0), but the theorems count it.
        formal = np.where(norms > 0, tau, C)
        left = tau @ (2 * trail.own_losses() - tau * norms - 2 * ell)
        squares = ((U_m - trail.W1) ** 2).sum(), ((U_m - trail.W) ** 2).sum()
        rows.append((left, *squares, ell.sum(), np.maximum(ell, 0).sum(), formal @ ell, (ell < 0).sum()))
    left, right, distance, plain, hinge, weighed, negative = np.array(rows, np.float64).T
    n_losses = sum(len(trail) for trail in ledger.models)
    return Report(
        n_pairs=ledger.n_pairs,
        n_losses=n_losses,
        cumulative_loss=ledger.cumulative_loss,
        C=C,
        smallest_C=ledger.smallest_C,
        capped_share=ledger.capped_share,
        F2=F2,
        lemma_left=left,
        lemma_right=right,
        distance=distance,
        prediction_loss=plain,
        hinge_loss=hinge,
        negative_share=float(negative.sum()) / max(1, n_losses),
        stepwise=float(F2 * (right + 2 * weighed).sum()),
        safe=float(F2 * (right + 2 * C * hinge).sum()),
        printed=float(len(rows) * F2 * (right + 2 * C * plain).max()),
        gap=None if hindsight is None else hindsight.gap,
    )


def scaled(ledger: Ledger, U: ArrayLike) -> np.ndarray:
    """The paper's γU for each model, `(T, d, r)`: scaled so that its prediction losses sum to zero.

    The paper concludes that the cumulative loss stays below F² |γU - W1|² for ever. It does not follow, as
    some of these losses are negative: `report(ledger, scaled(ledger, U)).printed` can be below the loss.

    Returns
    -------
    ndarray of shape (T, d, r)

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing
    >>> from onlinehash.evaluate import bounds
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 4))
    >>> ledger = bounds.follow(OnlineHashing(n_bits=8, random_state=0), A, B, A[:, 0] * B[:, 0] > 0)
    >>> U = bounds.scaled(ledger, ledger.models[0].W)
    >>> bool(abs(bounds.report(ledger, U).prediction_loss.sum()) < 1e-6)
    True
    """
    out = []
    for trail, U_m in zip(ledger.models, _comparison(ledger, U), strict=True):
        pull, wanted = trail.pull(U_m).sum(), np.sqrt(trail.R).sum()
        if pull == 0 and wanted > 0:
            raise InvalidInput("the sum of H - G is zero for this U; try another one.")
        out.append(U_m * (wanted / pull if wanted > 0 else 1.0))
    return np.stack(out)


def _comparison(ledger: Ledger, U: ArrayLike | None) -> np.ndarray:
    """U as `(T, d, r)`."""
    shape = (len(ledger.models), *ledger.models[0].W1.shape)
    matrices = np.asarray(U, dtype=np.float64)
    if matrices.shape not in (shape, shape[1:]) or not np.isfinite(matrices).all():
        raise InvalidInput(expected=f"U with finite values, {shape[1:]} or {shape}", got=f"{matrices.shape}")
    return np.broadcast_to(matrices, shape)
