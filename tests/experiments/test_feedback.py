"""The protocol feedback: who marks what, what the index shows, and what is measured of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from onlinehash import OnlineHashing, datasets, evaluate
from onlinehash.errors import InvalidInput
from onlinehash.experiments import feedback, figures, runner, tables
from onlinehash.experiments import plan as planning
from onlinehash.experiments.results import Store
from onlinehash.experiments.rows import rows_of
from onlinehash.experiments.settings import Setting
from onlinehash.experiments.sources import find_sets
from onlinehash.experiments.split_data import SplitData
from tests.experiments.made_up import made_up, named_sets

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
PLANS = ["feedback-random", "feedback-uniform", "feedback-shown", "feedback-clicks", "feedback-noise"]


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


@pytest.mark.parametrize("marks", ["random", "uniform", "shown", "clicks"])
def test_the_seed_draws_the_marks(monkeypatch, marks):
    one, same, other = (as_rows(taught(monkeypatch, marks=marks, seed=seed)) for seed in (1, 1, 2))
    assert len(one) == 200
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.parametrize("marks", ["random", "uniform", "shown", "clicks"])
def test_held_out_queries_are_never_marked(monkeypatch, marks):
    asked = {row.tobytes() for row in SCENE.exam.queries}
    rows = as_rows(taught(monkeypatch, marks=marks))
    marked = {row.tobytes() for row in SCENE.base[rows[:, :2].astype(int).ravel()]}
    assert len(asked) == len(SCENE.exam.queries)
    assert not asked & marked
    assert (rows[:, 0] != rows[:, 1]).all()


def test_marks_on_shown_results_are_true_and_clicks_mostly(monkeypatch):
    for marks, least in (("random", 1.0), ("uniform", 1.0), ("shown", 1.0), ("clicks", 0.8)):
        rows = as_rows(taught(monkeypatch, marks=marks)).astype(int)
        right = (SCENE.labels[rows[:, 0]] == SCENE.labels[rows[:, 1]]) == rows[:, 2]
        assert least <= right.mean() <= 1


@pytest.mark.parametrize("marks", ["random", "uniform", "shown"])
def test_exactly_the_share_of_marks_is_wrong(monkeypatch, marks):
    rows = as_rows(taught(monkeypatch, marks=marks, wrong_share=0.1)).astype(int)
    wrong = (SCENE.labels[rows[:, 0]] == SCENE.labels[rows[:, 1]]) != rows[:, 2]
    assert wrong.sum() == 20
    assert 0 < wrong[:100].sum() < 20


@pytest.mark.parametrize("share_of_role", [None, 0.9])
def test_random_pairs_as_they_come_are_similar_as_often_as_chance_has_it(monkeypatch, share_of_role):
    by_chance = (SCENE.labels[:, None] == SCENE.labels).mean()
    shares = {
        marks: as_rows(taught(monkeypatch, marks=marks, pairs=5000, similar_share=share_of_role))[:, 2].mean()
        for marks in ("uniform", "random")
    }
    assert shares["uniform"] == pytest.approx(by_chance, abs=0.03)
    assert shares["random"] == pytest.approx(share_of_role or 0.3, abs=0.03)


def test_users_see_the_ten_nearest_others_of_the_index_as_it_is():
    student = feedback.HashStudent(OnlineHashing(16, random_state=0), SCENE)
    users = feedback.Users(SCENE, student, False, np.random.default_rng(3))
    bits = student.learner.transform(SCENE.base)
    for n in range(0, 60, 10):
        marks = users.marks(n, 10)
        bits = student.learner.transform(SCENE.base)
        distances = (bits != bits[marks.left[0]]).sum(axis=1)
        assert (marks.left == marks.left[0]).all()
        others = np.delete(np.argsort(distances, kind="stable"), 0)
        np.testing.assert_array_equal(distances[marks.right], distances[others[:10]])
        student.learn(marks)


def test_the_index_is_brought_up_to_date_on_the_stated_schedule(monkeypatch):
    student = feedback.HashStudent(OnlineHashing(16, random_state=0), SCENE)
    users = feedback.Users(SCENE, student, False, np.random.default_rng(3))
    times, n = [], 0
    monkeypatch.setattr(student, "refresh", lambda base, refresh=student.refresh: (times.append(n), refresh(base)))
    while n < 300:
        n += len(users.marks(n, 300 - n))
    assert times[:11] == list(range(0, 110, 10))
    assert len(times) > 15
    for before, after in pairwise(times[10:]):  # a search makes ten marks
        assert after - 10 < before + np.ceil(0.1 * before) <= after


def test_few_read_far_and_noise_is_small():
    rng = np.random.default_rng(0)
    relevant = np.tile([True, False], (20_000, 5))
    clicked = feedback.clicks(relevant, rng).mean(axis=0)
    expected = np.where(relevant[0], 0.9, 0.02) / np.arange(1, 11)
    np.testing.assert_allclose(clicked, expected, atol=0.01)


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


@pytest.mark.parametrize("method", ["ExactSearch", "IterativeQuantization"])
def test_who_learns_nothing_is_level(method):
    looks = feedback.measure(setting(method, "random"), WORLD).checkpoints
    assert [look["pairs"] for look in looks] == [0, 10, 200]
    assert len({look["map"] for look in looks}) == 1


def test_without_a_mark_the_adapter_is_exact_search():
    adapter, exact = (feedback.measure(setting(name, "random"), WORLD) for name in ("LinearAdapter", "ExactSearch"))
    for name in ("map", "precision@10", "map, signs", "map, ITQ"):
        assert adapter.checkpoints[0][name] == exact.checkpoints[0][name]
    found = evaluate.cosine(SCENE.exam.queries, SCENE.base, SCENE.exam.truth, ["map"])
    assert exact.final["map"] == pytest.approx(found["map"], abs=1e-6)
    # These classes lie in all directions alike, so there is nothing to gain; test_adapter.py has such where there is.
    assert adapter.final["map"] != exact.final["map"]
    assert adapter.final["map"] == pytest.approx(exact.final["map"], abs=0.02)


def test_labels_are_the_ceiling_whoever_marks():
    plans = [planning.read_plan(name) for name in PLANS]
    runs = {
        line: {cell.setting.name for plan in plans for cell in planning.cells(plan, named_sets("cifar10")) if
               (cell.line, cell.seed) == (line, 0)}
        for line in ("HMOH", "Float", "Sign bits", "ITQ", "Blended", "Adapter", "Adapter, ITQ")
    }  # fmt: skip
    assert [len(runs[line]) for line in ("HMOH", "Float", "ITQ", "Blended", "Adapter")] == [1, 1, 1, 5, 5]
    assert runs["Sign bits"] == runs["Float"]
    assert runs["Adapter, ITQ"] == runs["Adapter"]


@pytest.mark.parametrize("name", [PLANS[0], *(pytest.param(name, marks=pytest.mark.long) for name in PLANS[1:])])
def test_quick_plans_run_and_are_shown(name, tmp_path):
    plan = planning.read_plan(name).made_quick()
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


def test_zero_is_on_the_axis_of_marks():
    plan = planning.read_plan("feedback-random")
    rows = made_up(plan, named_sets("cifar10"))
    for row in rows:
        row.result.checkpoints[:] = [{"pairs": n, "map": 0.3 + n / 1e6} for n in plan.conditions["looks"]]
    (axes,) = figures.figure(plan, rows).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "10", "100", "1,000", "10,000"]
    places = axes.transData.transform([(x, 0.3) for x in (0, 10, 100)])[:, 0]
    assert places[0] < places[1] < places[2]


def test_a_run_is_read_for_each_form_of_search():
    result = feedback.measure(setting("LinearAdapter"), WORLD)
    signs = result.of_form("signs")
    assert signs.final["map"] == result.final["map, signs"]
    assert not [name for name in signs.final if "," in name]
    assert signs.per_query is None


def test_sets_without_labels_are_refused():
    without = SplitData(datasets.Dataset("made", X), "neighbours", (5, 1))
    with pytest.raises(InvalidInput, match="expected labels for the protocol feedback"):
        feedback.measure(setting(), without)


def test_only_known_measures_can_be_shown():
    with pytest.raises(InvalidInput, match="expected something measured among"):
        planning.read_plan("feedback-random").showing("beauty")
