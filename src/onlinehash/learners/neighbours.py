"""Walks from neighbour to neighbour: what marks on results say of points that nobody marked.

Marks on results say, before anything else, how often what is near is similar. Where it mostly is, points that nobody
marked teach, too: some steps, each to a point nearby, lead far and hardly leave a class. So two points are neighbours
if each is among the nearest of the other, and a walk goes from neighbour to neighbour, or to any point of the same
group, but never to one that marks call dissimilar.
"""

from __future__ import annotations

import numpy as np

from onlinehash.learners.group_kernels import OTHER, find, points_to
from onlinehash.learners.smooth_kernels import projections
from onlinehash.numeric.dots import pad_rows
from onlinehash.numeric.kernels import njit

#: Neighbours are among so many nearest.
N_NEAREST = 10

#: The most steps of a walk, and the chance that one begins with a jump to any point of the group.
STEPS, TO_GROUP = 20, 0.5


def neighbours(functions: np.ndarray, X: np.ndarray) -> np.ndarray:
    """The neighbours of each of these points, by number, -1 for none: by cosines of their projections on functions."""
    F = projections(functions, pad_rows(X))
    F /= np.maximum(np.linalg.norm(F, axis=1, keepdims=True), 1e-30)
    F = pad_rows(F)
    return np.asarray(mutual_neighbours(projections(F, F), N_NEAREST))


def nearness_of_neighbours(functions: np.ndarray, X: np.ndarray) -> float:
    """The mean cosine of neighbours among these points of unit length, 1 where there are none."""
    near = neighbours(functions, X)
    i, nth = np.nonzero(near >= 0)
    cosines = np.einsum("td,td->t", X[i], X[near[i, nth]])
    return float(np.clip(cosines.mean(), -1, 1)) if len(cosines) else 1.0


@njit(nogil=True, cache=True)
def mutual_neighbours(products: np.ndarray, n_nearest: int) -> np.ndarray:
    """For each point those of its nearest that have it among theirs; the rest is -1. Products are of any two points,
    the larger the nearer."""
    n = products.shape[0]
    nearest, found = np.full((n, n_nearest), -1), np.full((n, n_nearest), -1)
    best = np.empty(n_nearest, products.dtype)
    for i in range(n):
        best[:] = -np.inf
        for j in range(n):
            if j != i and products[i, j] > best[-1]:
                place = n_nearest - 1
                while place > 0 and products[i, j] > best[place - 1]:
                    best[place], nearest[i, place] = best[place - 1], nearest[i, place - 1]
                    place -= 1
                best[place], nearest[i, place] = products[i, j], j
    for i in range(n):
        n_found = 0
        for j in nearest[i]:
            if j >= 0 and (nearest[j] == i).any():
                found[i, n_found] = j
                n_found += 1
    return found


@njit(nogil=True, cache=True)
def walk(
    table: np.ndarray, kept: np.ndarray, labels: np.ndarray, near: np.ndarray, starts: np.ndarray, chances: np.ndarray
) -> np.ndarray:
    """Where walks from these points end; -1 where that is where they began, or differs from it.

    Points are numbers in `kept`, their keys, and `labels` are their groups, -1 of those that are not known. A row of
    `chances`, from 0 to 1, is for one walk: the first is for the number of steps, then there are two for each.
    """
    order = np.argsort(labels, kind="mergesort")  # in the order of points, whatever groups are called
    in_order, some = labels[order], np.empty(near.shape[1], np.int64)
    ends = np.empty(starts.shape[0], np.int64)
    for t in range(starts.shape[0]):
        at = starts[t]
        for step in range(1 + int(chances[t, 0] * STEPS)):
            jump, choice = chances[t, 1 + 2 * step], chances[t, 2 + 2 * step]
            if labels[at] >= 0 and jump < TO_GROUP:
                first, last = np.searchsorted(in_order, labels[at]), np.searchsorted(in_order, labels[at] + 1)
                at = order[first + int(jump / TO_GROUP * (last - first))]
            n = 0
            for j in near[at]:
                if j >= 0 and not differ(table, kept, labels, at, j):
                    some[n] = j
                    n += 1
            if n > 0:
                at = some[int(choice * n)]
        ends[t] = -1 if at == starts[t] or differ(table, kept, labels, at, starts[t]) else at
    return ends


@njit(nogil=True, cache=True)
def differ(table: np.ndarray, kept: np.ndarray, labels: np.ndarray, i: int, j: int) -> bool:
    """Whether one of these points was last called dissimilar to one of the other's group."""
    if labels[i] < 0 or labels[j] < 0 or labels[i] == labels[j]:
        return False
    return points_to(table, OTHER, find(table, kept[i]), labels[j]) or points_to(
        table, OTHER, find(table, kept[j]), labels[i]
    )
