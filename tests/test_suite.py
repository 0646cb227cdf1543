"""The tests themselves: the end of their output says which did not run and why, and the long ones are marked so."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live import file_calls

HERE = Path(__file__).parent

TESTS = """
import pytest
from tests.needs import missing

@pytest.mark.parametrize("number", range(3))
def test_that_needs_a_server(number): missing("Redis")

def test_that_needs_to_be_root(): pytest.skip("this is for root")

@pytest.mark.long
@pytest.mark.parametrize("number", range(4))
def test_that_takes_long(number): pass

def test_of_every_day(): pass
"""


@pytest.fixture
def ran(tmp_path):
    """Runs a few tests in a folder of their own; the exit code, and the lines of the output."""
    shutil.copy(HERE / "conftest.py", tmp_path)
    shutil.copy(HERE.parent / "pyproject.toml", tmp_path)
    (tmp_path / "test_few.py").write_text(TESTS)

    def run(*options, **variables):
        command = [sys.executable, "-m", "pytest", "test_few.py", "-p", "no:cacheprovider", *options]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "ONLINEHASH"))}
        environment = kept | {"PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])} | variables
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout.splitlines()

    return run


@pytest.mark.parametrize("processes", [pytest.param([], marks=pytest.mark.long), ["-n", "1"]], ids=["alone", "xdist"])
def test_what_did_not_run_is_told(ran, processes):
    code, lines = ran(*processes)
    assert code == 0
    assert lines[-4:-1] == [
        "3 skipped: there is no Redis here; `make servers` installs it",
        "1 skipped: this is for root",
        "4 left out because they take long; `make long` runs them",
    ]
    assert lines[-1].startswith("1 passed, 4 skipped")


def test_where_all_must_run_what_is_missing_is_a_failure_and_all_long_tests_can_run(ran):
    code, lines = ran("-m", "", ONLINEHASH_MUST_RUN="1")
    assert code == 1
    assert lines[-1].startswith("3 failed, 5 passed, 1 skipped")
    assert not [line for line in lines if "left out" in line]


def test_without_a_compiler_what_needs_one_fails_where_all_must_run(monkeypatch):
    monkeypatch.setattr(file_calls.sys, "platform", "linux")
    monkeypatch.setattr(file_calls.shutil, "which", lambda name: None)
    monkeypatch.setenv("ONLINEHASH_MUST_RUN", "1")
    with pytest.raises(pytest.fail.Exception, match="no C compiler here; `make servers` installs it"):
        file_calls.shim.__wrapped__()


# ------------------------------------------------------------------ marks


def unmarked(source: str) -> list[str]:
    """Tests that do more where `thorough` says so, themselves or by what they use, but that `make long` leaves out."""
    parts = [node for node in ast.parse(source).body if not isinstance(node, ast.Import | ast.ImportFrom)]
    grown, size = {"thorough", "precisions"}, 0
    while len(grown) > size:
        size = len(grown)
        for part in parts:
            if grown & {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}:
                grown |= names(part)
    tests = [part for part in parts if isinstance(part, ast.FunctionDef) and part.name.startswith("test_")]
    return [test.name for test in tests if test.name in grown and not marks(test) & {"thorough", "long", "given"}]


def names(part: ast.stmt) -> set[str]:
    """What a statement of a module defines."""
    if isinstance(part, ast.FunctionDef | ast.ClassDef):
        return {part.name}
    return {node.id for node in ast.walk(part) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def marks(test: ast.FunctionDef) -> set[str]:
    """Of pytest, and `given`, as Hypothesis marks its tests itself."""
    nodes = [node for one in test.decorator_list for node in ast.walk(one)]
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)} | {
        node.id for node in nodes if isinstance(node, ast.Name)
    }


def test_what_can_be_thorough_is_marked_so_that_make_long_runs_it():
    found = {str(path.relative_to(HERE)): unmarked(path.read_text()) for path in HERE.rglob("test_*.py")}
    assert {path: tests for path, tests in found.items() if tests} == {}


@pytest.mark.parametrize(
    "source",
    [
        "def test_it():\n    range(thorough(1, 2))",
        "N = thorough(1, 2)\ndef test_it():\n    range(N)",
        "def helper():\n    return thorough(1, 2)\n@pytest.mark.skip\ndef test_it():\n    helper()",
    ],
)
def test_one_that_is_not_marked_is_found(source):
    assert unmarked(source) == ["test_it"]
    assert unmarked(source.replace("def test_it", "@pytest.mark.thorough\ndef test_it")) == []
