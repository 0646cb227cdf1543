"""A live index over every method: items come, feedback is given in the way the method takes it, codes follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import LiveIndex, evaluate, refresh
from onlinehash.learners import registry
from tests.support import clusters, make, quietly, state_bytes

X, Y = clusters(60, d=6)
NEW, NEW_Y = clusters(31, seed=3, d=6)


def started(name: str) -> Any:
    """A batch method comes fitted; the others learn through the index."""
    learner = make(name)
    return learner.fit(X, Y) if learner.traits.unit == "batch" else learner


def teach(index: LiveIndex) -> None:
    """What the learner takes, in two calls."""
    traits = index.learner.traits
    for rows in (slice(0, 17), slice(17, None)):
        if traits.learns_from == "labels" and traits.unit != "batch":
            index.learn_labelled(NEW[rows], NEW_Y[rows])
        elif traits.learns_from == "pairs":
            A, B = NEW[rows], NEW[::-1][rows]
            index.learn_pairs(A, B, NEW_Y[rows] == NEW_Y[::-1][rows])
            index.learn_labelled(A, NEW_Y[rows])
    if traits.unit == "chunk":
        index.flush()


@pytest.mark.parametrize(
    "name",
    [
        "OnlineHashing",
        "MultiModelOnlineHashing",
        "MiniBatchOnlineHashing",
        registry.RECOMMENDED,
        "HadamardHashing",
        "IterativeQuantization",
    ],
)
def test_codes_follow_and_a_disk_remembers(name: str, tmp_path: Path) -> None:
    learner = started(name)
    with LiveIndex(learner, path=tmp_path / "items", refresh=refresh.by_hand()) as index:
        index.add(range(60), X)
        quietly(teach, index)
        index.refresh()
        assert index.codes == index.encoder.encode(X) == learner.encode(X)
        hits = index.search(NEW[:4], k=5)
        state = state_bytes(learner)
    with LiveIndex.open(tmp_path / "items") as again:
        assert state_bytes(again.learner) == state
        assert np.array_equal(again.search(NEW[:4], k=5).ids, hits.ids)
        assert again.codes == again.encoder.encode(X)


def test_the_default_policy_keeps_up_with_the_learner() -> None:
    """A learner that shows few changes must not be left behind for the sake of their price."""
    rng = np.random.default_rng(0)
    centres, y = rng.standard_normal((6, 24)), rng.integers(6, size=1200)
    points = centres[y] + rng.standard_normal((1200, 24))
    learner = registry.find(registry.RECOMMENDED)(16, burn_in=500, random_state=0)
    index = LiveIndex(learner)
    index.add(range(1200), points)
    i, j = rng.integers(1200, size=(2, 6000))
    truth = evaluate.same_label(y[:200], y)
    for start in range(0, 6000, 20):
        rows = slice(start, start + 20)
        index.learn_pairs(points[i[rows]], points[j[rows]], y[i[rows]] == y[j[rows]])
        if start in (2980, 5980):
            held, newest = (
                evaluate.retrieval(encoder, points[:200], points, truth, ["map"])["map"]
                for encoder in (index.encoder, learner.snapshot())
            )
            assert newest > 0.5
            assert held > 0.9 * newest
