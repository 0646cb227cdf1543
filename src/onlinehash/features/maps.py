"""One face for every feature map a learner can be given: `RbfAnchors`, or any scikit-learn transformer."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from onlinehash import checks
from onlinehash.errors import InvalidInput, InvalidParameter, OnlineHashError
from onlinehash.features.rbf_anchors import RbfAnchors
from onlinehash.types import State

#: A transformer that comes unfitted is fitted on the first this many points of the stream.
WARM_UP = 300


class Transformer(Protocol):
    """`RbfAnchors`, or a transformer with the methods of scikit-learn's."""

    def fit(self, X: np.ndarray, /) -> object: ...
    def transform(self, X: np.ndarray, /) -> ArrayLike: ...


class FeatureMap(Protocol):
    """A map that may need points of the stream before it can start, and never changes afterwards."""

    @property
    def is_ready(self) -> bool: ...
    @property
    def n_waiting_for(self) -> int: ...
    @property
    def n_outputs(self) -> int | None: ...
    def check(self, X: np.ndarray) -> None: ...
    def partial_fit(self, X: np.ndarray) -> object: ...
    def start(self) -> None: ...
    def map_rows(self, X: np.ndarray) -> np.ndarray: ...
    def fork(self) -> FeatureMap: ...
    def get_state(self) -> State: ...
    def set_state(self, state: State) -> None: ...


def make_map(features: Transformer | None, dtype: DTypeLike = np.float64, seed: int = 0) -> FeatureMap | None:
    """A map of its own from the learner's `features` parameter, which is never touched; a fitted one stays fitted."""
    if features is None:
        return None
    if isinstance(features, RbfAnchors):
        anchors: RbfAnchors = clone(features)
        if features.is_ready:
            given = {"anchors": features.anchors_.astype(dtype), "dtype": str(np.dtype(dtype)), "collected": []}
            anchors.set_state({**features.get_state(), **given})
        return anchors
    if hasattr(features, "fit") and hasattr(features, "transform") and not isinstance(features, type):
        return TransformerMap(features, seed)
    raise InvalidParameter(
        expected="features to be None, RbfAnchors or a scikit-learn transformer", got=checks.shown(features)
    )


def same_map(a: FeatureMap | None, b: FeatureMap | None) -> bool:
    """Whether two maps that are ready give the same features."""
    return a is b or (type(a) is type(b) and same_values(vars(a), vars(b)))


def same_values(a: Any, b: Any) -> bool:
    """Equality of plain values, arrays, estimators, and any nesting of them."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_values(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same_values(*pair) for pair in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if hasattr(a, "get_params") and hasattr(b, "get_params"):
        return type(a) is type(b) and same_values(vars(a), vars(b))
    if isinstance(a, TransformerMap) and isinstance(b, TransformerMap):  # inside another map
        return same_values(vars(a), vars(b))
    return bool(a == b)


def given_parameters(estimator: Any) -> dict[str, Any]:
    """`estimator.get_params(deep=False)`, without inspecting the constructor's signature at every call."""
    if getattr(type(estimator), "get_params", None) is not BaseEstimator.get_params:  # it may have other parameters
        return dict(estimator.get_params(deep=False))
    return {name: getattr(estimator, name) for name in _parameter_names(estimator.__class__)}


@cache
def _parameter_names(cls: Any) -> tuple[str, ...]:
    return tuple(cls._get_param_names())


def same_parameters(a: object, b: object) -> bool:
    """`same_values`, except that of estimators only the parameters count, not what they have learned."""
    if hasattr(a, "get_params") and hasattr(b, "get_params"):
        return type(a) is type(b) and same_parameters(given_parameters(a), given_parameters(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_parameters(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same_parameters(*pair) for pair in zip(a, b, strict=True))
    return a is b or same_values(a, b)


class TransformerMap:
    """A scikit-learn transformer as a feature map.

    A fitted one is used as it is; an unfitted one is fitted on the first points of the stream. Rows are transformed
    one at a time: scikit-learn's own products depend on how many rows go in together, and a learner's must not.
    """

    transformer: Any  # scikit-learn has no types

    def __init__(self, transformer: Transformer, seed: int = 0) -> None:
        self._collected: list[np.ndarray] = []
        try:
            check_is_fitted(transformer)
            self.transformer, self.is_ready = _settled(transformer), True
        except NotFittedError:
            self.transformer, self.is_ready = clone(transformer), False
            unseeded = {k for k, v in self.transformer.get_params().items() if k.endswith("random_state") and v is None}
            self.transformer.set_params(**dict.fromkeys(unseeded, seed % 2**32))  # so that it fits alike anywhere

    @property
    def n_waiting_for(self) -> int:
        return 0 if self.is_ready else WARM_UP - len(self._collected)

    @property
    def n_outputs(self) -> int | None:
        """Not known before a row was mapped."""
        return None

    def check(self, X: np.ndarray) -> None:
        """Refuse rows that a fitted transformer does not take."""
        if self.is_ready:
            expected: Any = getattr(self.transformer, "n_features_in_", X.shape[1])
            checks.width(X, expected, f"the {type(self.transformer).__name__} given as features")

    def partial_fit(self, X: np.ndarray) -> TransformerMap:
        for row in X:
            if len(self._collected) + 1 == WARM_UP:
                self._fit([*self._collected, row])
            if not self.is_ready:
                self._collected.append(row.copy())
        return self

    def start(self) -> None:
        if not self.is_ready and self._collected:
            self._fit(self._collected)

    def _fit(self, rows: list[np.ndarray]) -> None:
        try:
            fitted = clone(self.transformer).fit(np.stack(rows))
        except (ValueError, TypeError, ArithmeticError) as error:
            raise InvalidParameter(
                f"cannot fit {checks.shown(self.transformer)} on the first {len(rows)} points: "
                f"{' '.join(str(error).split()).rstrip('.')}."
            ) from None
        self.transformer, self._collected, self.is_ready = _settled(fitted), [], True

    def map_rows(self, X: np.ndarray) -> np.ndarray:
        try:
            rows = [self.transformer.transform(X[n : n + 1]) for n in range(len(X))]
        except OnlineHashError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise InvalidInput(
                f"{type(self.transformer).__name__}, given as features, cannot transform a row: "
                f"{' '.join(str(error).split()).rstrip('.')}."
            ) from error
        rows = [row.toarray() if hasattr(row, "toarray") else np.asarray(row) for row in rows]
        with np.errstate(over="ignore"):
            mapped = np.ascontiguousarray(np.concatenate(rows), dtype=X.dtype)
        return checks.finite(mapped, f"what {type(self.transformer).__name__} makes of the data")

    def fork(self) -> TransformerMap:
        """A map that collects on its own from here on; one that is ready never changes, and is its own fork."""
        if self.is_ready:
            return self
        fork = copy.copy(self)
        fork._collected = list(self._collected)
        return fork

    def get_state(self) -> State:
        return {"collected": self._collected, "transformer": self.transformer if self.is_ready else None}

    def set_state(self, state: State) -> None:
        self._collected = [np.array(row) for row in state["collected"]]
        self.is_ready = state["transformer"] is not None
        if self.is_ready:
            self.transformer = state["transformer"]


def _settled(transformer: Any) -> Any:
    """A copy as a file would give it back: arrays in one piece, and no names of columns, as rows come without."""
    settled = copy.deepcopy(transformer)
    for part in (settled, *settled.get_params().values()):
        if hasattr(part, "get_params"):
            vars(part).pop("feature_names_in_", None)
    return settled
