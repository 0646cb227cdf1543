"""Many codes on one machine: build, save, reopen from a mapped file and search, with time and memory.

    python benchmarks/large.py                      80,000,000 uniform codes of 64 bits
    python benchmarks/large.py --n 1e7 --folder /tmp

Every step runs in a process of its own, so that its memory is its own, and the file is opened by a process that never
had the codes, after the system was asked to forget it. So the first answer includes fetching the file's pages from the
disk, if the system complied; peak memory includes pages of the file.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import grown
import numpy as np

import onlinehash
from onlinehash import Codes, FlatIndex, MultiIndex

KINDS = {"flat": FlatIndex, "multi": MultiIndex}
N_BITS = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=float, default=8e7)
    parser.add_argument("--folder", type=Path, help="where the files go; they are removed at the end")
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        {"write": write, "search": search}[args.step[0]](args.step[1], int(args.n), args.folder)
        return
    print(common.machine())
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for kind in KINDS:
            for step in ("write", "search"):
                command = [sys.executable, __file__, "--n", str(args.n), "--folder", folder, "--step", step, kind]
                subprocess.run(command, check=True)


def write(kind: str, n: int, folder: Path) -> None:
    """Make the codes, build the index and save it."""
    codes = timed(f"{n:,} uniform codes", lambda: grown.uniform(n, N_BITS))
    index = timed(f"build {KINDS[kind].__name__}", lambda: KINDS[kind](codes))
    timed("save", lambda: onlinehash.save(index, folder / kind))
    print(f"    {index.nbytes / n:.1f} bytes an item in memory, {os.path.getsize(folder / kind) / n:.1f} in the file")


def search(kind: str, n: int, folder: Path) -> None:
    """Open the file and search it, twice."""
    queries = grown.uniform(100, N_BITS, seed=1)
    KINDS[kind](grown.uniform(1_000_000, N_BITS)).search(queries[:1], 10)  # loads the kernels
    forget(folder / kind)
    index = timed("open, mapped", lambda: onlinehash.load(folder / kind, mmap=True))
    for what, some in (("one query", queries[:1]), ("one query again", queries[1:2]), ("100 queries", queries)):
        hits = timed(what, lambda some=some: index.search(some, 10))
    check(index.codes, queries, hits)
    (folder / kind).unlink()


def forget(path: Path) -> None:
    """Ask the system to drop a file's pages from memory, where one can."""
    if hasattr(os, "posix_fadvise"):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def check(codes: Codes, queries: Codes, hits: onlinehash.Hits) -> None:
    """The first query's answer beside NumPy's."""
    words, query = codes.to_faiss().view(np.uint64)[:, 0], queries[:1].to_faiss().view(np.uint64)[0, 0]
    distances = np.bitwise_count(words ^ query)
    assert np.array_equal(hits.ids[0], np.argsort(distances, kind="stable")[:10])
    print("    the answers are NumPy's")


def timed(what: str, run: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(f"  {what:<28} {seconds:>9.3f} s   peak memory so far {peak / 2**20:>7,.0f} MiB", flush=True)
    return result


if __name__ == "__main__":
    main()
