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


def test_errors_load_nothing_heavy_either() -> None:
    loaded = run("import sys, onlinehash.errors; print(*{name.partition('.')[0] for name in sys.modules})").split()
    assert {*HEAVY, "numpy"}.isdisjoint(loaded)


def test_all_is_sorted_and_true() -> None:
    names = onlinehash.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert len(names) == len(set(names))
    for name in names:
        assert getattr(onlinehash, name) is not None
        assert name in dir(onlinehash)
    homes = {name: getattr(onlinehash, name).__module__ for name in onlinehash._HOMES}
    assert all(module.startswith(onlinehash._HOMES[name]) for name, module in homes.items())


def test_a_name_that_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match="module 'onlinehash' has no attribute 'OfflineHashing'"):
        onlinehash.OfflineHashing  # noqa: B018
    with pytest.raises(ImportError):
        from onlinehash import OfflineHashing  # noqa: F401


def test_the_version_is_the_projects() -> None:
    project = (SOURCE.parents[1] / "pyproject.toml").read_text()
    assert re.search(r'^version = "(.+)"$', project, re.MULTILINE)[1] == onlinehash.__version__


def test_imports_go_down_only() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=SOURCE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "1 kept, 0 broken" in done.stdout


def test_every_room_is_under_the_linter() -> None:
    """A room that the layers do not name could import what it likes."""
    project = (SOURCE.parents[1] / "pyproject.toml").read_text()
    for path in SOURCE.iterdir():
        room = path.stem
        if (path.suffix == ".py" or (path / "__init__.py").exists()) and not room.startswith("__"):
            assert f"onlinehash.{room}" in project, room


#: Imports that execute nothing: joblib runs functions, and the unpickler of CIFAR-10 imports nothing.
HARMLESS = {
    ("bulk/on_processes.py", "from joblib import Parallel, delayed"),
    ("numeric/threads.py", "from joblib import cpu_count as count"),
    ("datasets/pickles.py", "import pickle"),
}


@pytest.mark.parametrize("word", ["pickle", "joblib", "marshal", "shelve", "eval(", "exec("])
def test_nothing_in_the_source_executes_data(word: str) -> None:
    pattern = re.compile(rf"^[^#\"']*\b{re.escape(word)}" + (r"\b" if word.isalpha() else ""))
    for path in SOURCE.rglob("*.py"):
        for line in path.read_text().splitlines():
            code = pattern.match(line) and (path.relative_to(SOURCE).as_posix(), line.strip()) not in HARMLESS
            assert not (code and re.match(r"\s*(import|from)\b|.*\b(eval|exec)\(", line)), f"{path}: {line}"
