"""What `fast_supervised` learns its bits from: some rows in blocks, and pairs of them, similar and dissimilar.

No pair inside a block is dissimilar, so that a block's best bits are a minimum cut (`block_cuts`). Of classes the
blocks are the classes. Of a similarity matrix they are found greedily: a row and those similar to it that no block has
yet; where a pair drawn in there is dissimilar, the later of the two goes to a further block. If the matrix comes from
classes, so do the blocks, and the same pairs are drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array


class Pairs(NamedTuple):
    """Rows block by block, block b from `starts[b]` to `starts[b + 1]`; pairs of places among them, i < j."""

    rows: np.ndarray
    starts: np.ndarray
    i: np.ndarray
    j: np.ndarray
    similar: np.ndarray


def pairs_of_classes(classes: np.ndarray, n_samples: int, n_partners: int, rng: np.random.Generator) -> Pairs:
    """From the class number of every row."""
    rows = _some(len(classes), n_samples, rng)
    rows = rows[np.argsort(classes[rows], kind="stable")]
    classes = classes[rows]
    i, j = draw_pairs(classes, n_partners, rng)
    return Pairs(rows, _starts(classes), i, j, classes[i] == classes[j])


def pairs_of_similarities(similar: csr_array, n_samples: int, n_partners: int, rng: np.random.Generator) -> Pairs:
    """From who is similar to whom: bools, symmetric, with a whole diagonal."""
    rows = _some(similar.shape[0], n_samples, rng)
    similar = _among(similar, rows)
    groups = neighbourhoods(similar, np.argsort(rows))
    order = np.argsort(groups, kind="stable")
    rows, groups, similar = rows[order], groups[order], _among(similar, order)
    i, j = draw_similar_pairs(similar, n_partners, rng)
    alike = similar[i, j] if len(i) else np.zeros(0, np.bool_)  # of no pairs SciPy makes a sparse vector
    within = ~alike & (groups[i] == groups[j])
    blocks = groups * len(rows) + parted(i[within], j[within], len(rows))
    order = np.argsort(blocks, kind="stable")
    place = np.argsort(order)
    i, j = np.minimum(place[i], place[j]), np.maximum(place[i], place[j])
    return Pairs(rows[order], _starts(blocks[order]), i, j, alike)


def draw_pairs(classes: np.ndarray, n_partners: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """For each point `n_partners` of its class and as many of others, classes ascending; each pair once, i < j."""
    n = len(classes)
    first, last = np.searchsorted(classes, classes), np.searchsorted(classes, classes, side="right")
    size = last - first
    nth_alike, nth_other = _draw(size, n, n_partners, rng)
    alike = first[:, None] + nth_alike
    others = nth_other + np.where(nth_other >= first[:, None], size[:, None], 0)
    return _each_once(alike, others, size)


def draw_similar_pairs(similar: csr_array, n_partners: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """For each point `n_partners` that are similar to it and as many that are not; each pair once, i < j."""
    n = similar.shape[0]
    starts, size = similar.indptr[:-1], np.diff(similar.indptr)
    nth_alike, nth_other = _draw(size, n, n_partners, rng)
    alike = similar.indices[starts[:, None] + nth_alike].astype(np.int64)
    # Before the similar point at place p of a row there are (itself - p) others: these rise, so places are searched.
    skipped = similar.indices - (np.arange(similar.nnz) - np.repeat(starts, size))
    keys = np.repeat(np.arange(n), size) * np.int64(n + 1) + skipped
    wanted = np.arange(n)[:, None] * np.int64(n + 1) + nth_other
    others = nth_other + np.searchsorted(keys, wanted, side="right") - starts[:, None]
    return _each_once(alike, others, size)


def neighbourhoods(similar: csr_array, roots: np.ndarray) -> np.ndarray:
    """The group of each point: root by root, those similar to it that are in no group yet."""
    groups = np.full(similar.shape[0], -1, np.int64)
    n_groups = 0
    for root in roots:
        if groups[root] < 0:
            near = similar.indices[similar.indptr[root] : similar.indptr[root + 1]]
            groups[near[groups[near] < 0]] = n_groups
            n_groups += 1
    return groups


def parted(i: np.ndarray, j: np.ndarray, n: int) -> np.ndarray:
    """The least number for each of n points that no point before it has with which it is paired (i < j)."""
    numbers = np.zeros(n, np.int64)
    before = csr_array((np.ones(len(i), np.bool_), (j, i)), shape=(n, n))
    for point in np.unique(j):
        taken = set(numbers[before.indices[before.indptr[point] : before.indptr[point + 1]]].tolist())
        numbers[point] = next(number for number in range(n) if number not in taken)
    return numbers


def _some(n: int, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(n, min(n_samples, n), replace=False)


def _among(similar: csr_array, rows: np.ndarray) -> csr_array:
    """The matrix of some rows, columns ascending."""
    some: csr_array = similar[rows][:, rows]
    some.sort_indices()
    return some


def _starts(blocks: np.ndarray) -> np.ndarray:
    return np.append(np.flatnonzero(np.diff(blocks, prepend=-1)), len(blocks))


def _draw(size: np.ndarray, n: int, n_partners: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Which of its `size` similar points, and which of its n - size others, each point is paired with."""
    draws = rng.random((2, len(size), n_partners))
    return (draws[0] * size[:, None]).astype(np.int64), (draws[1] * (n - size)[:, None]).astype(np.int64)


def _each_once(alike: np.ndarray, others: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n = len(size)
    others[size == n] = np.flatnonzero(size == n)[:, None]  # who is similar to all has no others
    i, j = np.tile(np.repeat(np.arange(n), alike.shape[1]), 2), np.concatenate([alike.ravel(), others.ravel()])
    keys = np.unique(np.minimum(i, j)[i != j] * n + np.maximum(i, j)[i != j])
    return keys // n, keys % n
