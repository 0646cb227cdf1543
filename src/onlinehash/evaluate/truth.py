"""What a search ought to find: which items of the base are relevant to which query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput


@dataclass(frozen=True)
class Truth:
    """Relevance of every base item to every query, told a block of queries at a time.

    The whole table can be larger than memory, so nobody ever holds it: `block(rows)` gives the booleans
    `(len(rows), n_base)` of a slice of queries.
    """

    n_queries: int
    n_base: int
    block: Callable[[slice], np.ndarray]


def same_label(y_query: Any, y_base: Any) -> Truth:
    """Relevant is what carries the query's label."""
    query, base = _labels(y_query, "y_query"), _labels(y_base, "y_base")
    if (query.dtype.kind in "US" or base.dtype.kind in "US") and query.dtype.kind != base.dtype.kind:
        raise InvalidInput(
            f"expected y_query and y_base to hold labels of one kind, got {query.dtype} and {base.dtype}; "
            "convert both to numbers or both to text."
        )
    return Truth(len(query), len(base), lambda rows: query[rows, None] == base)


def _labels(y: Any, name: str) -> np.ndarray:
    if not hasattr(y, "__len__") or len(y) == 0:
        raise InvalidInput(f"expected a vector of at least one label for {name}, got {y!r}.")
    return checks.labels(y, len(y))
