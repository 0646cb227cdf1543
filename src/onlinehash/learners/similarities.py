"""Batch methods that learn from a similarity matrix too: which of the points are similar, pair by pair."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, eye_array, issparse

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.learners.batch import BatchLearner


class SimilarityLearner(BatchLearner):
    """A method whose `_fit` takes class numbers, or a `csr_array` of bools with a whole diagonal in their place."""

    def fit_similarities(self, X: Any, similar: Any) -> Self:
        """Forget, then learn from points of which it is known which are similar. A refused call forgets nothing.

        `similar` is a symmetric matrix, a row and a column for each row of X: bools, +1 (similar) and -1, or sparse
        with positive entries for similar pairs. What its diagonal says does not matter.
        """
        self.check_free()
        rows = checks.vectors(X)
        matrix = similarity_matrix(similar, len(rows))
        fresh = type(self)(**self.get_params(deep=False))
        fresh._open(rows, X)
        fresh._learn_all(rows, matrix)
        self._adopt(fresh)
        return self


def similarity_matrix(similar: Any, n: int) -> csr_array:
    """Who is similar to whom, checked, as a sparse matrix of bools; every point is similar to itself."""
    matrix = _sparse(similar, n) if issparse(similar) else _dense(similar, n)
    turned = matrix.T.tocsr()
    if not (np.array_equal(matrix.indptr, turned.indptr) and np.array_equal(matrix.indices, turned.indices)):
        raise InvalidInput("expected similar to be symmetric, got a pair that is similar one way only; take M | M.T.")
    whole: csr_array = matrix + eye_array(n, dtype=np.bool_, format="csr")
    whole.sort_indices()
    return whole


def _sparse(similar: Any, n: int) -> csr_array:
    _check_shape(similar.shape, n)
    matrix = csr_array(similar)
    if matrix.dtype.kind not in "biuf" or not (np.isfinite(matrix.data) & (matrix.data >= 0)).all():
        raise InvalidInput(
            f"expected a sparse similar to hold True or positive numbers for similar pairs and nothing for others, "
            f"got {checks.shown(np.unique(matrix.data)[:4].tolist())}."
        )
    matrix = matrix.astype(np.bool_)  # which is a copy
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _dense(similar: Any, n: int) -> csr_array:
    try:
        values = np.asarray(similar)
    except ValueError:
        raise InvalidInput("expected a square matrix for similar, got rows of unequal length.") from None
    _check_shape(values.shape, n)
    if values.dtype != np.bool_:
        if values.dtype.kind not in "iuf" or not ((values == 1) | (values == -1)).all():
            raise InvalidInput(
                "expected similar to hold bools, or +1 for similar pairs and -1 for others, got other values; "
                "compare them with a threshold."
            )
        values = values == 1
    return csr_array(values)


def _check_shape(shape: tuple[int, ...], n: int) -> None:
    if shape != (n, n):
        raise InvalidInput(
            f"expected a matrix of shape ({n}, {n}) for similar, a row and a column for each row of X, got {shape}."
        )
