"""The paper's kernel map: RBF similarities to anchor points that the stream itself provides."""

from __future__ import annotations

import copy
import math

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from onlinehash import checks
from onlinehash.errors import FormatError
from onlinehash.features.estimators import NotFitted, note_feature_names
from onlinehash.io.format import like, listed, real, whole
from onlinehash.numeric.dots import aligned_zeros, dot_of_rows, row_dots
from onlinehash.numeric.exponential import exp_of_nonpositive
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.views import read_only
from onlinehash.types import State

#: width="auto" is the median distance among the anchors times this (docs/reference/learners/features.md).
AUTO_WIDTH_FACTOR = 0.5

#: A map that has waited for this many times its anchors starts with what is there.
PATIENCE = 10

#: The least and the greatest width: their squares are finite, and not zero.
WIDTHS = 1e-150, 1e150

#: By how much vectors or their kernel values are scaled at most, up or down.
MOST_SCALED = 1e15


class RbfAnchors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """`z(x) = [κ(x, a_1), ..., κ(x, a_m)]` with `κ(x, a) = exp(-|x - a|² / 2 width²)`.

    The anchors are the first `n_anchors` distinct points seen, as in the paper (no clustering: the stream need not be
    kept), unless they are given. With `linear=True` the vector itself comes first, `[x / s, z(x) / t]`, with s and t
    such that both parts of the anchors vary alike. What a straight line separates is then as easy as before, and what
    it does not is no longer lost.

    Parameters
    ----------
    n_anchors : int, default=300
        How many anchors (m) to collect; ignored where `anchors` are given.
    width : float or "auto", default="auto"
        The kernel's width σ. The paper sets 1, and does not say whether its vectors have unit length; "auto" is half
        the median distance among the anchors.
    normalize : bool, default=False
        Scale every vector to unit length first.
    anchors : array of shape (m, n_features), default=None
        Anchors of your own.
    linear : bool, default=False
        Put the vector itself before its kernel values.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, RbfAnchors
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> RbfAnchors(50).fit(X).transform(X).shape
    (200, 50)
    >>> learner = OnlineHashing(n_bits=8, features=RbfAnchors(50), random_state=0)
    >>> learner.observe(X).projection_.shape
    (50, 8)
    """

    n_features_in_: int

    def __init__(
        self,
        n_anchors: int = 300,
        width: float | str = "auto",
        normalize: bool = False,
        anchors: ArrayLike | None = None,
        linear: bool = False,
    ) -> None:
        self.n_anchors = n_anchors
        self.width = width
        self.normalize = normalize
        self.anchors = anchors
        self.linear = linear

    def fit(self, X: ArrayLike, y: object = None) -> RbfAnchors:
        """Forget; take the first distinct rows of X as anchors, all of them if there are fewer than asked for."""
        self._check_parameters(checks.vectors(X))
        self._forget()
        self.partial_fit(X)
        self.start()
        return self

    def partial_fit(self, X: ArrayLike, y: object = None) -> RbfAnchors:
        """Offer points; they become anchors until there are enough.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import RbfAnchors
        >>> anchors = RbfAnchors(50).partial_fit(np.eye(8))
        >>> anchors.start()  # eight of them are enough
        >>> anchors.transform(np.eye(8)).shape
        (8, 8)
        """
        first = not hasattr(self, "n_features_in_")
        rows = checks.vectors(X)
        if first:
            self._check_parameters(rows)
        else:
            checks.width(rows, self.n_features_in_, "RbfAnchors")
        note_feature_names(self, X, first)
        if first:
            self.n_features_in_ = rows.shape[1]
            self._collected: dict[bytes, np.ndarray] = {}
            self.n_points_seen_ = 0
            self.dtype_ = rows.dtype
            if self.anchors is not None:
                self._set_anchors(np.array(self.anchors, rows.dtype))
        for row in rows.astype(self.dtype_, copy=False):
            if self.is_ready:
                break
            self.n_points_seen_ += 1
            self._collected.setdefault((row + 0).tobytes(), row.copy())  # -0 and 0 are one number
            if len(self._collected) == self.n_anchors:
                self.start()
            elif self.n_points_seen_ >= PATIENCE * self.n_anchors:
                checks.warn(
                    f"RbfAnchors waited for {self.n_points_seen_} points and saw {len(self._collected)} distinct "
                    f"ones; it starts with these as anchors instead of {self.n_anchors}.",
                )
                self.start()
        return self

    @property
    def is_ready(self) -> bool:
        """Whether there are enough anchors."""
        return hasattr(self, "anchors_")

    @property
    def n_waiting_for(self) -> int:
        """How many more distinct points are needed."""
        return 0 if self.is_ready else self.n_anchors - len(getattr(self, "_collected", ()))

    @property
    def n_outputs(self) -> int | None:
        """How many features a vector gets, once that is known."""
        return self._n_features_out if self.is_ready else None

    def start(self) -> None:
        """Make the points collected so far the anchors.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import RbfAnchors
        >>> anchors = RbfAnchors(50).partial_fit(np.eye(8))
        >>> anchors.start()
        >>> anchors.transform(np.eye(8)).shape
        (8, 8)
        """
        if not self.is_ready and self._collected:
            self._set_anchors(np.stack(list(self._collected.values())))

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Kernel values `(n, m)`, after the rows if `linear`; a row's values do not depend on the other rows."""
        if not self.is_ready:
            raise NotFitted("This RbfAnchors has no anchors yet; call fit, or partial_fit until is_ready.")
        rows = checks.vectors(X, dtype=self.dtype_)
        checks.width(rows, self.n_features_in_, "RbfAnchors")
        note_feature_names(self, X, first=False)
        return self.map_rows(rows)

    def map_rows(self, X: np.ndarray) -> np.ndarray:
        """`transform` for rows that have passed the gate."""
        out = np.empty((len(X), self._n_features_out), X.dtype)
        n_first = X.shape[1] if self.linear else 0
        for start in range(0, len(X), 1024):
            stop = min(start + 1024, len(X))
            shifted = aligned_zeros((stop - start, X.shape[1]), X.dtype)
            norms = _shift_rows(read_only(X[start:stop]), read_only(self._shift), self.normalize, shifted)
            values = np.empty((stop - start, len(self._rows)), X.dtype) if self.linear else out[start:stop]
            row_dots(read_only(self._rows), read_only(shifted), 0, stop - start, values)
            _kernel_values(values, norms, read_only(self._norms), -0.5 / self.width_**2)
            if self.linear:
                np.multiply(shifted[:, :n_first], X.dtype.type(self._scales[0]), out=out[start:stop, :n_first])
                np.multiply(values, X.dtype.type(self._scales[1]), out=out[start:stop, n_first:])
        return out

    def fork(self) -> RbfAnchors:
        """A map that collects on its own from here on; one that is ready never changes, and is its own fork."""
        if self.is_ready:
            return self
        fork = copy.copy(self)
        if hasattr(self, "_collected"):
            fork._collected = dict(self._collected)
        return fork

    def check(self, X: np.ndarray) -> None:
        """Refuse rows that a fitted map does not take, bad parameters, and anchors of another space."""
        if self.is_ready:
            checks.width(X, self.n_features_in_, "the RbfAnchors given as features")
        self._check_parameters(X)

    def _check_parameters(self, X: np.ndarray) -> None:
        checks.parameters(
            "RbfAnchors",
            self.get_params(deep=False),
            {
                "n_anchors": checks.integer(1, 10**6),
                "width": checks.either(checks.real(*WIDTHS), checks.one_of("auto")),
                "normalize": ("True or False", lambda v: isinstance(v, bool)),
                "linear": ("True or False", lambda v: isinstance(v, bool)),
            },
        )
        if self.anchors is not None:
            checks.width(checks.vectors(self.anchors, "anchors", X.dtype), X.shape[1], "this stream", "anchors")

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _set_anchors(self, anchors: np.ndarray) -> None:
        self.anchors_ = anchors
        self._collected = {}
        self._prepare()
        squares = self._square_distances()
        distances = np.sqrt(squares[np.triu_indices(len(squares), 1)])
        if self.width == "auto":
            typical = float(np.median(distances)) if len(distances) else 0.0
            self.width_ = min(max(AUTO_WIDTH_FACTOR * typical, WIDTHS[0]), WIDTHS[1]) if typical else 1.0
        else:
            self.width_ = float(self.width)
        if len(distances):
            mean = float(np.exp(-0.5 * (distances / self.width_) ** 2).mean())
            if not 0.01 <= mean <= 0.99:
                checks.warn(
                    f"RbfAnchors: kernel values are degenerate (mean {mean:.3g} among the anchors, expected 0.01 to "
                    f"0.99) at width {self.width_:.3g}; use width='auto', or normalize=True with width=1.",
                )
        if self.linear:
            self._scales = self._scales_of_parts(squares)

    def _prepare(self) -> None:
        """What the row kernels want: anchors less their mean (distances then do not cancel), padded, with norms."""
        padded = aligned_zeros(self.anchors_.shape, self.dtype_)
        zero = np.zeros(self.anchors_.shape[1])
        anchors = read_only(self.anchors_)
        _shift_rows(anchors, read_only(zero), self.normalize, padded)
        self._shift = padded[:, : len(zero)].mean(axis=0, dtype=np.float64)
        self._rows = aligned_zeros(self.anchors_.shape, self.dtype_)
        self._norms = _shift_rows(anchors, read_only(self._shift), self.normalize, self._rows)

    def _scales_of_parts(self, squares: np.ndarray) -> tuple[float, float]:
        """By what to multiply vectors and kernel values, so that either part of the anchors has a mean square of 1
        about its mean; without the 1 that an anchor has as its own kernel value, which no other point has."""
        m = len(squares)
        values = np.exp(-0.5 * squares / self.width_**2)[~np.eye(m, dtype=np.bool_)].reshape(m, m - 1)
        spreads = float(self._norms.mean()), float(values.var(axis=1).sum()) if m > 2 else 0.0
        scales = (1 / math.sqrt(spread) if spread > 0 else 1.0 for spread in spreads)
        linear, kernel = (scale if 1 / MOST_SCALED <= scale <= MOST_SCALED else 1.0 for scale in scales)
        return linear, kernel

    def _square_distances(self) -> np.ndarray:
        """Among the anchors."""
        products = np.empty((len(self._rows), len(self._rows)), self.dtype_)
        row_dots(read_only(self._rows), read_only(self._rows), 0, len(self._rows), products)
        squares = self._norms[:, None] + self._norms - 2 * products
        return np.asarray(np.maximum(squares, 0.0))

    @property
    def _n_features_out(self) -> int:
        return len(self.anchors_) + (self.n_features_in_ if self.linear else 0)

    def get_state(self) -> State:
        """Everything learned, as plain values and arrays."""
        if not hasattr(self, "n_features_in_"):
            return {}
        ready: State = {"anchors": self.anchors_, "width": self.width_} if self.is_ready else {}
        if self.is_ready and self.linear:
            ready["scales"] = list(self._scales)
        return {
            "n_features": self.n_features_in_,
            "dtype": str(self.dtype_),
            "n_points_seen": self.n_points_seen_,
            "collected": [row.astype(self.dtype_) for row in self._collected.values()],
            **ready,
        }

    def set_state(self, state: State) -> None:
        """Go on where `get_state` was called."""
        self._forget()
        if not state:
            return
        if state["dtype"] not in ("float32", "float64"):
            raise FormatError(expected="float32 or float64", got=checks.shown(state["dtype"]))
        self.dtype_ = np.dtype(state["dtype"])
        self.n_features_in_ = whole(state["n_features"], "n_features", 1, 2**24)
        self.n_points_seen_ = whole(state["n_points_seen"], "n_points_seen")
        point = np.zeros(self.n_features_in_, self.dtype_)
        self._check_parameters(point[None])
        rows = [like(row, point, "a collected point") for row in listed(state["collected"], "collected")]
        self._collected = {(row + 0).tobytes(): row for row in rows}
        if "anchors" in state:
            shape = (len(state["anchors"]), self.n_features_in_)
            self.anchors_ = like(state["anchors"], np.zeros(shape, self.dtype_), "anchors")
            self.width_ = real(state["width"], "width", *WIDTHS)
            if not len(self.anchors_):
                raise FormatError(expected="at least one anchor", got="none")
            self._prepare()
            if self.linear:
                given, bounds = listed(state["scales"], "scales", 2), (1 / MOST_SCALED, MOST_SCALED)
                linear, kernel = (real(scale, "a scale", *bounds) for scale in given)
                self._scales = linear, kernel


@njit(nogil=True, cache=True)
def _shift_rows(X: np.ndarray, shift: np.ndarray, normalize: bool, out: np.ndarray) -> np.ndarray:
    """out = X (scaled to unit length if asked) - shift, in padded rows; returns the squared lengths of the results."""
    norms = np.empty(X.shape[0])
    for n in range(X.shape[0]):
        for i in range(X.shape[1]):
            out[n, i] = X[n, i]
        scale = 1.0
        if normalize:
            square = dot_of_rows(out, n, n)
            if square > 0.0:
                scale = 1.0 / math.sqrt(square)
        for i in range(X.shape[1]):
            out[n, i] = X[n, i] * scale - shift[i]
        norms[n] = dot_of_rows(out, n, n)
    return norms


@njit(nogil=True, cache=True)
def _kernel_values(products: np.ndarray, x_norms: np.ndarray, a_norms: np.ndarray, factor: float) -> None:
    """products[n, k] = x.a becomes exp(factor |x - a|²)."""
    for n in range(products.shape[0]):
        for k in range(products.shape[1]):
            square = x_norms[n] + a_norms[k] - 2.0 * np.float64(products[n, k])
            products[n, k] = exp_of_nonpositive(factor * max(square, 0.0))
