"""Following a changed encoder: a full encode, the changed columns for all rows, and only what margins leave in doubt.

With one thread, on rows in memory in blocks of 4,096. After a warm-up, Online Hashing with 64 bits learns pair by pair,
and the codes follow as soon as so many bits have changed, or nearly; a pair changes several at once, often more than
were waited for. *Fresh*: with margins as a bulk load leaves them, at several places along the stream. *Used*: refresh
after refresh, with the margins that those before have left, whatever the pairs brought. Reported are the refreshes with
as many bits as were waited for, or nearly. Three kinds of rows: classes in a subspace, the same as embeddings of unit
length, and rows without any structure.
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

WARM_UP = 2500

#: Refreshes with as many bits as wanted that a median is taken of, at least.
LEAST = 5

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=float, default=1e6)
    parser.add_argument("--data", type=Path, help="npz with X, y and, for quantised features, offset and scale")
    parser.add_argument("--bits", type=int, nargs="+", default=[1, 4, 16, 64], help="changed bits, of 64")
    parser.add_argument("--refreshes", type=int, default=12)
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
            print(f"{'margins':>7} {'bits':>5} {'of':>6} {'pairs':>6} {'full ms':>8} {'plain':>6} {'margins':>8} "
                  f"{'worst':>6} {'rows read':>10} {'computed':>9} {'flipped':>8}")  # fmt: skip
            for count in args.bits:
                for state, measure in (("fresh", fresh), ("used", used)):
                    figures = shown(state, count, measure(X, stream, count, args.refreshes, args.repeats))
                    rows.append({"data": kind, "state": state, "wanted": count} | figures)
            del X
    print("\nof: refreshes reported, of those measured; plain, margins: of a full encode, the median (and the worst);")
    print("rows read: of all; computed, flipped: of the bits of changed columns")
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

    def until(self, count: int) -> tuple[Encoder, Encoder, int]:
        """The encoder as it is, the next that differs in nearly so many bits or more, and the pairs it took."""
        old = new = self.learner.snapshot()
        start = self.at
        while len(new.changed_bits(old)) < count - count // 4:
            if self.at == len(self.stream[0]):
                raise SystemExit(
                    f"{self.at:,} pairs are too few to change {count} bits so often: ask for fewer refreshes"
                )
            self.learner.partial_fit_pairs(*(part[self.at : self.at + 1] for part in self.stream))
            self.at += 1
            new = self.learner.snapshot()
        return old, new, self.at - start


def blocks(X: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for first in range(0, len(X), 4096):
        yield first, X[first : first + 4096]


def loaded(X: np.ndarray, encoder: Encoder, centre: np.ndarray) -> tuple[np.ndarray, Margins]:
    """Planes and margins as a bulk load leaves them."""
    margins = Margins(encoder, centre)
    codes, marks = margins.encode(encoder, X)
    margins.append(marks)
    return codes.planes, margins


def fresh(X: np.ndarray, stream: Pairs, count: int, n_refreshes: int, repeats: int) -> list[dict]:
    """The first refresh after a bulk load, from place to place along the stream; only those near the count."""
    lesson, found = Lesson(stream), []
    while len(found) < n_refreshes:
        centre = lesson.learner.mean_.copy()
        old, new, n_pairs = lesson.until(count)
        if is_near(len(new.changed_bits(old)), count):
            figures, _, _ = one_refresh(X, old, new, *loaded(X, old, centre), repeats)
            found.append(figures | {"pairs": n_pairs})
    return found


def used(X: np.ndarray, stream: Pairs, count: int, n_refreshes: int, repeats: int) -> list[dict]:
    """Refresh after refresh, all of them measured."""
    lesson, found = Lesson(stream), []
    planes, margins = loaded(X, lesson.learner.snapshot(), lesson.learner.mean_)
    while len(found) < n_refreshes or sum(is_near(figures["changed"], count) for figures in found) < LEAST:
        old, new, n_pairs = lesson.until(count)
        figures, planes, margins = one_refresh(X, old, new, planes, margins, repeats)
        found.append(figures | {"pairs": n_pairs})
    return found


def is_near(changed: float, count: int) -> bool:
    return abs(changed - count) <= count // 4


def one_refresh(
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


def shown(state: str, count: int, found: list[dict]) -> dict:
    """The medians of the refreshes with as many bits as wanted, printed."""
    those = [figures for figures in found if is_near(figures["changed"], count)]
    middle = {name: float(np.median([figures[name] for figures in those])) for name in those[0]}
    middle["worst margins ratio"] = max(figures["margins ratio"] for figures in those)
    middle |= {"reported": len(those), "measured": len(found)}
    share = f"{len(those)}/{len(found)}"
    print(
        f"{state:>7} {middle['changed']:>5.0f} {share:>6} {middle['pairs']:>6.0f} {1e3 * middle['full']:>8.0f} "
        f"{middle['plain ratio']:>6.3f} {middle['margins ratio']:>8.3f} {middle['worst margins ratio']:>6.3f} "
        f"{middle['rows']:>10.1%} {middle['computed']:>9.1%} {middle['flipped']:>8.1%}",
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
