"""Readings: each changes what it says and nothing else, and claims are judged under it."""

import numpy as np
import pytest

from onlinehash import datasets
from onlinehash.experiments import measurement
from onlinehash.experiments.claims import judged, judged_alike, judged_under
from onlinehash.experiments.claims_map import ReadOtherwise
from onlinehash.experiments.plan import cells, contestant, plans, read_plan
from onlinehash.experiments.readings import OURS, SEEDS, known_readings
from onlinehash.experiments.settings import Setting
from onlinehash.experiments.split_data import SplitData
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
