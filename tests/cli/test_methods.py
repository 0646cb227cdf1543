"""Methods of each kind from the command line: they learn, are saved, load back and encode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onlinehash import load
from onlinehash.learners import registry
from tests.cli.running import done, refused
from tests.support import clusters

X, Y = clusters(120, d=6)

#: One that learns from pairs, one from labels, one without feedback, and one all at once.
SOME = ["OnlineHashing", "HadamardHashing", "LSH", "IterativeQuantization"]


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    np.savez(tmp_path / "points.npz", X=X, y=Y)
    return tmp_path / "points.npz"


@pytest.mark.parametrize("name", SOME)
def test_a_method_learns_and_loads_back(name: str, labelled: Path, tmp_path: Path) -> None:
    method = next(method for method in registry.METHODS if method.name == name)
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


def test_pairs_for_a_method_that_cannot_use_them(tmp_path: Path) -> None:
    np.savez(tmp_path / "pairs.npz", A=X[:60], B=X[60:], similar=Y[:60] == Y[60:])
    code, told = refused("learn", tmp_path / "pairs.npz", "--method", "HCOH", "-o", tmp_path / "m.oh")
    assert code == 2
    assert "fit" in told
    assert not (tmp_path / "m.oh").exists()


def test_points_are_counted_and_limited_for_methods_that_learn_from_labels(labelled: Path, tmp_path: Path) -> None:
    rest = ["--bits", 8, "--limit", 37, "-o", tmp_path / "m.oh"]
    *rows, last = done("learn", labelled, "--method", "HCOH", *rest, "--json").lines
    assert [row["points"] for row in rows] == [1, 2, 4, 8, 16, 32, 37]
    assert last["points"] == load(tmp_path / "m.oh").n_points_seen_ == 37
