"""Groups of points as slowly and plainly as they read: sets, and a list of all that is known. Nothing is forgotten."""

from __future__ import annotations

from collections.abc import Iterable


class ReferenceGroups:
    """Points are any values; `last_other` is the point that each was last called dissimilar to, `last_like` the one of
    another group that it was called similar to."""

    def __init__(self) -> None:
        self.group: dict[float, frozenset[float]] = {}
        self.last_other: dict[float, float] = {}
        self.last_like: dict[float, float] = {}
        self.inside, self.between = [0.0, 0.0], [0.0, 0.0]
        self.n_marks = self.n_moves = 0

    def mark(self, a: float, b: float, similar: bool) -> None:
        if a == b:
            return
        if self.n_marks % 4096 == 0:
            self.last_like.clear()
        self.n_marks += 1
        for point in (a, b):
            self.group.setdefault(point, frozenset([point]))
        g, h = self.group[a], self.group[b]
        if g == h:
            self.inside = [n * 0.5 ** (1 / 1000) for n in self.inside]
            self.inside[similar] += 1
        elif not similar:
            if self.last_other.get(a) != b or self.last_other.get(b) != a:
                self.count_between(g, h, 0)
            self.last_other[a], self.last_other[b] = b, a
        else:
            again = [point for point, other in [(a, b), (b, a)] if self.is_like_again(point, other)]
            self.last_like[a], self.last_like[b] = b, a
            if len(again) == 1:
                self.move(again[0], h if again[0] == a else g)
            elif self.takes_back(g, h, a, b):
                self.count_between(g, h, 1)
            elif self.is_witnessed(g, h):
                self.put_together(g | h)

    def count_between(self, g: frozenset[float], h: frozenset[float], kind: int) -> None:
        """A mark that calls points of two groups dissimilar, or similar though earlier marks set the groups apart."""
        if min(len(g), len(h)) > 1:
            self.between = [n * 0.5 ** (1 / 1000) for n in self.between]
            self.between[kind] += 1

    def is_like_again(self, point: float, other: float) -> bool:
        """Was it called similar to another point of that group before? One that is alone has no group to leave."""
        before = self.last_like.get(point)
        return len(self.group[point]) > 1 and before != other and before in self.group[other]

    def move(self, point: float, to: frozenset[float]) -> None:
        self.put_together(self.group[point] - {point})
        self.put_together(to | {point})
        del self.last_like[point]
        self.last_other.pop(point, None)
        self.n_moves += 1

    def put_together(self, points: frozenset[float]) -> None:
        for point in points:
            self.group[point] = points

    def is_witnessed(self, g: frozenset[float], h: frozenset[float]) -> bool:
        """Enough points of each were called similar to points of the other; of small groups, this mark is enough."""
        n = min(len(g), len(h))
        wrong = min((1 + self.between[1]) / (32 + sum(self.between)), 1 / 32)
        wanted = min(1 + max(int(wrong * n), int(n >= 64)), 16)
        found = [sum(self.last_like.get(x) in theirs for x in ours) for ours, theirs in [(g, h), (h, g)]]
        return wanted == 1 or min(found) >= wanted

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
