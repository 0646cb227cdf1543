"""Is one method better than another, or were the queries kind to it? A paired test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.errors import InvalidInput

#: Signs drawn at once.
BLOCK_SIGNS = 2**20


@dataclass(frozen=True)
class PairedTest:
    """What the same queries say about two methods.

    difference: mean of a - b. low, high: its confidence interval. p_value: how often chance alone would make the
    difference as large, in either direction. n: queries that both answered.

    Examples
    --------
    >>> from onlinehash import evaluate
    >>> found = evaluate.paired_test([0.6, 0.7, 0.4, 0.8, 0.9, 0.5], [0.5, 0.7, 0.2, 0.7, 0.6, 0.4])
    >>> f"{found.difference:.2f} ({found.low:.2f} to {found.high:.2f}), p = {found.p_value:.2f}, {found.n} queries"
    '0.13 (0.02 to 0.24), p = 0.06, 6 queries'
    """

    difference: float
    low: float
    high: float
    p_value: float
    n: int


def paired_test(
    a: ArrayLike, b: ArrayLike, *, confidence: float = 0.95, n_flips: int = 9999, random_state: int = 0
) -> PairedTest:
    """Compare two methods by their values for the same queries, as `per_query=True` gives them.

    The p-value is that of the sign-flip permutation test: if the methods were equal, each difference could as well have
    the other sign, so the mean difference is compared with `n_flips` means with random signs, p = (1 + those at least
    as far from 0) / (1 + n_flips). It supposes no distribution. The interval is Student's t. A query for which either
    value is NaN is left out.

    Parameters
    ----------
    a, b : array-like of shape (n,)
    confidence : float, default=0.95
    n_flips : int, default=9999
    random_state : int, default=0

    Returns
    -------
    PairedTest

    Raises
    ------
    InvalidInput
        If fewer than two queries have a value in both.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import evaluate
    >>> a = np.linspace(0.4, 0.6, 50)
    >>> found = evaluate.paired_test(a + 0.1, a)
    >>> round(found.difference, 3), found.p_value < 0.001, found.n
    (0.1, True, 50)
    """
    rules = {
        "confidence": checks.real(0, 1, above=True),
        "n_flips": checks.integer(1),
        "random_state": checks.integer(0),
    }
    given = {"confidence": confidence, "n_flips": n_flips, "random_state": random_state}
    checks.parameters("paired_test", given, rules)
    first, second = _values(a, "a"), _values(b, "b")
    checks.same_length("b", len(second), len(first), "a")
    differences = (first - second)[~(np.isnan(first) | np.isnan(second))]
    if len(differences) < 2:
        raise InvalidInput(expected="at least two queries with a value in both", got=f"{len(differences)}")
    mean = float(differences.mean())
    reach = _reach(differences, confidence)
    p_value = _share_as_far(differences, n_flips, np.random.default_rng(random_state))
    return PairedTest(mean, mean - reach, mean + reach, p_value, len(differences))


def _reach(differences: np.ndarray, confidence: float) -> float:
    """Half of Student's interval for the mean."""
    from scipy.stats import t

    n = len(differences)
    return float(t.ppf((1 + confidence) / 2, n - 1) * differences.std(ddof=1) / np.sqrt(n))


def _share_as_far(differences: np.ndarray, n_flips: int, rng: np.random.Generator) -> float:
    n = len(differences)
    observed = abs(differences.sum())
    slack = 1e-12 * np.abs(differences).sum()  # equal sums in another order must count as equal
    as_far, size = 0, max(1, BLOCK_SIGNS // n)
    for start in range(0, n_flips, size):
        signs = rng.integers(2, size=(min(size, n_flips - start), n), dtype=np.int8) * 2 - 1
        as_far += int((np.abs(signs @ differences) >= observed - slack).sum())
    return (1 + as_far) / (1 + n_flips)


def _values(values: ArrayLike, name: str) -> np.ndarray:
    found = np.asarray(values, np.float64)
    if found.ndim != 1 or np.isinf(found).any():
        raise InvalidInput(
            expected=f"{name} to be a vector with a finite value or NaN for each query", got=checks.shown(values)
        )
    return found
