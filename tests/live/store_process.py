"""A process that uses a store and is killed, or shows what another process sees: python store_process.py PATH WHAT."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

from onlinehash.errors import StorageError
from onlinehash.live.sqlite import Store


def rows_of(numbers: range, width: int = 8) -> np.ndarray:
    """Vectors that tell which item they are of."""
    return np.array([[n + j / 16 for j in range(width)] for n in numbers], np.float32)


def write_and_die(path: str) -> None:
    """Commit some transactions, say how many, begin another, and be killed."""
    store = Store.open(path)
    for i in range(6):
        numbers = range(1000 + 10 * i, 1010 + 10 * i)
        with store.transaction():
            store.add(list(numbers), rows_of(numbers), [None] * 10)
            store.put_codes(np.arange(len(store) - 10, len(store)), np.full((10, 2), i, np.uint8))
    with store.transaction():
        store.update(np.array([3]), ["changed"], rows_of(range(77, 78)), ['{"new": true}'])
    with store.transaction():
        store.add(["unfinished"], rows_of(range(1)), [None])
        os.kill(os.getpid(), signal.SIGKILL)


def write_second(path: str) -> None:
    """Try to be a second writer, and say what came of it."""
    try:
        Store.open(path)
    except StorageError as error:
        print(error)


if __name__ == "__main__":
    {"die": write_and_die, "second": write_second}[sys.argv[2]](sys.argv[1])
