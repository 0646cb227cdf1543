"""What the benchmarks share: one thread for everybody, pairs to learn from, timing that survives a noisy machine.

Import this before NumPy, which reads the number of its threads when it is loaded.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import hashlib
import itertools
import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np


def arguments(description: str) -> argparse.Namespace:
    """`--data FILE` takes an npz of X and y (and offset and scale, where X is quantised) in place of made-up data."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, help="npz with X, y and, for quantised features, offset and scale")
    parser.add_argument("--repeats", type=int, default=15)
    return parser.parse_args()


def search_arguments(description: str) -> argparse.ArgumentParser:
    """What the benchmarks of search take, to which each adds its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    return parser


def write_json(rows: list[dict], path: Path | None) -> None:
    """For benchmarks/plot.py, and for whoever compares machines."""
    if path:
        path.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))


def run(options: argparse.Namespace) -> None:
    """The command that was chosen: it prints a table, and its rows are written where `--json` says."""
    print(machine())
    write_json(options.run(options), options.json)


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features as float32, and labels (zeros where there are none)."""
    with np.load(path) as file:
        X = file["X"].astype(np.float32)
        if "scale" in file:
            X = X * file["scale"] + file["offset"]
        return X.astype(np.float32), file["y"] if "y" in file else np.zeros(len(X), np.int32)


def split(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The first 20,000 rows (fewer of a smaller set) as stream and database, all later ones; with their labels."""
    X, y = read(path)
    n = min(20_000, len(X) - 500) // 2 * 2
    return X[:n], y[:n], X[n:], y[n:]


def clusters(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ten overlapping classes in a 24-dimensional subspace of d dimensions: hard enough to keep learners busy."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n)
    latent = rng.standard_normal((10, 24))[y] + rng.standard_normal((n, 24))
    X = latent @ rng.standard_normal((24, d)) / np.sqrt(d) + 0.1 * rng.standard_normal((n, d)) / np.sqrt(d)
    return X.astype(np.float32), y


def pairs(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Consecutive points, two by two."""
    n = len(X) // 2 * 2
    return np.ascontiguousarray(X[:n:2]), np.ascontiguousarray(X[1:n:2]), y[:n:2] == y[1:n:2]


def rounds(
    contenders: dict[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
    lasting: float = 0,
) -> dict[str, list[float]]:
    """The seconds of each in every round, all taken in turn within one run, so that noise falls on everybody alike.

    There are `repeats` rounds, and more until `lasting` seconds have passed. For work of one thread,
    `time.process_time` leaves out the time in which other programs had the core.
    """
    for run in contenders.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    end = time.perf_counter() + lasting
    for done in itertools.count():
        if done >= repeats and time.perf_counter() >= end:
            return seconds
        for name, run in contenders.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    raise AssertionError("unreachable")


def best(
    contenders: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The least seconds of each; see `rounds`."""
    return {name: min(seconds) for name, seconds in rounds(contenders, repeats, clock).items()}


class Results:
    """Runs in a file, a line of JSON each, so that a benchmark that was stopped can go on.

    A run is known again only if the learners, their feature maps and the measures were the same, by their source.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows: list[dict[str, Any]] = [row for row in map(json.loads, lines) if row.get("source") == source()]

    def has(self, run: dict[str, Any]) -> bool:
        """Whether a row has all of these."""
        return any(run.items() <= row.items() for row in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row | {"source": source()})
        with self.path.open("a") as file:
            file.write(json.dumps(self.rows[-1]) + "\n")


@cache
def source() -> str:
    """A digest of the code that decides what is learned and how it is measured."""
    import onlinehash

    digest, package = hashlib.sha256(), Path(onlinehash.__file__).parent
    for room in ("evaluate", "features", "learners", "numeric", "streams"):
        for path in sorted((package / room).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def machine() -> str:
    """What the figures were taken on."""
    from onlinehash.experiments.measurement import machine

    return machine()
