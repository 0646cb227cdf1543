"""What a caller gives, as it travels: refused here as `LiveIndex` would refuse it, if it cannot travel.

Vectors keep the type in which `LiveIndex` would take them, float32 or float64; their width and values are looked at by
the service, which knows what it expects.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes, check_same_width
from onlinehash.embed.embedder import checked
from onlinehash.errors import InvalidInput
from onlinehash.index import keys
from onlinehash.live import filters
from onlinehash.live.payloads import Payloads


def listed(ids: Any) -> list[int] | list[str]:
    """Ids, one or several."""
    found = keys.given([ids] if isinstance(ids, str | int | np.integer) else ids)
    return keys.shown_at(found, np.arange(keys.count(found))).tolist()


def rows(X: Any, name: str = "X") -> np.ndarray:
    """Vectors; one may come without a dimension for it."""
    try:
        is_one = np.ndim(X) == 1
    except ValueError:  # rows of several lengths
        is_one = False
    return checks.matrix(checks.row(X, name) if is_one else X, name)


def pairs(A: Any, B: Any, similar: Any, sample_weight: Any) -> dict[str, np.ndarray]:
    """Pairs of vectors, their labels and weights, looked at in the order in which a learner does it."""
    A, B = checks.matrix(A, "A"), checks.matrix(B, "B")
    checks.same_length("B", len(B), len(A), "A")
    checks.width(B, A.shape[1], "its partner A", "B")
    return {"a": A, "b": B} | labels_of_pairs(similar, sample_weight, len(A))


def labels_of_pairs(similar: Any, sample_weight: Any, n: int) -> dict[str, np.ndarray]:
    """The labels of n pairs as +1 and -1, and their weights."""
    return {"similar": checks.similarities(similar, n), "weight": checks.weights(sample_weight, n)}


def labels(y: Any, n: int) -> Any:
    """Labels of points: as they are where they are numbers, else as strings."""
    try:
        values = np.asarray(y)
    except ValueError:
        values = np.empty(0, object)
    if values.dtype.kind not in "biuf" or values.ndim not in (1, 2):
        values = checks.labels(y, n)
    return values if values.dtype.kind in "biuf" else [str(label) for label in values.tolist()]


def payloads(given: Any, n: int) -> list[dict[str, Any] | None] | None:
    """JSON objects for n items, with plain numbers."""
    if given is None:
        return None
    return [None if text is None else _unicode(json.loads(text), "payloads") for text in Payloads.checked(given, n)]


def texts(given: Any) -> list[str]:
    """Texts, which can be sent."""
    found: list[str] = _unicode(checked(given), "texts")
    return found


def where(given: Any) -> Any:
    """A filter, which must not ask a Python function."""
    if given is None:
        return None
    filters.checked(given)
    for field, condition in given.items():
        if callable(condition):
            raise InvalidInput(
                f"expected a condition on {field!r} that can be sent to a service, got a function; use values and "
                "operators, or filter what comes back."
            )
    return _unicode(given, "where")


def _unicode(value: Any, name: str) -> Any:
    """A JSON value, if all its texts can be sent."""
    try:
        json.dumps(value, ensure_ascii=False, default=lambda number: number.item()).encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"expected valid Unicode in {name}, got half of a surrogate pair; it cannot be sent."
        ) from None
    return value


# ------------------------------------------------------------------ queries


class Asked(NamedTuple):
    """Queries: the name of their field and what is in it, how many they are, and whether it is one by itself."""

    field: str
    value: Any
    n: int
    one: bool


def queries(given: Any, n_bits: int, n_models: int) -> Asked:
    """Vectors or codes; bools in arrays and lists are vectors, as in `LiveIndex`."""
    if isinstance(given, Codes):
        check_same_width(given, no_codes(n_bits, n_models))
        return Asked("codes", texts_of(given), len(given), False)
    try:
        array = np.asarray(given)
    except ValueError:
        raise InvalidInput("expected queries of one length, got rows of several.") from None
    if array.ndim == 0:
        raise InvalidInput(f"expected queries in one or two dimensions, got {checks.shown(given)}.")
    several = array[None] if array.ndim == 1 else array
    if array.dtype == np.bool_ and not isinstance(given, np.ndarray | list):
        asked = queries(Codes.from_bits(several, n_models), n_bits, n_models)
        return Asked("code", asked.value[0], 1, True) if array.ndim == 1 else asked
    if len(several) == 0:
        return Asked("vectors", several, 0, False)
    several = checks.matrix(several.astype(np.float32) if array.dtype == np.bool_ else several)
    return Asked("vector", several[0], 1, True) if array.ndim == 1 else Asked("vectors", several, len(several), False)


def no_codes(n_bits: int, n_models: int) -> Codes:
    """Codes of this width, none of them."""
    return Codes.from_bits(np.empty((0, n_models * n_bits), np.bool_), n_models)


def texts_of(codes: Codes) -> list[str]:
    """Codes in hexadecimal digits."""
    return [row.tobytes().hex() for row in codes.rows()]


def codes_of(texts: list[str], n_bits: int, n_models: int) -> Codes:
    """What `texts_of` was given."""
    data = np.frombuffer(bytes.fromhex("".join(texts)), np.uint8)
    return Codes.from_rows(data.reshape(len(texts), no_codes(n_bits, n_models).n_planes), n_bits, n_models)
