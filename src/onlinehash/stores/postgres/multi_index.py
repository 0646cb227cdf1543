"""Multi-index hashing in SQL: exact search by look-ups of chunks in btrees.

M. Norouzi, A. Punjani, D. J. Fleet: Fast Exact Search in Hamming Space With Multi-Index Hashing. TPAMI 36(6), 2014.

A *step* looks up all values of one chunk at one distance from the query's. However the steps are spread over the chunks
of a group (each chunk taking the distance 0 first, then 1, ...), after t of them every item within a distance of t - 1
in this group has been met. So one that is nearer than that in its nearest group has been met once all groups took t.

The paper goes round the chunks in turn; here the step comes next that looks cheapest. Steps are asked for in few
statements, each as large as all before it together: one knows better after each how far there is to go. The search is
over when the k-th nearest item lies within what is covered: then all ties are known, and the first places win. Where a
scan of all codes looks cheaper, there is no search: at once, if items are mostly so far from each other, and else when
that shows.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

from onlinehash.stores.backend import Found
from onlinehash.stores.postgres.buckets import Buckets
from onlinehash.stores.postgres.chunks import Chunks

#: What it costs to look up a value and to fetch an item, where the unit is an item of a scan (benchmarks/postgres.py).
LOOK_UP, FETCH = 8.0, 12.0
#: What a statement costs whatever it asks for, and what the first one may ask for.
STATEMENT, FIRST = 3000.0, 8000.0
#: Fewer items than this are scanned before look-ups have begun.
FEW = 50_000
#: The share of a scan's cost that look-ups may cost. When they cost the second of these, it must be in sight that they
#: will do: the k-th nearest may turn out to be so much nearer than it looks then.
SHARE, TRIAL, HOPE = 0.7, 0.1, 2

#: Items with a value of each chunk that is listed for it, nearest first; for one query, or for each by its number.
LookUp = Callable[[list[list[int]]], list[Found]]
LookUps = Callable[[dict[int, list[list[int]]]], dict[int, list[Found]]]


class Steps:
    """How far the search for one code has come."""

    def __init__(self, chunks: Chunks, values: list[int], buckets: Buckets) -> None:
        self._chunks = chunks
        self._values = values
        self._buckets = buckets
        self._levels = [0] * len(values)  # the next distance of each chunk
        self._spent = 0.0

    @property
    def covered(self) -> float:
        """Every item within this distance has been met."""
        return min(self._covered(group, self._levels) for group in self._chunks.of_group)

    def _covered(self, group: list[int], levels: list[int]) -> float:
        if any(levels[chunk] > self._chunks.widths[chunk] for chunk in group):
            return math.inf  # this chunk met everybody
        return sum(levels[chunk] for chunk in group) - 1

    def is_hopeless(self, k: int) -> bool:
        """Whether look-ups would cost too much even if the k-th nearest is somewhat nearer than among most items."""
        cost, _ = self._way(self._buckets.distance(k) - HOPE, math.inf)
        return cost + STATEMENT > SHARE * self._buckets.n

    def take(self, distance: float, *, at_once: bool = False) -> list[list[int]] | None:
        """The values of each chunk for the next statement on the way to cover a distance; None to give up.

        That is the whole way, or as much of it as costs no more than all before.
        """
        if self._buckets.n < FEW:
            return None
        cost, levels = self._way(distance, math.inf if at_once else max(FIRST, self._spent))
        cost += STATEMENT
        affordable = SHARE * self._buckets.n - self._spent
        tried = self._spent > TRIAL * self._buckets.n and distance < math.inf
        if cost > affordable or (tried and self._way(distance - HOPE, math.inf)[0] > affordable):
            return None
        keys = [
            [key for level in range(before, after) for key in self._chunks.keys(value, width, level)]
            for value, width, before, after in zip(self._values, self._chunks.widths, self._levels, levels, strict=True)
        ]
        self._spent, self._levels = self._spent + cost, levels
        return keys

    def _way(self, distance: float, budget: float) -> tuple[float, list[int]]:
        """The cheapest steps to cover a distance, or the first of them, for that much: their cost, and levels after."""
        total, levels = 0.0, self._levels
        while True:
            group = min(self._chunks.of_group, key=lambda group: self._covered(group, levels))
            if self._covered(group, levels) >= distance:
                return total, levels
            cost, chunk = min((self._cost(chunk, levels[chunk]), chunk) for chunk in group)
            if total and total + cost > budget:
                return total, levels
            total += cost
            levels = [level + (number == chunk) for number, level in enumerate(levels)]

    def _cost(self, chunk: int, level: int) -> float:
        return LOOK_UP * math.comb(self._chunks.widths[chunk], level) + FETCH * self._buckets.met[chunk][level]


def nearest_all(all_steps: Sequence[Steps], k: int, look_up: LookUps) -> list[list[Found] | None]:
    """The k nearest items of each query in the order of (distance, place); None where a scan is cheaper.

    Queries go on side by side, so that one statement has a step of each.
    """
    found: list[list[Found]] = [[] for _ in all_steps]
    results: list[list[Found] | None] = [None] * len(all_steps)
    left = [number for number, steps in enumerate(all_steps) if not steps.is_hopeless(k)]
    while left:
        asked: dict[int, list[list[int]]] = {}
        for number in left:
            farthest = found[number][-1].distance if len(found[number]) == k else math.inf
            if farthest <= all_steps[number].covered:
                results[number] = found[number]
            elif keys := all_steps[number].take(farthest):
                asked[number] = keys
        for number, more in look_up(asked).items() if asked else ():
            found[number] = heapq.nsmallest(k, {*found[number], *more})  # more than one statement may meet an item
        left = list(asked)
    return results


def within(steps: Steps, radius: int, look_up: LookUp) -> list[Found] | None:
    """All items within a radius in the order of (distance, place), for which `look_up` must leave out those farther;
    None where a scan is cheaper."""
    keys = steps.take(radius, at_once=True)
    return None if keys is None else look_up(keys)
