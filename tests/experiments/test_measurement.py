"""One run: every kind of method is taught the same stream, and what is measured is what a slow hand would measure."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import OnlineHashing, datasets, evaluate
from onlinehash.experiments.measurement import measure
from onlinehash.experiments.settings import Setting
from onlinehash.experiments.split_data import SplitData

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


def test_floats_are_searched_as_they_are():
    here = world("labels")
    result = measure(setting("ExactSearch", checkpoints=2), here)
    expected = evaluate.cosine(here.queries, here.rows, here.truth, ["map", "precision@100"])
    assert [look["pairs"] for look in result.checkpoints] == [75, 150]
    for look in result.checkpoints:
        assert {name: look[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert (result.facts["n_queries"], result.facts["n_base"]) == (80, 400)
    assert 0 < result.facts["similar_share"] < 1


@pytest.mark.parametrize("method", ["HadamardHashing", "LSH", "IterativeQuantization"])
def test_every_kind_of_method_can_run(method):
    result = measure(setting(method), world("labels"))
    assert 0.15 < result.final["map"] <= 1
    assert result.final["seconds"] >= 0


def test_without_labels_neighbours_teach():
    result = measure(setting("OnlineHashing", "neighbours"), world("neighbours"))
    assert 0.05 < result.final["map"] <= 1


def test_a_batch_method_learns_once_and_knows_nothing_of_the_new_world():
    drift = {"protocol": "drift", "drift": "sudden", "world": "rotated", "checkpoints": 4}
    looks = measure(setting("IterativeQuantization", **drift), world("labels")).checkpoints
    assert looks[0]["map"] == looks[1]["map"]
    assert looks[2]["map"] == looks[3]["map"] == looks[4]["map"] < looks[0]["map"]


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
