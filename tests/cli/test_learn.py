"""`onlinehash learn` learns what the library learns, from every kind of file, and says what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onlinehash
from onlinehash import MultiModelOnlineHashing, OnlineHashing
from tests.cli.running import Data, done, refused
from tests.cli.running import onlinehash as run

DATA = Data.make()


def same(model: Path, expected: Any) -> None:
    """The saved model is the expected learner, byte for byte in what it learned and what it counted."""
    found = onlinehash.load(model)
    assert type(found) is type(expected)
    assert found.projection_.tobytes() == expected.projection_.tobytes()
    assert found.mean_.tobytes() == expected.mean_.tobytes()
    for name in ("n_pairs_seen_", "n_points_seen_", "cumulative_loss_", "n_bits_moved_", "version_"):
        assert getattr(found, name) == getattr(expected, name)


def from_pairs(**params: Any) -> Any:
    return OnlineHashing(**{"n_bits": 16, "random_state": 0} | params).partial_fit_pairs(DATA.A, DATA.B, DATA.similar)


# ------------------------------------------------------------------ files


def test_a_file_of_pairs(tmp_path: Path) -> None:
    np.savez(tmp_path / "pairs.npz", A=DATA.A, B=DATA.B, similar=DATA.similar)
    done("learn", tmp_path / "pairs.npz", "--method", "OH", "--bits", 16, "-o", tmp_path / "m.oh")
    same(tmp_path / "m.oh", from_pairs())


def test_vectors_and_their_labels(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", DATA.X)
    np.save(tmp_path / "y.npy", DATA.y)
    files = [tmp_path / "x.npy", "--labels", tmp_path / "y.npy"]
    done("learn", *files, "--method", "OH", "--bits", 16, "-o", tmp_path / "m.oh")
    same(tmp_path / "m.oh", OnlineHashing(16, random_state=0).partial_fit(DATA.X, DATA.y))


def test_standard_input(tmp_path: Path) -> None:
    done("learn", "-", "--method", "OH", "--bits", 16, "-o", tmp_path / "m.oh", stdin=DATA.jsonl())
    same(tmp_path / "m.oh", from_pairs())


def test_pairs_by_id(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.concatenate([DATA.A, DATA.B]))
    rows = [f"{k},{len(DATA.A) + k},{s}" for k, s in enumerate(DATA.similar)]
    (tmp_path / "p.csv").write_text("\n".join(["id_a,id_b,similar", *rows]))
    pairs, vectors, model = tmp_path / "p.csv", tmp_path / "v.npy", tmp_path / "m.oh"
    done("learn", pairs, "--vectors", vectors, "--method", "OH", "--bits", 16, "-o", model)
    same(model, from_pairs())
    assert refused("learn", pairs, "-o", model)[0] == 2
    assert refused("learn", vectors, "--vectors", vectors, "-o", model)[1].endswith(
        "expected the columns id_a, id_b and similar for the file of vectors given, got the columns x."
    )


def test_weights_count(tmp_path: Path) -> None:
    done("learn", "-", "--method", "OH", "--bits", 16, "-o", tmp_path / "m.oh", stdin=DATA.jsonl(weight=True))
    expected = OnlineHashing(16, random_state=0)
    expected.partial_fit_pairs(DATA.A, DATA.B, DATA.similar, DATA.weight)
    same(tmp_path / "m.oh", expected)


# ------------------------------------------------------------------ parameters


def test_parameters(tmp_path: Path) -> None:
    model = tmp_path / "m.oh"
    settings = ["--set", "C=0.05", "--set", "centre=running", "--set", "similar_radius=2"]
    done("learn", "-", "--method", "OH", "--bits", 16, "--seed", 3, *settings, "-o", model, stdin=DATA.jsonl())
    same(model, from_pairs(C=0.05, centre="running", similar_radius=2, random_state=3))
    done("learn", "-", "--method", "mmoh", "--bits", 8, "--set", "n_models=2", "-o", model, stdin=DATA.jsonl())
    expected = MultiModelOnlineHashing(8, n_models=2, random_state=0)
    same(model, expected.partial_fit_pairs(DATA.A, DATA.B, DATA.similar))
    done("learn", "-", "-o", model, stdin=DATA.jsonl())
    assert onlinehash.load(model).n_bits == 64


# ------------------------------------------------------------------ what it says


def test_rows_tell_what_the_pairs_since_the_row_before_did(tmp_path: Path) -> None:
    *rows, last = done(
        "learn", "-", "--method", "OH", "--bits", 16, "-o", tmp_path / "m.oh", "--json", stdin=DATA.jsonl()
    ).lines
    updates = OnlineHashing(16, random_state=0).learn_pairs(DATA.A, DATA.B, DATA.similar)
    assert [row["pairs"] for row in rows] == [1, 2, 4, 8, 16, 32, 60]
    start = 0
    for row in rows:
        part = slice(start, row["pairs"])
        assert row["event"] == "progress"
        assert row["pending"] == 0
        assert row["loss"] == pytest.approx(updates.loss[part].mean(), abs=1e-12)
        assert row["update_rate"] == pytest.approx((updates.step[part] > 0).mean())
        assert row["bits_moved"] == np.count_nonzero(updates.flips[part])
        assert row["cumulative_loss"] == pytest.approx(updates.loss[: row["pairs"]].sum())
        start = row["pairs"]
    assert last["event"] == "saved"
    assert last["output"] == str(tmp_path / "m.oh")
    assert last["method"] == "OnlineHashing"
    assert last["pairs"] == 60
    assert last["capped_share"] == pytest.approx(updates.capped.sum() / (updates.step > 0).sum())
    assert last["bits_moved"] == np.count_nonzero(updates.flips)
    assert last["update_rate"] == pytest.approx((updates.step > 0).mean())


# ------------------------------------------------------------------ going on


@pytest.mark.parametrize("features", [[], ["--features", "rbf:20"]])
def test_resume_goes_on_exactly_where_it_stopped(tmp_path: Path, features: list[str]) -> None:
    model, whole, cut = tmp_path / "m.oh", tmp_path / "whole.oh", 5
    assert (
        run("learn", "-", "--method", "OH", "--bits", 16, *features, "-o", model, stdin=DATA.jsonl(slice(0, cut))).code
        == 0
    )
    rest = done("learn", "-", "--resume", model, "-o", model, "--json", stdin=DATA.jsonl(slice(cut, None)))
    at_once = done("learn", "-", "--method", "OH", "--bits", 16, *features, "-o", whole, "--json", stdin=DATA.jsonl())
    same(model, onlinehash.load(whole))
    counted = [row["pairs"] for row in at_once.lines]
    assert [row["pairs"] for row in rest.lines] == [pairs for pairs in counted if pairs > cut]
    assert rest.lines[-1]["cumulative_loss"] == at_once.lines[-1]["cumulative_loss"]


# ------------------------------------------------------------------ what it refuses


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "XYZ"], "there is no method 'XYZ'; `onlinehash methods` lists all."),
        (
            ["--method", "OH", "--set", "D=1"],
            "OnlineHashing has no parameter 'D'; --set takes one of C, burn_in, centre, ",
        ),
        (["--method", "OH", "--set", "C=-1"], "OnlineHashing expects C to be a finite number above 0, got -1."),
        (["--features", "poly:3"], "expected features such as rbf, rbf:300"),
        (["--bits", "0"], "BlendedPairHashing expects n_bits to be an integer from 1 to 4096, got 0."),
        (["--format", "xml"], "expected a format among jsonl, csv, "),
    ],
)
def test_bad_options(tmp_path: Path, options: list[str], message: str) -> None:
    code, told = refused("learn", "-", *options, "-o", tmp_path / "m.oh", stdin=DATA.jsonl())
    assert code == 2
    assert told.startswith(message)
    assert not (tmp_path / "m.oh").exists()


def test_bad_input_saves_nothing(tmp_path: Path) -> None:
    model = tmp_path / "m.oh"
    code, told = refused("learn", "-", "-o", model, stdin="oops\n")
    assert (code, told) == (2, "standard input, line 1: expected a JSON object, got 'oops'.")
    assert refused("learn", "-", "-o", model, stdin="")[1] == ("no pairs or vectors in -; nothing was saved.")
    assert refused("learn", "no.jsonl", "-o", model) == (2, "no such file: no.jsonl.")
    nowhere = tmp_path / "nowhere" / "m.oh"
    assert refused("learn", "-", "-o", nowhere, stdin=DATA.jsonl())[1].endswith("does not exist; create it first.")
    np.save(tmp_path / "x.npy", DATA.X)
    assert "expected pairs (a column similar), or a label" in refused("learn", tmp_path / "x.npy", "-o", model)[1]
    files = [tmp_path / "x.npy"] * 2
    assert "needs exactly one file" in refused("learn", *files, "--labels", tmp_path / "x.npy", "-o", model)[1]
    assert not model.exists()


def test_a_bad_line_after_some_rows_ends_with_one_sentence(tmp_path: Path) -> None:
    outcome = run("learn", "-", "-o", tmp_path / "m.oh", stdin=DATA.jsonl() * 40 + "oops\n")
    assert outcome.code == 2
    assert outcome.err == "onlinehash: standard input, line 2401: expected a JSON object, got 'oops'.\n"
    assert not (tmp_path / "m.oh").exists()
