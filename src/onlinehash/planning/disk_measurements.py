"""Measures a `LiveIndex` on disk: bytes in memory and on disk, and times of writing and reading."""

from __future__ import annotations

import os
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np

from onlinehash.io import atomic
from onlinehash.learners.online_hashing import OnlineHashing
from onlinehash.live import policies as refresh
from onlinehash.live.index import LiveIndex
from onlinehash.planning.costs import Disk, Encoding

BITS, BATCH, NARROW, WIDE = 64, 2000, 64, 512
TEXT = "x" * 100
LOG = 64 << 20  # what the store lets its log keep


def measure(folder: Path, n: int, encoding: Encoding) -> tuple[dict[str, float], Disk]:
    """The costs of memory that only such an index has, and those of the disk."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="onlinehash-plan-") as place:
        narrow, wide, told = (Path(place) / name for name in ("narrow", "wide", "told"))
        of_narrow, of_wide = _fill(narrow, n, NARROW), _fill(wide, n, WIDE)
        _fill(told, n, NARROW, {"text": TEXT})
        text = len(TEXT) + len('{"text":""}')
        plain = _memory(narrow)
        _, cached, fetched = (_refresh(wide, forget) for forget in (False, False, True))  # the first loads kernels
        encoded = n * WIDE * (encoding.value + BITS * encoding.product) * 1e-9
        per_byte = max(of_wide - of_narrow, 0.0) / (n * 4 * (WIDE - NARROW)) * 1e9
        encoded_byte = (encoding.value + BITS * encoding.product) / 4
        read = max(cached - encoded, 0.0) / (n * WIDE * 4) * 1e9
        memory = {
            "item": max(plain / n - BITS / 8, 0.0),
            "payload": max((_memory(told) - plain) / n - text, 0.0),
        }
        return memory, Disk(
            item=_bytes(narrow) / n - 4 * NARROW - BITS / 8,
            payload=max((_bytes(told) - _bytes(narrow)) / n - text, 0.0),
            log=float(LOG),
            write_item=max(of_narrow / n * 1e9 - 4 * NARROW * per_byte, 0.0),
            write_byte=max(per_byte - encoded_byte, 0.0),
            read_byte=read,
            fetch_byte=max(max(fetched - encoded, 0.0) / (n * WIDE * 4) * 1e9, read),
        )


def _fill(path: Path, n: int, dim: int, payload: dict[str, str] | None = None) -> float:
    """Seconds to add n items by batches, each on the disk before the next."""
    X = np.random.default_rng(0).standard_normal((BATCH, dim)).astype(np.float32)
    learner = OnlineHashing(n_bits=BITS, random_state=0)
    with LiveIndex(learner, path=path, refresh=refresh.by_hand(), index="flat") as index:
        payloads = None if payload is None else [payload] * BATCH
        index.add(None, X, payloads)  # loads what has to be loaded
        begin = time.perf_counter()
        for start in range(BATCH, n, BATCH):
            size = min(BATCH, n - start)
            index.add(None, X[:size], payloads and payloads[:size])
        return (time.perf_counter() - begin) * n / (n - BATCH)


def _memory(path: Path) -> float:
    """Bytes that an opened index takes."""
    LiveIndex.open(path, read_only=True).close()  # what is loaded once is no item's
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    with LiveIndex.open(path, read_only=True):
        taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return float(taken)


def _refresh(path: Path, forget: bool) -> float:
    """Seconds of a refresh of all bits, with the vectors in the system's cache or on the disk."""
    rng = np.random.default_rng(1)
    with LiveIndex.open(path) as index:
        A, B = rng.standard_normal((2, 200, WIDE)).astype(np.float32)
        while index.behind.bits < BITS:
            index.learn_pairs(A, B, rng.random(len(A)) < 0.5)
        if forget:
            _forget(path)
        begin = time.perf_counter()
        index.refresh()
        return time.perf_counter() - begin


def _forget(path: Path) -> None:
    """Ask the system to drop a folder's files from its cache, where one can."""
    for file in path.iterdir():
        with open(file, "rb") as opened:
            atomic.sync_file(opened.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _bytes(path: Path) -> float:
    return float(sum(file.stat().st_size for file in path.iterdir()))
