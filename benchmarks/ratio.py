"""Ratios of two times that were measured in turn, and how well they repeat."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Better = Literal["lower", "higher"]


class Pair(NamedTuple):
    """The best times of two contenders in one pass, the ratio of which is lower or higher the better."""

    name: str
    above: float
    below: float
    better: Better


class Ratio(NamedTuple):
    """The best time of one contender in any pass over the best time of another.

    `spread` is the distance between the largest and the smallest ratio of a single pass, as a fraction of `value`: a
    change smaller than that means nothing.
    """

    name: str
    value: float
    spread: float
    better: Better


def pair(name: str, rounds: dict[str, list[float]], above: str, below: str, better: Better) -> Pair:
    """The best time of all contenders whose name begins with `above`, and that of those beginning with `below`."""

    def best(prefix: str) -> float:
        return min(min(times) for contender, times in rounds.items() if contender.startswith(prefix))

    return Pair(name, best(above), best(below), better)


def merged(passes: Iterable[Iterable[Pair]]) -> list[Ratio]:
    """The ratios of several passes over the same comparisons, in the order of the first."""
    found: dict[str, list[Pair]] = {}
    for pairs in passes:
        for one in pairs:
            found.setdefault(one.name, []).append(one)
    ratios = []
    for name, pairs in found.items():
        value = min(one.above for one in pairs) / min(one.below for one in pairs)
        each = [one.above / one.below for one in pairs]
        ratios.append(Ratio(name, value, (max(each) - min(each)) / value, pairs[0].better))
    return ratios
