"""Live indexes at the command line: `onlinehash info`, `search` and `backup` of their folders."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from onlinehash import (
    Codes,
    FlatIndex,
    Hits,
    LiveIndex,
    OnlineHashing,
    refresh,
    save,
)
from onlinehash.errors import FormatError
from onlinehash.live.storage import Storage
from tests.cli.running import Data, done, refused

DATA = Data.make(80)
DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"


def facts_of(path: Path) -> dict[str, str]:
    """What `info` says to people; names of two words are none of ours."""
    return dict(line.split(maxsplit=1) for line in done("info", path).out.splitlines())


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "items"


def test_info(path: Path) -> None:
    learner = OnlineHashing(12, burn_in=50, random_state=0)
    with LiveIndex(learner, path=path, refresh=refresh.every(30)) as index:
        index.add(range(80), DATA.X, [{"label": int(label)} for label in DATA.y])
        for t in range(45):
            index.learn_pair(DATA.A[t], DATA.B[t], DATA.similar[t])
        behind, counters = index.behind, (index.refreshes, index.bits_rehashed, index.bits_skipped, index.bits_flipped)
        version, serials = index.encoder.version, [v.serial for v in index.versions]
        assert behind.pairs == 15  # so that there is something to tell
        assert behind.bits > 0
        beside_a_writer = done("info", path, "--json").document
    before = size(path)
    found = done("info", path, "--json").document
    assert found.pop("bytes") == before
    del beside_a_writer["bytes"]
    assert beside_a_writer == found
    assert found["learned"]["pairs"] == 45
    assert found["parameters"]["burn_in"] == 50
    assert {name: found[name] for name in set(found) - {"learned", "parameters"}} == {
        "file": str(path),
        "kind": "live",
        "class": "LiveIndex",
        "n": 80,
        "n_bits": 12,
        "n_models": 1,
        "fusion": "min",
        "encoder": {"method": "OnlineHashing", "n_features": 4, "version": version},
        "embedder": None,
        "serial": serials[-1],
        "serials": serials,
        "paused": False,
        "policy": {"policy": "every", "n_pairs": 30},
        "behind": {"bits": behind.bits, "pairs": 15},
        "counters": dict(zip(("refreshes", "bits_rehashed", "bits_skipped", "bits_flipped"), counters, strict=True)),
        "learner": "OnlineHashing",
    }
    words = facts_of(path)
    assert words["index"] == "LiveIndex of 80 items, 12 bits"
    assert words["encoder"] == f"OnlineHashing of 4 features, version {version}, serial {serials[-1]}"
    assert words["embedder"] == "none"
    assert words["refresh"] == "every(30)"
    assert words["behind"] == f"{behind.bits} bits and 15 pairs"
    assert words["refreshes"].startswith(f"{counters[0]}: {counters[1]:,} bits of changed functions")
    assert words["learned"].startswith("45 pairs;")


def answers(*arguments: object) -> list[tuple[list[Any], list[int]]]:
    """What `search --json` finds for each query."""
    return [(line["ids"], line["distances"]) for line in done("search", *arguments, "--json").lines]


def plain(hits: Any) -> list[tuple[list[Any], list[int]]]:
    rows = zip(*hits, strict=True) if isinstance(hits, Hits) else hits
    return [(ids.tolist(), distances.tolist()) for ids, distances in rows]


def test_search(tmp_path: Path, path: Path) -> None:
    queries, target = tmp_path / "q.npy", tmp_path / "hits.csv"
    np.save(queries, DATA.A[:5] + 0.1)
    with LiveIndex(OnlineHashing(12, random_state=0), path=path, refresh=refresh.by_hand()) as index:
        index.add([f"item{k}" for k in range(80)], DATA.X)
        index.learn_pairs(DATA.A, DATA.B, DATA.similar)  # so that the learner would make other codes
        index.remove("item3")
        assert index.behind.bits > 0
        expected = [plain(index.search(DATA.A[:5] + 0.1, k)) for k in (10, 3)]
        found = plain(index.find(DATA.A[:5] + 0.1, 4))
        near = plain(index.within(DATA.A[:5] + 0.1, 2))
        codes = tmp_path / "c.oh"
        save(index.encoder.encode(DATA.A[:5] + 0.1), codes)
        before = {file.name: file.read_bytes() for file in path.iterdir() if not file.name.endswith("-shm")}
        assert answers(path, queries, "--codes") == expected[0]  # beside a writer
        assert {name: (path / name).read_bytes() for name in before} == before
    assert answers(path, queries, "-k", 3, "--codes", "--jobs", 2) == expected[1]
    assert answers(path, queries, "--radius", 2) == near
    assert answers(path, codes) == expected[0]
    lines = done("search", path, queries, "-k", 4, "--json").lines
    assert [line["ids"] for line in lines] == [ids for ids, _ in found]
    np.testing.assert_allclose([line["distances"] for line in lines], [distances for _, distances in found], atol=1e-6)
    assert lines[0]["ranked_by"] == {"metric": "learned", "pairs": len(DATA.A)}
    assert done("search", path, codes, "--json").lines[0]["ranked_by"] == {"metric": "hamming"}
    assert [done("search", path, file).out.split()[2] for file in (queries, codes)] == ["distance", "hamming"]
    assert "found by find" in done("search", path, queries, "-k", 3, "-o", target).out
    assert len(target.read_text().splitlines()) == 1 + 5 * 3


def test_search_among_some_items(tmp_path: Path, path: Path) -> None:
    queries, codes, where = tmp_path / "q.npy", tmp_path / "c.oh", {"price": {"<": 50}}
    np.save(queries, DATA.X[:5])
    with LiveIndex(OnlineHashing(12, random_state=0), path=path) as index:
        index.add(None, DATA.X, [{"price": k} for k in range(80)])
        found, by_codes = plain(index.find(DATA.X[:5], 60, where)), plain(index.search(DATA.X[:5], 60, where))
        near = plain(index.within(DATA.X[:5], 2, where))
        save(index.encoder.encode(DATA.X[:5]), codes)
    asked = ["--where", json.dumps(where)]
    assert [ids for ids, _ in answers(path, queries, "-k", 60, *asked)] == [ids for ids, _ in found]
    assert answers(path, queries, "-k", 60, "--codes", *asked) == by_codes
    assert answers(path, codes, "-k", 60, *asked) == by_codes
    assert answers(path, queries, "--radius", 2, *asked) == near
    for wrong, said in [
        ("price < 50", "a JSON object such as"),
        ('["price"]', "a JSON object such as"),
        ('{"price": {"<<": 50}}', "'<='"),
    ]:
        code, message = refused("search", path, queries, "--where", wrong)
        assert (code, said in message) == (2, True), message
    save(FlatIndex(Codes.from_bits(np.zeros((2, 12), np.bool_))), tmp_path / "i.oh")
    code, message = refused("search", tmp_path / "i.oh", codes, *asked)
    assert (code, "--where needs the folder of a live index" in message) == (2, True), message


#: Those that are one, or ask one: tests/cli/test_serve.py, tests/consume, tests/stores/test_postgres_cli.py.
NEED_A_SERVER = ("serve", "encode", "consume", "refresh")


def test_the_commands_of_the_document_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those about live indexes; all others are run by the tests of the program as a whole."""
    monkeypatch.chdir(tmp_path)
    with LiveIndex(OnlineHashing(12, random_state=0), path="items") as index:
        index.add(None, DATA.X)
    np.save("queries.npy", DATA.A[:3])
    n = len(DATA.X)
    more = {"id": range(n, 2 * n), "text": [f"text {i}" for i in range(n)], "embedding": list(DATA.X)}
    pandas.DataFrame(more).to_parquet("items.parquet")
    pandas.DataFrame({"query": [3], "shown": [[5, 7]], "clicked": [[7]]}).to_parquet("log.parquet")
    lines = re.findall(r"^\$ onlinehash (.*)$", DOCUMENT.read_text(), flags=re.MULTILINE)
    assert {line.split()[0] for line in lines} == {
        "load", "learn", "info", "check", "backup", "export", "search", *NEED_A_SERVER,
    }  # fmt: skip
    for line in lines:
        if not line.startswith(NEED_A_SERVER):
            done(*line.split())


def test_backup_beside_a_writer(tmp_path: Path, path: Path) -> None:
    target = tmp_path / "copy"
    with LiveIndex(OnlineHashing(12, random_state=0), path=path) as index:
        index.add(range(80), DATA.X)
        index.learn_pairs(DATA.A, DATA.B, DATA.similar)
        found = done("backup", path, target, "--json").document
        assert found.pop("seconds") > 0
        assert found == {"output": str(target), "bytes": size(target)}
        hits, vectors = index.search(DATA.A, k=5), index.vectors
        index.remove(range(40))  # which the copy does not see
    with LiveIndex.open(target) as copy:
        assert np.array_equal(copy.vectors, vectors)
        assert np.array_equal(copy.search(DATA.A, k=5).ids, hits.ids)
    done("check", target)
    assert done("backup", path, tmp_path / "other").out.splitlines()[-1].endswith(f" bytes, in {tmp_path / 'other'}")
    with LiveIndex.open(tmp_path / "other") as other:
        assert len(other) == 40


def test_backups_that_are_refused(tmp_path: Path, path: Path) -> None:
    assert refused("backup", tmp_path / "none", tmp_path / "copy")[0] == 2
    assert not (tmp_path / "copy").exists()
    with LiveIndex(OnlineHashing(8), path=path) as index:
        index.add(None, DATA.X)
    for taken in (path, tmp_path):  # a live index, and a folder with something in it
        code, message = refused("backup", path, taken)
        assert code == 2
        assert "new or empty folder" in message
    (tmp_path / "file").write_text("mine")
    assert refused("backup", path, tmp_path / "file")[0] == 2
    assert (tmp_path / "file").read_text() == "mine"
    done("check", path)
    with closing(sqlite3.connect(path / "items.db")) as connection, connection:
        connection.execute("UPDATE rows SET vector = zeroblob(length(vector)) WHERE key = 3")
    code, message = refused("backup", path, tmp_path / "of-damage")
    assert code == FormatError.exit_code
    assert "is damaged" in message
    assert not Storage.exists(tmp_path / "of-damage")
