"""`Hits`: what a search returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.types import IdArray


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """The ids found and their distances, in the order of (distance, insertion).

    One query gives arrays of shape `(k,)`, several give `(n, k)`; `k` is clipped to the number of items, so every entry
    is an item. `within` finds a different number for each query, and so gives a list of `Hits` for several.

    `ids, distances = hits` unpacks the arrays. `len(hits)` is `len(hits.ids)`: the number of results of one query, or
    the number of queries.

    Parameters
    ----------
    ids : ndarray of shape (k,) or (n, k)
        int64, or str objects.
    distances : ndarray of the same shape
    payloads : list of dict or None, optional
        A payload, or None, for each hit, if the search was called with `payloads=True`; for several queries a list of
        such lists.
    epoch : int, optional
        The epoch of the index that these hits are of, where the index is in a database; see `VectorIndex.epoch`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import Codes, FlatIndex
    >>> index = FlatIndex(Codes.from_bits(np.eye(4, dtype=bool)))
    >>> hits = index.search(np.array([True, True, False, False]), k=3)
    >>> ids, distances = hits
    >>> ids, distances
    (array([0, 1, 2]), array([1, 1, 3], dtype=int32))
    >>> len(hits)
    3
    """

    ids: IdArray
    distances: NDArray[np.number]
    payloads: list[Any] | None = field(default=None, kw_only=True)
    epoch: int | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[np.ndarray]:
        yield self.ids
        yield self.distances
