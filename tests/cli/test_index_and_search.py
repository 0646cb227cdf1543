"""`onlinehash index` and `onlinehash search` find what the library finds, whatever the files are."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

import onlinehash
from onlinehash import (
    Codes,
    FlatIndex,
    Hits,
    MultiIndex,
    MultiModelOnlineHashing,
    OnlineHashing,
)
from tests.cli.running import Data, done, refused

DATA = Data.make(1100)  # more than a block
QUERIES = DATA.A[:7] + 0.1
NAMES = [f"item{k}" for k in range(1100)]


@pytest.fixture
def learner() -> Any:
    return MultiModelOnlineHashing(19, n_models=3, random_state=0).partial_fit_pairs(DATA.A, DATA.B, DATA.similar)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learner: Any) -> Path:
    monkeypatch.chdir(tmp_path)
    onlinehash.save(learner, "m.oh")
    np.save("x.npy", DATA.X)
    np.save("q.npy", QUERIES)
    return tmp_path


def search(*arguments: object) -> list[tuple[list[Any], list[int]]]:
    """What `search --json` finds for each query."""
    lines = done("search", *arguments, "--json").lines
    assert [line["query"] for line in lines] == list(range(len(lines)))
    return [(line["ids"], line["distances"]) for line in lines]


def plain(hits: Hits | list[Hits]) -> list[tuple[list[Any], list[int]]]:
    rows = zip(*hits, strict=True) if isinstance(hits, Hits) else hits
    return [(ids.tolist(), distances.tolist()) for ids, distances in rows]


# ------------------------------------------------------------------ round trips


@pytest.mark.parametrize("fusion", ["min", "sum"])
@pytest.mark.parametrize("kind", ["flat", "multi"])
def test_both_kinds_and_fusions_find_what_the_library_finds(folder: Path, learner: Any, kind: str, fusion: str) -> None:
    done("index", "x.npy", "--model", "m.oh", "--kind", kind, "--fusion", fusion, "-o", "i.oh")
    loaded = onlinehash.load("i.oh")
    assert type(loaded) is {"flat": FlatIndex, "multi": MultiIndex}[kind]
    assert (loaded.fusion, loaded.encoder.version) == (fusion, learner.version_)
    expected = FlatIndex(learner.encode(DATA.X), fusion=fusion, encoder=learner.snapshot())
    assert search("i.oh", "q.npy") == plain(expected.search(QUERIES, 10))
    assert search("i.oh", "q.npy", "-k", 3, "--jobs", 2) == plain(expected.search(QUERIES, 3))
    assert search("i.oh", "q.npy", "--radius", 2, "--jobs", -1) == plain(expected.within(QUERIES, 2))
    assert search("i.oh", "q.npy", "-k", 0) == [([], [])] * 7
    assert len(search("i.oh", "q.npy", "-k", 5000)[0][0]) == 1100
    assert len(search("i.oh", "x.npy", "-k", 1)) == 1100


# ------------------------------------------------------------------ ids


def write_csv(path: str, ids: list[Any], name: str = "id") -> None:
    lines = [",".join(map(str, [id, *x])) for id, x in zip(ids, DATA.X.tolist(), strict=True)]
    Path(path).write_text("\n".join([f"{name},p,q,r,s", *lines]))


def write_jsonl(path: str, ids: list[Any], name: str = "id") -> None:
    rows = zip(ids, DATA.X.tolist(), strict=True)
    Path(path).write_text("".join(json.dumps({name: id, "x": x}) + "\n" for id, x in rows))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (NAMES, NAMES),
        (list(range(2000, 900, -1)), list(range(2000, 900, -1))),
        ([f"{k:05}" for k in range(1100)], [f"{k:05}" for k in range(1100)]),
        ([*range(1099), "last"], [*map(str, range(1099)), "last"]),  # integers in the first block, a text in the second
    ],
    ids=["texts", "integers", "leading zeros", "an integer among texts"],
)
def test_ids_of_every_source(folder: Path, written: list[Any], expected: list[Any]) -> None:
    write_csv("x.csv", written)
    write_csv("sku.csv", written, "SKU")
    write_jsonl("x.jsonl", written)
    Path("ids.txt").write_text("\n".join(map(str, written)))
    sources: list[list[str]] = [
        ["x.csv"],
        ["sku.csv", "--ids", "sku"],
        ["x.jsonl"],
        ["x.npy", "--ids", "ids.txt"],
        ["x.csv", "--ids", "ids.txt"],
    ]
    if len({type(id) for id in written}) == 1:
        np.savez("x.npz", X=DATA.X, id=np.array(written))
        np.save("ids.npy", np.array(written))
        sources += [["x.npz"], ["x.npy", "--ids", "ids.npy"]]
    for source in sources:
        kind = done("index", *source, "--model", "m.oh", "-o", "i.oh", "--json").document["ids"]
        assert kind == ("strings" if isinstance(expected[0], str) else "integers")
        assert onlinehash.load("i.oh").ids.tolist() == expected


# ------------------------------------------------------------------ codes


@pytest.mark.parametrize("form", ["c.oh", "c.npz", "c.txt", "b.npy --bits"])
def test_codes_are_indexed_and_searched(folder: Path, learner: Any, form: str) -> None:
    target, *bits = form.split()
    done("encode", "m.oh", "x.npy", "-o", target, *bits)
    done("encode", "m.oh", "q.npy", "-o", f"q{target}", *bits)
    expected = FlatIndex(learner.encode(DATA.X), NAMES, encoder=learner.snapshot())
    np.save("names.npy", np.array(NAMES))
    done("index", target, "--model", "m.oh", "--ids", "names.npy", "-o", "i.oh")
    assert onlinehash.load("i.oh").codes == expected.codes
    for queries in ("q.npy", f"q{target}"):
        assert search("i.oh", queries, "-k", 4) == plain(expected.search(QUERIES, 4))


@pytest.mark.parametrize("form", ["c.oh", "c.npz", "c.txt", "b.npy --bits"])
def test_codes_need_no_model(folder: Path, learner: Any, form: str) -> None:
    target, *bits = form.split()
    done("encode", "m.oh", "x.npy", "-o", target, *bits)
    done("index", target, "-o", "i.oh")
    knows_models = target.endswith((".oh", ".npz"))
    fusion = "min" if knows_models else "sum"  # all bits are one model's, where nobody says otherwise
    expected = FlatIndex(learner.encode(DATA.X), fusion=fusion)
    assert search("i.oh", target, "-k", 2) == plain(expected.search(expected.codes, 2))
    code, message = refused("search", "i.oh", "q.npy")
    assert code == 2
    assert message == (
        "q.npy holds vectors, but the index has no encoder for them; give codes, or make the index with --model FILE."
    )


def test_bytes_as_wide_as_a_vector_are_vectors(folder: Path) -> None:
    X = (10 * DATA.X + 100).clip(0, 255).astype(np.uint8)
    learner = OnlineHashing(32, random_state=0).partial_fit_pairs(X[:500], X[500:1000], DATA.similar[:500])
    onlinehash.save(learner, "m.oh")
    np.save("bytes.npy", X)  # four features, and four bytes of codes
    done("index", "bytes.npy", "--model", "m.oh", "-o", "i.oh")
    assert onlinehash.load("i.oh").codes == learner.encode(X)


# ------------------------------------------------------------------ what search prints, writes and refuses


@pytest.mark.parametrize(
    ("ids", "how"), [(NAMES, ["-k", 3]), (list(range(5, 1105)), ["--radius", 1])], ids=["texts", "integers"]
)
def test_files_of_hits(folder: Path, learner: Any, ids: list[Any], how: list[Any]) -> None:
    write_csv("x.csv", ids)
    done("index", "x.csv", "--model", "m.oh", "-o", "i.oh")
    expected = [
        (query, rank, distance, id)
        for query, (found, distances) in enumerate(search("i.oh", "q.npy", *how))
        for rank, (id, distance) in enumerate(zip(found, distances, strict=True), 1)
    ]
    out = done("search", "i.oh", "q.npy", *how, "-o", "h.csv").out
    assert out == f"wrote {len(expected):,} hits of 7 queries, found by codes, to h.csv\n"
    with open("h.csv", newline="") as text:
        header, *rows = csv.reader(text)
    assert header == ["query", "rank", "distance", "id"]
    assert rows == [list(map(str, row)) for row in expected]
    document = done("search", "i.oh", "q.npy", *how, "-o", "H.NPZ", "--json").document
    assert document == {"n": 7, "hits": len(expected), "output": "H.NPZ", "ranked_by": {"metric": "hamming"}}
    with np.load("H.NPZ") as arrays:
        assert list(zip(*(arrays[name].tolist() for name in header), strict=True)) == expected
    done("search", "i.oh", "q.npy", *how, "-o", "h.parquet")
    assert [tuple(row.values()) for row in parquet.read_table("h.parquet").to_pylist()] == expected


def test_what_search_refuses(folder: Path) -> None:
    done("index", "x.npy", "--model", "m.oh", "-o", "i.oh")

    def told(*arguments: object, code: int = 2) -> str:
        found, message = refused("search", *arguments)
        assert found == code
        return message

    assert told("i.oh", "q.npy", "-k", 1, "--radius", 2) == "-k 1 and --radius 2 cannot be combined; give one of them."
    assert "--jobs" in told("i.oh", "q.npy", "--jobs", 0)
    assert told("i.oh", "q.npy", "-o", "h.oh") == (
        "expected an output that ends in .csv, .npz, .parquet, or -, got 'h.oh'."
    )
    assert told("i.oh", "q.npy", "-o", "no/h.csv").endswith("create it first.")
    assert "make one with `onlinehash index`" in told("m.oh", "q.npy")
    assert told("no.oh", "q.npy") == "no such file: no.oh."
    told("q.npy", "q.npy", code=4)
    Path("half.oh").write_bytes(Path("i.oh").read_bytes()[:500])
    told("half.oh", "q.npy", code=4)
    np.save("wide.npy", QUERIES[:, :3])
    assert told("i.oh", "wide.npy") == "wide.npy, row 0: expected vectors of 4 numbers, got 3."
    onlinehash.save(Codes.from_bits(np.zeros((2, 5), np.bool_)), "short.oh")
    assert told("i.oh", "short.oh").startswith("expected codes of equal width, got Codes(n=2, n_bits=5) and ")
    Path("none.csv").write_text("p,q,r,s\n")
    assert told("i.oh", "none.csv") == "none.csv has no vectors or codes."
