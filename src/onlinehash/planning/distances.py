"""How far the k-th nearest code is, which decides what multi-index hashing costs.

For a query, each bit of any other code is assumed to differ with the same probability p, its `flip`. So of n codes, n *
P(Binomial(bits, p) <= d) are within a distance of d. That is exact for uniform codes (p = 1/2). For codes of real
vectors it is a model fitted to measurements: with a p of its own, 0.38 to 0.44, it gives the mean distances of each of
five sets of real vectors, grown to 2M, 8M and 32M codes, to within about a tenth of a bit.

Some queries have nearer neighbours than others, and the far ones cost most. So p is spread over queries as a normal
distribution, of which the plan takes a few equally likely values.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

from onlinehash.errors import InvalidInput

#: Equally likely values that stand for the distribution of p.
VALUES = 9


class Data(NamedTuple):
    """What a plan must know of the codes."""

    flip: float  #: The mean of p.
    spread: float  #: Its standard deviation over queries.
    evenness: float  #: A substring of w bits spreads the codes over 2^(evenness * w) buckets, as queries meet them.


UNIFORM = Data(0.5, 0.0, 1.0)

#: Fitted to the distances (mean and spread), look-ups and candidates of five sets of real vectors, grown to 2M, 8M and
#: 32M codes of 64 bits by `benchmarks/grown.py`.
CLUSTERED = Data(0.404, 0.067, 0.96)

KINDS = {"clustered": CLUSTERED, "uniform": UNIFORM}


def flips(data: Data) -> list[float]:
    """Equally likely values of p."""
    normal = NormalDist()
    steps = [normal.inv_cdf((i + 0.5) / VALUES) for i in range(VALUES)]
    return [min(max(data.flip + data.spread * z, 0.01), 0.5) for z in steps]


def distance(n: float, k: int, bits: int, flip: float) -> float:
    """How far the k-th nearest of n codes is: where so many are expected, between two whole distances by their logs.

    Half a bit is added, as the k-th nearest lies at the first whole distance that holds k.
    """
    within, below, chance = 0.0, -math.inf, (1 - flip) ** bits
    for d in range(bits + 1):
        within += chance
        now = math.log(n * within) if within > 0 else -math.inf
        if now >= math.log(k):
            part = (now - math.log(k)) / (now - below) if below > -math.inf else 0.0
            return max(d - part + 0.5, 0.0) if d else 0.0
        below = now
        chance *= (bits - d) / (d + 1) * flip / (1 - flip)
    return float(bits)


def mean_distance(n: float, k: int, bits: int, data: Data) -> float:
    """The mean over queries."""
    return sum(distance(n, k, bits, flip) for flip in flips(data)) / VALUES


def with_distance(mean: float, n: float, k: int, bits: int) -> Data:
    """Data like the clustered ones whose k-th nearest of n codes is at this distance, in the mean."""
    nearest, farthest = 0.02, 0.5
    if not 0 <= mean <= mean_distance(n, k, bits, UNIFORM) + 0.5:
        most = mean_distance(n, k, bits, UNIFORM)
        raise InvalidInput(
            expected=f"a distance from 0 to {most:.1f} (that of the {k}th nearest of {n:,.0f} uniform codes of {bits} "
            "bits)",
            got=f"{mean:g}",
        )
    for _ in range(40):
        middle = (nearest + farthest) / 2
        if mean_distance(n, k, bits, CLUSTERED._replace(flip=middle)) < mean:
            nearest = middle
        else:
            farthest = middle
    return CLUSTERED._replace(flip=farthest)
