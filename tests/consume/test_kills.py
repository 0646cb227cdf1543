"""A consumer that is killed at any moment, many times: in the end the index is that of one that never was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from onlinehash import LiveIndex
from onlinehash.live.check import check
from tests.consume.consumer_process import DEATHS, STATEMENTS
from tests.consume.program import after, make, same

pytestmark = pytest.mark.long

N_KILLS = 30
#: Messages that a life takes, about; so many more are left for the last one, which nobody ends.
A_LIFE = 12


class Consumers:
    """The process that forks consumers, and those who kill them."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.consume.consumer_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def live(self, task: dict[str, Any], seconds: float | None) -> int:
        """Let a child consume, and kill it after so many seconds; its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        child = int(self._line())
        if seconds is not None:
            time.sleep(seconds)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        return int(self._line())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def consumers() -> Iterator[Consumers]:
    process = Consumers()
    yield process
    process.close()


def test_a_consumer_that_is_killed_repeats_nothing_and_leaves_nothing_out(broker, stream, consumers, tmp_path):
    rng = np.random.default_rng(N_KILLS)
    data = make(A_LIFE * N_KILLS + 60, 11, bad=0.1)
    places = broker.send(stream, data)
    task = {"address": broker.address(stream), "settings": broker.settings, "path": str(tmp_path / "items")}
    deaths = [*DEATHS, *STATEMENTS, "any moment", "transaction"]
    kills, met = 0, set[str]()
    for life in range(4 * N_KILLS):
        if kills == N_KILLS:
            break
        death = deaths[life % len(deaths)]
        end = int(rng.integers(1, 80 if death in STATEMENTS else 4))
        seconds = 0.15 * float(rng.random()) if death == "any moment" else None
        batch = int(rng.integers(1, A_LIFE))
        code = consumers.live(task | {"batch": batch, "death": death, "after": end}, seconds)
        assert code in (0, -signal.SIGKILL)
        if code:
            kills += 1
            met.add(death)
    assert kills == N_KILLS
    assert met == set(deaths)
    assert check(tmp_path / "items").ok
    with LiveIndex.open(tmp_path / "items") as index:
        n_taken = index.learner.n_pairs_seen_
    assert consumers.live(task | {"batch": 500, "death": "", "after": 0}, None) == 0
    expected, dead = after(data)
    assert 0 < n_taken < expected.learner.n_pairs_seen_  # they died in the midst of the work
    assert check(tmp_path / "items").ok
    with LiveIndex.open(tmp_path / "items") as index:
        assert same(index, expected)
    assert set(broker.dead(stream)) == {places[number] for number in dead}
