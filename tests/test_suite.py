"""The end of the output of the tests: which did not run, why, and what makes them run."""

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
    (tmp_path / "test_few.py").write_text(TESTS)

    def run(*options, **variables):
        command = [sys.executable, "-m", "pytest", "test_few.py", "-p", "no:cacheprovider", *options]
        kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
        environment = kept | {"PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])} | variables
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout.splitlines()

    return run


@pytest.mark.parametrize("processes", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_what_did_not_run_is_told(ran, processes):
    code, lines = ran(*processes)
    assert code == 0
    assert lines[-4:-1] == [
        "3 skipped: there is no Redis here; `make servers` installs it",
        "1 skipped: this is for root",
        "4 left out because they take long; `make long` runs them",
    ]
    assert lines[-1].startswith("1 passed, 4 skipped")


def test_in_ci_what_is_missing_is_a_failure_and_all_long_tests_can_run(ran):
    code, lines = ran("-m", "", CI="true")
    assert code == 1
    assert lines[-1].startswith("3 failed, 5 passed, 1 skipped")
    assert not [line for line in lines if "left out" in line]
