"""`onlinehash learn --index`: clicks, ratings and verdicts teach an index, each row once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from onlinehash import LiveIndex, feedback, refresh, streams
from onlinehash.errors import InvalidInput
from onlinehash.index.api import VectorIndex
from tests.cli.running import done, onlinehash, refused

TEXTS = ["open a file", "close a window", "read the lines of a file", "a warm day", "write a letter"]
LOG = [
    {"text": "stationery", "shown": [0, 4, 1], "clicked": [4], "time": "2026-01-01T10:00:00"},
    {"text": "panes", "shown": [3, 1], "clicked": [1], "time": "2026-01-01T10:01:00"},
    {"text": "nothing", "shown": [3, 1], "clicked": [], "time": "2026-01-01T10:02:00"},
]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def index_in(folder: Path | None, ids: list[Any] | None = None) -> LiveIndex:
    index = LiveIndex(n_bits=16, path=folder, embed="lexical:64")
    index.add_texts(TEXTS, ids)
    return index


def taught(index: VectorIndex) -> bytes:
    """All that the order of `find` rests on."""
    return index.find(index.vectors, 5).distances.tobytes()


def by_hand(folder: Path) -> LiveIndex:
    """An index that was told the same pairs one by one."""
    index = index_in(folder)
    for row in LOG:
        pairs = streams.from_clicks(None, row["shown"], row["clicked"])
        for id, similar, weight in zip(pairs.ids_b, pairs.similar, pairs.weight, strict=True):
            index.learn_text(row["text"], id, similar, weight)
    return index


@pytest.mark.parametrize("name", ["log.jsonl", "log.parquet", "log.csv"])
def test_clicks_teach_what_their_pairs_teach_and_once(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    if file.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(LOG), file)
    elif file.suffix == ".csv":
        cells = [f'{row["text"]},"{row["shown"]}","{row["clicked"]}",{row["time"]}' for row in LOG]
        file.write_text("\n".join(["text,shown,clicked,time", *cells]))
    else:
        lines(file, LOG)
    index_in(tmp_path / "items").close()
    said = done("learn", "--clicks", file, "--index", tmp_path / "items", "--json").document
    assert {name: said[name] for name in ("rows", "rows_before", "pairs", "unknown")} == {
        "rows": 3, "rows_before": 0, "pairs": 4, "unknown": 0,
    }  # fmt: skip
    again = done("learn", "--clicks", file, "--index", tmp_path / "items").out
    assert "0 rows, 0 pairs learned" in again
    assert "3 rows were learned before" in again
    with LiveIndex.open(tmp_path / "items", read_only=True) as index, by_hand(tmp_path / "two") as expected:
        assert taught(index) == taught(expected)
        assert index.find_text("stationery", 1).ids.tolist() == [4]


def test_a_log_that_grows_is_read_on(tmp_path: Path) -> None:
    file = lines(tmp_path / "log.jsonl", LOG[:1])
    with index_in(tmp_path / "items") as index, by_hand(tmp_path / "two") as expected:
        assert feedback.learn(index, file) == (1, 0, 2, 0, 0)
        lines(file, LOG)
        assert feedback.learn(index, file) == (2, 1, 2, 0, 0)
        assert taught(index) == taught(expected)
        lines(file, LOG[:2])
        with pytest.raises(InvalidInput, match="has 2 rows, fewer than the 3"):
            feedback.learn(index, file)


def test_ratings_count_by_how_far_they_are_from_the_middle(tmp_path: Path) -> None:
    rows = [
        {"text": "sun", "id": 3, "rating": 5},
        {"text": "sun", "id": 0, "rating": 2},
        {"text": "sun", "id": 1, "rating": 3},
    ]
    with index_in(None) as index, index_in(None) as expected:
        assert feedback.learn(index, lines(tmp_path / "ratings.jsonl", rows)).pairs == 2
        expected.learn_text("sun", [3, 0], [True, False], [1.0, 0.5])
        assert taught(index) == taught(expected)
        for rating in (0, 6, "good", None):
            with pytest.raises(InvalidInput, match="expected a rating from 1 to 5"):
                feedback.learn(index, lines(tmp_path / "wrong.jsonl", [{"text": "sun", "id": 3, "rating": rating}]))


def test_verdicts_on_duplicates(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("id_a,id_b,duplicate,weight\n0,2,true,1\n0,3,false,0.5\n0,99,true,1\n")
    with index_in(None) as index, index_in(None) as expected:
        assert feedback.learn(index, file) == (3, 0, 2, 1, 0)  # 99 is gone
        expected.learn_pairs_by_id([0, 0], [2, 3], [True, False], [1, 0.5])
        assert taught(index) == taught(expected)


def test_queries_may_be_ids_vectors_or_texts(tmp_path: Path) -> None:
    click = {"shown": [1, 4], "clicked": [4]}
    with index_in(None) as index:
        vector = index.get(0).vector
        for number, query in enumerate(
            [{"query": 0}, {"vector": vector.tolist()}, {"query": TEXTS[0]}, {"text": TEXTS[0]}]
        ):
            with index_in(None) as one, index_in(None) as expected:
                feedback.learn(one, lines(tmp_path / f"{number}.jsonl", [query | click]))
                expected.learn_pairs(np.stack([vector] * 2), expected.vectors_of([1, 4]), [False, True], [0.5, 1])
                assert taught(one) == taught(expected)


def test_a_column_of_clicks_with_a_row_for_each_result(tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    file.write_text("id_a,id_b,rating,shown,clicked\n0,1,5,1,0\n0,4,1,1,1\n")  # only the column that is named counts
    index_in(tmp_path / "items").close()
    code, problem = refused("learn", file, "--index", tmp_path / "items", "--similar-column", "bought")
    assert (code, "a column bought" in problem) == (2, True), problem
    said = done("learn", file, "--index", tmp_path / "items", "--similar-column", "Clicked", "--json").document
    assert (said["rows"], said["pairs"]) == (2, 2)
    with LiveIndex.open(tmp_path / "items", read_only=True) as index, index_in(None) as expected:
        expected.learn_pairs_by_id([0, 0], [1, 4], [False, True])
        assert taught(index) == taught(expected)


def test_what_is_refused(tmp_path: Path) -> None:
    index_in(tmp_path / "items").close()
    log = lines(tmp_path / "log.jsonl", LOG)
    no_query = lines(tmp_path / "no.jsonl", [{"shown": [1], "clicked": [1]}])
    no_verdict = lines(tmp_path / "none.jsonl", [{"query": 1, "id": 2}])
    for arguments, problem in [
        (["--clicks", log], "--clicks, --skip-bad, --embed and --schema need --index"),
        (["--clicks", log, "--index", tmp_path / "nothing"], "there is no index in"),
        (["--index", tmp_path / "items"], "needs files"),
        (["--index", tmp_path / "items", log, "--output", "model.oh"], "--output cannot be combined with --index"),
        (["--index", tmp_path / "items", log, "--bits", "8"], "--bits cannot be combined with --index"),
        (["--index", tmp_path / "items", no_query], "a column query, id_a, text or vector"),
        (["--index", tmp_path / "items", no_verdict], "a column rating, similar or duplicate"),
        ([log], "--output FILE or --index TARGET"),
    ]:
        code, said = refused("learn", *arguments)
        assert (code, problem in said) == (2, True), said


def test_texts_where_ids_belong_are_told_and_not_passed_over(tmp_path: Path) -> None:
    index = index_in(None, list("vwxyz"))
    log = lines(tmp_path / "log.jsonl", [{"query": "heat", "shown": ["w", "y"], "clicked": ["y"]}])
    with pytest.raises(InvalidInput, match="belong in a column `text`"):
        feedback.learn(index, log)
    lines(log, [{"text": "heat", "shown": ["w", "y"], "clicked": ["y"]}])
    assert feedback.learn(index, log) == (1, 0, 2, 0, 0)


def test_a_log_that_was_rotated_is_told(tmp_path: Path) -> None:
    index = index_in(None)
    log = lines(tmp_path / "log.jsonl", LOG[:1])
    feedback.learn(index, log)
    with pytest.raises(InvalidInput, match="does not begin as it did when 1 rows of it were learned"):
        feedback.learn(index, lines(log, LOG[1:]))
    assert feedback.learn(index, lines(log, LOG)).rows == 2


def test_codes_follow_what_an_earlier_run_has_learned(tmp_path: Path) -> None:
    """As after one that was killed between its last pair and the refresh."""
    with LiveIndex(n_bits=16, path=tmp_path / "items", embed="lexical:64", refresh=refresh.by_hand()) as index:
        index.add_texts(TEXTS * 40)
        feedback.learn(index, lines(tmp_path / "log.jsonl", LOG))
        index.flush()
        assert any(index.behind)
    done("learn", "--clicks", tmp_path / "log.jsonl", "--index", tmp_path / "items")
    with LiveIndex.open(tmp_path / "items", read_only=True) as index:
        assert not any(index.behind)


@pytest.mark.parametrize("name", ["log.csv"])
def test_bad_rows_are_left_out_where_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(feedback, "BLOCK_ROWS", 4)
    good = [
        {"text": row["text"], "shown": json.dumps(row["shown"]), "clicked": json.dumps(row["clicked"])} for row in LOG
    ]
    bad = [{"text": "", "shown": "[1]", "clicked": "[]"}, {"text": "x", "shown": "[1]", "clicked": "[2]"}]
    rows = [good[0], *bad, good[1], *bad * 6, good[2]]
    file, torn = tmp_path / name, "no row"
    if file.suffix == ".jsonl":
        written = [json.dumps(row) for row in rows]
    else:
        written = ["text,shown,clicked"]
        written += [f'{row["text"]},"{row["shown"]}","{row["clicked"]}"' for row in rows]
    file.write_text("\n".join([*written[:3], torn, *written[3:]]) + "\n")
    index_in(tmp_path / "items").close()
    expected = by_hand(tmp_path / "by hand")
    code, said = refused("learn", "--clicks", file, "--index", tmp_path / "items")
    assert (code, "line" in said) == (2, True)
    ran = onlinehash("learn", "--clicks", file, "--index", tmp_path / "items", "--skip-bad", "--json")
    assert ran.code == 0
    assert (ran.document["pairs"], ran.document["bad"]) == (4, 15)
    complaints = ran.err.splitlines()
    assert len(complaints) == 11
    assert all(line.startswith("left out: ") for line in complaints)
    assert complaints[-1] == "left out: 5 more rows"
    with LiveIndex.open(tmp_path / "items") as index:
        expected.refresh()
        assert taught(index) == taught(expected)
    again = done("learn", "--clicks", file, "--index", tmp_path / "items", "--skip-bad", "--json").document
    assert (again["rows"], again["pairs"], again["bad"]) == (0, 0, 0)
    only_bad = lines(tmp_path / "bad.jsonl", [bad[1], bad[0]])
    code, said = refused("learn", "--clicks", only_bad, "--index", tmp_path / "items", "--skip-bad")
    assert (code, "line 1: the clicked id" in said) == (2, True)  # what is wrong with its first row
