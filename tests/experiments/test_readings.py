"""Readings: each changes what it says and nothing else, and claims are judged under it."""

import numpy as np
import pytest

from onlinehash import datasets
from onlinehash.experiments import measurement
from onlinehash.experiments.claims import judged, judged_alike, judged_under
from onlinehash.experiments.claims_map import ReadOtherwise
from onlinehash.experiments.plan import cells, contestant, plans, read_plan
from onlinehash.experiments.readings import OURS, SEEDS, known_readings
from onlinehash.experiments.rows import best_stand_ins
from onlinehash.experiments.settings import Setting
from onlinehash.experiments.split_data import SplitData, as_conditions
from tests.experiments.made_up import made_up, named_sets

FOUR = ("photo-tourism", "labelme", "gist1m", "cifar10")


def settings(plan, line, role="labelme"):
    return [cell.setting for cell in cells(plan, named_sets(role)) if cell.line == line]


@pytest.mark.parametrize("name", ["raw", "linear", "klsh"])
def test_every_reading_changes_some_runs_of_each_of_its_plans(name):
    reading = known_readings()[name]
    for plan in plans(reading.plans):
        under = plan.under(reading)
        ours = {cell.setting.name for cell in cells(plan, named_sets(*FOUR))}
        theirs = list(cells(under, named_sets(*FOUR)))
        assert {cell.reading for cell in theirs} == {name}
        assert any(cell.setting.name not in ours for cell in theirs if not cell.is_reference)
        assert {cell.line for cell in theirs} == {*plan.contestants, *plan.references}
    for label in reading.instead:
        assert contestant(label).label == label
        for other in reading.stand_ins(label):
            assert contestant(other).label == other
    for plan in plans(reading.plans):
        assert next(cells(plan.under(reading).under(OURS), named_sets(*FOUR))).reading == ""


def test_raw_vectors():
    plan = read_plan("online").under(known_readings()["raw"])
    (setting,) = {s.name: s for s in settings(plan, "OH") if (s.n_bits, s.seed) == (64, 0)}.values()
    assert setting.conditions["vectors"] == "raw"
    assert setting.parameters["features"]["normalize"] is False
    assert plan.values == (16, 32, 64, 128)
    assert (read_plan("online").seeds, plan.seeds) == (5, SEEDS)


def test_others_stand_in_under_the_same_name():
    plan = read_plan("online").under(known_readings()["linear"])
    assert all(setting.parameters.get("features") is None for setting in settings(plan, "OSH"))
    assert {s.name for s in settings(plan, "OH")} <= {s.name for s in settings(read_plan("online"), "OH")}


def test_of_several_the_best_at_a_length_stands_in():
    rows = made_up(read_plan("online").under(known_readings()["better"]), named_sets("labelme", "gist1m"))
    for row in rows:
        is_best = row.cell.who == {"labelme": "OSH, linear", "gist1m": "OSH"}[row.role]
        row.result.final["map"] = 0.9 if is_best else 0.1 + 0.01 * (row.seed + (row.value == 128))
    taken = best_stand_ins(rows)
    places = [(row.role, row.line, row.value, row.seed) for row in taken]
    assert sorted(set(places)) == sorted(places)
    assert {*places} == {(row.role, row.line, row.value, row.seed) for row in rows}
    assert [_who(taken, role) for role in ("labelme", "gist1m")] == [{"OSH, linear"}, {"OSH"}]
    fewer = best_stand_ins(row for row in rows if row.cell.who != "OSH, linear" or row.value == 128)
    assert _who(fewer, "labelme", 128) == {"OSH, linear"}
    assert _who(fewer, "labelme", 64) == {"OSH"}
    of_a_seed = best_stand_ins(row for row in rows if row.cell.who != "OSH, linear" or row.seed == 0)
    assert _who(of_a_seed, "labelme") == {"OSH"}


def _who(rows, role, *values):
    return {row.cell.who for row in rows.of(role=role, line="OSH") if not values or row.value in values}


def test_vectors_and_neighbours_of_a_split():
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((600, 4)) * [10, 1, 1, 1] + 3).astype(np.float32)
    data = datasets.Dataset("made", X)
    kinds = ("unit", "uncentred", "raw")
    unit, uncentred, raw = (SplitData(data, "neighbours", (5, 1), vectors=vectors) for vectors in kinds)
    np.testing.assert_allclose(np.linalg.norm(unit.rows, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(uncentred.rows, raw.rows / np.linalg.norm(raw.rows, axis=1, keepdims=True), rtol=1e-5)
    assert np.abs(unit.rows - uncentred.rows).max() > 0.1
    assert set(map(tuple, raw.rows)) <= set(map(tuple, X))
    left, right, similar = unit.pairs(300, np.random.default_rng(1))
    np.testing.assert_array_equal(raw.similar(left, right), similar)  # neighbours are those of vectors as they came
    prepared = SplitData(data, "neighbours", (5, 1), neighbours="prepared")
    np.testing.assert_array_equal(prepared.rows, unit.rows)
    assert (prepared.similar(left, right) != similar).any()
    assert as_conditions({"truth": "labels", "split": [3, 1]}) == ("labels", (3, 1), "unit", "raw", None)


def test_a_parameter_is_chosen_by_pairs_held_out():
    """Of two values of C, one lets nothing be learned."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 3000)
    X = (np.eye(4)[y] @ rng.standard_normal((4, 16)) + 0.8 * rng.standard_normal((3000, 16))).astype(np.float32)
    data = SplitData(datasets.Dataset("made", X, y), "labels", (5, 1))
    conditions = {"similar_share": 0.5, "choose": {"C": [1e-9, 0.1]}}
    setting = Setting("made", "0", "labelled", conditions, "OnlineHashing", {}, 16, 0)
    assert measurement.choose(setting, data) == {"C": 0.1}
    assert setting.learner(C=0.1).C == 0.1


@pytest.fixture(scope="module")
def otherwise():
    reading = known_readings()["linear"]
    plan = read_plan("online").under(reading)
    rows = made_up(plan, named_sets(*FOUR))
    planned = judged_alike(reading, rows, made_up(read_plan("online"), named_sets(*FOUR)))
    return ReadOtherwise(reading, [(plan, rows)], judged_under(reading, rows), planned)


@pytest.mark.parametrize(
    ("planned_from", "read_from", "verdicts", "turns"),
    [
        (64, 64, ("not confirmed", "confirmed"), False),  # it has only the lengths at which OH is ahead
        (999, 64, ("not confirmed", "confirmed"), True),
    ],
)
def test_a_verdict_turns_by_the_reading_and_not_by_the_lengths_that_were_run(planned_from, read_from, verdicts, turns):
    """OH is above KLSH from a length on, which is another one under the reading."""
    reading = known_readings()["pairs"]
    batch, sets = read_plan("batch"), named_sets(*FOUR)
    assert reading.values == (64, 128)
    planned, rows = made_up(batch, sets), made_up(batch.under(reading), sets)
    for some, first in ((planned, planned_from), (rows, read_from)):
        for row in some:
            is_ahead = row.line == ("OH" if row.value >= first else "KLSH")
            row.result.checkpoints[-1]["map"] = 0.5 + 0.1 * is_ahead + 0.001 * row.seed
    (claim,) = (one for one in judged(planned) if one.name == "oh-klsh")
    alike = judged_alike(reading, rows, planned)
    otherwise = ReadOtherwise(reading, [(batch.under(reading), rows)], judged_under(reading, rows), alike)
    assert (claim.verdict, otherwise.verdict(claim)) == verdicts
    assert otherwise.turns(claim) == turns


def test_claims_under_a_reading(otherwise):
    names = [claim.name for claim in otherwise.judged]
    assert "ranks" in names
    assert "beta" not in names  # not touched
    assert "oh-klsh" not in names  # the plan `batch` does not run under it
    assert all(claim.verdict != "not tested" for claim in otherwise.judged)
