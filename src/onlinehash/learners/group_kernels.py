"""The loops of `groups`: points that are known again by their keys, and the groups that similar marks make of them.

A table has `WAYS` places for all points whose keys have the same hash; the one that was marked longest ago makes room.
Its rows are KEY, OTHER (the key of the last point that each was called dissimilar to), LABEL (its group, -1 where the
place is free), LAST (when it was marked) and LIKE (the key of the last point of another group that it was called
similar to, of late). `sizes` counts the points of each label, and `free` is a stack of labels that nobody has; `counts`
are how many of these there are, and how many points were marked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash.numeric.kernels import njit
from onlinehash.numeric.order import hashed

KEY, OTHER, LABEL, LAST, LIKE = range(5)
N_FREE, CLOCK = range(2)

#: Places of points with the same hash.
WAYS = 4

#: Dissimilar marks that a similar one outweighs.
TAKEN_BACK = 4

#: Groups join by witnesses: points of each that were called similar to a point of the other. It takes one more than
#: there are wrong marks among as many as the smaller group has points; two at least where these are so many; never more
#: than this. Every so many marks, all that was witnessed is forgotten.
TWO_WITNESSES, MOST_WITNESSES, OF_LATE = 64, 16, 4096

#: The share of wrong marks is that of late among those on groups that differ, as if one of so many had been wrong
#: before them; and no more than that.
ONE_IN = 32

#: No point has this key: it is minus zero, and a sum that begins with zero never is.
NOBODY = np.iinfo(np.int64).min


@njit(nogil=True, cache=True)
def add_cosines(
    X: np.ndarray,
    d: int,
    keys: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray,
    half_life: float,
    cosines: np.ndarray,
) -> None:
    """Cosines of marks called dissimilar, of those called similar, and of points that nobody paired, are added to
    `cosines`: for each kind their sum, and the sum of their weights. Older ones fade with what was called dissimilar.

    Points are the first d values of rows. Nobody paired a point a with the point b half of all marks away, if these are
    on other points. Marks of a point on itself, and those without weight, say nothing.
    """
    n = similar.shape[0]
    new = np.zeros((3, 2))
    for t in range(n):
        u = (t + n // 2) % n
        if weights[t] <= 0 or keys[0, t] == keys[1, t]:
            continue
        kind = 1 if similar[t] else 0
        new[kind, 0] += weights[t] * _dot(X[t, :d], X[n + t, :d])
        new[kind, 1] += weights[t]
        is_mark = weights[u] > 0 and keys[0, u] != keys[1, u]
        if is_mark and keys[0, t] != keys[0, u] and keys[1, t] != keys[1, u] and keys[0, t] != keys[1, u]:
            new[2, 0] += _dot(X[t, :d], X[n + u, :d])
            new[2, 1] += 1
    cosines *= 0.5 ** (new[0, 1] / half_life)
    cosines += new


@njit(nogil=True, cache=True)
def cosines_of(X: np.ndarray, d: int) -> np.ndarray:
    """Of points a, the first half of the rows, and their points b, the second."""
    n = X.shape[0] // 2
    found = np.empty(n)
    for t in range(n):
        found[t] = _dot(X[t, :d], X[n + t, :d])
    return found


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _dot(a: np.ndarray, b: np.ndarray) -> Any:
    total = a.dtype.type(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit(nogil=True, cache=True)
def find(table: np.ndarray, key: int) -> int:
    """The place of a point, or -1."""
    start = _first_place(table, key)
    for place in range(start, start + WAYS):
        if table[LABEL, place] >= 0 and table[KEY, place] == key:
            return place
    return -1


@njit(nogil=True, cache=True)
def _first_place(table: np.ndarray, key: int) -> Any:
    return hashed(key, table.shape[1] // WAYS) * WAYS


@njit(nogil=True, cache=True)
def _enter_point(table: np.ndarray, sizes: np.ndarray, free: np.ndarray, counts: np.ndarray, key: int) -> int:
    """The place of a point, which is a group of its own if it is new."""
    counts[CLOCK] += 1
    place = find(table, key)
    if place < 0:
        start = _first_place(table, key)
        place = start
        for other in range(start, start + WAYS):
            if table[LABEL, other] < 0:
                place = other
                break
            if table[LAST, other] < table[LAST, place]:
                place = other
        if table[LABEL, place] >= 0:
            _leave(table[LABEL, place], sizes, free, counts)
        counts[N_FREE] -= 1
        label = free[counts[N_FREE]]
        sizes[label] = 1
        table[KEY, place], table[OTHER, place], table[LABEL, place], table[LIKE, place] = key, NOBODY, label, NOBODY
    table[LAST, place] = counts[CLOCK]
    return place


@njit(nogil=True, cache=True)
def _leave(label: int, sizes: np.ndarray, free: np.ndarray, counts: np.ndarray) -> None:
    """One point of a group less."""
    sizes[label] -= 1
    if sizes[label] == 0:
        _give_back(label, free, counts)


@njit(nogil=True, cache=True)
def _give_back(label: int, free: np.ndarray, counts: np.ndarray) -> None:
    """Nobody has this label any more."""
    free[counts[N_FREE]] = label
    counts[N_FREE] += 1


@njit(nogil=True, cache=True)
def enter_marks(
    table: np.ndarray,
    sizes: np.ndarray,
    free: np.ndarray,
    counts: np.ndarray,
    inside: np.ndarray,
    between: np.ndarray,
    keep: float,
    keys: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray,
    cosines: np.ndarray,
) -> None:
    """Marks in turn. `keys` is `(2, n)`: points a, points b; `inside[0, kind]` is the weight of marks on two points of
    a group, of the dissimilar and of the similar ones, `inside[1, kind]` that times their cosine; both fade by `keep`
    with each.

    `between` counts marks that call points of two groups dissimilar, and those that call them similar though earlier
    marks set the groups apart. It fades with each. Groups of one point do not count, nor does a mark that only says
    again what its points were last told: a rate of mistakes is to be known, and neither weights nor repeats tell it."""
    for t in range(similar.shape[0]):
        if weights[t] <= 0 or keys[0, t] == keys[1, t]:
            continue
        if counts[CLOCK] % (2 * OF_LATE) == 0:  # two points a mark
            table[LIKE] = NOBODY
        a = _enter_point(table, sizes, free, counts, keys[0, t])
        b = _enter_point(table, sizes, free, counts, keys[1, t])
        g, h = table[LABEL, a], table[LABEL, b]
        if g == h:
            inside *= keep
            kind = 1 if similar[t] else 0
            inside[0, kind] += weights[t]
            inside[1, kind] += weights[t] * cosines[t]
            continue
        are_groups = min(sizes[g], sizes[h]) > 1
        if similar[t]:
            wrong = min((1 + between[1]) / (ONE_IN + between.sum()), 1 / ONE_IN)
            counts_as = 1 if _connect(table, sizes, free, counts, a, b, wrong) else -1
        else:
            is_new = table[OTHER, a] != keys[1, t] or table[OTHER, b] != keys[0, t]
            counts_as = 0 if is_new else -1
            table[OTHER, a], table[OTHER, b] = keys[1, t], keys[0, t]
        if counts_as >= 0 and are_groups:
            between *= keep
            between[counts_as] += 1


@njit(nogil=True, cache=True)
def _connect(
    table: np.ndarray, sizes: np.ndarray, free: np.ndarray, counts: np.ndarray, a: int, b: int, wrong: float
) -> bool:
    """Points of two groups, at these places, are similar: one of them moves, or the groups may join, if marks did not
    set them apart; whether they did.

    A point moves that another point of the other group was similar to before. So one that a wrong mark has put into a
    group is not what its own class joins it by.
    """
    g, h = table[LABEL, a], table[LABEL, b]
    a_again = sizes[g] > 1 and table[LIKE, a] != table[KEY, b] and points_to(table, LIKE, a, h)
    b_again = sizes[h] > 1 and table[LIKE, b] != table[KEY, a] and points_to(table, LIKE, b, g)
    table[LIKE, a], table[LIKE, b] = table[KEY, b], table[KEY, a]
    if a_again != b_again:
        place, label = (a, h) if a_again else (b, g)
        sizes[table[LABEL, place]] -= 1
        sizes[label] += 1
        table[LABEL, place], table[OTHER, place], table[LIKE, place] = label, NOBODY, NOBODY
        return False
    if sizes[g] >= sizes[h]:
        return _join(table, sizes, free, counts, g, h, b, wrong)
    return _join(table, sizes, free, counts, h, g, a, wrong)


@njit(nogil=True, cache=True)
def _join(
    table: np.ndarray,
    sizes: np.ndarray,
    free: np.ndarray,
    counts: np.ndarray,
    g: int,
    h: int,
    place: int,
    wrong: float,
) -> bool:
    """Put group h, to which the point at `place` belongs, into group g, unless marks say that the two differ; whether
    they do.

    Then some of these are forgotten. So a wrong mark joins no groups that differ in many, and keeps none apart for
    long; and where what is similar has changed, groups that belong together now find each other. Of a single point,
    only what was said of it last counts. Larger groups need witnesses: a wrong join would never be undone, and the
    points of classes that are never shown together contradict none.
    """
    first, last = (place, place + 1) if sizes[h] == 1 else (0, table.shape[1])
    n_against = of_g = of_h = 0
    for i in range(first, last):
        label = table[LABEL, i]
        if label != g and label != h:
            continue
        if points_to(table, OTHER, i, g + h - label):
            table[OTHER, i] = NOBODY
            n_against += 1
            if n_against == TAKEN_BACK:
                return True
        if points_to(table, LIKE, i, g + h - label):
            of_g += label == g
            of_h += label == h
    more = max(int(wrong * sizes[h]), 1 if sizes[h] >= TWO_WITNESSES else 0)
    witnesses = min(1 + more, MOST_WITNESSES)
    if n_against or (witnesses > 1 and min(of_g, of_h) < witnesses):
        return n_against > 0
    for i in range(first, last):
        if table[LABEL, i] == h:
            table[LABEL, i] = g
    sizes[g] += sizes[h]
    sizes[h] = 0
    _give_back(h, free, counts)
    return False


@njit(nogil=True, cache=True)
def points_to(table: np.ndarray, row: int, i: int, label: int) -> bool:
    """Whether the point at place i has, in OTHER or LIKE, one of this group."""
    if table[row, i] == NOBODY:
        return False
    other = find(table, table[row, i])
    return bool(other >= 0 and table[LABEL, other] == label)


@njit(nogil=True, cache=True)
def draw(
    table: np.ndarray,
    sizes: np.ndarray,
    kept: np.ndarray,
    keys: np.ndarray,
    alike: np.ndarray,
    starts: np.ndarray,
    least: int,
    partners: np.ndarray,
) -> None:
    """For each key, which of the points kept (theirs are `kept`) to pair it with, or -1.

    One of its own group if the pair is to be `alike`, else one of a group that differs from it; both of at least
    `least` points. A point is looked for from `starts` on: first its own group, then the one that differs.
    """
    labels = labels_of(table, sizes, kept, 1)
    for t in range(keys.shape[0]):
        partners[t] = -1
        place = find(table, keys[t])
        if place < 0 or sizes[table[LABEL, place]] < least:
            continue
        partner = _next_of(labels, table[LABEL, place], kept, keys[t], starts[0, t])
        if partner >= 0 and not alike[t]:
            other = _differing(table, table[LABEL, place], kept[partner])
            if other < 0 or sizes[other] < least:
                continue
            partner = _next_of(labels, other, kept, keys[t], starts[1, t])
        partners[t] = partner


@njit(nogil=True, cache=True)
def draw_pairs(
    table: np.ndarray,
    sizes: np.ndarray,
    kept: np.ndarray,
    points: np.ndarray,
    alike: np.ndarray,
    chances: np.ndarray,
    starts: np.ndarray,
    whole: int,
    partners: np.ndarray,
) -> None:
    """As `draw`, for points that are kept themselves, by number.

    A point of a group smaller than `whole` has a partner only with a chance, the square of its size over that. A group
    that differs is looked for with all points kept of its own one.
    """
    labels = labels_of(table, sizes, kept, 1)
    for t in range(points.shape[0]):
        partners[t] = -1
        label, key = labels[points[t]], kept[points[t]]
        if label < 0 or (sizes[label] / whole) ** 2 < chances[t]:
            continue
        if alike[t]:
            partners[t] = _next_of(labels, label, kept, key, starts[0, t])
            continue
        for step in range(kept.shape[0]):
            i = (starts[0, t] + step) % kept.shape[0]
            other = _differing(table, label, kept[i]) if labels[i] == label else -1
            if other >= 0:
                partners[t] = _next_of(labels, other, kept, key, starts[1, t])
            if partners[t] >= 0:
                break


@njit(nogil=True, cache=True)
def labels_of(table: np.ndarray, sizes: np.ndarray, keys: np.ndarray, least: int) -> np.ndarray:
    """The groups of points, -1 where a point is not known, or its group has fewer than `least`."""
    labels = np.empty(keys.shape[0], np.int64)
    for i in range(keys.shape[0]):
        place = find(table, keys[i])
        labels[i] = table[LABEL, place] if place >= 0 and sizes[table[LABEL, place]] >= least else -1
    return labels


@njit(nogil=True, cache=True)
def strangers(table: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Which points are not known, each once."""
    found = np.empty(keys.shape[0], np.bool_)
    for i in range(keys.shape[0]):
        found[i] = find(table, keys[i]) < 0 and not (keys[:i] == keys[i]).any()
    return found


@njit(nogil=True, cache=True)
def _differing(table: np.ndarray, label: int, key: int) -> Any:
    """The group of the last point that this known one, of group `label`, was called dissimilar to; -1 if it is none, or
    the same."""
    other = find(table, table[OTHER, find(table, key)])
    if other < 0 or table[LABEL, other] == label:
        return -1
    return table[LABEL, other]


@njit(nogil=True, cache=True)
def _next_of(labels: np.ndarray, label: int, kept: np.ndarray, key: int, start: int) -> int:
    """The first from `start` on that has this label and another key, or -1."""
    n = labels.shape[0]
    for step in range(n):
        i = (start + step) % n
        if labels[i] == label and kept[i] != key:
            return int(i)
    return -1


@njit(nogil=True, cache=True)
def keep(
    table: np.ndarray,
    kept: np.ndarray,
    X: np.ndarray,
    near: np.ndarray,
    start: int,
    keys: np.ndarray,
    rows: np.ndarray,
) -> int:
    """Known points in place of the oldest ones, from place `start` on, unless they are there; where to go on. They
    have no neighbours at first."""
    for t in range(keys.shape[0]):
        is_new = find(table, keys[t]) >= 0
        for key in kept:
            is_new &= key != keys[t]
        if is_new:
            kept[start] = keys[t]
            X[start] = rows[t, : X.shape[1]]
            leave(near, start)
            start = (start + 1) % kept.shape[0]
    return start


@njit(nogil=True, cache=True)
def leave(near: np.ndarray, i: int) -> None:
    """Point i has no neighbours any more, and is none: `near` has those of each point, or -1."""
    for j in near[i]:
        if j >= 0:
            for k in range(near.shape[1]):
                if near[j, k] == i:
                    near[j, k] = -1
    near[i] = -1
