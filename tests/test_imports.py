"""Importing the package: light, honest, and in one direction."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import onlinehash

SOURCE = Path(onlinehash.__file__).parent
HEAVY = (
    "numba",
    "llvmlite",
    "scipy",
    "sklearn",
    "safetensors",
    "pandas",
    "pyarrow",
    "h5py",
    "typer",
    "rich",
    "matplotlib",
)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_loads_nothing_heavy() -> None:
    loaded = run("import sys, onlinehash; print(*{name.partition('.')[0] for name in sys.modules})").split()
    assert "onlinehash" in loaded
    assert set(HEAVY).isdisjoint(loaded)


def test_a_name_that_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match="module 'onlinehash' has no attribute 'OfflineHashing'"):
        onlinehash.OfflineHashing  # noqa: B018
    with pytest.raises(ImportError):
        from onlinehash import OfflineHashing  # noqa: F401


def test_the_version_is_the_projects() -> None:
    project = (SOURCE.parents[1] / "pyproject.toml").read_text()
    assert re.search(r'^version = "(.+)"$', project, re.MULTILINE)[1] == onlinehash.__version__
