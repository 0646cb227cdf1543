"""`onlinehash info` tells the truth about files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onlinehash
from onlinehash import (
    LSH,
    FlatIndex,
    MultiIndex,
    MultiModelOnlineHashing,
    OnlineHashing,
    RbfAnchors,
    evaluate,
)
from onlinehash.io import container
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
    facts = dict(line.split(maxsplit=1) for line in done("info", model).out.splitlines())
    assert facts["file"] == f"{model}, {model.stat().st_size:,} bytes"
    assert facts["learner"] == "OnlineHashing"
    assert "n_bits=12" in facts["parameters"]
    assert facts["learned"] == "120 pairs; 240 points of 4 features (float64)"
    assert f"C capped {learner.n_capped_ / learner.n_steps_:.1%} of {learner.n_steps_} steps" in facts["updates"]


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


def test_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = MultiModelOnlineHashing(9, n_models=2, random_state=0)
    encoder = learner.partial_fit_pairs(DATA.A, DATA.B, DATA.similar).snapshot()
    index = MultiIndex(encoder.encode(DATA.X), [f"i{k}" for k in range(200)], fusion="sum", encoder=encoder)
    onlinehash.save(index, tmp_path / "i.oh")
    onlinehash.save(FlatIndex(taught().encode(DATA.X)), tmp_path / "f.oh")

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the whole file was read")

    monkeypatch.setattr(container, "read_arrays", never)
    assert done("info", tmp_path / "i.oh", "--json").document == {
        "file": str(tmp_path / "i.oh"),
        "bytes": (tmp_path / "i.oh").stat().st_size,
        "kind": "index",
        "class": "MultiIndex",
        "n": 200,
        "n_bits": 9,
        "n_models": 2,
        "fusion": "sum",
        "n_tables": index.n_tables,
        "ids": "strings",
        "encoder": {"method": "MultiModelOnlineHashing", "n_features": 4, "version": encoder.version},
    }
    facts = dict(line.split(maxsplit=1) for line in done("info", tmp_path / "i.oh").out.splitlines())
    del facts["file"]
    assert facts == {
        "index": "MultiIndex of 200 items, 9 bits for each of 2 models",
        "fusion": "sum",
        "tables": str(index.n_tables),
        "ids": "strings",
        "encoder": f"MultiModelOnlineHashing of 4 features, version {encoder.version}",
    }
    facts = dict(line.split(maxsplit=1) for line in done("info", tmp_path / "f.oh").out.splitlines())
    del facts["file"]
    assert facts == {
        "index": "FlatIndex of 200 items, 12 bits",
        "ids": "row numbers",
        "encoder": "none, so only codes can be searched for",
    }
    code, message = refused("info", tmp_path / "i.oh", "--vectors", "x.npy")
    assert code == 2
    assert "got an index in" in message


def test_the_health_of_the_bits(tmp_path: Path, model: Path) -> None:
    X = DATA.X.copy()
    learner = taught()
    np.save(tmp_path / "x.npy", X)
    bits = learner.transform(X)
    found = done("info", model, "--vectors", tmp_path / "x.npy", "--json").document["bits"]
    ones = bits.mean(axis=0)
    assert found["balance"] == pytest.approx(ones.tolist())
    assert found["dead"] == [k for k, share in enumerate(ones) if share < 0.02 or share > 0.98]
    assert found["entropy"] == pytest.approx(evaluate.bit_health(bits).entropy)
    np.save(tmp_path / "one.npy", X[:1])
    text = done("info", model, "--vectors", tmp_path / "one.npy").out
    assert f"{', '.join(map(str, range(12)))} of 12" in text  # of a single vector every bit is constant


def closer_share(bits_a: np.ndarray, bits_b: np.ndarray, similar: np.ndarray) -> float:
    """The slow way: every similar pair against every dissimilar one."""
    distances = (bits_a != bits_b).sum(axis=1)
    return float(np.mean([(n < f) + (n == f) / 2 for n in distances[similar] for f in distances[~similar]]))


@pytest.mark.parametrize("features", [None, RbfAnchors(30)])
def test_held_out_pairs_before_and_now(tmp_path: Path, features: RbfAnchors | None) -> None:
    learner = taught(features=features)
    onlinehash.save(learner, tmp_path / "m.oh")
    pairs = DATA.write_pairs(tmp_path / "p.jsonl", HELD_OUT)
    found = done("info", tmp_path / "m.oh", "--pairs", pairs, "--json").document["held_out"]
    A, B, similar = DATA.A[HELD_OUT], DATA.B[HELD_OUT], DATA.similar[HELD_OUT]
    assert found["now"]["auc"] == pytest.approx(closer_share(learner.transform(A), learner.transform(B), similar))

    # The first hash functions are LSH's of the same seed, taken on the features and the mean of now.
    mapped = [X if features is None else learner.snapshot().feature_map.map_rows(X) for X in (A, B)]
    first = LSH(12, random_state=4).observe(np.zeros((1, mapped[0].shape[1]))).projection_
    bits = [(Z - learner.mean_) @ first >= 0 for Z in mapped]
    assert found["before"]["auc"] == pytest.approx(closer_share(*bits, similar))
    assert found["now"]["auc"] != found["before"]["auc"]
    assert found["now"]["n_similar"] == similar.sum()
    words = done("info", tmp_path / "m.oh", "--pairs", pairs).out
    for moment in ("before", "now"):
        assert f"in {found[moment]['auc']:.1%} of cases" in words


def test_held_out_pairs_by_id(tmp_path: Path, model: Path) -> None:
    np.save(tmp_path / "v.npy", np.concatenate([DATA.A, DATA.B]))
    rows = [f"{k},{200 + k},{DATA.similar[k]}" for k in range(120, 200)]
    (tmp_path / "ids.csv").write_text("\n".join(["id_a,id_b,similar", *rows]))
    by_id = done("info", model, "--pairs", tmp_path / "ids.csv", "--vectors", tmp_path / "v.npy", "--json").document
    pairs = DATA.write_pairs(tmp_path / "p.jsonl", HELD_OUT)
    plain = done("info", model, "--pairs", pairs, "--vectors", tmp_path / "v.npy", "--json").document
    assert by_id["held_out"] == plain["held_out"]
    assert refused("info", model, "--pairs", tmp_path / "ids.csv")[0] == 2
    (tmp_path / "none.jsonl").write_text("")
    assert "has no pairs" in refused("info", model, "--pairs", tmp_path / "none.jsonl")[1]
    one_kind = DATA.jsonl(HELD_OUT).replace("false", "true")
    (tmp_path / "kind.jsonl").write_text(one_kind)
    assert "similar and dissimilar pairs" in refused("info", model, "--pairs", tmp_path / "kind.jsonl")[1]
