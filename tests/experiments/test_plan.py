"""Plans: what is in the files, what runs they ask for, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from onlinehash import datasets
from onlinehash.errors import InvalidInput
from onlinehash.experiments import plan as planning
from onlinehash.experiments import toml
from onlinehash.experiments.roles import NamedSet, roles
from onlinehash.experiments.sources import find_sets
from onlinehash.experiments.split_data import SplitData, as_conditions
from onlinehash.learners import registry

PAPER = {
    "beta": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
    "models": [1, 2, 3, 4],
    "online": [16, 24, 32, 48, 64, 96, 128],
    "batch": [16, 24, 32, 48, 64, 96, 128],
    "time-bits": [16, 24, 32, 48, 64, 96, 128],
    "loss": [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0],
}


def a_set(role: str) -> NamedSet:
    return NamedSet("file.npz", "file", "0123", roles()[role])


def settings(plan: planning.Plan, role: str, others: tuple[str, ...] = ()) -> list:
    return [cell.setting for cell in planning.cells(plan, [a_set(role)], others)]


def test_every_plan_can_be_read_and_asks_for_runs():
    for name in toml.names():
        plan = planning.read_plan(name)
        role = plan.roles[0] if plan.roles else "photo-tourism"
        asked = settings(plan, role)
        assert asked, name
        assert asked[0].learner().n_bits == asked[0].n_bits
        assert settings(plan.made_quick(), role), name


def test_a_first_look_at_any_plan_fits_the_digits():
    plans = [planning.read_plan(name).made_quick() for name in toml.names()]
    digits, asked = datasets.load("digits"), [cell for plan in plans for cell in planning.cells(plan, find_sets([]))]
    for truth, split, vectors, neighbours, inputs in {as_conditions(cell.setting.conditions) for cell in asked}:
        data = SplitData(digits, truth, split, None, vectors, neighbours, inputs)
        assert data.rows.shape[1] == (inputs or 64)


def test_the_grids_are_the_papers():
    assert {name: list(planning.read_plan(name).values) for name in PAPER} == PAPER


def test_the_papers_other_numbers():
    samples = planning.read_plan("time-samples")
    assert (samples.conditions["pairs"] * 2, samples.seeds, samples.alone) == (80_000, 10, True)
    assert planning.read_plan("loss").conditions["pairs"] >= 10**6
    known = roles()
    assert [known[r].split for r in ("photo-tourism", "labelme", "gist1m", "cifar10")] == [
        (98_000, 6_000),
        (20_019, 2_000),
        (500_000, 1_000),
        (59_000, 1_000),
    ]
    beta = {r: known[r].parameters["dissimilar_ratio"] for r in ("photo-tourism", "labelme", "gist1m", "cifar10")}
    assert beta == {"photo-tourism": 0.5, "labelme": 0.5, "gist1m": 0.4, "cifar10": 0.4}
    assert registry.find("MMOH")().n_models == 4
    assert registry.find("OSH")().chunk_size == 1000


def test_names_follow_the_content():
    one = settings(planning.read_plan("beta"), "gist1m")[0]
    from dataclasses import asdict, replace

    from onlinehash.experiments.settings import setting_of

    assert setting_of(asdict(one)).name == one.name
    for change in ({"seed": 9}, {"n_bits": 8}, {"fingerprint": "x"}, {"conditions": {**one.conditions, "pairs": 1}}):
        assert replace(one, **change).name != one.name


def test_methods_that_need_labels_stay_away_where_there_are_none():
    lines = {cell.line for cell in planning.cells(planning.read_plan("batch"), [a_set("gist1m")])}
    assert "SDH" not in lines
    assert {"KSH", "FastHash"} <= lines
    assert "SDH" in {cell.line for cell in planning.cells(planning.read_plan("batch"), [a_set("cifar10")])}


GOOD = """
title = "x"
question = "x"
source = "x"
contestants = ["LSH"]
values = [8]
[conditions]
protocol = "retrieval"
pairs = 10
[drawing]
x_label = "x"
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pairs = 10", "pares = 10", "conditions among"),
        ('protocol = "retrieval"', 'protocol = "drift"', "the conditions of .* lack drift"),
        ("values = [8]", 'vary = "foo"\nvalues = [8]', "expected vary"),
    ],
)
def test_what_would_fail_later_is_refused_at_once(tmp_path: Path, old, new, message):
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    planning.read_plan(str(file))
    assert old in GOOD
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(InvalidInput, match=message):
        planning.read_plan(str(file))
