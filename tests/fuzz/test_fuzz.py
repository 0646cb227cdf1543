"""Bodies of requests, filters and files of vectors, changed at random: each is refused with an error of ours, or
is good for use.

`make fuzz SECONDS=3600` goes on for an hour with each of them. What it finds is kept in `corpus` and tried every day.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.program import kept
from tests.fuzz.targets import TARGETS, Target

ROOT = Path(__file__).parents[2]
#: Seconds for each target.
SECONDS = float(os.environ.get("ONLINEHASH_FUZZ_SECONDS", 60))


@pytest.fixture(scope="module", params=TARGETS)
def name_and_target(request: pytest.FixtureRequest) -> tuple[str, Target]:
    return request.param, TARGETS[request.param]()


@pytest.mark.filterwarnings("ignore")
def test_what_was_found_stays_mended(name_and_target: tuple[str, Target]) -> None:
    name, target = name_and_target
    paths = kept(name)
    assert paths
    for path in paths:
        assert target.run(path.read_bytes())


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_new_is_found(name: str, record_property: Callable[[str, object], None]) -> None:
    """In a process of its own, as what is looked for includes crashes, endless loops and a hunger for memory."""
    seed = int(time.time())
    run = [sys.executable, "-m", "tests.fuzz.program", name, str(SECONDS), str(seed)]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {seed}, case in {done.stdout.splitlines()[:1]}:\n{done.stderr[-2000:]}"
    cases, outcomes = map(int, done.stdout.splitlines()[-1].split())
    record_property("tried", (f"mutations of {name}, with {outcomes} outcomes", cases))
    assert outcomes > 5
