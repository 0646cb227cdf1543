"""A ratio of two times that were measured in turn, and how well it repeats."""

from __future__ import annotations

from typing import Literal, NamedTuple

#: Parts that the rounds are dealt into, like cards; each part gives a ratio of its own.
PARTS = 3

Better = Literal["lower", "higher"]


class Ratio(NamedTuple):
    """The best time of one contender over the best time of another.

    `spread` is the distance between the largest and the smallest ratio that parts of the rounds give, as a fraction
    of `value`: a change smaller than that means nothing.
    """

    name: str
    value: float
    spread: float
    better: Better


def ratio(name: str, rounds: dict[str, list[float]], above: str, below: str, better: Better) -> Ratio:
    """The best time of all contenders whose name begins with `above`, over that of those beginning with `below`."""

    def best(prefix: str, part: slice) -> float:
        return min(min(times[part]) for contender, times in rounds.items() if contender.startswith(prefix))

    def of(part: slice) -> float:
        return best(above, part) / best(below, part)

    value = of(slice(None))
    parts = [of(slice(start, None, PARTS)) for start in range(PARTS)]
    return Ratio(name, value, (max(parts) - min(parts)) / value, better)
