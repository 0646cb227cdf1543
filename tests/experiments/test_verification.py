"""What counts as the same result."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onlinehash.experiments.plan import read_plan
from onlinehash.experiments.results import Result
from onlinehash.experiments.verification import compare, draw
from tests.experiments.made_up import made_up, named_sets

PLAN = read_plan("beta")
ROWS = made_up(PLAN, named_sets("cifar10"))


def again(plan=PLAN, kept=None, **measured):
    """The comparison of a run with one that measured something else."""
    row = replace(ROWS[0], result=with_final(ROWS[0].result, **(kept or {})))
    return compare(plan, row, with_final(row.result, **measured))


def with_final(result: Result, **measured: float) -> Result:
    return replace(result, checkpoints=[{**result.final, **measured}])


@pytest.mark.parametrize(
    ("measured", "kept", "now", "verdict"),
    [
        ("map", 0.4, 0.4, "identical"),
        ("map", 0.4, 0.4019, "equal"),
        ("map", 0.1, 0.1009, "within tolerance"),
        ("map", 0.4, 0.4021, "different"),
        ("map", float("nan"), float("nan"), "identical"),
        ("loss", 1000.0, 1004.0, "equal"),
        ("loss", 1000.0, 1006.0, "different"),
        ("smallest_C", 0.017, 0.0175, "different"),  # no share of anything, so only half a percent
    ],
)
def test_identical_equal_within_tolerance_or_different(measured, kept, now, verdict):
    found = again(kept={measured: kept}, **{measured: now})
    assert (found.verdict, found.agrees) == (verdict, verdict != "different")
    if verdict != "identical":
        assert found.measured == measured


def test_drawn_runs_are_different_ones_and_follow_the_seed():
    n = 3
    candidates = [(PLAN, row) for row in ROWS]
    names = [[row.cell.setting.name for _, row in draw(candidates, n, seed)] for seed in (1, 1, 2)]
    assert names[0] == names[1] != names[2]
    assert len(set(names[0])) == n
