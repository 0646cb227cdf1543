"""The protocol feedback: who marks what, what the index shows, and what is measured of it."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import OnlineHashing, datasets, evaluate
from onlinehash.errors import InvalidInput
from onlinehash.experiments import feedback, runner, tables
from onlinehash.experiments import plan as planning
from onlinehash.experiments.results import Store
from onlinehash.experiments.rows import rows_of
from onlinehash.experiments.settings import Setting
from onlinehash.experiments.sources import find_sets
from onlinehash.experiments.split_data import SplitData

RNG = np.random.default_rng(5)
Y = np.repeat(np.arange(6), 80)
X = (RNG.standard_normal((6, 8))[Y] * 1.2 + RNG.standard_normal((480, 8))).astype(np.float32)
WORLD = SplitData(datasets.Dataset("made", X, Y), "labels", (5, 1))
SCENE = feedback.scene_of(WORLD)
BASICS = {
    "protocol": "feedback",
    "truth": "labels",
    "split": [5, 1],
    "similar_share": None,
    "distractors": 0.0,
    "pairs": 200,
    "looks": [0, 10, 200, 1000],
}


def setting(method: str = "OnlineHashing", marks: str = "shown", seed: int = 1, **more) -> Setting:
    return Setting("made", "f00", "labelled", BASICS | {"marks": marks} | more, method, {}, 16, seed)


def taught(monkeypatch: pytest.MonkeyPatch, **given) -> list[feedback.Marks]:
    """All marks of a run."""
    heard: list[feedback.Marks] = []
    learn = feedback.HashStudent.learn

    def hear(self, marks):
        heard.append(marks)
        learn(self, marks)

    with monkeypatch.context() as patch:
        patch.setattr(feedback.HashStudent, "learn", hear)
        feedback.measure(setting(**given), WORLD)
    return heard


def as_rows(heard: list[feedback.Marks]) -> np.ndarray:
    return np.concatenate([np.stack([marks.left, marks.right, marks.similar], axis=1) for marks in heard])


@pytest.mark.parametrize("marks", ["random", "clicks"])
def test_the_seed_draws_the_marks(monkeypatch, marks):
    one, same, other = (as_rows(taught(monkeypatch, marks=marks, seed=seed)) for seed in (1, 1, 2))
    assert len(one) == 200
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.parametrize("marks", ["random", "clicks"])
def test_held_out_queries_are_never_marked(monkeypatch, marks):
    asked = {row.tobytes() for row in SCENE.exam.queries}
    rows = as_rows(taught(monkeypatch, marks=marks))
    marked = {row.tobytes() for row in SCENE.base[rows[:, :2].astype(int).ravel()]}
    assert len(asked) == len(SCENE.exam.queries)
    assert not asked & marked
    assert (rows[:, 0] != rows[:, 1]).all()


def test_exactly_the_share_of_marks_is_wrong(monkeypatch):
    rows = as_rows(taught(monkeypatch, marks="shown", wrong_share=0.1)).astype(int)
    wrong = (SCENE.labels[rows[:, 0]] == SCENE.labels[rows[:, 1]]) != rows[:, 2]
    assert wrong.sum() == 20
    assert 0 < wrong[:100].sum() < 20


def test_a_look_before_the_first_mark_and_none_beyond_the_last():
    result = feedback.measure(setting(), WORLD)
    assert [look["pairs"] for look in result.checkpoints] == [0, 10, 200]
    oh = OnlineHashing(16, random_state=1).observe(SCENE.base)
    exam = SCENE.exam
    first = evaluate.retrieval(oh, exam.queries, exam.base, exam.truth, ["map", "precision@10"])
    assert result.checkpoints[0]["map"] == pytest.approx(first["map"], abs=1e-6)
    assert result.checkpoints[0]["precision@10"] == pytest.approx(first["precision@10"], abs=1e-6)
    assert np.nanmean(result.per_query) == pytest.approx(result.final["map"], abs=1e-6)
    assert (result.facts["n_base"], result.facts["n_queries"]) == (400, 80)


def test_quick_plans_run_and_are_shown(tmp_path):
    plan = planning.read_plan("feedback-random").made_quick()
    some = [
        cell
        for cell in planning.cells(plan, find_sets(["cifar10=digits"]))
        if cell.line in ("Float", "Sign bits", "Adapter", "Adapter, ITQ", "Blended", "HMOH")
    ]
    store = Store(tmp_path)
    for cell in some:
        if cell.setting.name not in store:
            store.add(runner.execute(runner.Job(cell.setting, "digits", str(tmp_path), False, cell.line)))
    assert len(store) == 4
    rows = rows_of(some, store)
    table = tables.table(plan.showing("precision@10"), rows)
    assert table.headings == ("set", "contestant", "0 marks", "10 marks", "30 marks", "100 marks", "300 marks")
    values = {line[1].text: [dict(entry.numbers)["mean"] for entry in line[2:]] for line in table.lines}
    assert values["Float"][0] == values["Adapter"][0] > values["Sign bits"][0]
    assert values["Adapter, ITQ"] != values["Adapter"]
    assert values["HMOH"][-1] > 0.8


def test_sets_without_labels_are_refused():
    without = SplitData(datasets.Dataset("made", X), "neighbours", (5, 1))
    with pytest.raises(InvalidInput, match="expected labels for the protocol feedback"):
        feedback.measure(setting(), without)
