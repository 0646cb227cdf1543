"""The tests themselves: the end of their output says which did not run and why, and a leak is blamed on who leaks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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

    def run(*options, tests=TESTS, **variables):
        (tmp_path / "test_few.py").write_text(tests)
        command = [sys.executable, "-m", "pytest", "test_few.py", "-p", "no:cacheprovider", *options]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "ONLINEHASH"))}
        environment = kept | {"PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])} | variables
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout.splitlines()

    return run


def test_what_did_not_run_is_told(ran):
    code, lines = ran("-n", "1")
    assert code == 0
    assert lines[-4:-1] == [
        "3 skipped: there is no Redis here; `make servers` installs it",
        "1 skipped: this is for root",
        "4 left out because they take long; `make long` runs them",
    ]
    assert lines[-1].startswith("1 passed, 4 skipped")


def test_where_all_must_run_what_is_missing_is_a_failure(ran):
    code, lines = ran(ONLINEHASH_MUST_RUN="1")
    assert code == 1
    assert lines[-1].startswith("3 failed, 1 passed, 1 skipped")


LEAKING = """
import gc, socket

def test_that_leaks():
    left, right = socket.socketpair()
    cycle = [left, right]
    cycle.append(cycle)  # only the garbage collector finds it

def test_during_which_garbage_is_collected(): gc.collect()
"""


def test_a_leaked_socket_is_blamed_on_the_test_that_leaks(ran):
    _, lines = ran(tests=LEAKING)
    assert [line.split()[1] for line in lines if line.startswith("ERROR ")] == ["test_few.py::test_that_leaks"]
    assert lines[-1].startswith("2 passed, 1 error")
