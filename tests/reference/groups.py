"""Groups of points as slowly and plainly as they read: sets, and a list of all that is known. Nothing is forgotten."""

from __future__ import annotations

from collections.abc import Iterable


class ReferenceGroups:
    """Points are any values; `last_other` is the point that each was last called dissimilar to."""

    def __init__(self) -> None:
        self.group: dict[float, frozenset[float]] = {}
        self.last_other: dict[float, float] = {}
        self.inside = [0.0, 0.0]

    def mark(self, a: float, b: float, similar: bool) -> None:
        if a == b:
            return
        for point in (a, b):
            self.group.setdefault(point, frozenset([point]))
        g, h = self.group[a], self.group[b]
        if g == h:
            self.inside = [n * 0.5 ** (1 / 1000) for n in self.inside]
            self.inside[similar] += 1
        elif not similar:
            self.last_other[a], self.last_other[b] = b, a
        elif not self.takes_back(g, h, a, b):
            for point in g | h:
                self.group[point] = g | h

    def takes_back(self, g: frozenset[float], h: frozenset[float], a: float, b: float) -> bool:
        """Whether marks say that the two differ; of these the first four are forgotten. Of a group of one point, only
        what that point says counts."""
        against = [x for x in self.in_order(g | h) if self.last_other.get(x) in (h if x in g else g)]
        if min(len(g), len(h)) == 1:
            alone = b if len(g) >= len(h) else a
            against = [x for x in against if x == alone]
        for point in against[:4]:
            del self.last_other[point]
        return bool(against)

    def in_order(self, points: Iterable[float]) -> list[float]:
        """In which marks are forgotten."""
        return sorted(points)

    def groups(self) -> set[frozenset[float]]:
        return set(self.group.values())
