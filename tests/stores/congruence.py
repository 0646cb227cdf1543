"""The same random programs through `LiveIndex` in memory and through an index in any database: equal in everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from onlinehash import LiveIndex, OnlineHashing, refresh
from tests.programs import COLOURS, FACTS, WORLDS, Call, compare, live_index, run

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
        there.bits_at_once = LiveIndex.bits_at_once  # so that policies find the same refreshes cheap
        run(live_index(world), there, rng, bool(seed % 2), n_steps, STORE_FACTS, f"{world}, seed {seed}")


def check_find(make_index: Callable[[Any, Any], Any], reopen: Callable[[Any], Any] | None = None) -> None:
    """`find`, `found` and `rerank` have the same hits in memory and elsewhere, as pairs and items come and go.

    There are more items than are looked at first, and enough pairs for the metric to learn a map. `reopen(index)` gives
    the index as another process would find it.
    """
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((700, 6)).astype(np.float32)
    learner, policy = OnlineHashing(n_bits=16, random_state=0), refresh.by_hand()
    here = LiveIndex(clone(learner), refresh=policy)
    queries = np.concatenate([rows[:3], rng.standard_normal((4, 6)).astype(np.float32)])
    calls: dict[str, Call] = {
        "find": lambda index: index.find(queries),
        "find one": lambda index: index.find(queries[0], 5),
        "find some": lambda index: index.find(queries, 4, {"colour": "red"}),
        "find all": lambda index: index.find(queries[:2], 400),
        "found": lambda index: index.found(queries[1], 3),
        "rerank": lambda index: index.rerank(queries, index.search(queries, 30), 5),
    }

    def marks(index: Any) -> None:
        """The first hits of a query are not similar, and the next one is."""
        ids = here.find(queries[1], 4).ids.tolist()
        index.learn_pairs(np.repeat(queries[1:2], 4, axis=0), here.vectors_of(ids), [False, False, False, True])

    def pairs(index: Any) -> None:
        index.learn_pairs(rows[:300], rows[300:600], rows[:300, 0] * rows[300:600, 0] > 0)

    def far_marks(index: Any) -> None:
        """Items that are no candidates of a query are similar to it."""
        ids = here.search(queries[2], 380).ids[-30:].tolist()
        index.learn_pairs(np.repeat(queries[2:3], 30, axis=0), here.vectors_of(ids), [True] * 30)

    steps: list[Call] = [
        lambda index: index.add(range(400), rows[:400], [{"colour": COLOURS[i % 3]} for i in range(400)]),
        marks,
        far_marks,
        lambda index: index.update(range(5), rows[600:605]),
        pairs,
        lambda index: index.remove(range(3, 40)),
        lambda index: index.refresh(),
        marks,
    ]
    there = make_index(learner, policy)
    try:
        for number, step in enumerate(steps):
            step(there)  # first, as what is marked depends on what the other finds
            step(here)
            compare(here, there, calls, f"after step {number}", lambda _, expected, got: expected == got)
        if reopen is not None:
            there = reopen(there)
            compare(here, there, calls, "opened again", lambda _, expected, got: expected == got)
    finally:
        there.close()
