"""No command destroys what it reads, or finds out after the work that it cannot write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onlinehash as package
from onlinehash import OnlineHashing
from tests.cli.running import Data, done, refused

DATA = Data.make()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every kind of input under a name that could be an output too."""
    monkeypatch.chdir(tmp_path)
    np.savez("pairs.npz", A=DATA.A, B=DATA.B, similar=DATA.similar)
    rows = [f"{k},{k + 1},{DATA.y[k] == DATA.y[k + 1]}" for k in range(20)]
    Path("ids.csv").write_text("\n".join(["id_a,id_b,similar", *rows]))
    np.save("x.npy", DATA.X)
    np.save("y.npy", DATA.y)
    os.symlink("x.npy", "link.npy")
    Path("taken.npy").mkdir()
    Path("q.csv").write_text("p,q,r,s\n1,2,3,4\n")
    package.save(OnlineHashing(8, random_state=0).partial_fit_pairs(DATA.A, DATA.B, DATA.similar), "m.oh")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "source", "target"),
    [
        ("learn pairs.npz", "pairs.npz", "pairs.npz"),
        ("learn x.npy --labels y.npy", "x.npy", "./x.npy"),
        ("learn x.npy --labels y.npy", "y.npy", "y.npy"),
        ("learn ids.csv --vectors x.npy", "x.npy", "link.npy"),
        ("learn pairs.npz --resume m.oh", "pairs.npz", "pairs.npz"),
        ("encode m.oh x.npy", "x.npy", "x.npy"),
        ("encode m.oh link.npy", "link.npy", "x.npy"),
        ("encode m.oh x.npy", "m.oh", "m.oh"),
        ("index x.npy --model m.oh", "x.npy", "link.npy"),
        ("index x.npy --model m.oh", "m.oh", "m.oh"),
        ("index x.npy --model m.oh --ids y.npy", "y.npy", "y.npy"),
        ("search i.oh q.csv", "q.csv", "q.csv"),
    ],
)
def test_an_output_that_is_an_input_is_refused(folder: Path, command: str, source: str, target: str) -> None:
    before = Path(source).read_bytes()
    message = f"the output {target} is the same file as the input {source}; choose another name."
    assert refused(*command.split(), "-o", target) == (2, message)
    assert Path(source).read_bytes() == before


def test_the_file_behind_standard_input_is_an_input(folder: Path) -> None:
    pairs = DATA.write_pairs(folder / "p.jsonl")
    before = os.dup(0)
    with pairs.open() as file:
        os.dup2(file.fileno(), 0)
    try:
        code, said = refused("learn", "-", "-o", pairs)
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert code == 2
    assert "is the same file as the input -;" in said
    assert pairs.read_text() == DATA.jsonl()


def test_a_resumed_model_may_be_replaced(folder: Path) -> None:
    done("learn", "pairs.npz", "--resume", "m.oh", "-o", "m.oh")
    assert package.load("m.oh").n_pairs_seen_ == 120


def never(*_: Any, **__: Any) -> None:
    raise AssertionError("the work began")


COMMANDS = ["learn pairs.npz -o", "encode m.oh x.npy -o", "index x.npy --model m.oh -o", "demo --report"]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_that_cannot_be_written_is_told_before_the_work(
    folder: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onlinehash import demo

    monkeypatch.setattr(OnlineHashing, "partial_fit_pairs", never)
    monkeypatch.setattr(OnlineHashing, "snapshot", never)
    monkeypatch.setattr(demo, "run", never)
    arguments = command.split()
    assert refused(*arguments, "taken.npy") == (
        2,
        "taken.npy is a folder; name a file in it.",
    )
    assert refused(*arguments, "no/c.npy") == (
        2,
        "cannot write no/c.npy: the folder no does not exist; create it first.",
    )
    Path("old.npy").write_text("old")
    for locked, target in ((Path(), "c.npy"), (Path("old.npy"), "old.npy")):
        with monkeypatch.context() as patch:  # a test that runs as root may write everywhere
            patch.setattr(os, "access", lambda path, mode, locked=locked: mode != os.W_OK or Path(path) != locked)
            assert refused(*arguments, target) == (
                2,
                f"cannot write {target}: permission denied.",
            )


@pytest.mark.parametrize("command", ["learn pairs.npz -o", "index x.npy --model m.oh -o", "demo --report"])
def test_a_dash_is_no_file(folder: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from onlinehash import demo

    monkeypatch.setattr(demo, "run", never)
    message = "the output must be a file; - (standard output) is not possible here."
    assert refused(*command.split(), "-") == (2, message)
    assert not Path("-").exists()


def test_encode_prints_to_a_dash(folder: Path) -> None:
    assert done("encode", "m.oh", "x.npy", "-o", "-").out == done("encode", "m.oh", "x.npy").out
    assert not Path("-").exists()


@pytest.mark.parametrize("target", ["C.NPY", "C.NPZ"])
def test_a_name_in_capitals_is_kept(folder: Path, target: str) -> None:
    done("encode", "m.oh", "x.npy", "-o", target)
    assert [path.name for path in folder.glob("C.*")] == [target]
