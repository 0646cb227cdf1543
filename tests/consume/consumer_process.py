"""A process whose children consume until nothing is left, or until they are killed.

    python -m tests.consume.consumer_process    reads JSON lines: {"address", "settings", "path", "batch",
                                                              "death", "after"}

For each line a child is forked, as importing everything takes longer than most children live. Its process number is
printed, and when it is dead its exit code. Where `death` is one of `DEATHS`, the child kills itself there, the
`after`-th time that it comes by.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import threading
from functools import partial
from typing import Any

import onlinehash.consume.kafka_topics
import onlinehash.consume.redis_streams  # noqa: F401
from onlinehash import LiveIndex
from onlinehash.consume import loop
from onlinehash.consume.address import Address
from onlinehash.consume.consumer import Consumer
from onlinehash.consume.source import Source
from onlinehash.live import storage
from onlinehash.live.sqlite import segments
from tests.consume.program import after, make, new_learner, policy
from tests.live.crash_writer import Mortal

#: What a source does just before the end comes: nothing is read yet, the change is kept and the broker knows nothing,
#: the broker knows too, or a message was set aside and the position has not passed it.
DEATHS = ("before read", "after read", "before acknowledge", "after acknowledge", "before bury", "after bury")
#: Deaths after so many statements of SQL: at any, or at the next that ends a transaction.
STATEMENTS = {"statement": "", "transaction": "COMMIT"}


def mortal(source: Source, death: str, after: int) -> None:
    """Let the process die the `after`-th time that a method of the source is called, or has returned."""
    when, name = death.split()
    method, left = getattr(source, name), after

    def last(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if when == "before" and left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        result = method(*arguments)
        if when == "after" and left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(source, name, last)


def open_index(path: str) -> LiveIndex:
    """The index at a path, new or as it is."""
    if storage.Storage.exists(path):
        return LiveIndex.open(path, sync="batch")
    return LiveIndex(new_learner(), policy(), path=path, sync="batch")


def consume(task: dict[str, Any]) -> None:
    """Everything there is, if life is long enough."""
    if task["death"] in STATEMENTS:
        Mortal.left, Mortal.word = task["after"], STATEMENTS[task["death"]]
        sqlite3.connect = partial(sqlite3.connect, factory=Mortal)  # type: ignore[assignment]
    source = loop.open_source(Address.parse(task["address"]), task["settings"])
    if task["death"] in DEATHS:
        mortal(source, task["death"], task["after"])
    with open_index(task["path"]) as index:
        loop.run(Consumer(index, source, task["batch"]), threading.Event(), until_empty=True)
    source.close()


def main() -> None:
    """Fork a consumer for each line that is read."""
    segments.BLOCK_ROWS = 20
    storage.LEAST_LOG = 1 << 12
    after(make(100, 0))  # loads every kernel, so that no child has to
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                consume(json.loads(line))
                os._exit(0)
            finally:
                os._exit(1)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
