"""Results on the disk: whole after a kill, compact for keeping."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onlinehash.errors import FormatError
from onlinehash.experiments.results import Result, Store
from onlinehash.experiments.settings import Setting


def a_result(seed: int = 0, n_queries: int = 400) -> Result:
    setting = Setting("made", "f00", "labelled", {"protocol": "retrieval", "pairs": 10}, "LSH", {}, 16, seed)
    values = np.random.default_rng(seed).random(n_queries)
    values[3] = np.nan
    return Result(setting, [{"pairs": 10, "map": 0.5}], values, {"n_queries": n_queries})


def test_a_run_has_the_name_under_which_it_is_kept():
    """One of docs/results: with another name, all that is kept would be run again."""
    conditions = {"truth": "labels", "split": (59000, 1000), "similar_share": None, "distractors": 1.0}
    conditions |= {"protocol": "retrieval", "pairs": 20000}
    features = {"features": {"n_anchors": 300, "width": 1.0, "normalize": True}}
    data = "cifar10_deep512", "6a2f700760beb88c", "cifar10"
    setting = Setting(*data, conditions, "OnlineHashing", features, 64, 2)
    assert setting.name == "001c7da42d3a175b"
    assert replace(setting, seed=3).name != setting.name


def test_what_was_added_is_there_again(tmp_path):
    store = Store(tmp_path / "runs")
    for seed in range(3):
        store.add(a_result(seed))
    again = Store(tmp_path / "runs")
    assert len(again) == 3
    for seed in range(3):
        kept, result = again.get(a_result(seed).setting.name), a_result(seed)
        assert kept is not None
        assert kept.setting == result.setting
        assert kept.final == result.final
        np.testing.assert_allclose(kept.per_query, result.per_query, atol=1e-5)
        assert np.isnan(kept.per_query[3])


@pytest.mark.parametrize("cut", [2, 300])
def test_half_a_line_after_a_kill_is_dropped_and_does_not_spoil_the_next(tmp_path, cut):
    store = Store(tmp_path)
    store.add(a_result(0))
    store.add(a_result(1))
    file = tmp_path / "results.jsonl"
    file.write_bytes(file.read_bytes()[:-cut])
    survivor = Store(tmp_path)
    assert len(survivor) == 1
    survivor.add(a_result(2))
    assert {result.setting.seed for result in Store(tmp_path)} == {0, 2}


def test_a_broken_compact_file_is_refused(tmp_path):
    store = Store(tmp_path / "runs")
    store.add(a_result())
    path = Store(tmp_path / "kept").keep(store)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FormatError, match="does not hold readable results"):
        Store(tmp_path / "kept")


def test_two_processes_may_write_to_one_folder(tmp_path):
    one, two = Store(tmp_path), Store(tmp_path)
    for seed in range(6):
        (one, two)[seed % 2].add(a_result(seed))
    assert len(Store(tmp_path)) == 6
