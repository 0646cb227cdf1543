"""Exact searches with ties in the order of insertion, out of searches that break ties as they like and end at a limit.

Distances are whole numbers. All that lies at one distance is a shell. The first search brings whole shells and, where
its limit was reached, a part of the last one; from there on, shells are fetched one by one, each as a whole. One that
is larger than the limit is fetched in ranges of places.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np

from onlinehash.stores.backend import FOREVER, Found, Layout
from onlinehash.stores.milvus.engine import MOST, Engine
from onlinehash.stores.milvus.tables import alive, code_fields

#: More than were asked for, as the last of them may have equals; and how many a reader of all begins with.
_MORE, _MANY = 32, 512


class Searching:
    """Searches in the collection of codes."""

    def __init__(self, engine: Engine, collection: str, layout: Layout) -> None:
        self._engine, self._collection = engine, collection
        self._fields, self._n_bits = code_fields(layout), layout.groups
        self._ends = np.cumsum([0, *layout.groups]) // 8

    def nearest(self, code: np.ndarray, k: int, epoch: int) -> list[Found]:
        """The k nearest, in the order of (distance, place)."""
        return list(islice(self.ordered(code, epoch, k + _MORE), k))

    def within(self, code: np.ndarray, radius: int, epoch: int) -> list[Found]:
        """All up to a distance, in the order of (distance, place)."""
        least: dict[int, Found] = {}
        for group, part in enumerate(self._parts(code)):
            for found in self._shells(group, part, epoch, 0, radius):
                if found.place not in least or found.distance < least[found.place].distance:
                    least[found.place] = found
        return sorted(least.values(), key=_order)

    def ordered(self, code: np.ndarray, epoch: int, first: int = _MANY) -> Iterator[Found]:
        """All there are, in the order of (distance, place); the first search brings so many.

        An item that several models find counts where it comes first, which is at the least of its distances.
        """
        each = [self._of_group(group, part, epoch, first) for group, part in enumerate(self._parts(code))]
        seen: set[int] = set()
        for found in heapq.merge(*each, key=_order):
            if found.place not in seen:
                seen.add(found.place)
                yield found

    def _parts(self, code: np.ndarray) -> list[bytes]:
        return [code[begin:end].tobytes() for begin, end in pairwise(self._ends)]

    def _of_group(self, group: int, part: bytes, epoch: int, first: int) -> Iterator[Found]:
        """All by the distance of one part of the code, in order."""
        limit = min(first, MOST)
        found = self._search(group, part, epoch, limit)
        if len(found) < limit:
            yield from sorted(found, key=_order)
            return
        cut = max(found, key=_order).distance
        yield from sorted((one for one in found if one.distance < cut), key=_order)
        for distance in range(cut, self._n_bits[group] + 1):
            yield from sorted(self._shells(group, part, epoch, distance, distance), key=_order)

    def _shells(
        self, group: int, part: bytes, epoch: int, nearest: int, farthest: int, first: int = 0, last: int = FOREVER
    ) -> list[Found]:
        """All at these distances with places in a range, which is halved where they are too many for one search."""
        which = f" and place >= {first} and place <= {last}" if (first, last) != (0, FOREVER) else ""
        found = self._search(group, part, epoch, MOST, which, (nearest, farthest + 1))
        if len(found) < MOST:
            return found
        places = sorted({one.place for one in found})
        middle = places[len(places) // 2 - 1]  # there are more than two: a row is there twice at most
        return [
            one
            for begin, end in ((first, middle), (middle + 1, last))
            for one in self._shells(group, part, epoch, nearest, farthest, begin, end)
        ]

    def _search(
        self, group: int, part: bytes, epoch: int, limit: int, which: str = "", bounds: tuple[int, int] | None = None
    ) -> list[Found]:
        fields = ["place", "id"]
        hits = self._engine.search(
            self._collection, self._fields[group], part, limit, alive(epoch) + which, fields, bounds
        )
        return [Found(hit["distance"], hit["place"], hit["id"]) for hit in hits]


def _order(found: Found) -> tuple[int, int]:
    return found.distance, found.place
