"""What counts as the same result."""

from __future__ import annotations

import pytest

from onlinehash.experiments.plan import read_plan
from onlinehash.experiments.results import Result
from onlinehash.experiments.verification import compare, draw
from tests.experiments.made_up import made_up, named_sets

ROWS = made_up(read_plan("beta"), named_sets("cifar10"))


def again(change: float) -> str:
    row = ROWS[0]
    look = {**row.result.final, "map": row.result.final["map"] + change}
    now = Result(row.result.setting, [look], row.result.per_query, row.result.facts)
    return compare(row, now, ROWS).verdict


def test_equal_within_the_spread_or_different():
    cell = ROWS.of(line=ROWS[0].line, value=ROWS[0].value)
    spread = cell.spread("map")
    assert spread > 0.01 * ROWS[0].result.final["map"]
    assert again(0.0) == "identical"
    assert again(0.004 * ROWS[0].result.final["map"]) == "equal"
    assert again(0.9 * spread) == "within the spread"
    assert again(-1.1 * spread) == "different"


def test_a_single_run_has_no_spread_to_hide_in():
    row = ROWS[0]
    look = {**row.result.final, "map": row.result.final["map"] * 1.01}
    now = Result(row.result.setting, [look], None, {})
    assert compare(row, now, ROWS.of(seed=row.seed)).verdict == "different"


@pytest.mark.parametrize("n", [1, 3, 5])
def test_drawn_runs_are_different_ones_and_follow_the_seed(n):
    candidates = [(row, ROWS) for row in ROWS]
    names = [[row.cell.setting.name for row, _ in draw(candidates, n, seed)] for seed in (1, 1, 2)]
    assert names[0] == names[1] != names[2]
    assert len(set(names[0])) == n
