"""A process that changes an index in Milvus, killed with its engine between any two writes or in the midst of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import LiveIndex, MilvusIndex, OnlineHashing, refresh
from onlinehash.stores.milvus.engine import Engine
from tests.support import thorough

ROOT = Path(__file__).parents[2]
N_STEPS = 60
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a stream of few similar pairs warns


def learner() -> OnlineHashing:
    return OnlineHashing(n_bits=12, burn_in=20, random_state=0)


def step(index: Any, number: int) -> None:
    """One change, the same for the same number and the same items."""
    rng = np.random.default_rng(number)
    ids = index.ids
    kind = number % 6
    if kind in (0, 3):
        index.add(np.arange(10) + 100 * number, rng.standard_normal((10, 4)), [{"step": number}] * 10)
    elif kind == 1:
        similar = rng.random(20) < 0.5
        index.learn_pairs(rng.standard_normal((20, 4)), rng.standard_normal((20, 4)) + 1, similar)
    elif kind == 2:
        index.refresh()
    elif kind == 4:
        index.update(rng.choice(ids, 4, replace=False), rng.standard_normal((4, 4)))
    else:
        index.remove(rng.choice(ids, 3, replace=False))


def state(index: Any) -> Any:
    """All that a reader sees."""
    if index.encoder is None:
        return None
    return (
        index.ids.tolist(),
        index.vectors.tolist(),
        index.payloads_of(index.ids.tolist()),
        index.codes.rows().tolist(),
        index.learner.n_pairs_seen_,
        index.encoder.codes_of(np.eye(4)).rows().tolist(),
        index.search(np.ones(4), k=7).ids.tolist(),
    )


def write(address: str, first: int, fatal: int, in_the_midst: bool) -> None:
    """Steps from the first on, each told when it is done, until the fatal write."""
    n_writes = 0

    def counted(method: Any) -> Any:
        def call(*args: Any) -> Any:
            nonlocal n_writes
            n_writes += 1
            if n_writes == fatal:
                end = threading.Thread(target=os.killpg, args=(0, signal.SIGKILL))
                if not in_the_midst:
                    end.run()
                end.start()
            return method(*args)

        return call

    index = MilvusIndex.open(address)
    index.batch_rows = 4
    for name in ("insert", "delete", "delete_keys"):
        setattr(Engine, name, counted(getattr(Engine, name)))
    for number in range(first, N_STEPS):
        step(index, number)
        print(number, flush=True)
    index.close()


def _run(script: str) -> subprocess.CompletedProcess[str]:
    """A process with a group and a folder for its sockets of its own."""
    with tempfile.TemporaryDirectory() as sockets:
        return subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env=os.environ | {"TMPDIR": sockets},
            capture_output=True,
            text=True,
            start_new_session=True,
            timeout=300,
        )


@pytest.mark.long
def test_all_or_nothing_of_each_change_and_all_that_was_told(tmp_path: Path) -> None:
    model = LiveIndex(learner(), refresh=refresh.by_hand())
    states = [state(model)]
    for number in range(N_STEPS):
        step(model, number)
        states.append(state(model))
    address = str(tmp_path / "items.db")
    MilvusIndex.create(address, learner(), refresh.by_hand()).close()

    rng = np.random.default_rng(0)
    done = kills = 0
    # Not more lives: each starts a process and the embedded engine twice, which takes nearly all of the time.
    for _ in range(thorough(3, 12)):
        fatal, in_the_midst = int(rng.integers(1, 80)), bool(rng.integers(2))
        script = f"from {__name__} import write; write({address!r}, {done}, {fatal}, {in_the_midst})"
        run = _run(script)
        assert run.returncode in (0, -signal.SIGKILL), run.stderr
        kills += run.returncode != 0
        told = run.stdout.split()
        done = int(told[-1]) + 1 if told else done
        with MilvusIndex.open(address) as index:
            now = state(index)
        if done < N_STEPS and now == states[done + 1]:  # the step that was under way had come to its end
            done += 1
        assert now == states[done], (done, fatal)
        if done == N_STEPS:
            break
    assert kills >= 2
