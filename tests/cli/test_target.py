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
        ("learn x.npy --labels y.npy", "y.npy", "./y.npy"),
        ("learn ids.csv --vectors x.npy", "x.npy", "link.npy"),
        ("encode m.oh link.npy", "link.npy", "x.npy"),
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


def test_a_resumed_model_may_be_replaced(folder: Path) -> None:
    done("learn", "pairs.npz", "--resume", "m.oh", "-o", "m.oh")
    assert package.load("m.oh").n_pairs_seen_ == 120


def test_an_output_that_cannot_be_written_is_told_before_the_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the work began")

    monkeypatch.setattr(OnlineHashing, "partial_fit_pairs", never)
    monkeypatch.setattr(OnlineHashing, "snapshot", never)
    for command in ("learn pairs.npz -o", "encode m.oh x.npy -o", "index x.npy --model m.oh -o"):
        for target, said in (("taken.npy", "is a folder"), ("no/c.npy", "the folder no does not exist")):
            code, message = refused(*command.split(), target)
            assert (code, said in message) == (2, True), message
