"""A program whose file calls are written down.

It adds, updates, removes, learns, refreshes, rolls back, backs up, saves and opens again, and notes every call before
and after.

    python -m tests.live.recorded_program ROOT LOG SEED CALLS FOLDER OPTIONS
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import onlinehash
from onlinehash.live import storage
from onlinehash.live.sqlite import segments
from tests.live.crash_writer import choose, closed, notes_in, opened, perform_once, warm_up
from tests.live.file_calls import arm

JOURNAL, MODEL = "notes", "model.oh"


def main(root: Path, log: Path, seed: int, n_calls: int, folder: str, options: dict[str, Any]) -> None:
    segments.BLOCK_ROWS = 100
    storage.LEAST_LOG = 1 << 14
    warm_up()
    rng, numbers = np.random.default_rng(seed), itertools.count()
    arm(root, log)
    note, path = notes_in(root / JOURNAL), str(root / folder)
    index = opened(path, rng, options, note)
    for _ in range(n_calls):
        kind = rng.random()
        if kind < 0.06:
            closed(index, note)
            index = opened(path, rng, options, note)
        elif kind < 0.12:
            target = f"{folder}-copies/{next(numbers)}/copy"
            note(call="backup", target=target)
            index.backup(root / target)
            note(done="backup", target=target)
        elif kind < 0.18 and index.learner.is_ready:
            note(call="save")
            onlinehash.save(index.learner, root / MODEL)
            note(done="save")
        else:
            call = choose(index, rng)
            if call["call"] == "beside":
                call["call"] = "refresh"
            call["key"] = f"key-{next(numbers)}"
            note(**call)
            perform_once(index, call)
            note(done=call["call"], serial=index.serial)
    closed(index, note)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], json.loads(sys.argv[6]))
