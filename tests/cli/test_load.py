"""`onlinehash load` and `search --text`: items from files, once each, and texts found again."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from onlinehash import LiveIndex
from onlinehash.cli import load
from onlinehash.embed import Lexical
from tests.cli.running import done, onlinehash, refused

TEXTS = ["open a file", "close a window", "read the lines of a file", "a warm day", "write a letter"]
X = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)


def write(path: Path, columns: dict[str, list[Any]]) -> Path:
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        cells = [[value if isinstance(value, str) else json.dumps(value) for value in row.values()] for row in rows]
        lines = [",".join(f'"{cell}"' for cell in row) for row in [list(columns), *cells]]
        path.write_text("\n".join(lines))
    else:
        parquet.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("name", ["items.jsonl", "items.parquet"])
def test_texts_are_loaded_embedded_and_found(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, {"Number": [10, 11, 12, 13, 14], "Body": TEXTS, "kind": ["a", "b", "a", "b", ""]})
    folder = tmp_path / "items"
    said = done("load", file, folder, "--id", "number", "--text", "body", "--bits", 32, "--json").document
    assert (said["added"], said["before"], said["items"]) == (5, 0, 5)
    with LiveIndex.open(folder, read_only=True) as index:
        assert index.ids.tolist() == [10, 11, 12, 13, 14]
        assert index.n_bits == 32
        assert np.array_equal(index.vectors, Lexical().encode(TEXTS))
        assert index.get(10).payload == {"text": TEXTS[0], "kind": "a"}
        assert index.get(14).payload == {"text": TEXTS[4]}
    found = done("search", folder, "--text", "opening files", "-k", 2, "--json").document
    assert found["ids"][0] == 10
    assert found["payloads"][0]["text"] == TEXTS[0]
    by_codes = done("search", folder, "--text", "opening files", "-k", 2, "--codes", "--json").document
    assert all(float(distance).is_integer() for distance in by_codes["distances"])  # of Hamming
    table = done("search", folder, "--text", "opening files", "-k", 2).out.splitlines()
    assert table[0].split() == ["rank", "distance", "id", "text"]
    assert table[1].endswith("10  open a file")


@pytest.mark.parametrize("name", ["items.parquet"])
def test_vectors_are_loaded_as_they_are(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, {"id": list("abcde"), "text": TEXTS, "embedding": X.tolist()})
    done("load", file, tmp_path / "items")
    with LiveIndex.open(tmp_path / "items", read_only=True) as index:
        assert index.ids.tolist() == list("abcde")
        np.testing.assert_allclose(index.vectors, X, rtol=1e-6)
        assert index.get("b").payload == {"text": TEXTS[1]}
        assert index.embedder is None


def test_a_run_that_was_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 60
    file = write(tmp_path / "items.jsonl", {"text": [f"text number {i}" for i in range(n)]})
    monkeypatch.setattr(load, "BLOCK_ROWS", 16)
    add, calls = load._add, []

    def failing(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        add(*arguments)

    monkeypatch.setattr(load, "_add", failing)
    from onlinehash.cli import run

    assert run(["load", str(file), str(tmp_path / "items")]) == 130
    with LiveIndex.open(tmp_path / "items", read_only=True) as index:
        assert len(index) == 32
    monkeypatch.setattr(load, "BLOCK_ROWS", 24)  # blocks need not be the same
    said = done("load", file, tmp_path / "items", "--json").document
    assert (said["added"], said["before"], said["items"]) == (n - 32, 32, n)
    with file.open("a") as more:
        more.write(json.dumps({"text": "one more"}) + "\n")
    assert "1 items added" in done("load", file, tmp_path / "items").out
    assert done("load", file, tmp_path / "items", "--json").document["added"] == 0
    with LiveIndex.open(tmp_path / "items", read_only=True) as index:
        assert [payload["text"] for payload in index.payloads_of(index.ids.tolist())][-2:] == [
            "text number 59",
            "one more",
        ]
    file.write_text('{"text": "text number 0"}\n')
    code, said = refused("load", file, tmp_path / "items")
    assert (code, "has 1 rows, fewer than the 61" in said) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["none.jsonl"], "no such file"),
        (["numbers.jsonl"], "expected a column of vectors or of texts"),
        (["gaps.jsonl"], "line 2: expected a text for text, got nothing"),
        (["items.jsonl", "--embed", "nothing"], "expected an embedder such as"),
    ],
)
def test_what_is_refused_makes_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "items.jsonl", {"text": TEXTS})
    write(tmp_path / "numbers.jsonl", {"n": [1, 2]})
    write(tmp_path / "gaps.jsonl", {"text": ["a", ""]})
    code, said = refused("load", arguments[0], "items", *arguments[1:])
    assert code == 2
    assert problem in said
    assert not (tmp_path / "items").exists()


def test_a_function_of_a_module_here_is_an_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("counting.py").write_text("def vowels(texts):\n    return [[t.count(v) for v in 'aeiou'] for t in texts]\n")
    write(Path("items.jsonl"), {"text": TEXTS})
    done("load", "items.jsonl", "items", "--embed", "counting:vowels")
    assert done("search", "items", "--text", TEXTS[3], "--embed", "counting:vowels", "--json").document["ids"][0] == 3
    code, said = refused("search", "items", "--text", "a")
    assert (code, "come from the embedder 'counting:vowels', which was not given" in said) == (2, True)
    assert "give the command or the service --embed counting:vowels" in said
    code, said = refused("search", "items", "--text", "a", "--embed", "lexical")
    assert (code, "holds vectors of the embedder 'counting:vowels'" in said) == (2, True)
    for arguments in (["items.jsonl", "--text", "a"], ["--text", "a", "--radius", "2"], []):
        assert refused("search", "items", *arguments)[0] == 2


def test_a_module_in_the_folder_is_looked_for_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    (tmp_path / "colorsys.py").write_text("raise SystemExit('run from a folder of others')")
    (tmp_path / "mymodel.py").write_text(
        "import colorsys\ndef encode(texts):\n    return [[1.0, len(t)] for t in texts]\n"
    )
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    before = list(sys.path)
    write(tmp_path / "items.jsonl", {"text": TEXTS})
    done("load", "items.jsonl", "items", "--embed", "mymodel:encode")
    assert sys.path == before
    monkeypatch.delitem(sys.modules, "mymodel")


def test_another_file_of_the_same_name_is_told(tmp_path: Path) -> None:
    file = write(tmp_path / "items.jsonl", {"text": TEXTS[:2]})
    done("load", file, tmp_path / "items")
    write(file, {"text": TEXTS[2:]})
    assert "does not begin as it did when 2 rows of it were loaded" in refused("load", file, tmp_path / "items")[1]
    write(file, {"text": TEXTS[:4]})
    assert done("load", file, tmp_path / "items", "--json").document["added"] == 2


def test_ids_of_a_csv_are_of_one_kind_in_all_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "BLOCK_ROWS", 2)
    words_first = write(tmp_path / "a.csv", {"id": ["x", "1", "2", "3", "4"], "text": TEXTS})
    done("load", words_first, tmp_path / "a")  # numbers alone in the later blocks are texts too
    with LiveIndex.open(tmp_path / "a", read_only=True) as index:
        assert index.ids.tolist() == ["x", "1", "2", "3", "4"]
    numbers_first = write(tmp_path / "b.csv", {"id": ["1", "2", "3", "4", "007"], "text": TEXTS})
    code, said = refused("load", numbers_first, tmp_path / "b")
    assert (code, "line 6: expected a whole number for id, as in the rows before, got '007'" in said) == (2, True)
    done("load", numbers_first, tmp_path / "c", "--text-ids")
    with LiveIndex.open(tmp_path / "c", read_only=True) as index:
        assert index.ids.tolist() == ["1", "2", "3", "4", "007"]
    more = write(tmp_path / "d.csv", {"id": ["10", "11"], "text": TEXTS[:2]})
    done("load", more, tmp_path / "c")  # of the kind that the index has
    with LiveIndex.open(tmp_path / "c", read_only=True) as index:
        assert index.ids.tolist()[-2:] == ["10", "11"]


def test_rows_that_are_not_valid_are_left_out_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "BLOCK_ROWS", 4)
    file = tmp_path / "items.csv"
    rows = ["1,one", "2,", "1,again", "4,four", "5,five,more", "6,six", "4,later", "2,  ", "8,", "4,last"]
    file.write_text("id,text\n" + "\n".join(rows) + "\n")
    for said in ("line 3: expected a text for text, got nothing", "line 4: there is an item with the id 1 already"):
        assert said in refused("load", file, tmp_path / "items")[1]
        file.write_text(file.read_text().replace("\n2,\n", "\n2,two\n"))
    ran = onlinehash("load", file, tmp_path / "items", "--skip-bad", "--json")
    assert ran.code == 0
    assert {key: ran.document[key] for key in ("added", "before", "items", "bad")} == {
        "added": 4, "before": 0, "items": 4, "bad": 6,
    }  # fmt: skip
    assert {line.split(": ")[1].split(", ")[1] for line in ran.err.splitlines()} == {
        f"line {number}" for number in (4, 6, 8, 9, 10, 11)
    }
    assert "0 items added" in done("load", file, tmp_path / "items", "--skip-bad").out  # each row once, and told once
    with LiveIndex.open(tmp_path / "items", read_only=True) as index:
        assert index.ids.tolist() == [1, 2, 4, 6]
        assert index.get(4).payload == {"text": "four"}
    (tmp_path / "empty.csv").write_text("id,text\n1,\n2,\n")
    assert "line 2" in refused("load", tmp_path / "empty.csv", tmp_path / "none", "--skip-bad")[1]
    assert not (tmp_path / "none").exists()


def test_a_csv_as_spreadsheets_write_it(tmp_path: Path) -> None:
    text = 'Größe; ""naïve"", 10 €\nand a line break'
    lines = [["id", "text", "price"], ["A-1", f'"{text}"', '"1,5"']]
    (tmp_path / "items.csv").write_bytes("\r\n".join(map(";".join, lines)).encode("utf-8-sig"))
    done("load", tmp_path / "items.csv", tmp_path / "items")
    with LiveIndex.open(tmp_path / "items", read_only=True) as index:
        assert index.get("A-1").payload == {"text": text.replace('""', '"'), "price": "1,5"}
    (tmp_path / "western.csv").write_bytes("id,text\n1,Größe\n".encode("cp1252"))
    assert "not UTF-8" in refused("load", tmp_path / "western.csv", tmp_path / "other")[1]


#: Columns of a csv, and what payloads hold of them.
CELLS: dict[str, tuple[list[str], list[Any]]] = {
    "price": (["49.90", "60", "", "-1.5e1", "0"], [49.9, 60, None, -15.0, 0]),
    "year": (["1999", " 2001 ", "2020", "  ", "3"], [1999, 2001, 2020, None, 3]),
    "zip": (["10115", "01067", "20095", "", "80331"], ["10115", "01067", "20095", None, "80331"]),
    "phone": (["301", "302", "303", "304", "+49 30"], ["301", "302", "303", "304", "+49 30"]),
    "part": (["1e5", "1e6", "1e7", "1e8", "1e5x"], ["1e5", "1e6", "1e7", "1e8", "1e5x"]),
    "order": ([str(2**53 + k) for k in range(5)], [str(2**53 + k) for k in range(5)]),
    "width": (["1,5", "2,5", "3", "4", "5"], ["1,5", "2,5", "3", "4", "5"]),
    "share": (["0.1", "nan", "inf", "1e999", ".5"], ["0.1", "nan", "inf", "1e999", ".5"]),
    "one": (["1", "2", "3", "4", "none"], ["1", "2", "3", "4", "none"]),
}


@pytest.mark.parametrize("source", ["file", "pipe", "standard input"])
def test_numbers_of_a_csv_are_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setattr(load, "BLOCK_ROWS", 2)  # what is in the last row counts in the first ones
    written = {"id": list("vwxyz"), "text": ["7", "8", "9", "10", "11"]} | {name: CELLS[name][0] for name in CELLS}
    content = write(tmp_path / "items.csv", written).read_text()
    if source == "file":
        done("load", tmp_path / "items.csv", tmp_path / "items")
    elif source == "pipe":
        reading, writing = os.pipe()
        with open(reading), open(writing, "w") as pipe:
            pipe.write(content)
            pipe.close()
            done("load", f"/dev/fd/{reading}", tmp_path / "items", "--format", "csv")
    else:
        done("load", "-", tmp_path / "items", "--format", "csv", stdin=content)
    with LiveIndex.open(tmp_path / "items", read_only=True) as index:
        for row, id in enumerate(written["id"]):
            expected = {name: CELLS[name][1][row] for name in CELLS if CELLS[name][1][row] is not None}
            payload = index.get(id).payload
            assert payload == {"text": written["text"][row]} | expected
            assert payload is not None
            assert [type(payload[name]) for name in expected] == [type(value) for value in expected.values()]
    for how in ([], ["--codes"]):
        cheap = done("search", tmp_path / "items", "--text", "8", "--where", '{"price": {"<": 50}}', *how, "--json")
        assert sorted(cheap.document["ids"]) == ["v", "y", "z"]


def test_a_row_that_is_left_out_does_not_make_texts_of_numbers(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("id,text,price\n1,one,5\n2,two,much,too much\n3,three,7.5\n")
    assert onlinehash("load", tmp_path / "items.csv", tmp_path / "items", "--skip-bad").code == 0
    with LiveIndex.open(tmp_path / "items", read_only=True) as index:
        assert [payload["price"] for payload in index.payloads_of([1, 3])] == [5, 7.5]
