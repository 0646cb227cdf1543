"""The one gate for input: what passes here is finite, dense, C-contiguous, float32 or float64, and of the right width.

Every function returns a checked value or raises an error that says what was expected, what was got and what to do,
before anything changed.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

from onlinehash.arraylike import as_array
from onlinehash.errors import InvalidInput, InvalidParameter, InvalidType

#: The largest weight of a pair. A pair that counts as a million others is a mistake, and up to this bound no method's
#: step overflows on vectors that pass the gate.
MOST_WEIGHT = 1e6


def vectors(X: object, name: str = "X", dtype: np.dtype | None = None) -> np.ndarray:
    """A matrix of finite vectors, one a row; float32 stays float32 unless `dtype` asks otherwise."""
    return finite(matrix(X, name, dtype), name)


def matrix(X: object, name: str = "X", dtype: np.dtype | None = None) -> np.ndarray:
    """`vectors` without a look at the values: numbers, shape, dtype (what is not float32 becomes float64), layout."""
    if (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.size
        and X.flags.c_contiguous
        and X.dtype == (_real_dtype(X.dtype) if dtype is None else dtype)
    ):
        return X  # as nearly all rows come, and for a few of them the questions below take as long as the rest
    X = _numbers(X, name)
    if X.ndim != 2:
        raise InvalidInput(
            f"Expected 2D array, got {X.ndim}D array instead for {name} (shape {X.shape}). "
            f"Reshape your data with {name}.reshape(1, -1) if it is a single vector.",
            expected="2D array",
            got=f"{X.ndim}D array instead for {name} (shape {X.shape})",
            hint=f"reshape your data with {name}.reshape(1, -1) if it is a single vector",
        )
    for axis, what in enumerate(("sample(s)", "feature(s)")):
        if X.shape[axis] == 0:
            found = f"array with 0 {what} (shape={X.shape})"
            raise InvalidInput(f"Found {found} while a minimum of 1 is required.", expected="a minimum of 1", got=found)
    with np.errstate(over="ignore"):  # a float64 too large for float32 becomes inf, which `finite` refuses
        return np.ascontiguousarray(X, dtype=dtype if dtype is not None else _real_dtype(X.dtype))


def finite(X: np.ndarray, name: str = "X") -> np.ndarray:
    """Rows whose values and sums of squares are finite."""
    # One pass at memory speed; only a sum over all rows can overflow needlessly. Other products warn of an overflow,
    # and to silence them takes longer than to check a single row.
    if math.isfinite(np.vdot(X, X)):
        return X
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("nd,nd->n", X, X)
    if not np.isfinite(squares).all():
        row = int(np.argmin(np.isfinite(squares)))
        problem = (
            "contains NaN"
            if np.isnan(X[row]).any()
            else "contains infinity (inf)"
            if np.isinf(X[row]).any()
            else f"has values whose squares overflow {X.dtype} to inf"
        )
        raise InvalidInput(
            f"{name} {problem} in row {row}; expected finite values, clean or rescale that row.",
            expected="finite values",
            got=f"{name} {problem}",
            hint="clean or rescale that row",
        )
    return X


def is_row(X: object) -> bool:
    """Whether it is one vector, without a dimension for rows; what cannot be taken is not, and is refused later."""
    try:
        return as_array(X, "X").ndim == 1
    except InvalidInput:
        return False


def row(x: object, name: str) -> np.ndarray:
    """One vector, given as a sequence of numbers or a matrix of one row, as the latter; `vectors` checks the rest."""
    vector = _numbers(x, name)
    if vector.ndim == 1:
        vector = vector.reshape(1, -1)
    if vector.ndim != 2 or vector.shape[0] != 1:
        raise InvalidInput(
            expected=f"one vector for {name}", got=f"shape {vector.shape}", hint="pass matrices to partial_fit_pairs"
        )
    return vector


def width(X: np.ndarray, n_features: int, owner: str, name: str = "X") -> None:
    """X has `n_features` columns."""
    if X.shape[1] != n_features:
        raise InvalidInput(
            f"{name} has {X.shape[1]} features, but {owner} is expecting {n_features} features as input.",
            expected=f"{n_features} features",
            got=f"{name} has {X.shape[1]} features",
        )


def same_length(name: str, got: int, expected: int, of: str) -> None:
    """Two aligned arrays."""
    if got != expected:
        raise InvalidInput(expected=f"{name} with {expected} entries, one for each row of {of}", got=f"{got}")


#: What pairs are that are not similar, and those that are. A look into it is four times as fast as `np.where`.
_SIGNS = np.array([-1, 1], np.int8)


def similarities(similar: object, n: int) -> np.ndarray:
    """`n` pair labels as int8: +1 similar, -1 dissimilar; given as bools, as +1 and -1, or as 1 and 0.

    0 beside -1 is refused, as one of them may mean that nobody knows.
    """
    values = np.atleast_1d(as_array(similar, "similar"))
    if values.ndim != 1:
        raise InvalidInput(expected="a vector of pair labels for similar", got=f"shape {values.shape}")
    same_length("similar", len(values), n, "A and B")
    return _SIGNS[are_similar(values).astype(np.intp)]


def are_similar(values: np.ndarray) -> np.ndarray:
    """Labels of any shape as bools."""
    if values.dtype == np.bool_:
        return values
    if values.dtype.kind in "iuf":
        is_one = values == 1
        if any(bool((is_one | (values == other)).all()) for other in (-1, 0)):
            return np.asarray(is_one)
    raise InvalidInput(
        expected="similar to be bools, or 1 for similar pairs and either -1 or 0 for others", got=_sample(values)
    )


def weights(sample_weight: object, n: int, most: float = MOST_WEIGHT) -> np.ndarray:
    """`n` weights from 0 to `most`; None means one each."""
    if sample_weight is None:
        return np.ones(n)
    values = np.atleast_1d(_numbers(sample_weight, "sample_weight")).astype(np.float64)
    if values.ndim != 1:
        raise InvalidInput(expected="a vector for sample_weight", got=f"shape {values.shape}")
    same_length("sample_weight", len(values), n, "A and B")
    wrong = ~((values >= 0) & (values <= most))
    if wrong.any():
        raise InvalidInput(expected=f"sample_weight from 0 to {most:g}", got=_sample(values[wrong]))
    return values


#: Bytes that any compressed file may unpack to, and how many times its own size a larger one may.
MOST_UNPACKED, MOST_RATIO = 1 << 30, 100


def unpacked(path: str | os.PathLike[str], packed: int, size: int) -> None:
    """Refuse a compressed file that would unpack to far more than it is: it was made to fill the memory."""
    if size > most_unpacked(packed):
        raise InvalidInput(
            f"{path} has {packed} bytes and would unpack to {size} or more, over {MOST_RATIO} times as many; if this "
            "is meant, unpack it into a file that is not compressed, such as npy."
        )


def most_unpacked(packed: int) -> int:
    """Bytes that a compressed file of so many may unpack to."""
    return max(MOST_UNPACKED, MOST_RATIO * packed)


def labels(y: object, n: int, several: bool = False) -> np.ndarray:
    """`n` class labels: numbers, bools or strings; or, where a point may have several, a 0/1 column for each class."""
    # Many classes come sparse.
    values: np.ndarray = y.toarray() if several and hasattr(y, "toarray") else as_array(y, "y")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if several and values.ndim == 2:
        same_length("y", len(values), n, "X")
        if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
            raise InvalidInput(expected="a matrix y to hold 0 and 1, a column for each class", got=_sample(values))
        return values.astype(np.bool_)
    if values.ndim != 1:
        raise InvalidInput(expected="a vector of labels for y", got=f"shape {values.shape}")
    same_length("y", len(values), n, "X")
    if values.dtype.kind == "O":
        if any(v is None or v != v for v in values):
            raise InvalidInput("Input y contains NaN or None; expected a label for each row.")
        values = np.asarray([str(v) for v in values]) if any(isinstance(v, str) for v in values) else _numbers(y, "y")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidInput("Input y contains NaN or infinity (inf); expected a finite label for each row.")
    if values.dtype.kind not in "biufUS":
        raise InvalidInput(expected="numbers, bools or strings as labels", got=f"dtype {values.dtype}")
    return values


Rule = tuple[str, Callable[[Any], bool]]


def integer(low: int, high: float = math.inf) -> Rule:
    """A whole number from `low` to `high`."""
    text = f"an integer of at least {low}" if high == math.inf else f"an integer from {low} to {high:.0f}"
    text = str(low) if high == low else text
    return text, lambda v: isinstance(v, Integral) and not isinstance(v, bool) and low <= int(v) <= high


def real(low: float, high: float = math.inf, *, above: bool = False) -> Rule:
    """A finite number from `low` (or above it) to `high`."""
    text = f"a finite number {'above' if above else 'of at least'} {low:g}"
    if high != math.inf:
        text += f" and at most {high:g}"
    return (
        text,
        lambda v: (
            isinstance(v, Real)
            and not isinstance(v, bool)
            and (not isinstance(v, Integral) or abs(int(v)) < 2**1000)  # which float() takes
            and math.isfinite(v)
            and (float(v) > low if above else float(v) >= low)
            and float(v) <= high
        ),
    )


def one_of(*choices: Any) -> Rule:
    """One of some strings, or None where it is listed."""
    return "one of " + ", ".join(
        repr(c) for c in choices
    ), lambda v: (v is None or isinstance(v, str | bool)) and v in choices


def either(*rules: Rule) -> Rule:
    """Any of several rules."""
    return " or ".join(text for text, _ in rules), lambda v: any(test(v) for _, test in rules)


def parameters(owner: str, values: dict[str, Any], rules: dict[str, Rule]) -> None:
    """Check each value by its rule."""
    for name, (text, test) in rules.items():
        if not test(values[name]):
            got = shown(values[name])
            raise InvalidParameter(
                f"{owner} expects {name} to be {text}, got {got}.", expected=f"{name} to be {text}", got=got
            )


def shown(value: object) -> str:
    """A value in a message: on one line, and short."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} values and shape {value.shape}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def warn(message: str) -> None:
    """A UserWarning that points at the caller's line outside this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("onlinehash"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def _numbers(X: object, name: str) -> np.ndarray:
    """An array of real numbers, its dtype as it came (objects that are numbers become float64)."""
    array = as_array(X, name)
    try:
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
    except TypeError as error:
        raise InvalidType(expected=f"numbers for {name}", got=f"an object: {error}") from None
    except (ValueError, OverflowError) as error:
        raise InvalidInput(expected=f"numbers for {name}", got=f"something else: {error}") from None
    if array.dtype.kind == "c":
        raise InvalidInput(f"Complex data not supported: expected real numbers for {name}.")
    if array.dtype.kind in "US":
        hint = "embed it with a model first, which gives vectors"
        raise InvalidInput(expected=f"numbers for {name}", got="text", hint=hint)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(expected=f"numbers for {name}", got=f"dtype {array.dtype}", hint="convert it to float32")
    return array


def _real_dtype(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32 if dtype in (np.float16, np.float32) else np.float64)


def _sample(values: np.ndarray) -> str:
    """A few of the values, for a message."""
    return f"{values.dtype} values such as {', '.join(str(v) for v in np.unique(values.astype(str))[:4])}"
