"""Do the bits carry information? Balance, dead bits, correlation, entropy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput

#: A bit that is equal for more than all but this share of the items tells them apart hardly ever.
DEAD_SHARE = 0.02

#: Codes unpacked at once.
BLOCK_ROWS = 65536


@dataclass(frozen=True, eq=False)
class BitHealth:
    """How well each bit splits the items, and how much the bits repeat one another.

    balance: share of ones per bit; one half carries the most information.
    dead: the bits whose share of ones is below 2 % or above 98 %.
    correlation: mean absolute correlation between two different bits, constant ones left out; 0 is best.
    entropy: mean entropy of a bit, from 0 (constant) to 1 (balanced).

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import evaluate
    >>> health = evaluate.bit_health(np.array([[True, True], [False, True]] * 50))  # the second bit is always 1
    >>> health.balance, health.dead, health.entropy
    (array([0.5, 1. ]), array([1]), 0.5)
    """

    balance: np.ndarray
    dead: np.ndarray
    correlation: float
    entropy: float


def bit_health(codes: Codes | ArrayLike) -> BitHealth:
    """Report how well each bit splits the items, and how much the bits repeat one another.

    Parameters
    ----------
    codes : Codes, or array-like of bools of shape (n, bits)

    Returns
    -------
    BitHealth

    Raises
    ------
    InvalidInput
        If there are no codes.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import evaluate
    >>> health = evaluate.bit_health(np.array([[True, False, True], [False, False, True]] * 50))
    >>> health.balance, health.dead
    (array([0.5, 0. , 1. ]), array([1, 2]))
    """
    if not isinstance(codes, Codes):
        codes = Codes.from_bits(codes)
    if len(codes) == 0:
        raise InvalidInput("there are no codes to report on.")
    counts = np.zeros((codes.n_columns, codes.n_columns))
    for start in range(0, len(codes), BLOCK_ROWS):
        counts += _counts_together(codes[start : start + BLOCK_ROWS])
    together = counts / len(codes)
    p = together.diagonal()
    return BitHealth(
        balance=p.copy(),
        dead=np.flatnonzero((p < DEAD_SHARE) | (p > 1 - DEAD_SHARE)),
        correlation=_mean_correlation(together, p),
        entropy=float(np.mean(_surprise(p) + _surprise(1 - p))),
    )


def _counts_together(codes: Codes) -> np.ndarray:
    """How often two bits are both one, `(bits, bits)`; exact, as counts below 2**24 are in float32."""
    bits = codes.bits().astype(np.float32)
    return (bits.T @ bits).astype(np.float64)


def _mean_correlation(together: np.ndarray, p: np.ndarray) -> float:
    varies = (p > 0) & (p < 1)
    p, together = p[varies], together[np.ix_(varies, varies)]
    if len(p) < 2:
        return 0.0
    spread = np.sqrt(p * (1 - p))
    correlations = np.abs(together - np.outer(p, p)) / np.outer(spread, spread)
    return float((correlations.sum() - correlations.trace()) / (len(p) * (len(p) - 1)))


def _surprise(p: np.ndarray) -> np.ndarray:
    """-p log2 p, zero at zero."""
    return -p * np.log2(np.where(p > 0, p, 1))
