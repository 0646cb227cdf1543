"""`onlinehash learn` learns what the library learns, from every kind of file, and says what happened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import onlinehash
from onlinehash import LSH, MultiModelOnlineHashing, OnlineHashing, RbfAnchors
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


# ------------------------------------------------------------------ every kind of file


def write_pairs(path: Path) -> None:
    if path.suffix == ".jsonl":
        DATA.write_pairs(path)
    elif path.suffix == ".csv":
        rows = np.column_stack([DATA.A, DATA.B, np.where(DATA.similar, 1, -1)]).tolist()
        header = [f"{side}_{k}" for side in "ab" for k in range(4)] + ["similar"]
        path.write_text("\n".join(",".join(map(str, row)) for row in [header, *rows]))
    elif path.suffix == ".parquet":
        columns = {"a": DATA.A.tolist(), "b": DATA.B.tolist(), "similar": DATA.similar}
        parquet.write_table(pa.table(columns), path)
    else:
        np.savez(path, A=DATA.A, B=DATA.B, similar=DATA.similar)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet", "npz"])
def test_pairs_from_every_format(tmp_path: Path, ending: str) -> None:
    write_pairs(tmp_path / f"pairs.{ending}")
    done("learn", tmp_path / f"pairs.{ending}", "--method", "OH", "--bits", 16, "-o", tmp_path / "m.oh")
    same(tmp_path / "m.oh", from_pairs())


def test_zeros_and_ones_in_a_named_column(tmp_path: Path) -> None:
    """What a click log holds; a column similar that is not the one named is not looked at."""
    header = [f"{side}_{k}" for side in "ab" for k in range(4)] + ["Clicked", "similar"]
    rows = np.column_stack([DATA.A, DATA.B, DATA.similar.astype(int)]).tolist()
    lines = [[*map(str, row[:-1]), f"{row[-1]:.0f}", "?"] for row in rows]
    (tmp_path / "p.csv").write_text("\n".join(",".join(line) for line in [header, *lines]))
    done(
        "learn",
        tmp_path / "p.csv",
        "--similar-column",
        "clicked",
        "--method",
        "OH",
        "--bits",
        16,
        "-o",
        tmp_path / "m.oh",
    )
    same(tmp_path / "m.oh", from_pairs())


def write_points(path: Path) -> list[object]:
    """Labelled points; further arguments that reading them needs."""
    rows = list(zip(DATA.X.tolist(), DATA.y.tolist(), strict=True))
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"x": x, "label": y}) + "\n" for x, y in rows))
    elif path.suffix == ".csv":
        path.write_text("\n".join(["p,q,r,s,kind", *(",".join(map(str, [*x, y])) for x, y in rows)]))
    elif path.suffix == ".parquet":
        parquet.write_table(pa.table({"vector": DATA.X.tolist(), "y": DATA.y}), path)
    elif path.suffix == ".npz":
        np.savez(path, X=DATA.X, y=DATA.y)
    else:
        np.save(path, DATA.X)
        np.save(path.with_name("labels.npy"), DATA.y)
        return ["--labels", path.with_name("labels.npy")]
    return []


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet", "npz", "npy"])
def test_labelled_vectors_from_every_format(tmp_path: Path, ending: str) -> None:
    more = write_points(tmp_path / f"points.{ending}")
    done("learn", tmp_path / f"points.{ending}", *more, "--method", "OH", "--bits", 16, "-o", tmp_path / "m.oh")
    same(tmp_path / "m.oh", OnlineHashing(16, random_state=0).partial_fit(DATA.X, DATA.y))


def test_standard_input(tmp_path: Path) -> None:
    done("learn", "-", "--method", "OH", "--bits", 16, "-o", tmp_path / "m.oh", stdin=DATA.jsonl())
    same(tmp_path / "m.oh", from_pairs())
    write_pairs(tmp_path / "p.csv")
    text = (tmp_path / "p.csv").read_text()
    done("learn", "-", "--format", "csv", "--method", "OH", "--bits", 16, "-o", tmp_path / "m.oh", stdin=text)
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


def test_features(tmp_path: Path) -> None:
    text, features = "rbf:7,width=1.5,normalize=true", RbfAnchors(7, width=1.5, normalize=True)
    done("learn", "-", "--method", "OH", "--bits", 16, "--features", text, "-o", tmp_path / "m.oh", stdin=DATA.jsonl())
    same(tmp_path / "m.oh", from_pairs(features=features))


def test_lsh_needs_no_labels(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", DATA.X)
    (tmp_path / "x.csv").write_text("\n".join(["p,q,r,s", *(",".join(map(str, x)) for x in DATA.X.tolist())]))
    for name in ("x.npy", "x.csv"):
        out = done("learn", tmp_path / name, "--method", "LSH", "--bits", 16, "-o", tmp_path / "m.oh", "--json")
        same(tmp_path / "m.oh", LSH(16, random_state=0).observe(DATA.X))
        assert [line["event"] for line in out.lines] == ["saved"]
        assert out.lines[0]["points"] == 60


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


def test_limit(tmp_path: Path) -> None:
    limit = 37
    rest = ["--method", "OH", "--bits", 16, "--limit", limit, "-o", tmp_path / "m.oh", "--json"]
    rows = done("learn", "-", *rest, stdin=DATA.jsonl(slice(0, limit)) + "not looked at").lines
    assert rows[-2]["pairs"] == rows[-1]["pairs"] == limit
    expected = OnlineHashing(16, random_state=0)
    same(tmp_path / "m.oh", expected.partial_fit_pairs(DATA.A[:limit], DATA.B[:limit], DATA.similar[:limit]))
    more = write_points(tmp_path / "x.npy")
    assert done("learn", tmp_path / "x.npy", *more, *rest).lines[-1]["points"] == 2 * min(limit, 30)


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


def test_resume_with_a_labelled_point_that_waits(tmp_path: Path) -> None:
    model, cut = tmp_path / "m.oh", 33
    for name, rows in (("first", slice(0, cut)), ("rest", slice(cut, None))):
        np.savez(tmp_path / f"{name}.npz", X=DATA.X[rows], y=DATA.y[rows])
    done("learn", tmp_path / "first.npz", "--method", "OH", "--bits", 16, "-o", model)
    rows = done("learn", tmp_path / "rest.npz", "--resume", model, "-o", model, "--json").lines
    same(model, OnlineHashing(16, random_state=0).partial_fit(DATA.X, DATA.y))
    assert [row["pairs"] for row in rows[:-1]] == [p for p in (1, 2, 4, 8, 16, 30) if p > cut // 2]


def test_resume_keeps_the_parameters(tmp_path: Path) -> None:
    model = tmp_path / "m.oh"
    done("learn", "-", "--method", "OH", "--bits", 16, "-o", model, stdin=DATA.jsonl())
    for option, value in (
        ("--bits", 8),
        ("--method", "LSH"),
        ("--set", "C=1"),
        ("--seed", 0),
        ("--features", "rbf"),
    ):
        code, message = refused("learn", "-", "--resume", model, option, value, "-o", model, stdin=DATA.jsonl())
        assert code == 2
        assert message == f"{option} cannot be combined with --resume: {model} already has its parameters."
    onlinehash.save(onlinehash.load(model).snapshot(), tmp_path / "e.oh")
    code, message = refused("learn", "-", "--resume", tmp_path / "e.oh", "-o", model, stdin=DATA.jsonl())
    assert (code, message) == (2, f"expected a learner in {tmp_path / 'e.oh'}, got Encoder.")


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


def test_warnings_are_told_like_errors(tmp_path: Path) -> None:
    arguments = ["learn", "-", "--method", "OH", "--bits", 16, "--set", "similar_radius=9", "-o", tmp_path / "m.oh"]
    outcome = run(*arguments, stdin=DATA.jsonl())
    assert outcome.code == 0
    assert outcome.err.startswith("onlinehash: warning: similar_radius=9 is not below")
    outcome = run(*arguments, "--json", stdin=DATA.jsonl())
    assert json.loads(outcome.err)["warning"].startswith("similar_radius=9 is not below")
