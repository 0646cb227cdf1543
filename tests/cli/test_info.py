"""`onlinehash info` tells the truth about files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onlinehash
from onlinehash import (
    LSH,
    OnlineHashing,
    RbfAnchors,
)
from tests.cli.running import Data, done, refused

DATA = Data.make(200)
TAUGHT, HELD_OUT = slice(0, 120), slice(120, 200)


def taught(**params: Any) -> OnlineHashing:
    learner = OnlineHashing(**{"n_bits": 12, "random_state": 4} | params)
    return learner.partial_fit_pairs(DATA.A[TAUGHT], DATA.B[TAUGHT], DATA.similar[TAUGHT])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onlinehash.save(taught(), tmp_path / "m.oh")
    return tmp_path / "m.oh"


def test_a_learner(model: Path) -> None:
    learner = taught()
    found = done("info", model, "--json").document
    assert found["file"] == str(model)
    assert found["bytes"] == model.stat().st_size
    assert (found["kind"], found["class"]) == ("learner", "OnlineHashing")
    assert found["parameters"] == learner.get_params(deep=False)
    assert found["learned"] == {
        "n_features": 4,
        "dtype": "float64",
        "unit": "pairs",
        "rows_waiting": 0,
        "pairs": 120,
        "points": 240,
        "pending": 0,
        "waiting_for": 0,
        "cumulative_loss": learner.cumulative_loss_,
        "loss": learner.cumulative_loss_ / 120,
        "update_rate": learner.n_updates_ / 120,
        "bits_moved": learner.n_bits_moved_,
        "steps": learner.n_steps_,
        "capped_share": learner.n_capped_ / learner.n_steps_,
        "version": learner.version_,
    }
    assert "120 pairs; 240 points of 4 features (float64)" in done("info", model).out


def test_other_files(tmp_path: Path) -> None:
    learner = taught()
    codes = learner.encode(DATA.X)
    onlinehash.save(learner.snapshot(), tmp_path / "e.oh")
    onlinehash.save(codes, tmp_path / "c.oh")
    onlinehash.save(OnlineHashing(), tmp_path / "new.oh")
    encoder = done("info", tmp_path / "e.oh", "--json").document
    assert {k: encoder[k] for k in ("kind", "method", "n_bits", "n_models", "n_features", "fusion", "version")} == {
        "kind": "encoder",
        "method": "OnlineHashing",
        "n_bits": 12,
        "n_models": 1,
        "n_features": 4,
        "fusion": "min",
        "version": learner.version_,
    }
    found = done("info", tmp_path / "c.oh", "--json").document
    assert (found["kind"], found["n"], found["n_bits"]) == ("codes", 200, 12)
    assert found["bits"]["balance"] == pytest.approx(codes.bits().mean(axis=0).tolist())
    assert done("info", tmp_path / "new.oh", "--json").document["learned"] == {}
    assert "nothing yet" in done("info", tmp_path / "new.oh").out
    code, message = refused("info", tmp_path / "c.oh", "--pairs", "p.jsonl")
    assert code == 2
    assert "got codes in" in message


def closer_share(bits_a: np.ndarray, bits_b: np.ndarray, similar: np.ndarray) -> float:
    """The slow way: every similar pair against every dissimilar one."""
    distances = (bits_a != bits_b).sum(axis=1)
    return float(np.mean([(n < f) + (n == f) / 2 for n in distances[similar] for f in distances[~similar]]))


def test_held_out_pairs_before_and_now(tmp_path: Path) -> None:
    learner = taught(features=RbfAnchors(30))
    onlinehash.save(learner, tmp_path / "m.oh")
    pairs = DATA.write_pairs(tmp_path / "p.jsonl", HELD_OUT)
    found = done("info", tmp_path / "m.oh", "--pairs", pairs, "--json").document["held_out"]
    A, B, similar = DATA.A[HELD_OUT], DATA.B[HELD_OUT], DATA.similar[HELD_OUT]
    assert found["now"]["auc"] == pytest.approx(closer_share(learner.transform(A), learner.transform(B), similar))

    # The first hash functions are LSH's of the same seed, taken on the features and the mean of now.
    mapped = [learner.snapshot().feature_map.map_rows(X) for X in (A, B)]
    first = LSH(12, random_state=4).observe(np.zeros((1, mapped[0].shape[1]))).projection_
    bits = [(Z - learner.mean_) @ first >= 0 for Z in mapped]
    assert found["before"]["auc"] == pytest.approx(closer_share(*bits, similar))
    assert found["now"]["auc"] != found["before"]["auc"]
    assert found["now"]["n_similar"] == similar.sum()
