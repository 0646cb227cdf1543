"""Points, with and without labels, come out of every format as they went in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from onlinehash import streams
from onlinehash.errors import InvalidInput

RNG = np.random.default_rng(6)
X = RNG.standard_normal((17, 3))
Y = np.array([f"class {k}" for k in RNG.integers(4, size=17)])


def csv_text(header: str, rows: list[list[Any]]) -> str:
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)])


def numbers(x: np.ndarray) -> list[str]:
    return [repr(v) for v in x.tolist()]


def write(path: Path, form: str) -> None:
    """The same labelled points in many forms."""
    rows = list(zip(X, Y, strict=True))
    if form == "jsonl":
        path.write_text("".join(json.dumps({"x": x.tolist(), "label": y}) + "\n" for x, y in rows))
    elif form == "jsonl of numbers":
        path.write_text("".join(json.dumps({"f": x[0], "g": x[1], "h": x[2], "label": y}) + "\n" for x, y in rows))
    elif form == "csv":
        path.write_text(csv_text("label,x0,x1,x2", [[y, *numbers(x)] for x, y in rows]))
    elif form == "csv of coordinates":
        path.write_text(csv_text("x,y,z,label", [[*numbers(x), y] for x, y in rows]))
    elif form == "csv, last column":
        path.write_text(csv_text("0,1,2,3", [[*numbers(x), y] for x, y in rows]))
    elif form == "csv of lists":
        path.write_text(csv_text("x,label", [['"' + json.dumps(x.tolist()) + '"', y] for x, y in rows]))
    elif form == "parquet":
        parquet.write_table(pa.table({"x": X.tolist(), "label": Y.tolist()}), path)
    elif form == "parquet of categories":
        parquet.write_table(pa.table({"vector": X.tolist(), "y": pa.array(Y).dictionary_encode()}), path)
    else:
        np.savez(path, X=X, y=Y)


FORMS = {
    "jsonl": "jsonl",
    "jsonl of numbers": "jsonl",
    "csv": "csv",
    "csv of coordinates": "csv",
    "csv, last column": "csv",
    "csv of lists": "csv",
    "parquet": "parquet",
    "parquet of categories": "parquet",
    "npz": "npz",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_points(tmp_path: Path, form: str) -> None:
    path, size = tmp_path / f"points.{FORMS[form]}", 5
    write(path, form)
    found = list(streams.points(path, size=size))
    assert max(len(block.X) for block in found) <= size
    np.testing.assert_array_equal(np.concatenate([block.X for block in found]), X)
    np.testing.assert_array_equal(np.concatenate([block.y for block in found]), Y)


@pytest.mark.parametrize(("size", "labels"), [(5, "y.npy"), (100, "y.txt")])
def test_an_npy_takes_labels_from_another_file(tmp_path: Path, size: int, labels: str) -> None:
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    if labels == "y.npy":
        np.save(tmp_path / labels, Y)
    else:
        (tmp_path / labels).write_text("\n".join(Y) + "\n")
    found = list(streams.points(tmp_path / "x.npy", tmp_path / labels, size=size))
    np.testing.assert_array_equal(np.concatenate([block.X for block in found]), X.astype(np.float32))
    np.testing.assert_array_equal(np.concatenate([block.y for block in found]), Y)
    np.save(tmp_path / "short.npy", Y[:-1])
    with pytest.raises(InvalidInput, match=r"expected 17 labels, one .* row of .*x\.npy"):
        list(streams.points(tmp_path / "x.npy", tmp_path / "short.npy"))


def test_points_without_labels(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    (block,) = streams.points(tmp_path / "x.npy")
    assert block.y is None
    (tmp_path / "x.csv").write_text(csv_text("u,v,w", [numbers(x) for x in X]))
    (block,) = streams.points(tmp_path / "x.csv", labelled=False)
    np.testing.assert_array_equal(block.X, X)
    assert block.y is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"x": [1, 2]}', "line 2: expected a number of 64 bits or a text as label, got nothing"),
        ('{"x": [1], "label": 0}', "line 2: expected 2 numbers for x, like the rows before, got 1"),
        ('{"label": 0}', "line 2: expected a list of numbers for x, got nothing"),
    ],
)
def test_a_bad_point_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"x": [1, 2], "label": 0}\n' + text)
    with pytest.raises(InvalidInput, match=problem):
        list(streams.points(path))


@pytest.mark.parametrize("first", ["5,3,1", "5,3,cat"])
def test_a_csv_whose_first_line_is_data_is_refused(tmp_path: Path, first: str) -> None:
    (tmp_path / "x.csv").write_text(f"{first}\n{first}\n")
    with pytest.raises(InvalidInput, match=r"x.csv, line 1: expected a header line .*, got the number") as error:
        list(streams.points(tmp_path / "x.csv"))
    assert len(str(error.value)) < 300
