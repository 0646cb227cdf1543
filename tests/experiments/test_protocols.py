"""The protocols: who is shown what, and who is asked."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import datasets
from onlinehash.experiments.protocols import schedule_of
from onlinehash.experiments.split_data import SplitData

RNG = np.random.default_rng(5)
Y = np.repeat(np.arange(8), 60)
X = (RNG.standard_normal((8, 6))[Y] * 3 + RNG.standard_normal((480, 6))).astype(np.float32)
WORLD = SplitData(datasets.Dataset("made", X, Y), "labels", (5, 1))
BASICS = {"truth": "labels", "similar_share": None, "distractors": 0.0}


def schedule(seed: int = 0, **conditions):
    return schedule_of(WORLD, BASICS | conditions, seed)


def test_retrieval_asks_all_queries_over_all_rows_at_each_look():
    made = schedule(protocol="retrieval", pairs=100, checkpoints=4)
    assert [len(part) for part in made.parts] == [25] * 4
    assert all(len(part.exam.base) == len(WORLD.rows) for part in made.parts)
    assert len(made.known) == len(WORLD.rows)


def test_unseen_classes_are_never_shown_and_only_they_are_asked_for():
    made = schedule(protocol="unseen", pairs=200)
    part = made.parts[0]
    shown = set(WORLD.labels[np.concatenate([part.left, part.right])])
    assert len(shown) == 6
    hidden = set(range(8)) - shown
    base = {tuple(row) for row in part.exam.base.tolist()}
    assert base == {tuple(row) for row in WORLD.rows[np.isin(WORLD.labels, list(hidden))].tolist()}
    assert len(part.exam.queries) == np.isin(WORLD.query_labels, list(hidden)).sum()
    assert not set(WORLD.labels[made.known]) & hidden


def test_classes_arrive_in_groups():
    made = schedule(protocol="incremental", pairs=400, groups=4)
    arrived: set[int] = set()
    for k, part in enumerate(made.parts):
        shown = set(WORLD.labels[np.concatenate([part.left, part.right])])
        arrived |= shown
        assert len(arrived) == 2 * (k + 1)
        assert len(part.exam.base) == np.isin(WORLD.labels, list(arrived)).sum()
        assert (part.left != part.right).all()
    assert len(set(WORLD.labels[made.known])) == 2


@pytest.mark.parametrize(("drift", "world"), [("sudden", "rotated"), ("gradual", "meaning")])
def test_drift_shows_the_old_world_first_and_the_new_one_last(drift, world):
    made = schedule(protocol="drift", drift=drift, world=world, pairs=600, checkpoints=6)
    n = len(WORLD.rows)
    is_new = [(part.left >= n).mean() for part in made.parts if len(part)]
    assert is_new[0] == 0
    assert is_new[-1] == 1
    if drift == "sudden":
        assert set(is_new) == {0.0, 1.0}
    else:
        assert 0 < is_new[2] < is_new[3] < 1
    looks = np.cumsum([len(part) for part in made.parts])
    assert looks.tolist() == [100, 200, 300, 300, 400, 500, 600]  # the same functions before and after
    before, after = made.parts[2].exam, made.parts[3].exam
    assert before is not after
    if world == "rotated":
        np.testing.assert_allclose(before.base @ before.base.T, after.base @ after.base.T, atol=1e-5)
        assert not np.allclose(before.base, after.base, atol=0.1)
    else:
        assert (before.base == after.base).all()
        assert (before.truth.block(slice(None)) != after.truth.block(slice(None))).any()
    for part in made.parts:
        assert (part.similar == (part.labels[part.left] == part.labels[part.right])).all()
