"""Following a changed encoder: a full encode, the changed columns for all rows, and only what margins leave in doubt.

With one thread, on rows in memory in blocks of 4,096. After a warm-up, Online Hashing with 64 bits learns pair by pair
until so many bits have changed (a pair changes several at once: one more or less is let pass); then the codes
follow, stretch after stretch, with the margins that earlier stretches left. Three kinds of rows: classes in a subspace,
the same as embeddings of unit length, and rows without any structure, of which no bit can be skipped.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import common
import numpy as np
from threadpoolctl import threadpool_limits

from onlinehash import Encoder, OnlineHashing
from onlinehash.live.margins import Margins, recode_columns

CHANGED = (1, 4, 16, 64)
WARM_UP = 2500
Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=float, default=1e6)
    parser.add_argument("--data", type=Path, help="npz with X, y and, for quantised features, offset and scale")
    parser.add_argument("--stretches", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    args = parser.parse_args()
    print(common.machine())
    rows = []
    kinds = ("file",) if args.data else ("clusters", "unit", "isotropic")
    with threadpool_limits(1):
        for kind in kinds:
            X, y = common.read(args.data) if args.data else rows_of(kind, int(args.n))
            stream = common.pairs(X[:80_000], y[:80_000])
            print(f"\n{kind}: {len(X):,} x {X.shape[1]} float32, 64 bits, {WARM_UP:,} pairs learned before")
            rows.append({"data": kind} | cost_of_marks(X, stream, args.repeats))
            print(f"{'bits':>5} {'pairs':>6} {'full ms':>8} {'plain':>6} {'margins':>8} {'worst':>6} {'rows read':>10} "
                  f"{'computed':>9} {'flipped':>8}")  # fmt: skip
            rows += [{"data": kind} | figures for figures in all_along(X, stream, args.stretches, args.repeats)]
            del X
    print("\nplain, margins: of a full encode, the median of all stretches (and the worst); rows read: of all;")
    print("computed, flipped: of the bits of changed columns")
    common.write_json(rows, args.json)


def rows_of(kind: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 512 values, and their classes."""
    if kind == "isotropic":
        rng = np.random.default_rng(0)
        return rng.standard_normal((n, 512), dtype=np.float32), rng.integers(0, 10, n)
    X, y = common.clusters(n, 512)
    if kind == "unit":
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, y


class Lesson:
    """A learner on its way along a stream of pairs."""

    def __init__(self, stream: Pairs) -> None:
        self.stream, self.at = stream, WARM_UP
        self.learner = OnlineHashing(64, random_state=0)
        self.learner.partial_fit_pairs(*(part[:WARM_UP] for part in stream))

    def until(self, count: int) -> tuple[list[Encoder], Encoder, int]:
        """The next encoders until two differ in so many bits, or nearly; the last of them, and the pairs it took."""
        passed, start = [self.learner.snapshot()], self.at
        while self.at < len(self.stream[0]):
            self.learner.partial_fit_pairs(*(part[self.at : self.at + 1] for part in self.stream))
            self.at += 1
            new = self.learner.snapshot()
            changed = len(new.changed_bits(passed[-1]))
            if abs(changed - count) <= count // 4:
                return passed, new, self.at - start
            if changed > count:
                passed.append(new)
                start = self.at
        raise SystemExit(f"no pair of encoders that differ in {count} bits in {len(self.stream[0]):,} pairs")


def blocks(X: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for first in range(0, len(X), 4096):
        yield first, X[first : first + 4096]


def all_along(X: np.ndarray, stream: Pairs, n_stretches: int, repeats: int) -> Iterator[dict]:
    """For each number of changed bits, stretch after stretch."""
    for count in CHANGED:
        lesson = Lesson(stream)
        encoder = lesson.learner.snapshot()
        margins = Margins(encoder, lesson.learner.mean_)
        codes, marks = margins.encode(encoder, X)
        margins.append(marks)
        planes, found = codes.planes, []
        for _ in range(n_stretches):
            passed, new, n_pairs = lesson.until(count)
            for old in passed:  # where a pair changed too many bits for this row of figures, they are followed unseen
                planes, margins, _ = margins.recode(old, encoder, planes, len(X), blocks(X))
                encoder = old
            figures, planes, margins = one_stretch(X, encoder, new, planes, margins, repeats)
            encoder = new
            found.append(figures | {"pairs": n_pairs})
        yield shown(found)


def one_stretch(
    X: np.ndarray, old: Encoder, new: Encoder, planes: np.ndarray, margins: Margins, repeats: int
) -> tuple[dict, np.ndarray, Margins]:
    columns, n = new.changed_bits(old), len(X)
    contenders = {
        "full": lambda: new.encode(X),
        "plain": lambda: recode_columns(new, columns, planes, n, blocks(X)),
        "margins": lambda: margins.recode(new, old, planes, n, blocks(X)),
    }
    seconds = common.best(contenders, repeats, time.process_time)
    after, later, work = margins.recode(new, old, planes, n, blocks(X))
    assert np.array_equal(after, new.encode(X).planes)
    bits = n * len(columns)
    figures = {
        "changed": len(columns),
        **seconds,
        "plain ratio": seconds["plain"] / seconds["full"],
        "margins ratio": seconds["margins"] / seconds["full"],
        "rows": work.rows / n,
        "computed": work.computed / bits,
        "flipped": int(np.bitwise_count(after ^ planes).sum()) / bits,
    }
    return figures, after, later


def shown(found: list[dict]) -> dict:
    """The medians of some stretches, printed."""
    middle = {name: float(np.median([figures[name] for figures in found])) for name in found[0]}
    middle["worst margins ratio"] = max(figures["margins ratio"] for figures in found)
    print(
        f"{middle['changed']:>5.0f} {middle['pairs']:>6.0f} {1e3 * middle['full']:>8.0f} {middle['plain ratio']:>6.3f} "
        f"{middle['margins ratio']:>8.3f} {middle['worst margins ratio']:>6.3f} {middle['rows']:>10.1%} "
        f"{middle['computed']:>9.1%} {middle['flipped']:>8.1%}",
        flush=True,
    )
    return middle


def cost_of_marks(X: np.ndarray, stream: Pairs, repeats: int) -> dict:
    """What keeping margins adds to encoding."""
    lesson = Lesson(stream)
    encoder, some = lesson.learner.snapshot(), X[:100_000]
    margins = Margins(encoder, lesson.learner.mean_)
    contenders = {"encode": lambda: encoder.encode(some), "with marks": lambda: margins.encode(encoder, some)}
    seconds = common.best(contenders, 3 * repeats, time.process_time)
    print(f"encoding with marks: {seconds['with marks'] / seconds['encode']:.2f} times encoding; 64 bytes an item")
    return seconds


if __name__ == "__main__":
    main()
