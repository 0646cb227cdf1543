"""What a search in the tables costs beside a scan of all codes, so that the dearer of the two is given up.

Costs are nanoseconds on one thread of a recent server with AVX-512. Answers do not depend on them. Where a scan is
slower than here, as without such wide registers, a search merely gives up earlier than it should.
"""

from __future__ import annotations

import math

import numpy as np

from onlinehash.index.substrings import LONGEST, Tables
from onlinehash.numeric.kernels import njit

#: To look up a bucket, and to compare an item in it.
LOOK_UP, COMPARE = 20.0, 1.0

#: To follow an item that may be near: to ask each table whether it was met before, and to fetch its row if its word is
#: not all of its code.
ASK, FETCH = 30.0, 150.0

#: About so many times k items are followed and taken on the way to the k nearest.
TAKEN = 4

#: A byte of all codes in a scan for one query, and for each query of a batch.
SCAN_ONE, SCAN_MANY = 0.06, 0.0125

#: A search whose scan costs less is not worth the attempt to avoid it: Python alone takes half of that.
CHEAP_SCAN = 200_000

#: The share of a scan's cost that may be spent before it is known what a search will cost, and how much nearer than
#: after that trial the k-th nearest will turn out to be.
TRIAL, HOPE = 0.05, 2

#: The share of a scan's cost above which taking k items is too dear to begin with.
AT_ONCE = 0.09

#: The share of it that a search within a radius may spend on what it takes, and how many it may take anyway.
TAKING, LEAST_ROOM = 0.25, 64

BINOMIALS = np.array([[math.comb(width, s) for s in range(LONGEST + 2)] for width in range(LONGEST + 1)])


def gives_up_at_once(tables: Tables, k: int, scan_cost: float) -> bool:
    """Whether a scan is cheaper than taking as many items as k asks for."""
    return TAKEN * k * _to_follow(tables) > AT_ONCE * scan_cost


def room_within(tables: Tables, scan_cost: float) -> int:
    """How many items may be taken before a scan would be cheaper."""
    return max(LEAST_ROOM, int(TAKING * scan_cost / _to_follow(tables)))


def _to_follow(tables: Tables) -> float:
    return float(to_follow(len(tables.starts), len(tables.rows)))


@njit(nogil=True, cache=True)
def to_follow(n_tables: int, n_rows: int) -> float:
    """The cost of examining one item of a bucket."""
    return ASK * n_tables + (FETCH if n_rows else 0.0)


@njit(nogil=True, cache=True)
def cheapest(widths: np.ndarray, levels: np.ndarray, prices: np.ndarray) -> int:
    """The table whose next distance costs the least, if its buckets cost as at its last; -1 if none is left."""
    table, least = -1, np.inf
    for j in range(widths.shape[0]):
        if levels[j] <= widths[j]:
            cost = BINOMIALS[widths[j], levels[j]] * prices[j]
            if cost < least:
                table, least = j, cost
    return table


@njit(nogil=True, cache=True)
def of_steps(n: int, widths: np.ndarray, levels: np.ndarray, prices: np.ndarray, enough: float) -> float:
    """What the next n steps would cost, or more than enough."""
    levels = levels.copy()
    total = 0.0
    for _ in range(n):
        table = cheapest(widths, levels, prices)
        if table < 0 or total > enough:
            break
        total += BINOMIALS[widths[table], levels[table]] * prices[table]
        levels[table] += 1
    return total
