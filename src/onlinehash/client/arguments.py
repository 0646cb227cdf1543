"""Arguments in the form in which they are sent; what cannot be sent is refused here, as `LiveIndex` would refuse it.

Vectors stay float32 or become float64, as in `LiveIndex`; the service checks their width and values.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.arraylike import VectorLike, as_array
from onlinehash.codes import Codes, check_same_width
from onlinehash.embed.embedder import checked
from onlinehash.errors import InvalidInput
from onlinehash.index import api as index
from onlinehash.index import keys
from onlinehash.live import filters
from onlinehash.live.payloads import Payloads
from onlinehash.live.queries import VectorKind

T = TypeVar("T")


def listed(ids: ArrayLike) -> list[index.Id]:
    """Ids, one or several."""
    found = keys.given([ids] if isinstance(ids, str | int | np.integer) else ids)
    names: list[index.Id] = keys.shown_at(found, np.arange(keys.count(found))).tolist()
    return names


def rows(X: VectorLike, name: str = "X") -> np.ndarray:
    """Vectors as a matrix; a single one may be a plain sequence."""
    return checks.matrix(checks.row(X, name) if checks.is_row(X) else X, name)


def pairs(A: VectorLike, B: VectorLike, similar: ArrayLike, sample_weight: ArrayLike | None) -> dict[str, np.ndarray]:
    """Pairs of vectors, their labels and weights, checked in the same order as by a learner."""
    A, B = checks.matrix(A, "A"), checks.matrix(B, "B")
    checks.same_length("B", len(B), len(A), "A")
    checks.width(B, A.shape[1], "its partner A", "B")
    return {"a": A, "b": B} | labels_of_pairs(similar, sample_weight, len(A))


def labels_of_pairs(similar: ArrayLike, sample_weight: ArrayLike | None, n: int) -> dict[str, np.ndarray]:
    """The labels of n pairs as +1 and -1, and their weights."""
    return {"similar": checks.similarities(similar, n), "weight": checks.weights(sample_weight, n)}


def labels(y: ArrayLike, n: int) -> np.ndarray | list[str]:
    """Labels of points: as they are where they are numbers, else as strings."""
    try:
        values = np.asarray(y)
    except ValueError:
        values = np.empty(0, object)
    if values.dtype.kind not in "biuf" or values.ndim not in (1, 2):
        values = checks.labels(y, n)
    return values if values.dtype.kind in "biuf" else [str(label) for label in values.tolist()]


def payloads(given: index.Payloads | None, n: int) -> list[index.Payload | None] | None:
    """JSON objects for n items, with plain numbers."""
    if given is None:
        return None
    return [None if text is None else _unicode(json.loads(text), "payloads") for text in Payloads.checked(given, n)]


def texts(given: Sequence[str]) -> list[str]:
    """Texts, which can be sent."""
    found = checked(given)
    _unicode("".join(found), "texts")
    return found


def where(given: index.Where | None) -> index.Where | None:
    """A filter, which must not contain Python functions."""
    if given is None:
        return None
    filters.checked(given)
    for field, condition in given.items():
        if callable(condition):
            raise InvalidInput(
                expected=f"a condition on {field!r} that can be sent to a service",
                got="a function",
                hint="use values and operators, or filter what comes back",
            )
    return _unicode(given, "where")


def _unicode(value: T, name: str) -> T:
    """A JSON value, if all its strings can be sent."""
    try:
        json.dumps(value, ensure_ascii=False, default=lambda number: number.item()).encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            expected=f"valid Unicode in {name}", got="half of a surrogate pair", hint="it cannot be sent"
        ) from None
    return value


# ------------------------------------------------------------------ queries


class Asked(NamedTuple):
    """Queries: the name and value of their field, how many there are, and whether it is a single one."""

    field: str
    value: np.ndarray | list[str] | str
    n: int
    one: bool


def queries(given: VectorLike | Codes, n_bits: int, n_models: int) -> Asked:
    """Vectors or codes; bools in arrays and lists are vectors, as in `LiveIndex`."""
    if isinstance(given, Codes):
        check_same_width(given, no_codes(n_bits, n_models))
        return Asked("codes", texts_of(given), len(given), False)
    array = as_array(given, "queries")
    if array.ndim == 0:
        raise InvalidInput(expected="queries in one or two dimensions", got=checks.shown(given))
    several = array[None] if array.ndim == 1 else array
    if array.dtype == np.bool_ and not isinstance(given, np.ndarray | list):
        asked = queries(Codes.from_bits(several, n_models), n_bits, n_models)
        return Asked("code", asked.value[0], 1, True) if array.ndim == 1 else asked
    if len(several) == 0:
        return Asked("vectors", several, 0, False)
    several = checks.matrix(several.astype(np.float32) if array.dtype == np.bool_ else several)
    return Asked("vector", several[0], 1, True) if array.ndim == 1 else Asked("vectors", several, len(several), False)


def kind_of(queries: VectorLike) -> VectorKind:
    """Width and type of the queries themselves; the service compares them with those of the index."""
    try:
        array = as_array(queries, "queries")
    except InvalidInput:  # which is raised again where they are checked
        array = np.empty(0)
    is_single = array.dtype in (np.float16, np.float32)
    return VectorKind(array.shape[-1] if array.ndim else 0, np.dtype(np.float32 if is_single else np.float64))


def no_codes(n_bits: int, n_models: int) -> Codes:
    """An empty set of codes of this width."""
    return Codes.from_bits(np.empty((0, n_models * n_bits), np.bool_), n_models)


def texts_of(codes: Codes) -> list[str]:
    """Codes in hexadecimal digits."""
    return [row.tobytes().hex() for row in codes.rows()]


def codes_of(texts: list[str], n_bits: int, n_models: int) -> Codes:
    """The inverse of `texts_of`."""
    data = np.frombuffer(bytes.fromhex("".join(texts)), np.uint8)
    return Codes.from_rows(data.reshape(len(texts), no_codes(n_bits, n_models).n_planes), n_bits, n_models)
