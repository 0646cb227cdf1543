"""The program as a whole: help, errors, exit codes, completion, and what it does as a process of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import onlinehash as package
from onlinehash import OnlineHashing
from onlinehash.cli.app import app
from onlinehash.learners.registry import methods
from tests.cli.running import Data, done, onlinehash, refused

DATA = Data.make()
DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"


def process(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """`onlinehash ARGUMENTS` as users run it."""
    command = [sys.executable, "-m", "onlinehash", *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **pipes | options)


# ------------------------------------------------------------------ in this process


def test_methods() -> None:
    found = done("methods", "--json").document
    assert [row["name"] for row in found] == [method.name for method in methods()]
    by_name = {row["name"]: row for row in found}
    assert by_name["OnlineHashing"]["aliases"] == ["OH"]
    assert by_name["OnlineHashing"]["learns_from"] == "pairs"
    assert by_name["LSH"]["unit"] == "point"
    assert all(len(row["summary"]) > 20 for row in found)
    lines = done("methods").out.splitlines()
    assert len(lines) == len(found) + 1
    for line, row in zip(lines[1:], found, strict=True):
        assert line.startswith(row["name"])
        assert line.endswith(row["summary"])


def test_version_and_help() -> None:
    assert done("--version").out == f"onlinehash {package.__version__}\n"
    assert done().out == done("--help").out
    assert "Learn from pairs or labelled vectors" in done("--help").out
    assert "--resume" in done("learn", "--help").out


def commands(app: typer.Typer = app) -> list[list[str]]:
    group = typer.main.get_command(app)
    found: list[list[str]] = [[]]
    for name, command in group.commands.items():
        found += [[name]] + [[name, inner] for inner in getattr(command, "commands", {})]
    return found


def test_help_of_every_command_is_short_to_ask_for_and_names_no_types_of_python() -> None:
    assert ["experiment", "run"] in commands()
    for command in commands():
        told = done(*command, "--help").out
        assert done(*command, "-h").out == told
        assert "list[" not in told, command


def test_command_lines_that_make_no_sense() -> None:
    for arguments, message in {
        ("fly",): "No such command 'fly'.",
        ("learn", "--fly"): "No such option: --fly",
        ("learn",): "learn needs files",
        ("learn", "p.jsonl"): "learn needs files of pairs or labelled vectors, and --output",
        ("search", "i.oh"): "search needs a file",
        ("info", "a.oh", "b.oh"): "Got unexpected extra argument",
        ("index", "x.npy"): "Missing option '--output'",
        ("index", "x.npy", "-o", "i.oh", "--kind", "tree"): "Invalid value for '--kind'",
        ("index", "x.npy", "-o", "i.oh", "--fusion", "max"): "Invalid value for '--fusion'",
        ("search", "i.oh", "x.npy", "-k", "-1"): "Invalid value for '-k'",
        ("search", "i.oh", "x.npy", "--radius", "-1"): "Invalid value for '--radius'",
    }.items():
        code, told = refused(*arguments)
        assert code == 2
        assert told.startswith(message)


def test_errors_as_json(tmp_path: Path) -> None:
    for arguments, name, code in (
        (["info", tmp_path / "no.oh"], "InvalidInput", 2),
        (["learn", "-", "--method", "Z", "-o", tmp_path / "m.oh"], "UnknownMethod", 2),
        (["info", "--fly"], None, 2),
    ):
        outcome = onlinehash(*arguments, "--json")
        error = json.loads(outcome.err)
        assert (outcome.code, outcome.out) == (code, "")
        assert error["message"]
        assert name is None or error["error"] == name
    assert json.loads(onlinehash("learn", "--json", "--fly").err)["message"].startswith("No such option: --fly")


def test_a_full_disk_is_told_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", "codes.npy")

    package.save(OnlineHashing(8).partial_fit_pairs(DATA.A, DATA.B, DATA.similar), tmp_path / "m.oh")
    np.save(tmp_path / "x.npy", DATA.X)
    monkeypatch.setattr(np, "save", full)
    code, told = refused("encode", tmp_path / "m.oh", tmp_path / "x.npy", "-o", tmp_path / "codes.npy")
    assert (code, told) == (1, "codes.npy: No space left on device.")


# ------------------------------------------------------------------ the document


def test_the_commands_of_the_document_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Data.make(200)
    monkeypatch.chdir(tmp_path)
    data.write_pairs(Path("pairs.jsonl"), slice(0, 100))
    data.write_pairs(Path("more.jsonl"), slice(100, 150))
    np.save("vectors.npy", data.X)
    np.save("queries.npy", data.A[:3])
    np.save("labels.npy", data.y)
    Path("ids.txt").write_text("".join(f"item{k}\n" for k in range(200)))
    rows = [f"{k},{k + 1},{data.y[k] == data.y[k + 1]}" for k in range(150)]
    for name in ("id-pairs.csv", "held-out.csv"):
        Path(name).write_text("\n".join(["id_a,id_b,similar", *rows]))
    labelled = [",".join(map(str, [*x, y])) for x, y in zip(data.X.tolist(), data.y.tolist(), strict=True)]
    Path("labelled.csv").write_text("\n".join(["p,q,r,s,label", *labelled]))
    lines = re.findall(r"^onlinehash .*$", DOCUMENT.read_text(), flags=re.MULTILINE)
    assert len(lines) >= 20
    for line in lines:
        done(*shlex.split(line)[1:])


# ------------------------------------------------------------------ as a process


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from onlinehash.cli import run; code = run(['learn', '--help']);"
        "heavy = {'numpy', 'numba', 'scipy', 'sklearn', 'pyarrow', 'safetensors'} & set(sys.modules);"
        "sys.exit(code or str(heavy or ''))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stderr.strip() == ""
    assert "--resume" in ended.stdout


def test_completion() -> None:
    words = "onlinehash learn --method MM"
    asking = {"_ONLINEHASH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "3"}
    out, err = process(env=os.environ | asking).communicate()
    assert (out.split(), err) == (["MMOH"], "")
