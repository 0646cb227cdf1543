"""Groups of points that similar marks connect, found along a stream in constant memory.

Marks on results say of near points whether they are similar, never of far ones. But items are shown again and again,
and what is similar to the same item is similar to each other: after some thousand marks, chains of them reach from one
end of a class to the other. So a point is known again by its key, similar marks join the groups of their points, and
a dissimilar mark says that all of two groups differ. From that, pairs of far points can be drawn that nobody marked.

Similar need not mean that. Marks whose points are in one group already tell: where these are called dissimilar nearly
as often as others are, chains mean nothing, and nothing is drawn. Neither is it where marks are on far points anyway,
as random pairs are: what follows from them adds nothing to what they say.

Of the points kept, some are near each other (`neighbours`). Walks among them tell of points that no marks connect.
"""

from __future__ import annotations

import math

import numpy as np

from onlinehash.errors import FormatError
from onlinehash.io.format import MOST, like, listed, whole
from onlinehash.learners.group_kernels import (
    CLOCK,
    KEY,
    LABEL,
    N_FREE,
    NOBODY,
    add_cosines,
    cosines_of,
    draw,
    draw_pairs,
    enter_marks,
    find,
    keep,
    labels_of,
    strangers,
)
from onlinehash.learners.neighbours import N_NEAREST, STEPS, neighbours, walk
from onlinehash.types import State

MOST_KEY, MOST_MARKS = np.iinfo(np.int64).max, 2**53

#: Points that are known again, and of how many of them, those marked last, vectors are kept to draw from.
N_KNOWN, N_KEPT = 16_384, 2048

#: Points of the least group that a point just marked gets a partner from: what follows from a few marks on one query is
#: inferred at once.
LEAST = 16

#: Points of a group of which all that are drawn get a partner, and the share of these that look for a similar one.
WHOLE, ALIKE = 32, 0.9

#: The share of walks among pairs, the others being any two points.
OF_WALKS = 0.3

#: Marks inside of groups that it takes to trust them, and how many it takes for the weight of an older one to halve.
ENOUGH, HALF_LIFE = 20, 1000

#: Groups are trusted while marks inside of them are called dissimilar at most so many times as often as all marks are.
#: Where it is more than `WRONG` times, they are forgotten: the world has changed. Where it is hardly ever, they are
#: classes.
CONTRADICTED, WRONG, HARDLY = 0.35, 0.5, 0.05

#: Else they are classes while similar marks inside of them have a mean cosine that is above that of the dissimilar ones
#: by at most this part of what it is for all marks, and by this over the number of these dissimilar ones less one: one
#: tells nothing, and two or three are chance.
AS_FAR, OF_INSIDE = 0.5, 0.2

#: Marks are on near points while the mean cosine of those called dissimilar is so far above that of points that nobody
#: paired. Of random pairs it is not; of results that are called dissimilar, it was 0.23 to 0.55 on four sets. They
#: surely are where it is farther above by this over their number.
NEAR, OF_FEW = 0.1, 3.0

#: Cosines alone tell marks where, of a similar and a dissimilar one, the similar one has the larger cosine so often: by
#: class it was 0.7 to 0.9 on three sets, 1 where similar means near. They are counted in so many steps from -1 to 1.
NEARER, N_COSINES = 0.95, 256


class Groups:
    """What marks on recurring points say of others.

    look(X, keys, similar, weights)    are marks on near points?
    is_near                            what was found: whether marks of late are
    cosines(X)                         of marks
    weights_of_near(cosines, ...)      their weights, none for similar marks on far points
    strangers(keys)                    which points of marks are not known yet
    enter(keys, ..., cosines, p)       marks, and the share of similar ones among all
    are_classes, are_no_classes        what marks inside of groups tell of these, if they are enough
    decide_blend                       whether groups tell how far codes should go, rather than marks
    is_trusted                         whether marks confirm what groups tell
    cosines_tell                       whether cosines alone tell similar marks from others
    similar_at(cosine)                 how many marks with this cosine are similar
    n_counted                          how many marks of late these two are known from
    labels(keys)                       the groups of points
    some_kept(n, keys, rng)            points kept, with their groups, but none of these
    draw(keys, p, rng)                 partners for points, and whether they are similar to them
    draw_pairs(n, rng)                 pairs of points kept, and whether they are similar
    keep(keys, X)                      vectors to draw from
    add_unmarked(keys, X)              points to keep that nobody marked
    keep_first(n)                      without these again: how many there were before
    connect(functions)                 find neighbours among the points kept
    has_neighbours                     whether that was done
    walk(points, rng)                  where walks from points kept end
    draw_walks(n, rng)                 pairs of points kept, and whether a walk connects them
    """

    def __init__(self, n_inputs: int, dtype: np.dtype) -> None:
        self._n_inputs, self._dtype = n_inputs, dtype
        self._cosines = np.zeros((3, 2))  # of dissimilar and similar marks, and of points that nobody paired
        self._counted = np.zeros((2, N_COSINES))  # dissimilar and similar marks with each cosine
        self.are_no_classes = False
        self._judge_marks()
        self._clear()

    def _clear(self) -> None:
        """No group, no points, and hardly any memory: most streams have no recurring points."""
        self._table: np.ndarray | None = None
        self.has_neighbours = False
        self._judge_nothing()

    def _judge_nothing(self) -> None:
        self._inside, self._between = np.zeros((2, 2)), np.zeros(2)
        self.are_classes = self.is_trusted = False

    def _lay_out(self) -> np.ndarray:
        table = self._free_table()
        self._kept = np.full(N_KEPT, NOBODY)
        self.X = np.zeros((N_KEPT, self._n_inputs), self._dtype)
        self._next = 0
        self._near = np.full((N_KEPT, N_NEAREST), -1)
        return table

    def _free_table(self) -> np.ndarray:
        """No point is known, but those kept stay, and their neighbours."""
        self._table = np.empty((5, N_KNOWN), np.int64)
        self._table.T[:] = NOBODY, NOBODY, -1, 0, NOBODY
        self._sizes = np.zeros(N_KNOWN, np.int64)
        self._free = np.arange(N_KNOWN)
        self._counts = np.array([N_KNOWN, 0])
        return self._table

    def look(self, X: np.ndarray, keys: np.ndarray, similar: np.ndarray, weights: np.ndarray) -> None:
        """Marks on points of unit length, first all points a, then all points b, as are their keys, `(2, n)`.

        Rows of X, here and elsewhere, may be longer than points are.
        """
        add_cosines(X, self._n_inputs, keys, similar, weights, HALF_LIFE, self._cosines)
        self._judge_marks()

    def _judge_marks(self) -> None:
        """Marks of late are not on near points as long as none was called dissimilar.

        Where no points are known that nobody paired, as with one query a chunk, their cosine is taken to be zero.
        """
        (near, n), _, (others, m) = self._cosines.tolist()
        self._least_cosine = (others / m if m > 0 else 0) + NEAR  # of marks on near points
        self.is_near = bool(n > 0 and near / n >= self._least_cosine)
        self._is_surely_near = self.is_near and m > 0 and bool(near / n >= self._least_cosine + OF_FEW / n)

    def cosines(self, X: np.ndarray) -> np.ndarray:
        """Of marks on these points."""
        return np.asarray(cosines_of(X, self._n_inputs))

    def weights_of_near(self, cosines: np.ndarray, similar: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Weights of marks, none for similar ones on far points.

        Such points are not shown together. If the mark is wrong, it would join groups of different classes, and no
        later mark on results would contradict it. If it is right, the groups find each other by other marks.
        """
        return np.where(similar & (cosines < self._least_cosine), 0.0, weights)

    def strangers(self, keys: np.ndarray) -> np.ndarray:
        """Of points with these keys, which are not known, each once: rows."""
        table = self._lay_out() if self._table is None else self._table
        return np.flatnonzero(strangers(table, keys.view(np.int64)))

    def enter(self, keys: np.ndarray, similar: np.ndarray, weights: np.ndarray, cosines: np.ndarray, p: float) -> None:
        """Marks: keys of their points, `(2, n)`, whether they are similar, weights, and cosines. p: the share of
        similar ones of late, by weight."""
        table = self._lay_out() if self._table is None else self._table
        marks = keys.view(np.int64), similar, weights, cosines
        told = self._inside, self._between
        enter_marks(table, self._sizes, self._free, self._counts, *told, 0.5 ** (1 / HALF_LIFE), *marks)
        self._counted *= 0.5 ** (len(similar) / HALF_LIFE)
        steps = np.clip((cosines + 1) / 2 * N_COSINES, 0, N_COSINES - 1).astype(np.int64)
        of_two = np.where(keys[0] == keys[1], 0.0, weights)
        self._counted += np.bincount(steps + N_COSINES * similar, of_two, self._counted.size).reshape(2, -1)
        self._judge_groups(1 - p)

    def _judge_groups(self, dissimilar: float) -> None:
        """Inside of classes, marks are called dissimilar by mistake, on near points as often as on far ones. Where
        similar means near, it is those on far points, inside of groups as elsewhere. While marks are too few to tell,
        groups are no classes if they were none before."""
        (differ, agree), (of_differ, of_agree) = self._inside.tolist()
        contradicted, are_found = differ / max(differ + agree, 1) / dissimilar, differ + agree >= ENOUGH
        if are_found:
            (far, n), (near, m), _ = self._cosines.tolist()
            apart = near / max(m, 1e-300) - far / max(n, 1e-300)
            inside = of_agree / max(agree, 1e-300) - of_differ / max(differ, 1e-300)
            chance = OF_INSIDE / max(differ - 1, 1e-300)
            self.are_no_classes = contradicted > HARDLY and inside > AS_FAR * apart + chance
        self.are_classes = are_found and not self.are_no_classes
        self.is_trusted = self.are_classes and contradicted <= CONTRADICTED
        if are_found and contradicted > WRONG:
            self._free_table()
            self._judge_nothing()

    @property
    def decide_blend(self) -> bool:
        """Marks that are on near points tell little, unless groups are no classes. Before groups are found, marks must
        be on near points by more than chance."""
        is_near = self._is_surely_near or (self.is_near and self._cosines[2, 1] > 0 and self.are_classes)
        return bool(is_near and not self.are_no_classes)

    @property
    def cosines_tell(self) -> bool:
        """Whether cosines alone tell similar marks from others: then chains of near points lead away from these."""
        differ, agree = self._counted
        nearer = agree @ (np.cumsum(differ) - differ / 2)
        return bool(nearer > NEARER * agree.sum() * differ.sum())

    @property
    def n_counted(self) -> float:
        """How many marks of late cosines were counted of, by weight."""
        return float(self._counted.sum())

    def similar_at(self, cosine: float) -> float:
        """The share of similar ones among marks of late with this cosine, as if those of either kind were distributed
        normally, with the same spread; all, where none was called dissimilar."""
        at = (np.arange(N_COSINES) + 0.5) * 2 / N_COSINES - 1
        differ, agree = self._counted.sum(axis=1).tolist()
        if differ == 0 or agree == 0:
            return float(agree > 0)
        far, near = (self._counted @ at / (differ, agree)).tolist()
        spread = float(self._counted.ravel() @ np.square(at - [[far], [near]]).ravel()) / (differ + agree)
        slope = max(near - far, 0) / (spread + (2 / N_COSINES) ** 2)
        odds = math.log(differ) - math.log(agree) - slope * (cosine - (far + near) / 2)
        return 1 / (1 + math.exp(min(odds, 700)))

    def labels(self, keys: np.ndarray) -> np.ndarray:
        """The groups of points, -1 of those that are not known or belong to a small one."""
        assert self._table is not None
        return labels_of(self._table, self._sizes, keys.view(np.int64), LEAST)

    def some_kept(self, n: int, keys: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Of n points kept, but none with these keys: rows in `X`, and labels, of those that have one."""
        some = rng.permutation(np.flatnonzero(self._labels_of_kept() >= 0))[:n]
        labels = self.labels(self._kept[some])
        wanted = (labels >= 0) & ~np.isin(self._kept[some], keys.view(np.int64))
        return some[wanted], labels[wanted]

    def draw(self, keys: np.ndarray, p: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For points with these keys: which of them have a partner, its row in `X`, and whether the two are similar.

        A share p of the points look for one that is similar, the others for one that is not, which few of them find.
        """
        assert self._table is not None
        kept, similar, starts = self._some(len(keys), p, rng)
        partners = np.empty(len(keys), np.int64)
        draw(self._table, self._sizes, kept, keys.view(np.int64), similar, starts, LEAST, partners)
        points = np.flatnonzero(partners >= 0)
        return points, partners[points], similar[points]

    def draw_pairs(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """At most n pairs of points kept: rows in `X`, partners there, and whether the two are similar.

        There are few of small groups, of which the same would be drawn again and again.
        """
        assert self._table is not None
        kept, similar, starts = self._some(n, ALIKE, rng)
        known, chances, partners = np.flatnonzero(self._labels_of_kept() >= 0), rng.random(n), np.full(n, -1)
        points = known[rng.integers(0, len(known), n)] if len(known) else np.zeros(n, np.int64)
        if len(known):
            draw_pairs(self._table, self._sizes, kept, points, similar, chances, starts, WHOLE, partners)
        found = partners >= 0
        return points[found], partners[found], similar[found]

    def _some(self, n: int, p: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Keys of the points kept; for n points whether to look for similar partners, and from where on, twice: from
        known points, or the first ones after many that nobody marked would be found too often."""
        kept, similar = self._kept[: self.n_kept], rng.random(n) < p
        known = np.flatnonzero(self._labels_of_kept() >= 0)
        starts = rng.integers(0, max(len(known), 1), (2, n))
        return kept, similar, known[starts] if len(known) else starts

    def _labels_of_kept(self) -> np.ndarray:
        """The groups of all points kept, however small, -1 of those that are not known."""
        assert self._table is not None
        return labels_of(self._table, self._sizes, self._kept[: self.n_kept], 1)

    @property
    def n_kept(self) -> int:
        """Points kept."""
        return int(np.count_nonzero(self._kept != NOBODY))

    def keep(self, keys: np.ndarray, X: np.ndarray) -> None:
        """Points that are known, in place of the oldest ones; rows of X are theirs."""
        if self._table is not None:
            self._next = keep(self._table, self._kept, self.X, self._near, self._next, keys.view(np.int64), X)

    # ------------------------------------------------------------------ neighbours

    def add_unmarked(self, keys: np.ndarray, X: np.ndarray) -> None:
        """Keep as many of these points as there is room for; they are the first that others replace."""
        if self._table is None:
            self._lay_out()
        n, numbers = self.n_kept, keys.view(np.int64)
        new = np.sort(np.unique(numbers, return_index=True)[1])
        new = new[~np.isin(numbers[new], self._kept[:n])][: N_KEPT - n]
        self._kept[n : n + len(new)], self.X[n : n + len(new)] = numbers[new], X[new]

    def keep_first(self, n: int) -> None:
        """Only the first n of the points kept: those before others were added."""
        self._kept[n:] = NOBODY
        self.has_neighbours = False

    def connect(self, functions: np.ndarray) -> None:
        """Find out who is near whom, by cosines of the projections on these functions."""
        n = self.n_kept
        self._near[:n], self._near[n:] = neighbours(functions, self.X[:n]), -1
        self.has_neighbours = True

    def walk(self, points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Where walks from these points kept end, as rows of `X` like they; -1 of those that came to nothing."""
        assert self._table is not None
        kept, chances = self._kept[: self.n_kept], rng.random((len(points), 1 + 2 * STEPS))
        return np.asarray(walk(self._table, kept, self._labels_of_kept(), self._near, points, chances))

    def draw_walks(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """At most n pairs of points kept, as in `draw_pairs`: both ends of a walk are similar, any two others not,
        unless their group is the same."""
        (left, right), alike = rng.integers(0, self.n_kept, (2, n)), rng.random(n) < OF_WALKS
        right[alike] = self.walk(left[alike], rng)
        labels = self._labels_of_kept()
        is_known = (labels[left] >= 0) & (labels[left] == labels[right])
        found = np.where(alike, right >= 0, (left != right) & ~is_known)
        return left[found], right[found], alike[found]

    # ------------------------------------------------------------------ state

    def get_state(self) -> State:
        """Only points that are known, and vectors of these."""
        if self._table is None:
            return self._marks_state() | {"points": None}
        places, n_kept = np.flatnonzero(self._table[LABEL] >= 0), self.n_kept
        rows = self._table.T[places]
        rows[:, LABEL] = _in_order(rows[:, LABEL])
        return self._marks_state() | {
            "points": {"places": places, "rows": rows, "clock": int(self._counts[CLOCK])},
            "kept": {"keys": self._kept[:n_kept], "X": self.X[:n_kept], "next": self._next},
            "near": self._near[:n_kept] if self.has_neighbours else None,
        }

    def _marks_state(self) -> State:
        judged = [int(self.are_classes), int(self.are_no_classes), int(self.is_trusted)]
        told = {"inside": self._inside, "between": self._between}
        return {"cosines": self._cosines, "counted": self._counted, "judged": judged} | told

    def set_state(self, state: State) -> None:
        """Take over what `get_state` gave."""
        self._clear()
        self._cosines = like(state.get("cosines", np.zeros((3, 2))), self._cosines, "cosines", -MOST, MOST)
        self._counted = like(state.get("counted", np.zeros((2, N_COSINES))), self._counted, "counted", 0, MOST)
        self._inside = like(state["inside"], self._inside, "inside", -MOST, MOST)
        self._between = like(state.get("between", np.zeros(2)), self._between, "between", 0, MOST)
        if (self._cosines[:, 1] < 0).any() or (self._inside[0] < 0).any():
            raise FormatError("the marks of the groups have weights below zero.")
        self._judge_marks()
        judged = [bool(whole(what, "judged", 0, 1)) for what in listed(state["judged"], "judged", 3)]
        self.are_classes, self.are_no_classes, self.is_trusted = judged
        if state["points"] is None:
            if self.are_classes or self.is_trusted:
                raise FormatError("the groups are told of, but have no points.")
            return
        table, points, kept = self._lay_out(), state["points"], state["kept"]
        n, n_kept = len(points["places"]), len(kept["keys"])
        places = like(points["places"], np.empty(min(n, N_KNOWN), np.int64), "places", 0, N_KNOWN - 1)
        rows = like(points["rows"], np.empty((len(places), 5), np.int64), "rows", NOBODY, MOST_KEY)
        labels = rows[:, LABEL]
        if (np.diff(places) <= 0).any() or (labels != _in_order(labels)).any():
            raise FormatError("the points of the groups are not in order.")
        table.T[places] = rows
        if any(find(table, key) != place for place, key in zip(places, rows[:, KEY].tolist(), strict=True)):
            raise FormatError("a point of the groups stands where it would not be found.")
        sizes = np.bincount(labels)
        self._sizes[: len(sizes)] = sizes
        self._counts[:] = N_KNOWN - len(sizes), whole(points["clock"], "clock", 0, MOST_MARKS)
        self._free[: self._counts[N_FREE]] = np.arange(len(sizes), N_KNOWN)
        self._kept[:n_kept] = like(kept["keys"], np.empty(min(n_kept, N_KEPT), np.int64), "keys", NOBODY + 1, MOST_KEY)
        self.X[:n_kept] = like(kept["X"], self.X[:n_kept], "X", -100, 100)  # of unit length here
        self._next = whole(kept["next"], "next", 0, min(n_kept, N_KEPT - 1))
        self.has_neighbours = state.get("near") is not None and n_kept > 0
        if self.has_neighbours:
            self._near[:n_kept] = like(state["near"], self._near[:n_kept], "near", -1, n_kept - 1)


def _in_order(labels: np.ndarray) -> np.ndarray:
    """The same groups, numbered as they come: what a label is called changes nothing."""
    _, first, number = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[number])
