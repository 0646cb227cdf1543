"""The bit of each of many points that a sum over pairs wants: block-coordinate descent by graph cuts.

The sum is `E(z) = Σ_pairs a_ij z_i z_j` over pairs that are given, with whole numbers a_ij. Where no a_ij inside a
block of points is positive, the best z of the block, all other points held, is a minimum cut: from the source (z = +1)
to the sink (z = -1) through

    source -> i   with capacity -u_i,  where u_i = Σ a_ij z_j over the j outside, if u_i < 0
    i -> sink     with capacity u_i,   if u_i > 0
    i <-> j       with capacity -a_ij

so every block lowers E or leaves it. Capacities are exact whole numbers; only where their sum is more than 32 bits hold
are they all divided, and a cut of divided numbers is taken only if it does not raise E.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

#: What the sum of the capacities may be.
MOST_CAPACITY = 2**31 - 1


def lower(weights: csr_array, starts: np.ndarray, z: np.ndarray, n_passes: int) -> list[int]:
    """Change z (int64, +1 and -1) block by block; E before, and after each pass.

    `weights` is symmetric, int64, and has each pair twice; block b is the points from starts[b] to starts[b + 1].
    """
    energies = [energy(weights, z)]
    for _ in range(n_passes):
        for start, stop in pairwise(starts):
            rows = weights[start:stop]
            outside = z.copy()
            outside[start:stop] = 0
            z[start:stop] = _cut(rows[:, start:stop], rows @ outside, z[start:stop])
        energies.append(energy(weights, z))
    return energies


def energy(weights: csr_array, z: np.ndarray) -> int:
    """E(z)."""
    return int(z @ (weights @ z)) // 2


def _cut(inside: csr_array, pull: np.ndarray, now: np.ndarray) -> np.ndarray:
    """The best z of a block."""
    if (pull >= 0).all() or (pull <= 0).all():  # all points go the same way, and no pair inside minds
        return np.full(len(pull), -1 if (pull >= 0).all() else 1)
    pairs = inside.tocoo()
    up, down = np.flatnonzero(pull < 0), np.flatnonzero(pull > 0)
    source, sink = len(pull), len(pull) + 1
    tails = np.concatenate([pairs.row, np.full(len(up), source), down])
    heads = np.concatenate([pairs.col, up, np.full(len(down), sink)])
    capacities = np.concatenate([-pairs.data, -pull[up], pull[down]])
    capacities //= -(-int(capacities.sum()) // MOST_CAPACITY)
    ends = tails.astype(np.int32), heads.astype(np.int32)  # SciPy's flows take no other numbers
    graph = csr_array(coo_array((capacities.astype(np.int32), ends), shape=(sink + 1, sink + 1)))
    left = graph - maximum_flow(graph, source, sink).flow
    left.data = np.maximum(left.data, 0)
    left.eliminate_zeros()
    best = np.full(sink + 1, -1)
    best[breadth_first_order(left, source, return_predecessors=False)] = 1
    return best[:source] if _energy_inside(inside, pull, best[:source]) <= _energy_inside(inside, pull, now) else now


def _energy_inside(inside: csr_array, pull: np.ndarray, z: np.ndarray) -> int:
    """What of E the block's points decide."""
    return int(z @ pull) + energy(inside, z)
