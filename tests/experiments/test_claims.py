"""Every judge gives every verdict that it can give, on results made for it; and says what is missing where some are."""

import math
from collections import Counter
from functools import cache

import numpy as np
import pytest

from onlinehash.experiments.claims import CLAIMS, judged
from onlinehash.experiments.claims.levels import Level, level_of
from onlinehash.experiments.claims.verdicts import (
    CONFIRMED,
    IN_PART,
    NOT_CONFIRMED,
    NOT_TESTED,
    Missing,
    judge,
)
from onlinehash.experiments.plan import cells, plans, read_plan
from onlinehash.experiments.results import Result
from onlinehash.experiments.rows import Row, Rows
from tests.experiments.made_up import made_up, named_sets

FOUR = ("photo-tourism", "labelme", "gist1m", "cifar10")


@cache
def cells_of(plan_name, roles):
    plan = read_plan(plan_name)
    return list(cells(plan, named_sets(*(roles or plan.roles or FOUR))))


def built(plan_name, looks, *roles, facts=None):
    """All cells of a plan; `looks(row)` gives what was measured: a number, a mapping, or a list of mappings."""
    rows, last = [], read_plan(plan_name).seeds - 1
    for cell in cells_of(plan_name, roles):
        empty = Row(cell, Result(cell.setting, [], None, {}))
        found = looks(empty)
        found = found if isinstance(found, list | dict) else {"map": found}
        noise = 1 + 0.002 * (2 * cell.seed / last - 1)  # a little spread, without a mean
        noisy = [
            {key: value * (1 if key == "pairs" else noise) for key, value in look.items()}
            for look in (found if isinstance(found, list) else [found])
        ]
        rows.append(Row(cell, Result(cell.setting, noisy, None, facts(empty) if facts else {})))
    return Rows(rows)


def verdict(name, *several):
    claim = next(claim for claim in CLAIMS if claim.name == name)
    return judge(claim, Rows(row for rows in several for row in rows))


# ------------------------------------------------------------------ the rules that all share


def runs(values, first=0):
    """One for each seed."""
    return dict(enumerate(values, first))


def test_higher_is_by_more_than_the_95_percent_interval():
    low = level_of(runs([0.50, 0.52, 0.54]), "")
    assert low.spread == pytest.approx(0.02)
    assert low.error == pytest.approx(0.02 / math.sqrt(3))
    assert str(low) == "0.520 ± 0.020"
    # Student's t of 3 + 3 - 2 degrees of freedom is 2.776, the standard error of a difference 0.01633: 0.04533 in all
    assert not level_of(runs([0.545, 0.565, 0.585], 7), "").above(low)
    assert level_of(runs([0.546, 0.566, 0.586], 7), "").above(low)
    # of 10 + 3 - 2: 2.201, with an error of 0.01172 that is 0.02579
    many = np.tile([0.012, -0.012], 5) * math.sqrt(0.9)
    more = level_of(runs(0.52 + many / many.std(ddof=1) * 0.00645, 7), "")
    assert (more - low).freedom == 11
    assert not level_of(runs(0.5455 + many / many.std(ddof=1) * 0.00645, 7), "").above(low)
    assert level_of(runs(0.5461 + many / many.std(ddof=1) * 0.00645, 7), "").above(low)
    assert Level(0.0, 0.0, 0.0, 4).sign == 0


def test_runs_of_the_same_seeds_are_compared_seed_by_seed():
    """Also where one of the two has more seeds."""
    low = level_of(runs([0.50, 0.60, 0.70]), "")
    # Student's t of 2 degrees of freedom is 4.303, the standard error of the differences 0.001 / √3: 0.00248 in all
    assert level_of(runs([0.502, 0.603, 0.704]), "").above(low)
    assert not level_of(runs([0.501, 0.602, 0.703]), "").above(low)
    assert not level_of(runs([0.502, 0.603, 0.704], 1), "").above(low)  # of other seeds
    gain = level_of(runs([0.502, 0.603, 0.704]), "") - low
    assert gain.freedom == 2
    assert level_of(runs([0.502, 0.603, 0.704, 0.1, 0.2]), "") - low == gain
    assert (level_of(runs([0.6, 0.7, 0.8], 1), "") - low).freedom == 4  # two seeds in common are too few
    assert (gain - gain.times(1.0)).sign == 0
    assert (gain.times(2.0) - gain).above(gain.times(0.1))


@pytest.mark.parametrize(("values", "told"), [([], "of OH"), ([0.9, 0.8], "of at least 3 runs of OH")])
def test_fewer_than_three_runs_are_no_level(values, told):
    with pytest.raises(Missing, match=f"^{told}$"):
        level_of(runs(values), "of OH")


def test_a_single_run_decides_nothing():
    names = {name for claim in CLAIMS for name in claim.plans} - set(DRIFTS)
    sets = named_sets(*FOUR)
    rows = [row for name in sorted(names) for row in made_up(read_plan(name), sets)]
    rows += [row for plan in drifted({}) for row in plan]
    assert Counter(claim.verdict for claim in judged(Rows(rows)))[NOT_TESTED] <= 4
    assert {claim.verdict for claim in judged(Rows(row for row in rows if row.seed == 1))} == {NOT_TESTED}


def test_without_results_nothing_is_tested_and_the_command_is_told():
    found = judged(Rows([]))
    assert len(found) == len(CLAIMS) == 41
    assert len({claim.name for claim in CLAIMS}) == 41
    known = {plan.name for plan in plans(["all"])}
    for claim in found:
        assert claim.verdict == NOT_TESTED
        assert set(claim.plans) <= known
        assert f"`onlinehash experiment run {' '.join(claim.plans)}` makes them" in claim.measured
        assert claim.text.endswith(".")
        assert claim.rule.endswith(".")


def test_a_set_without_results_keeps_a_claim_from_being_confirmed():
    def peak(row):
        return 0.5 - abs(row.value - 0.5) ** 2

    assert verdict("beta", built("beta", peak)).verdict == CONFIRMED
    some = verdict("beta", built("beta", peak, "gist1m", "cifar10"))
    assert some.verdict == IN_PART
    assert some.measured.endswith(
        "no results of the plan beta on Photo Tourism\nno results of the plan beta on 22K LabelMe"
    )


# ------------------------------------------------------------------ β, T, C


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (lambda b: 0.5 - (b - 0.5) ** 2, CONFIRMED),
        (lambda b: 0.3 + 0.1 * b, IN_PART),  # rises only
        (lambda b: 0.5 - (b - 0.8) ** 2, IN_PART),  # falls, but far beyond 0.5
        (lambda b: 0.5, NOT_CONFIRMED),
    ],
)
def test_beta(shape, expected):
    assert verdict("beta", built("beta", lambda row: shape(row.value))).verdict == expected


# ------------------------------------------------------------------ mAP against code length


@pytest.mark.parametrize(
    ("mAP", "expected"),
    [
        ({"MMOH": 0.6, "OH": 0.5}, CONFIRMED),
        ({"MMOH": 0.6, "OH": 0.5, "Smooth": 0.9, "KLSH": 0.9}, CONFIRMED),  # who is not of the paper's company
        ({"MMOH": 0.6, "OH": 0.3}, IN_PART),  # first, but OH is not second
        ({"MMOH": 0.5, "OH": 0.6}, NOT_CONFIRMED),
    ],
)
def test_ranks(mAP, expected):
    found = verdict("ranks", built("online", lambda row: mAP.get(row.line, 0.4)))
    assert found.verdict == expected
    assert "of 4 lengths (at 128: " in found.measured


# ------------------------------------------------------------------ time

AS_IN_PAPER = {"OH": 1.0, "AdaptHash": 1.1, "MLH": 2.0, "MMOH": 2.1, "OSH": 4.0, "LEGO": 20.0}


def timed(seconds, power=1.0):
    """Eight looks along 40,000 pairs, ending with so many seconds for each line."""

    def looks(row):
        end = seconds.get(row.line, 5.0)
        return [{"pairs": 5000 * k, "seconds": end * (k / 8) ** power} for k in range(1, 9)]

    return built("time-samples", looks, facts=lambda row: {"flops_per_pair": 42_000.0})


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("time-adapthash", {}, CONFIRMED),
        ("time-adapthash", {"AdaptHash": 2.0}, IN_PART),
        ("time-adapthash", {"AdaptHash": 1.0}, NOT_CONFIRMED),
        ("time-osh", {}, CONFIRMED),
        ("time-osh", {"OSH": 9.0}, IN_PART),
        ("time-osh", {"OSH": 0.5}, NOT_CONFIRMED),
    ],
)
def test_times(name, changes, expected):
    found = verdict(name, timed(AS_IN_PAPER | changes))
    assert found.verdict == expected
    assert "[42 kflop]" in found.measured


# ------------------------------------------------------------------ the analysis


@pytest.mark.parametrize(
    ("C", "expected"), [(0.02, CONFIRMED), (0.05, IN_PART), (0.001, IN_PART), (0.2, NOT_CONFIRMED)]
)
def test_smallest_C(C, expected):
    found = verdict("smallest-C", built("theorem", lambda row: {"smallest_C": C}))
    assert found.verdict == expected
    assert f"GIST1M: {C:.4f} ± 0.0" in found.measured


# ------------------------------------------------------------------ drift

DRIFTS = ("drift-sudden-rotated", "drift-gradual-rotated", "drift-sudden-meaning", "drift-gradual-meaning")
RECOVERS, STAYS, NO_FALL = (0.6, 0.3, 0.55), (0.6, 0.3, 0.32), (0.4, 0.4, 0.4)


def drifted(courses, *names):
    def looks(row):
        """Where drift is gradual, the look at half is in the mixture, and must not count as the old world."""
        line = "OH" if row.line == "OH, linear" and row.line not in courses else row.line
        before, after, end = courses.get(line, STAYS)
        is_gradual = "gradual" in row.plan
        pairs = (5_000, 6_000, 8_000, 10_000, 10_000, 20_000)
        old = (0.2, before, 0.1, 0.1) if is_gradual else (0.2, 0.1, 0.1, before)
        return [{"pairs": n, "map": v} for n, v in zip(pairs, (*old, after, end), strict=True)]

    return [built(name, looks, "cifar10") for name in names or DRIFTS]


@pytest.mark.parametrize(
    ("courses", "expected"),
    [
        ({"OH": RECOVERS}, CONFIRMED),
        ({"OH": NO_FALL}, CONFIRMED),
        ({"OH": RECOVERS, "OSH": RECOVERS}, IN_PART),
        ({"OH": STAYS}, NOT_CONFIRMED),
    ],
)
def test_drift(courses, expected):
    for name in DRIFTS:
        assert verdict("drift", *drifted(courses, name)).verdict == (IN_PART if expected == CONFIRMED else expected)
    assert verdict("drift", *drifted(courses)).verdict == expected
