"""The same random programs through `LiveIndex` in memory and through an index in any database: equal in everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs import FACTS, WORLDS, live_index, run

#: No backend keeps margins, so none skips a bit.
STORE_FACTS = FACTS | {
    "counts": lambda index: (index.refreshes, index.bits_rehashed, index.bits_flipped, index.paused),
    "for policies": lambda index: (index.sample if len(index) else None, index.recent_pairs),
    "payloads": lambda index: index.payloads_of([*index.ids.tolist(), "nobody", -5, 2.5, None]),
    "vectors by id": lambda index: index.vectors_of(index.ids.tolist()[::-1] * 2) if len(index) else None,
    "positions": lambda index: index.positions,
}


def check(make_index: Callable[[Any, Any], Any], world: str, seed: int, n_steps: int) -> None:
    """A random program has the same results and errors in memory and elsewhere.

    `make_index(learner, policy)` makes a new index with this learner, which has learned nothing; the policy is None for
    the default. Even seeds have integers as ids, odd ones strings.
    """
    learner, policy = WORLDS[world]
    rng = np.random.default_rng([seed, *world.encode()])
    with make_index(learner(), policy()) as there:
        run(live_index(world), there, rng, bool(seed % 2), n_steps, STORE_FACTS, f"{world}, seed {seed}")
