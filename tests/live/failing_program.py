"""A program in which every file call of a live index fails once in turn.

    python -m tests.live.failing_program FOLDER STRIDE NAME...

For each named call of an index, and each number of a file call that it makes (in steps of `STRIDE`; each sync of `add`,
too), an index is copied, its call is made while the file call of that number fails, and what is left in memory and on
the disk is compared with what the index was before the call and what it is after one that succeeds. A line is printed
for each, and one for each contradiction, which begins with WRONG.
"""

from __future__ import annotations

import errno
import itertools
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import onlinehash
from onlinehash import OnlineHashing, refresh
from onlinehash.errors import OnlineHashError
from onlinehash.live import storage
from onlinehash.live.check import check
from onlinehash.live.index import LiveIndex
from onlinehash.live.sqlite import segments
from tests.live.file_calls import arm, failed
from tests.support import state_bytes

SECONDS = 60
KINDS = "wtsrnumo"

#: A part of the message of a call that was not made, and of one of which nobody knows.
NOT_KEPT, UNKNOWN = "nothing of this call was kept", "may or may not have been kept"


def vectors(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 8)).astype(np.float32)


def _backup(index: LiveIndex) -> None:
    target = Path(f"{index.path}-backup")
    shutil.rmtree(target, ignore_errors=True)
    index.backup(target / "a" / "copy")


def _save(index: LiveIndex) -> None:
    onlinehash.save(index.learner, Path(f"{index.path}.oh"))


def _again(index: LiveIndex) -> None:
    index.reload()


CALLS: dict[str, Callable[[LiveIndex], Any]] = {
    "add": lambda index: index.add(range(1000, 1060), vectors(60, 7), [{"n": 1}] * 60),
    "update": lambda index: index.update([3, 60], vectors(2, 8), [{"new": True}] * 2),
    "remove": lambda index: index.remove([4, 63]),
    "learn": lambda index: index.learn_pairs(vectors(30, 9), vectors(30, 10), [True, False] * 15),
    "refresh": lambda index: index.refresh(),
    "roll back": lambda index: index.roll_back(),
    "backup": _backup,
    "save": _save,
    "reload": _again,
    "search": lambda index: index.rerank(vectors(2, 3), index.search(vectors(2, 3), 5)),
}
ONLY_READ = ("backup", "save", "reload", "search")


def template(path: Path) -> None:
    """Blocks and a tail, changed and removed items, encoders to return to, and pairs that are not in the codes."""
    learner = OnlineHashing(n_bits=16, burn_in=20, random_state=0)
    with LiveIndex(learner, refresh.by_hand(), path=path) as index:
        index.add(range(100), vectors(100, 0), [{"n": i} if i % 2 else None for i in range(100)])
        for seed in range(2):
            index.learn_pairs(vectors(6, 10 + seed), vectors(6, 20 + seed), [True, False] * 3)
            index.refresh()
        index.update([5, 61], vectors(2, 1), [{"new": True}] * 2)
        index.remove([6, 62])
        index.learn_pair(*vectors(2, 2), True)


def everything(index: LiveIndex) -> tuple[Any, ...]:
    """All that an index hands out, in a form that can be compared."""
    assert index.encoder is not None
    assert index.codes == index.encoder.encode(index.vectors), "the law of the live index"
    hits = index.search(vectors(4, 3), 7)
    items = str([index.get(id) for id in list(index)[::7]])
    versions = [version.serial for version in index.versions]
    return (
        list(index),
        index.vectors.tobytes(),
        items,
        hits.ids.tolist(),
        versions,
        index.serial,
        state_bytes(index.learner),
    )


def on_disk(path: Path) -> tuple[Any, ...]:
    """What another process would find, which cannot be told from one that finds it after a crash of this one."""
    copy = Path(f"{path}-copy")
    shutil.copytree(path, copy)
    for shared in copy.glob("*-shm"):
        shared.unlink()
    try:
        report = check(copy)
        assert report.ok, report.problems
        with LiveIndex.open(copy) as index:
            return everything(index)
    finally:
        shutil.rmtree(copy)


class Case:
    """One file call that fails during one call of an index."""

    def __init__(self, name: str, number: int, path: Path, before: Any, after: Any) -> None:
        self.name, self.number, self.path, self.before, self.after = name, number, path, before, after

    def wrong(self, what: str) -> None:
        print(f"WRONG {self.name} {self.number} ({failed()}): {what}", flush=True)

    def run(self, kinds: str) -> bool:
        """Returns whether there was such a file call, of one of these kinds."""
        index = LiveIndex.open(self.path, refresh.by_hand())
        error: Exception | None = None
        arm(self.path.parents[1], None, self.number, errno.EIO, kinds)
        try:
            self.call(index)
        except Exception as found:
            error = found
        happened = bool(failed())
        arm_nothing(self.path.parents[1], self.number)
        if happened:
            print(f"{self.name} {self.number} ({failed()}): {error}", flush=True)
            self.judge(index, error)
        index.close()
        if happened:
            self.expect(on_disk(self.path), self.after, "after a second try the disk")
        return happened

    def call(self, index: LiveIndex) -> None:
        if self.name in ONLY_READ:
            CALLS[self.name](index)
            return
        with index.once("key", "digest"):
            CALLS[self.name](index)

    def judge(self, index: LiveIndex, error: Exception | None) -> None:
        if error is not None and not isinstance(error, OnlineHashError):
            self.wrong(f"{error!r} is none of our errors")
        message = str(error)
        if "damaged" in message and "or its disk could not be read" not in message:
            self.wrong(f"a failing disk was called damaged: {message}")
        found = on_disk(self.path)  # before this process can mend anything
        if error is None:
            self.expect(found, self.after, "the disk")
        elif UNKNOWN in message:
            if found not in (self.before, self.after):
                self.wrong("the disk is neither as it was nor as it should be")
        else:
            self.expect(found, self.before, f"after {message!r} the disk")
        try:
            self.expect(everything(index), self.after if error is None else self.before, "memory")
        except OnlineHashError as refusal:
            self.wrong(f"searches go on no more: {refusal}")
        if error is not None:
            if index.supports("receipts") and self.name not in ONLY_READ and index.receipt("key") is not None:
                self.wrong("there is a receipt of a call that raised")
            self.call(index)
        self.expect(everything(index), self.after, "after a second try memory")

    def expect(self, found: Any, expected: Any, where: str) -> None:
        if found != expected:
            is_other = " (it is as if the call had not been made)" if found == self.before else ""
            self.wrong(f"{where} is not as expected{is_other}")


def arm_nothing(folder: Path, number: int) -> None:
    """No call fails any more; which one did is still known."""
    arm(folder, None, -2 - number, 0, "")


def main(folder: Path, stride: int, names: list[str]) -> None:
    warnings.simplefilter("ignore")
    segments.BLOCK_ROWS = 40
    storage.LEAST_LOG = 1 << 10
    arm(folder)  # whoever opens a file from now on is known
    original = folder / "template"
    template(original)
    for name in names:
        paths = (folder / f"{name}-{number}" / "index" for number in itertools.count())
        path = next(paths)
        shutil.copytree(original, path)
        with LiveIndex.open(path, refresh.by_hand()) as index:
            before = everything(index)
            CALLS[name](index)
            after = everything(index)
        for step, kinds in [(stride, KINDS)] if name != "add" or stride == 1 else [(stride, KINDS), (1, "s")]:
            for number in itertools.count(0, step):
                path = next(paths)
                shutil.copytree(original, path)
                signal.alarm(SECONDS)
                happened = Case(name, number, path, before, after).run(kinds)
                signal.alarm(0)
                shutil.rmtree(path.parent)
                if not happened:
                    break
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
