"""Methods that learn from all points at once: `fit` is the only way in, and shows its progress.

They are here to be compared with, and for data that are all there before the first query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, eye_array, issparse, sparray, spmatrix

from onlinehash import checks
from onlinehash.arraylike import VectorLike
from onlinehash.errors import InvalidInput, NotIncremental
from onlinehash.features import FeatureMap
from onlinehash.learners.base import BLOCK_PAIRS
from onlinehash.learners.linear import LinearLearner
from onlinehash.numeric.threads import one_thread
from onlinehash.progress import progress_bar

#: Tells the progress bar the share that is done, and what to say beside it.
Show = Callable[[float | None, str], None]


class BatchLearner(LinearLearner):
    """A method fills in `_fit`; features are centred with the mean of all of them."""

    centre = "none"
    burn_in = 1

    def _fit(self, X: np.ndarray, classes: np.ndarray | None, rng: np.random.Generator, show: Show) -> np.ndarray:
        """W, `(n_inputs, n_bits)`, from centred features and the class number of each (None without labels).

        BLAS runs on one thread here, so the same rows always give the same result.
        """
        raise NotImplementedError

    def fit(self, X: VectorLike, y: ArrayLike | None = None) -> Self:
        """Forget everything, then learn from all points at once.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,)
            A label for each row; not needed by methods that learn without labels.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If values or shapes do not fit; nothing is forgotten then.
        """
        self.check_free()
        rows = checks.vectors(X)
        name = type(self).__name__
        if self.traits.learns_from == "labels" and y is None:
            raise InvalidInput(f"{name} requires y to be passed, but the target y is None; pass a label for each row.")
        fresh = self._unfitted()
        labels = None if self.traits.learns_from == "nothing" else checks.labels(y, len(rows))
        fresh._open(rows, X)
        fresh._learn_all(rows, None if labels is None else fresh._classes.members(labels)[:, 0])
        self._adopt(fresh)
        return self

    def _learn_all(self, rows: np.ndarray, known: Any) -> None:
        """Learn checked rows, with their labels or similarities, on a new learner."""
        rows = self._lengths.enter_all(rows)
        self._met_outliers = self.n_outliers_ > 0
        if self._map is not None and not self._map.is_ready:
            self._map.partial_fit(rows)
            self._map.start()
        if not self.is_ready:
            self._start(rows)
        Z = rows if self._map is None else _mapped(self._map, rows)
        self._centring.mean = Z.mean(axis=0, dtype=np.float64)
        X = (Z - self._centring.mean).astype(self.dtype_)
        with one_thread(), progress_bar() as show:
            W = self._fit(X, known, np.random.default_rng([self._seed, 2]), show)
        self._lay_out(W[None])
        self.n_points_seen_ = len(rows)
        self.version_ = 1
        self._look_for_outliers(rows)

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(np.zeros((1, n_inputs, self.n_bits)))

    @property
    def partial_fit(self) -> NoReturn:
        """Refused: a batch method cannot continue learning."""
        raise NotIncremental(
            f"{type(self).__name__} is a batch method and cannot continue learning; call fit with all points, or use a "
            "method that learns online."
        )


def _mapped(feature_map: FeatureMap, rows: np.ndarray) -> np.ndarray:
    """Map all rows, block by block."""
    blocks = range(0, len(rows), BLOCK_PAIRS)
    return np.concatenate([feature_map.map_rows(rows[start : start + BLOCK_PAIRS]) for start in blocks])


# ------------------------------------------------------------------ similarities in place of labels

BatchMethod = TypeVar("BatchMethod", bound=BatchLearner)


def fit_similarities(self: BatchMethod, X: VectorLike, similar: ArrayLike | sparray | spmatrix) -> BatchMethod:
    """Forget everything, then learn from points of which it is known which are similar.

    A method whose `_fit` takes a `csr_array` of bools with a full diagonal in place of class numbers has this as one of
    its own methods.

    Parameters
    ----------
    X : array-like of shape (n, n_features)
    similar : array-like or sparse matrix of shape (n, n)
        Symmetric: bools, +1 (similar) and -1, or sparse with positive entries for similar pairs. The diagonal does not
        matter.

    Returns
    -------
    self

    Raises
    ------
    InvalidInput
        If values or shapes do not fit; nothing is forgotten then.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import KernelSupervisedHashing
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> similar = np.sign(X[:, :1] * X[:, 0])  # +1 where both have the same sign in their first number
    >>> KernelSupervisedHashing(n_bits=4, random_state=0).fit_similarities(X, similar).encode(X)
    Codes(n=60, n_bits=4)
    """
    self.check_free()
    rows = checks.vectors(X)
    matrix = similarity_matrix(similar, len(rows))
    fresh = self._unfitted()
    fresh._open(rows, X)
    fresh._learn_all(rows, matrix)
    self._adopt(fresh)
    return self


def similarity_matrix(similar: ArrayLike | sparray | spmatrix, n: int) -> csr_array:
    """The checked similarities as a sparse matrix of bools; every point is similar to itself."""
    matrix = _sparse(similar, n) if issparse(similar) else _dense(similar, n)
    turned = matrix.T.tocsr()
    if not (np.array_equal(matrix.indptr, turned.indptr) and np.array_equal(matrix.indices, turned.indices)):
        raise InvalidInput(
            expected="similar to be symmetric", got="a pair that is similar one way only", hint="take M | M.T"
        )
    whole: csr_array = matrix + eye_array(n, dtype=np.bool_, format="csr")
    whole.sort_indices()
    return whole


def _sparse(similar: sparray | spmatrix, n: int) -> csr_array:
    _check_shape(similar.shape, n)
    matrix = csr_array(similar)
    if matrix.dtype.kind not in "biuf" or not (np.isfinite(matrix.data) & (matrix.data >= 0)).all():
        raise InvalidInput(
            expected="a sparse similar to hold True or positive numbers for similar pairs and nothing for others",
            got=checks.shown(np.unique(matrix.data)[:4].tolist()),
        )
    matrix = matrix.astype(np.bool_)  # which is a copy
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _dense(similar: ArrayLike, n: int) -> csr_array:
    try:
        values = np.asarray(similar)
    except ValueError:
        raise InvalidInput(expected="a square matrix for similar", got="rows of unequal length") from None
    _check_shape(values.shape, n)
    return csr_array(checks.are_similar(values))


def _check_shape(shape: tuple[int, ...], n: int) -> None:
    if shape != (n, n):
        raise InvalidInput(
            expected=f"a matrix of shape ({n}, {n}) for similar, a row and a column for each row of X", got=f"{shape}"
        )
