"""`onlinehash data`: what is in a folder, and what a file holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onlinehash import datasets
from tests.cli.running import done
from tests.datasets.writing import write_mnist

X = np.random.default_rng(0).random((20, 3), np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_mnist(tmp_path / "mnist")
    np.savez(tmp_path / "mine.npz", X=X, y=np.arange(20) % 4)
    (tmp_path / "notes.txt").write_text("not for us")
    return tmp_path


def test_a_folder(folder: Path) -> None:
    found = done("data", folder, "--json").document
    assert (found["folder"], found["files"]) == (str(folder), ["mine.npz"])
    states = {one["name"]: one["state"] for one in found["sets"]}
    assert states == dict.fromkeys(datasets.KNOWN, "not here") | {"mnist": "here"}
    lines = done("data", folder).out.splitlines()
    assert lines[0] == f"in {folder}, known sets:"
    mnist = next(line for line in lines if line.startswith("mnist "))
    assert mnist.split()[1:3] == ["here", f"{folder / 'mnist'},"]
    assert mnist.endswith("checked: not verified")
    assert "from http://corpus-texmex.irisa.fr/" in " ".join(lines)
    assert lines[-1] == "files that can be read: mine.npz"
