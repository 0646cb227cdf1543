"""A program that mounts a small disk, fills it up with an index, and turns it read-only.

`python -m tests.live.small_disk FOLDER` needs the right to mount: `tests/live/test_faults.py` finds a way to it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onlinehash import OnlineHashing, refresh
from onlinehash.errors import StorageError
from onlinehash.live import storage
from onlinehash.live.check import check
from onlinehash.live.index import LiveIndex
from onlinehash.live.sqlite import segments
from tests.live.test_faults import everything, fill, fill_up, vectors
from tests.support import refused


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def main(disk: Path) -> None:
    segments.BLOCK_ROWS, storage.LEAST_LOG = 40, 1 << 12
    ballast = disk / "ballast"
    with small_disk(disk, "2500k"):
        ballast.write_bytes(bytes(1 << 20))
        learner = OnlineHashing(n_bits=16, burn_in=20, random_state=0)
        with LiveIndex(learner, refresh.by_hand(), path=disk / "index") as index:
            fill(index)
            first = fill_up(index, 500)
            ballast.unlink()
            index.add(list(range(first, first + 500)), vectors(500, first))
            kept = everything(index)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(disk)], check=True)
        assert isinstance(refused(LiveIndex.open, disk / "index"), StorageError)
        with LiveIndex.open(disk / "index", read_only=True) as index:
            assert everything(index) == kept
        assert check(disk / "index").ok
    print("a small disk was filled up")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
