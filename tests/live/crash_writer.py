"""A process whose children write to live indexes until they are killed, and what their journals say.

    python -m tests.live.crash_writer    reads JSON lines: {"path", "journal", "seed", "options", "statements", "word"}

For each line a child is forked, as importing everything takes longer than most children live. Its process number is
printed, and when it is dead an empty line. A child notes every call in its journal before it makes it, and afterwards
that it returned. Vectors and payloads are made of seeds, so that a note is short and says all. Where `statements` is a
number, the child kills itself after so many of SQL, when one was executed that begins with `word`.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from onlinehash import OnlineHashing
from onlinehash.errors import OnlineHashError
from onlinehash.live import policies, storage
from onlinehash.live.index import LiveIndex
from onlinehash.live.sqlite import segments

#: Adds what is given to a journal.
Note = Callable[..., None]

WIDTH = 12
MANY = 900  # items, of which most are then removed

Call = dict[str, Any]


def new_learner() -> OnlineHashing:
    """A learner whose burn-in lasts for a while."""
    return OnlineHashing(n_bits=16, burn_in=300, random_state=3)


def vectors(seed: int, n: int) -> np.ndarray:
    """Vectors that only this seed gives."""
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32) + np.float32(0.5)


def payloads(seed: int, n: int) -> list[dict[str, Any] | None]:
    """Payloads that tell where they came from; every third item has none."""
    return [None if i % 3 == 2 else {"seed": seed, "place": i} for i in range(n)]


# ------------------------------------------------------------------ calls


def choose(index: LiveIndex, rng: np.random.Generator) -> Call:
    """A call that this index would not refuse."""
    n, seed = len(index), int(rng.integers(2**40))
    if n < 20 or (n < MANY and rng.random() < 0.3):
        size = int(rng.choice([1, rng.integers(1, 50), 420]))  # the last seals several blocks
        first = int(index.ids.max(initial=-1)) + 1
        return {"call": "add", "first": first, "n": size, "seed": seed}
    kinds = ["update", "remove", "pair", "pair by id", "pairs", "group", "refresh", "beside", "roll back"]
    what = str(rng.choice(kinds))
    if n >= MANY:
        what = "remove"
    if what in ("update", "remove"):
        some = min(n, int(rng.choice([1, rng.integers(1, 30), n // 2])))  # the last rewrites many blocks
        some = n * 3 // 4 if n >= MANY else some
        ids = np.sort(rng.choice(index.ids, some, replace=False)).tolist()
        parts = ["X", "payloads", "both"][int(rng.integers(3))]
        return {"call": what, "ids": ids, "seed": seed, "parts": parts}
    if what == "pair by id":
        return {"call": what, "ids": rng.choice(index.ids, 2).tolist(), "similar": bool(rng.random() < 0.5)}
    if what == "group":
        return {"call": what, "parts": some_parts(index, rng)}
    if what == "roll back" and index.serial <= min((v.serial for v in index.versions), default=index.serial):
        what = "refresh"
    return {"call": what, "seed": seed}


def some_parts(index: LiveIndex, rng: np.random.Generator) -> list[Call]:
    """Additions and lessons to be committed together."""
    first, parts = int(index.ids.max(initial=-1)) + 1, []
    for what in rng.choice(["add", "pair", "pairs"], int(rng.integers(2, 8))).tolist():
        n = int(rng.integers(1, 60))
        parts.append({"call": what, "first": first, "n": n, "seed": int(rng.integers(2**40))})
        first += n
    return parts


def pairs_of(call: Call) -> tuple[np.ndarray, np.ndarray, list[bool]]:
    """The pairs of a call that brings them along."""
    n = 1 if call["call"] == "pair" else 25
    A, B = np.split(vectors(call["seed"], 2 * n), 2)
    return A, B, [bool((call["seed"] >> i) % 2) for i in range(n)]


def perform(index: LiveIndex, call: Call) -> None:
    """Make the call."""
    what = call["call"]
    if what == "add":
        ids = range(call["first"], call["first"] + call["n"])
        index.add(list(ids), vectors(call["seed"], call["n"]), payloads(call["seed"], call["n"]))
    elif what == "update":
        n = len(call["ids"])
        X = None if call["parts"] == "payloads" else vectors(call["seed"], n)
        index.update(call["ids"], X, None if call["parts"] == "X" else payloads(call["seed"], n))
    elif what == "remove":
        index.remove(call["ids"])
    elif what == "pair":
        (a,), (b,), (similar,) = pairs_of(call)
        index.learn_pair(a, b, similar)
    elif what == "pair by id":
        index.learn_pair_by_id(*call["ids"], call["similar"])
    elif what == "pairs":
        index.learn_pairs(*pairs_of(call))
    elif what == "roll back":
        index.roll_back()
    elif what == "group":
        *before, last = call["parts"]
        with index.group_commit():
            for part in before:
                perform(index, part)
            with index.once(call["key"], what):
                perform(index, last)
    else:
        index.refresh(wait=what == "refresh")


def perform_once(index: LiveIndex, call: Call) -> None:
    """Make the call with its key, which a group gives to one of its parts, and a refresh beside it to nothing."""
    with nullcontext() if call["call"] in ("beside", "group") else index.once(call["key"], call["call"]):
        perform(index, call)


# ------------------------------------------------------------------ the process


class Mortal(sqlite3.Connection):
    """Ends the process after so many statements through all connections, the last of which begins with a word."""

    left, word = 0, ""

    def execute(self, statement: str, *arguments: Any) -> sqlite3.Cursor:
        Mortal.left -= 1
        cursor = super().execute(statement, *arguments)
        if Mortal.left <= 0 and statement.startswith(Mortal.word):
            os.kill(os.getpid(), signal.SIGKILL)
        return cursor


def open_index(path: str, rng: np.random.Generator, options: dict[str, Any]) -> LiveIndex:
    """The index at a path, new or as it is, in one of the ways to open it."""
    policy = policies.from_specification(options["refresh"])
    common = {"background": options["background"], "sync": options["sync"]}
    if storage.Storage.exists(path) and rng.random() < 0.5:
        index = LiveIndex.open(path, policy, **common)
    else:
        index = LiveIndex(new_learner(), policy, options["index"], path, **common)
    # So that the log is emptied into the database often, and not only after megabytes.
    index._storage.store._connections.writer.execute("PRAGMA wal_autocheckpoint = 8")  # type: ignore[union-attr]
    return index


def write(path: str, journal: str, seed: int, options: dict[str, Any]) -> None:
    """Call after call, each noted before and after, until the end comes."""
    rng = np.random.default_rng(seed)
    numbers = itertools.count()
    note = notes_in(journal)
    try:
        index = opened(path, rng, options, note)
        while True:
            if rng.random() < 0.02:
                closed(index, note)
                index = opened(path, rng, options, note)
            call = choose(index, rng) | {"key": f"{Path(journal).name}-{next(numbers)}"}
            note(**call)
            perform_once(index, call)
            note(done=call["call"], serial=index.serial)
    except BaseException:
        note(error=traceback.format_exc())
        raise


def notes_in(journal: str | Path) -> Note:
    """A function that adds a line to a journal, which is there whole if it is there."""
    notes = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(**what: Any) -> None:
        os.write(notes, json.dumps(what).encode() + b"\n")

    return note


def opened(path: str, rng: np.random.Generator, options: dict[str, Any], note: Note) -> LiveIndex:
    """The index, with notes of its opening."""
    note(call="open")
    index = open_index(path, rng, options)
    note(done="open", serial=index.serial)
    return index


def closed(index: LiveIndex, note: Note) -> None:
    """Close it, with notes of that."""
    note(call="close")
    index.close()
    note(done="close")


def warm_up() -> None:
    """Load every kernel once, so that no child has to."""
    rng = np.random.default_rng(0)
    index = LiveIndex(new_learner(), policies.every(5))
    for _ in range(60):
        with suppress(OnlineHashError):
            perform(index, choose(index, rng) | {"key": "none"})
    index.search(vectors(0, 2), 3)
    index.close()


def main() -> None:
    """Fork a writer for each line that is read."""
    segments.BLOCK_ROWS = 100
    storage.LEAST_LOG = 1 << 14
    storage.PART_BYTES = 512
    warm_up()
    print("ready", flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                if task["statements"] is not None:
                    Mortal.left, Mortal.word = task["statements"], task["word"]
                    sqlite3.connect = partial(sqlite3.connect, factory=Mortal)  # type: ignore[assignment]
                write(task["path"], task["journal"], task["seed"], task["options"])
            finally:
                os._exit(1)
        print(child, flush=True)
        os.waitpid(child, 0)
        print(flush=True)


def read_journal(file: Path) -> list[Call]:
    """The notes so far; a last one that is being written does not count."""
    text = file.read_bytes() if file.exists() else b""
    return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]


if __name__ == "__main__":
    main()
