"""`Hits`: what a search returns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Hits(NamedTuple):
    """The ids found and their distances, in the order of (distance, insertion).

    Rank in, rank out: one query gives vectors `(k,)`, several give matrices `(n, k)`; `k` is clipped to the number of
    items, so there are no sentinels. `within` finds a different number for each query, and so gives a list of Hits.
    """

    ids: np.ndarray
    distances: np.ndarray
