"""One run: every kind of method is taught the same stream, and what is measured is what a slow hand would measure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onlinehash import OnlineHashing, RbfAnchors, datasets, evaluate
from onlinehash.experiments import measurement
from onlinehash.experiments.measurement import measure, whole_classes
from onlinehash.experiments.settings import Setting
from onlinehash.experiments.split_data import SplitData
from tests.support import mostly_long

RNG = np.random.default_rng(5)
Y = np.repeat(np.arange(6), 80)
X = (RNG.standard_normal((6, 8))[Y] * 2 + RNG.standard_normal((480, 8))).astype(np.float32)
BASICS = {
    "protocol": "retrieval",
    "truth": "labels",
    "split": [5, 1],
    "similar_share": None,
    "distractors": 0.0,
    "pairs": 150,
}


def world(truth: str) -> SplitData:
    return SplitData(datasets.Dataset("made", X, Y), truth, (5, 1))


def setting(method: str, truth: str = "labels", **more) -> Setting:
    parameters = more.pop("parameters", {})
    return Setting("made", "f00", "labelled", BASICS | {"truth": truth} | more, method, parameters, 16, 1)


def test_a_run_is_what_one_would_do_by_hand():
    here = world("labels")
    result = measure(setting("OnlineHashing", checkpoints=3), here)
    left, right, similar = here.pairs(150, np.random.default_rng([1, 7]))
    oh = OnlineHashing(n_bits=16, random_state=1)
    for end in (50, 100, 150):
        rows = slice(end - 50, end)
        oh.partial_fit_pairs(here.rows[left[rows]], here.rows[right[rows]], similar[rows])
        look = result.checkpoints[end // 50 - 1]
        expected = evaluate.retrieval(oh, here.queries, here.rows, here.truth, ["map", "recall@1000"])
        assert look["pairs"] == end
        assert look["map"] == pytest.approx(expected["map"], abs=1e-6)
        assert look["recall@1000"] == pytest.approx(expected["recall@1000"], abs=1e-6)
        assert look["loss"] == oh.cumulative_loss_
        assert look["update_rate"] == oh.n_updates_ / end
    assert np.nanmean(result.per_query) == pytest.approx(result.final["map"], abs=1e-6)
    assert result.facts["similar_share"] == pytest.approx(similar.mean(), abs=1e-4)
    assert (result.facts["n_queries"], result.facts["n_base"]) == (80, 400)
    assert len(result.facts["curve"]) == 11


def test_ties_as_stored_are_measured_where_they_are_asked_for():
    here, asked = world("labels"), setting("HadamardHashing", stored_order=True)
    result = measure(asked, here)
    learner = asked.learner()
    left, right, _ = here.pairs(150, np.random.default_rng([1, 7]))
    points = np.stack([left, right], axis=1).ravel()
    learner.partial_fit(here.rows[points], here.labels[points])
    expected = evaluate.retrieval(learner, here.queries, here.rows, here.truth, ["map"], ties="stored")["map"]
    assert result.final["map_stored"] == pytest.approx(expected, abs=1e-6)
    assert result.final["map_stored"] != result.final["map"]
    assert "map_stored" not in measure(setting("HadamardHashing"), here).final


def test_features_of_the_base_are_made_once_for_all_looks_and_methods_and_change_no_number(monkeypatch):
    here, kernel = world("labels"), {"features": {"n_anchors": 30, "normalize": True}}
    asked = [setting(name, checkpoints=3, parameters=kernel) for name in ("OnlineHashing", "MinimalLossHashing")]
    made = []

    def map_rows(features, rows, old=RbfAnchors.map_rows):
        made.append(len(rows))
        return old(features, rows)

    monkeypatch.setattr(RbfAnchors, "map_rows", map_rows)
    kept = [measure(one, here) for one in asked]
    assert made.count(len(here.rows)) == 1
    monkeypatch.setattr(measurement, "MOST_KEPT", 0)
    anew = [measure(one, here) for one in asked]
    assert made.count(len(here.rows)) == 1 + 2 * 3
    for one, other in zip(kept, anew, strict=True):
        np.testing.assert_array_equal(one.per_query, other.per_query)
        assert [look["map"] for look in one.checkpoints] == [look["map"] for look in other.checkpoints]
    monkeypatch.undo()
    others = setting("OnlineHashing", parameters={"features": {"n_anchors": 20, "normalize": True}})
    assert measure(others, here).final["map"] != kept[0].final["map"]


def test_floats_are_searched_as_they_are():
    here = world("labels")
    result = measure(setting("ExactSearch", checkpoints=2), here)
    expected = evaluate.cosine(here.queries, here.rows, here.truth, ["map", "precision@100"])
    assert [look["pairs"] for look in result.checkpoints] == [75, 150]
    for look in result.checkpoints:
        assert {name: look[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert (result.facts["n_queries"], result.facts["n_base"]) == (80, 400)
    assert 0 < result.facts["similar_share"] < 1


METHODS = [
    "ProjectedCodesHashing",
    "SmoothPairHashing",
    "MultiModelOnlineHashing",
    "LegoLSH",
    "HadamardHashing",
    "OnlineSketchingHashing",
    "LSH",
    "IterativeQuantization",
    "KernelSupervisedHashing",
    "SupervisedDiscreteHashing",
]
#: For each method, its kernels are compiled once more, as the data are of float32.
ONE_OF_EACH_KIND = {
    "OnlineHashing",
    "HadamardHashing",
    "OnlineSketchingHashing",
    "LSH",
    "IterativeQuantization",
    "KernelSupervisedHashing",
}


@pytest.mark.parametrize("method", mostly_long(METHODS, ONE_OF_EACH_KIND))
def test_every_kind_of_method_can_run(method):
    result = measure(setting(method), world("labels"))
    assert 0.15 < result.final["map"] <= 1
    assert result.final["seconds"] >= 0


@pytest.mark.parametrize("method", ["OnlineHashing", "KernelSupervisedHashing", "KernelLSH"])
def test_without_labels_neighbours_teach(method):
    parameters = {"features": {"n_anchors": 30, "normalize": True}} if "Kernel" in method else {}
    result = measure(setting(method, "neighbours", parameters=parameters), world("neighbours"))
    assert 0.05 < result.final["map"] <= 1


def test_a_batch_method_learns_once_and_knows_nothing_of_the_new_world():
    drift = {"protocol": "drift", "drift": "sudden", "world": "rotated", "checkpoints": 4}
    looks = measure(setting("SupervisedDiscreteHashing", **drift), world("labels")).checkpoints
    assert looks[0]["map"] == looks[1]["map"]
    assert looks[2]["map"] == looks[3]["map"] == looks[4]["map"] < looks[0]["map"]


def test_samples_of_rare_classes_are_whole_classes():
    rows, labels = np.arange(10, 400), np.arange(400) // 3
    labels[100:200] = 1000 + np.arange(100)  # alone in their class
    taken = whole_classes(rows, labels, 60, np.random.default_rng(0))
    assert 55 <= len(taken) <= 60
    inside = {label: (labels[taken] == label).sum() for label in labels[taken]}
    assert all(n == (labels[rows] == label).sum() > 1 for label, n in inside.items())


def test_the_same_setting_gives_the_same_result():
    one, two = (measure(setting("SmoothPairHashing"), world("labels")) for _ in range(2))
    assert one.final["map"] == two.final["map"]
    np.testing.assert_array_equal(one.per_query, two.per_query)


def test_the_analysis_is_followed_where_it_is_asked_for():
    here = world("labels")
    result = measure(setting("OnlineHashing", bounds=True, exam=False, checkpoints=2), here)
    assert result.per_query is None
    last = result.final
    assert last["smallest_C"] == pytest.approx(np.sqrt(last["largest_R"]) / last["F2"])
    left, right, similar = here.pairs(150, np.random.default_rng([1, 7]))
    oh = OnlineHashing(n_bits=16, random_state=1)
    ledger = evaluate.bounds.follow(oh, here.rows[left], here.rows[right], similar)
    assert last["F2"] == pytest.approx(ledger.F2)
    assert last["smallest_C"] == pytest.approx(ledger.smallest_C)


CPUINFO = {
    "Some CPU @ 2 GHz": "processor : 0\nmodel name\t: Some CPU @ 2 GHz\n\nprocessor : 1\nmodel name\t: Other\n",
    "implementer 0x41, part 0xd0c": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
}


@pytest.mark.parametrize("name", CPUINFO)
def test_the_machine_is_named_by_its_processor(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ARM cores have no name on Linux."""
    (tmp_path / "cpuinfo").write_text(CPUINFO[name])
    monkeypatch.setattr(measurement, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(measurement.sys, "platform", "linux")
    assert measurement.machine.__wrapped__().startswith(f"{name} (")


def test_macos_is_asked_for_the_processors_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement.sys, "platform", "darwin")
    monkeypatch.setattr(measurement.subprocess, "check_output", lambda command, text: f"Apple M1 {command[-1]}\n")
    assert measurement.machine.__wrapped__().startswith("Apple M1 machdep.cpu.brand_string (")
