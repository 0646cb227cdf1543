"""Every method of the registry from the command line: it learns, is saved, loads back and encodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onlinehash import load
from onlinehash.learners import registry
from tests.cli.running import done, onlinehash, refused
from tests.support import CLOSELY, clusters, mostly_long

X, Y = clusters(120, d=6)


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    np.savez(tmp_path / "points.npz", X=X, y=Y)
    return tmp_path / "points.npz"


def test_all_are_listed_with_what_they_learn_from() -> None:
    rows = done("methods", "--json").document
    assert [row["name"] for row in rows] == [method.name for method in registry.METHODS]
    assert len(rows) == 24
    for row, method in zip(rows, registry.METHODS, strict=True):
        traits = method.load().traits
        assert (row["learns_from"], row["unit"]) == (traits.learns_from, traits.unit)
        assert row["several_labels"] == traits.several_labels
        assert row["aliases"] == list(method.aliases)
        assert row["summary"].endswith(".")
    text = done("methods").out
    assert all(row["summary"] in text for row in rows)


@pytest.mark.parametrize("method", registry.METHODS, ids=lambda method: method.name)
def test_a_method_learns_and_loads_back(method: registry.Method, labelled: Path, tmp_path: Path) -> None:
    model, name = tmp_path / "m.oh", (method.aliases or (method.name,))[0]
    last = done("learn", labelled, "--method", name, "--bits", 8, "-o", model, "--json").lines[-1]
    learner = load(model)
    assert type(learner).__name__ == last["method"] == method.name
    assert last["points"] == learner.n_points_seen_ == 120
    expected = method.load()(n_bits=8, random_state=0)
    (expected.fit if learner.traits.unit == "batch" else expected.partial_fit)(X, Y)
    assert learner.encode(X) == expected.encode(X)
    done("encode", model, labelled, "-o", tmp_path / "codes.oh")
    assert load(tmp_path / "codes.oh") == expected.end_chunk().encode(X)
    told = done("info", model, "--vectors", labelled).out
    assert method.name in told


@pytest.mark.parametrize("name", mostly_long([method.name for method in registry.METHODS], CLOSELY))
def test_resuming_is_as_if_nothing_happened_or_refused(name: str, labelled: Path, tmp_path: Path) -> None:
    parts = [tmp_path / "first.npz", tmp_path / "rest.npz"]
    for path, rows in zip(parts, (slice(0, 51), slice(51, None)), strict=True):
        np.savez(path, X=X[rows], y=Y[rows])
    model, whole = tmp_path / "m.oh", tmp_path / "whole.oh"
    done("learn", parts[0], "--method", name, "--bits", 8, "-o", model)
    if registry.find(name).traits.unit == "batch":
        assert "does not learn online" in refused("learn", parts[1], "--resume", model, "-o", model)[1]
        return
    done("learn", parts[1], "--resume", model, "-o", model)
    done("learn", labelled, "--method", name, "--bits", 8, "-o", whole)
    assert model.read_bytes() == whole.read_bytes()


STREAMING = [method for method in registry.METHODS if method.load().traits.unit != "batch"]
TAKE_PAIRS = [method for method in STREAMING if method.load().traits.learns_from != "labels"]


@pytest.mark.parametrize("method", TAKE_PAIRS, ids=lambda method: method.name)
def test_pairs(method: registry.Method, tmp_path: Path) -> None:
    A, B = np.tile(X[:60], (20, 1)), np.tile(X[60:], (20, 1))
    np.savez(tmp_path / "pairs.npz", A=A, B=B, similar=np.tile(Y[:60] == Y[60:], 20))
    model = tmp_path / "m.oh"
    done("learn", tmp_path / "pairs.npz", "--method", method.name, "--bits", 8, "-o", model)
    assert load(model).n_pairs_seen_ == 1200
    held_out = done("info", model, "--pairs", tmp_path / "pairs.npz", "--json").document["held_out"]
    has_first_functions = method.load().traits.learns_from == "pairs"
    assert set(held_out) == ({"before", "now"} if has_first_functions else {"now"})


@pytest.mark.parametrize("name", ["HCOH", "HMOH", "OECC", "MIHash", "BSODH", "ITQ", "KSH", "SDH", "FastHash"])
def test_held_out_pairs_of_methods_that_learn_from_labels(name: str, labelled: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "pairs.npz", A=X[:60], B=X[60:], similar=Y[:60] == Y[60:])
    done("learn", labelled, "--method", name, "--bits", 8, "-o", tmp_path / "m.oh")
    found = done("info", tmp_path / "m.oh", "--pairs", tmp_path / "pairs.npz", "--json").document["held_out"]
    assert list(found) == ["now"]


def test_labelled_points_that_wait_for_anchors_are_told(labelled: Path, tmp_path: Path) -> None:
    outcome = onlinehash("learn", labelled, "--method", "HCOH", "--features", "rbf:300", "-o", tmp_path / "m.oh")
    assert outcome.code == 0
    assert "120 points, until the feature map has met 180 more distinct points" in outcome.out


@pytest.mark.parametrize("name", ["HCOH", "SDH", "ITQ"])
def test_pairs_for_a_method_that_cannot_use_them(name: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "pairs.npz", A=X[:60], B=X[60:], similar=Y[:60] == Y[60:])
    code, told = refused("learn", tmp_path / "pairs.npz", "--method", name, "-o", tmp_path / "m.oh")
    assert code == 2
    assert "fit" in told
    assert not (tmp_path / "m.oh").exists()


def test_points_are_counted_and_limited_for_methods_that_learn_from_labels(labelled: Path, tmp_path: Path) -> None:
    rest = ["--bits", 8, "--limit", 37, "-o", tmp_path / "m.oh"]
    *rows, last = done("learn", labelled, "--method", "HCOH", *rest, "--json").lines
    assert [row["points"] for row in rows] == [1, 2, 4, 8, 16, 32, 37]
    assert last["points"] == load(tmp_path / "m.oh").n_points_seen_ == 37
    lines = done("learn", labelled, "--method", "HCOH", *rest).out.splitlines()
    assert lines[0].split() == ["points", "loss", "a", "point", "update", "rate", "bits", "moved"]
    done("learn", labelled, "--method", "SDH", *rest)
    assert load(tmp_path / "m.oh").n_points_seen_ == 37
