"""What a process does that uses an index in PostgreSQL.

It says `middle` when it is in the middle of what it does and waits to be killed there, or `done` at the end.
"""

from __future__ import annotations

import signal
import zlib
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from onlinehash import PostgresIndex
from onlinehash.stores.postgres.change import PostgresChange

ROUNDS, ITEMS, PAIRS = 6, 5, 3
WIDTH = 6


def vector_of(id: str) -> np.ndarray:
    """Each item has a vector that its id tells."""
    return np.random.default_rng(zlib.crc32(id.encode())).standard_normal(WIDTH).astype(np.float32)


def vectors_of(ids: list[str]) -> np.ndarray:
    return np.stack([vector_of(id) for id in ids])


def ids_of(name: str, number: int) -> list[str]:
    return [f"{name}/{number}/{j}" for j in range(ITEMS)]


def write(index: PostgresIndex, name: str) -> None:
    """Add, change, remove and teach, while others do the same."""
    for number in range(ROUNDS):
        ids = ids_of(name, number)
        index.add(ids, vectors_of([f"{id} as it was" for id in ids]))
        index.update(ids, vectors_of(ids), [{"by": name}] * ITEMS)
        index.remove(ids[0])
        A, B = (vectors_of([f"{side}{t}" for t in range(PAIRS)]) for side in "ab")
        index.learn_pairs(A, B, [True, False, True])
        if number % 2:
            index.refresh()


def stop_after(n_calls: int, pipe: Connection) -> None:
    """The next change that writes codes waits after so many of its writes, before its head is put."""
    add_codes, calls = PostgresChange.add_codes, 0

    def and_wait(self: PostgresChange, *arguments: Any) -> None:
        nonlocal calls
        add_codes(self, *arguments)
        calls += 1
        if calls == n_calls:
            pipe.send("middle")
            signal.pause()

    PostgresChange.add_codes = and_wait  # type: ignore[method-assign]


def main(address: str, schema: str, task: str, name: str, pipe: Connection) -> None:
    with PostgresIndex.open(address, schema=schema) as index:
        index.batch_rows = 10
        if task == "write":
            write(index, name)
        elif task == "add":
            stop_after(1, pipe)
            index.add(ids_of(name, 0), vectors_of(ids_of(name, 0)))
        elif task == "refresh":
            stop_after(3, pipe)
            index.refresh()
    pipe.send("done")
