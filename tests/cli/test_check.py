"""`onlinehash check` finds what is wrong with a live index, and says so without a traceback."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from onlinehash import LiveIndex, OnlineHashing
from tests.cli.running import Data, done, onlinehash, refused

DATA = Data.make(80)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with LiveIndex(OnlineHashing(12, random_state=0), path=tmp_path / "items") as index:
        index.add(range(80), DATA.X)
        index.learn_pairs(DATA.A, DATA.B, DATA.similar)
        index.refresh()
    return tmp_path / "items"


def change(folder: Path, statement: str) -> None:
    """Somebody meddles with the database."""
    with closing(sqlite3.connect(folder / "items.db")) as connection, connection:
        assert connection.execute(statement).rowcount > 0


def test_a_sound_index(folder: Path) -> None:
    found = done("check", folder, "--json").document
    assert (found["path"], found["ok"], found["items"], found["problems"]) == (str(folder), True, 80, [])
    assert found["facts"]["bytes"] >= DATA.X.nbytes
    lines = done("check", folder).out.splitlines()
    assert lines[0] == f"folder         {folder}, {found['facts']['bytes']:,} bytes"
    assert lines[1].split() == ["items", "80"]
    assert lines[-1].startswith("sound ")


def test_problems_have_a_line_each(folder: Path) -> None:
    change(folder, "UPDATE rows SET vector = zeroblob(length(vector)) WHERE key = 7")
    change(folder, "UPDATE encoders SET facts = '{}' WHERE key = 1")
    outcome = onlinehash("check", folder)
    assert (outcome.code, outcome.err) == (4, "")
    problems = [line.split(maxsplit=1)[1] for line in outcome.out.splitlines() if line.startswith("problem ")]
    assert any("row 7" in problem for problem in problems)
    assert any("table encoders, key 1" in problem for problem in problems)
    assert "sound" not in outcome.out
    as_json = onlinehash("check", folder, "--json")
    assert (as_json.code, as_json.err) == (4, "")
    assert as_json.document["ok"] is False
    assert as_json.document["problems"] == problems


def test_a_database_that_was_cut(folder: Path) -> None:
    (folder / "items.db").write_bytes((folder / "items.db").read_bytes()[:20_000])
    outcome = onlinehash("check", folder)
    assert (outcome.code, outcome.err) == (4, "")
    assert "\nproblem " in outcome.out


def test_what_is_no_live_index(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file", tmp_path / "none"):
        code, message = refused("check", path)
        assert code == 2
        assert str(path) in message
    error = json.loads(onlinehash("check", tmp_path, "--json").err)
    assert error["error"] == "InvalidInput"
