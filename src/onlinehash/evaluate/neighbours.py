"""Which pairs of a training set are neighbours of one another: similarity where there are no labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.numeric.neighbours import distances_of_kth, number_of, pair_distances


def neighbour_radii(
    X: ArrayLike, share: float = 0.05, *, k: int | None = None, rows: ArrayLike | None = None
) -> np.ndarray:
    """Return how far the nearest of the other rows of X reach: the distance of the last of them.

    Exact: the radius is the float64 distance to a row, even if float32 was used on the way.

    Parameters
    ----------
    X : array-like of shape (n, n_features)
    share : float, default=0.05
        The nearest are this share of the other rows (rounded, at least one), by Euclidean distance.
    k : int, optional
        The number of nearest rows, instead of a share.
    rows : array-like of int, optional
        The rows to look at; all by default.

    Returns
    -------
    ndarray of float64
        One radius for each row.

    Raises
    ------
    InvalidInput
        If X has fewer than two rows.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import evaluate
    >>> evaluate.neighbour_radii(np.array([[0.0], [1.0], [3.0]]), k=1)
    array([1., 1., 2.])
    """
    X = checks.vectors(X)
    if len(X) < 2:
        raise InvalidInput("neighbours need at least two rows in X, got one.")
    wanted = np.arange(len(X)) if rows is None else _positions(rows, len(X), "rows")
    return distances_of_kth(X, wanted, number_of(len(X) - 1, share, k))


def are_neighbours(
    X: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    share: float = 0.05,
    *,
    k: int | None = None,
    radii: ArrayLike | None = None,
) -> np.ndarray:
    """Return for rows first[t] and second[t] of X whether either is among the other's nearest.

    That is, their distance is at most the `neighbour_radii` of either, so all rows at that very distance are
    neighbours. A row is not its own neighbour, but an equal row can be.

    Parameters
    ----------
    X : array-like of shape (n, n_features)
    first, second : array-like of int
        Row numbers of X.
    share, k
        How many are nearest, as in `neighbour_radii`.
    radii : array-like of shape (n,), optional
        The radii of all rows, if they are known; by default those of rows that occur in pairs are computed.

    Returns
    -------
    ndarray of bool

    Raises
    ------
    InvalidInput
        If row numbers are not valid, or `first` and `second` differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import evaluate
    >>> evaluate.are_neighbours(np.array([[0.0], [1.0], [3.0]]), [0, 0, 2], [1, 2, 1], k=1)
    array([ True, False,  True])
    """
    X = checks.vectors(X)
    first, second = _positions(first, len(X), "first"), _positions(second, len(X), "second")
    if len(first) != len(second):
        raise InvalidInput(f"first and second must have equal lengths, got {len(first)} and {len(second)}.")
    if radii is None:
        rows, at = np.unique(np.concatenate([first, second]), return_inverse=True)
        reach = neighbour_radii(X, share, k=k, rows=rows)
        of_first, of_second = reach[at[: len(first)]], reach[at[len(first) :]]
    else:
        reach = np.asarray(radii, np.float64)
        checks.same_length("radii", len(reach), len(X), "X")
        of_first, of_second = reach[first], reach[second]
    near: np.ndarray = (pair_distances(X, first, second) <= np.maximum(of_first, of_second)) & (first != second)
    return near


def _positions(rows: ArrayLike, n: int, name: str) -> np.ndarray:
    values = np.asarray(rows)
    if values.size == 0:
        values = values.astype(np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu" or not ((values >= 0) & (values < n)).all():
        raise InvalidInput(expected=f"{name} to hold row numbers of X from 0 to {n - 1}", got=checks.shown(rows))
    return values.astype(np.int64)
