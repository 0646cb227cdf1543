"""Pairs come out of every format as they went in, in order, whatever the block size."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from onlinehash import OnlineHashing, streams
from onlinehash.errors import InvalidInput, MissingExtra

RNG = np.random.default_rng(5)
A = RNG.standard_normal((23, 4))
B = RNG.standard_normal((23, 4))
SIMILAR = RNG.random(23) < 0.4
WEIGHT = np.round(RNG.random(23), 3)


def write_jsonl(path: Path, weight: bool) -> None:
    rows = [{"a": a.tolist(), "b": b.tolist(), "similar": bool(s)} for a, b, s in zip(A, B, SIMILAR, strict=True)]
    for row, w in zip(rows, WEIGHT, strict=True):
        if weight:
            row["weight"] = float(w)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_wide_csv(path: Path, weight: bool) -> None:
    names = [f"{side}_{k}" for side in "ab" for k in range(4)] + ["similar"] + ["weight"] * weight
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for a, b, s, w in zip(A, B, SIMILAR, WEIGHT, strict=True):
            writer.writerow([*map(repr, map(float, a)), *map(repr, map(float, b)), 1 if s else -1] + [w] * weight)


def write_cell_csv(path: Path, weight: bool) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["similar", "B", "A"] + ["weight"] * weight)
        for a, b, s, w in zip(A, B, SIMILAR, WEIGHT, strict=True):
            writer.writerow([s, json.dumps(b.tolist()), json.dumps(a.tolist())] + [w] * weight)


def write_parquet(path: Path, weight: bool) -> None:
    columns: dict[str, Any] = {
        "a": pa.array(A.tolist(), pa.list_(pa.float64())),
        "b": pa.FixedSizeListArray.from_arrays(B.reshape(-1), 4),
        "similar": pa.array(SIMILAR),
    }
    if weight:
        columns["weight"] = pa.array(WEIGHT)
    parquet.write_table(pa.table(columns), path, row_group_size=10)


def write_npz(path: Path, weight: bool) -> None:
    extra = {"weight": WEIGHT} if weight else {}
    np.savez(path, A=A, B=B, similar=np.where(SIMILAR, 1, -1), other=np.zeros(3), **extra)


WRITERS = {
    "pairs.jsonl": write_jsonl,
    "wide.csv": write_wide_csv,
    "cells.csv": write_cell_csv,
    "pairs.parquet": write_parquet,
    "pairs.npz": write_npz,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("size", [1, 1000])
def test_every_format_gives_the_same_blocks(tmp_path: Path, name: str, size: int) -> None:
    path = tmp_path / name
    WRITERS[name](path, weight=True)
    found = list(streams.blocks(path, size=size))
    assert max(len(block.similar) for block in found) <= size
    for column, expected in enumerate((A, B, SIMILAR, WEIGHT)):
        np.testing.assert_array_equal(np.concatenate([block[column] for block in found]), expected)


def test_a_learner_takes_what_read_gives(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "pairs.jsonl", weight=True)
    one, whole = (OnlineHashing(8, random_state=0) for _ in range(2))
    for a, b, similar, weight in streams.read(tmp_path / "pairs.jsonl"):
        one.learn_pair(a, b, similar, weight)
    whole.partial_fit_pairs(A, B, SIMILAR, WEIGHT)
    assert one.projection_.tobytes() == whole.projection_.tobytes()


@pytest.mark.parametrize("form", ["csv", "parquet", "npy"])
def test_ids_are_looked_up(tmp_path: Path, form: str) -> None:
    vectors = np.concatenate([A, B])
    order = RNG.permutation(46)
    ids = [f"item {k}" for k in order]
    path = tmp_path / f"vectors.{form}"
    rows = [vectors[k] for k in order]
    if form == "csv":
        lines = [
            "id,f0,f1,f2,f3",
            *(",".join([i, *map(repr, x.tolist())]) for i, x in zip(ids, rows, strict=True)),
        ]
        path.write_text("\n".join(lines))
    elif form == "parquet":
        parquet.write_table(pa.table({"id": ids, "vector": [x.tolist() for x in rows]}), path)
    else:
        np.save(path, vectors)  # a row's number is its id
    name = "{}".format if form == "npy" else "item {}".format
    pairs = tmp_path / "pairs.csv"
    lines = [f"{name(k)},{name(23 + k)},{'similar' if s else 'dissimilar'}" for k, s in enumerate(SIMILAR)]
    pairs.write_text("\n".join(["id_a,id_b,similar", *lines]))
    block = next(streams.blocks(pairs, vectors=path))
    np.testing.assert_array_equal(block.A, A)
    np.testing.assert_array_equal(block.B, B)
    np.testing.assert_array_equal(block.similar, SIMILAR)
    with pytest.raises(InvalidInput, match="names vectors by id"):
        next(streams.blocks(pairs))


@pytest.mark.parametrize("number", ["-1", "2", "x"])
def test_row_numbers_outside_an_npy_are_refused(tmp_path: Path, number: str) -> None:
    np.save(tmp_path / "v.npy", np.eye(2))
    (tmp_path / "p.csv").write_text(f"id_a,id_b,similar\n0,1,1\n0,{number},1\n")
    with pytest.raises(InvalidInput, match=r"p.csv, line 3: id_b is "):
        list(streams.read(tmp_path / "p.csv", vectors=tmp_path / "v.npy"))


GOOD_WORDS = {
    True: ["true", "True", "1", "1.0", "+1", "similar"],
    False: ["false", "False", "0", "0.0", "-1", "-1.0", "dissimilar"],
}


def test_words_for_similar(tmp_path: Path) -> None:
    for meaning, words in GOOD_WORDS.items():
        for word in words:
            (tmp_path / "p.csv").write_text(f"a_0,b_0,similar\n1,2,{word}\n")
            assert [similar for *_, similar in streams.read(tmp_path / "p.csv")] == [meaning], word


def test_json_values_for_similar(tmp_path: Path) -> None:
    for value in (True, 1, 1.0, False, 0, 0.0, -1, -1.0):
        (tmp_path / "p.jsonl").write_text(json.dumps({"a": [1], "b": [2], "similar": value}))
        assert [similar for *_, similar in streams.read(tmp_path / "p.jsonl")] == [value > 0], value


@pytest.mark.parametrize(("words", "size"), [(["0", "1", "-1"], 1), (["-1.0", "true", "0"], 100)])
def test_a_zero_beside_minus_one_may_mean_unknown(tmp_path: Path, words: list[str], size: int) -> None:
    (tmp_path / "p.csv").write_text("a_0,b_0,similar\n" + "".join(f"1,2,{word}\n" for word in words))
    with pytest.raises(InvalidInput, match=f"line 4: expected similar .*0 and -1 not in one file.* got '{words[-1]}'"):
        list(streams.blocks(tmp_path / "p.csv", size=size))


GOOD = '{"a": [1, 2], "b": [3, 4], "similar": true}'


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nonsense", r"expected a JSON object, got 'nonsense'"),
        ('{"a": [1, 2], "b": [3, 4]}', "expected similar to be true or 1.* got nothing"),
        ('{"a": [1, 2], "similar": true}', "expected a list of numbers for b, got nothing"),
        ('{"a": [1], "b": [3, 4], "similar": true}', "expected 2 numbers for a, like the rows before, got 1"),
        (
            '{"a": [1, "z"], "b": [3, 4], "similar": true}',
            r"expected a list of numbers for a, got \[1, 'z'\]",
        ),
        ('{"a": [1, NaN], "b": [3, 4], "similar": true}', "expected finite numbers, got nan"),
        ('{"a": [1, 2], "b": [3, 4], "similar": true, "weight": -1}', "finite weight of at least 0, got -1"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(f"{GOOD}\n\n{GOOD}\n{line}\n{GOOD}\n")
    with pytest.raises(InvalidInput, match=rf"p\.jsonl, line 4: .*{problem}") as caught:
        list(streams.read(path))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_a_missing_weight_is_one_and_none_may_come_late(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    weighty = GOOD[:-1] + ', "weight": 3}'
    path.write_text(f"{weighty}\n{GOOD}\n{GOOD}\n{weighty}\n")
    for size in (1, 2, 4):
        assert np.concatenate([b.weight for b in streams.blocks(path, size=size)]).tolist() == [3, 1, 1, 3]
    path.write_text(f"{GOOD}\n{weighty}\n")
    with pytest.raises(InvalidInput, match="line 2: there is a weight"):
        list(streams.blocks(path, size=1))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a_0,b_0,similar\n1,2\n", "line 2: expected 3 cells as in the header, got 2"),
        ("a_0,b_0,similar\n1,2,1\n\n1,z,1\n", "line 4: expected a number for b_0, got 'z'"),
        ("0.5,0.25,1\n1,2,1\n", "line 1: expected a header line"),
        ("a_0,b_0\n1,2\n", "expected a column similar, got the columns a_0, b_0"),
        ('a_0,b_0,similar\n1,"2,1\n', "line 2: not comma-separated values"),
    ],
)
def test_a_bad_csv_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(InvalidInput, match=problem):
        list(streams.read(tmp_path / "p.csv"))


@pytest.mark.parametrize("name", ["p.npz", "p.npy", "p.parquet", "p.jsonl", "p.csv"])
@pytest.mark.parametrize("content", [b"PK\x03\x04 half a zip\nof \xff lines"])
def test_garbage_is_refused_in_one_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=name) as caught:
        list(streams.read(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no such file: "):
        list(streams.read(tmp_path / "p.jsonl"))
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidInput, match="folder"):
        list(streams.read(tmp_path / "folder.csv"))
    with pytest.raises(InvalidInput, match=r"expected a file that ends in .csv, .*, got"):
        list(streams.read(tmp_path / "p.xlsx"))
    with pytest.raises(InvalidInput, match="expected a format among"):
        list(streams.read(tmp_path / "p.xlsx", format="xlsx"))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{GOOD}\n{GOOD}\n"))
    assert len(list(streams.read("-"))) == 2
    monkeypatch.setattr(sys, "stdin", io.StringIO("a_0,b_0,similar\n1,2,1\n"))
    assert [s for *_, s in streams.read("-", format="csv")] == [True]
    monkeypatch.setattr(sys, "stdin", io.StringIO("oops\n"))
    with pytest.raises(InvalidInput, match="standard input, line 1: expected a JSON object"):
        list(streams.read("-"))
    with pytest.raises(InvalidInput, match="expected jsonl or csv on standard input, got npz"):
        list(streams.read("-", format="npz"))


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("a_0,b_0,similar\n1,2,1\n", encoding="utf-8-sig")
    assert len(list(streams.read(tmp_path / "p.csv"))) == 1


def test_without_pyarrow_the_pip_line_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path / "p.parquet", weight=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"reading parquet needs pyarrow.*pip install '\.\[parquet\]'"):
        list(streams.read(tmp_path / "p.parquet"))


def test_a_csv_may_have_long_cells(tmp_path: Path) -> None:
    vector = np.random.default_rng(0).random(10_000)
    with (tmp_path / "p.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a", "b", "similar"], [vector.tolist(), vector.tolist(), 1]])
    usual = csv.field_size_limit()
    ((a, b, _),) = streams.read(tmp_path / "p.csv")
    assert (a.tolist(), b.tolist()) == (vector.tolist(), vector.tolist())
    assert csv.field_size_limit() == usual
