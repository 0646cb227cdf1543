"""Following a changed encoder: a full encode, the changed columns for all rows, and only what margins leave in doubt.

With one thread, on rows in memory that come in blocks of 4,096. Online Hashing with 64 bits learns pair after pair
until so many bits have changed; then the codes follow. Margins are measured twice: fresh from encoding, and after they
have followed twenty earlier changes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import common
import numpy as np

from onlinehash import Encoder, OnlineHashing
from onlinehash.live.margins import Margins, recode_columns

CHANGED = (1, 2, 4, 8, 16, 32, 64)
N_LEARNED = 4000
N_EARLIER = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=float, default=1e6)
    parser.add_argument("--data", type=Path, help="npz with X, y and, for quantised features, offset and scale")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    args = parser.parse_args()
    print(common.machine())
    X, y = common.read(args.data) if args.data else common.clusters(int(args.n), 512)
    stream = common.pairs(X[:40_000], y[:40_000])
    print(f"{len(X):,} x {X.shape[1]} float32, 64 bits\n{'bits':>5} {'pairs':>6} {'margins':>8} {'full ms':>8} "
          f"{'plain':>6} {'margins':>8} {'rows read':>10} {'computed':>9} {'flipped':>8}")  # fmt: skip
    rows = [figures for count in CHANGED for figures in measure(X, stream, count, args.repeats)]
    rows.append(cost_of_marks(X, stream, args.repeats))
    print("plain, margins: of a full encode; rows read: of all; computed, flipped: of the bits of changed columns")
    common.write_json(rows, args.json)


class Lesson:
    """A learner on its way along a stream of pairs."""

    def __init__(self, stream: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        self.stream, self.at = stream, N_LEARNED
        self.learner = OnlineHashing(64, random_state=0)
        self.learner.partial_fit_pairs(*(part[:N_LEARNED] for part in stream))

    def until(self, count: int) -> tuple[Encoder, int]:
        """The first encoder in which at least so many bits differ from now, and the pairs it took."""
        old, start = self.learner.snapshot(), self.at
        new = old
        while len(new.changed_bits(old)) < count and self.at < len(self.stream[0]):
            self.learner.partial_fit_pairs(*(part[self.at : self.at + 1] for part in self.stream))
            self.at += 1
            new = self.learner.snapshot()
        return new, self.at - start

    def exactly(self, count: int) -> tuple[Encoder, Encoder, int]:
        """Two encoders that differ in so many bits, or as near as the next fifty stretches of the stream come."""
        stretches = []
        for _ in range(50):
            old = self.learner.snapshot()
            new, n_pairs = self.until(count)
            stretches.append((abs(len(new.changed_bits(old)) - count), old, new, n_pairs))
            if stretches[-1][0] == 0 or self.at == len(self.stream[0]):
                break
        return min(stretches, key=lambda stretch: stretch[0])[1:]


def blocks(X: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for first in range(0, len(X), 4096):
        yield first, X[first : first + 4096]


def measure(
    X: np.ndarray, stream: tuple[np.ndarray, np.ndarray, np.ndarray], count: int, repeats: int
) -> Iterator[dict]:
    for earlier in (0, N_EARLIER):
        lesson = Lesson(stream)
        encoder, centre = lesson.learner.snapshot(), lesson.learner.mean_
        margins, planes = encoded(encoder, centre, X)
        for _ in range(earlier):
            new, _ = lesson.until(1)
            planes, margins, _ = margins.recode(new, encoder, planes, len(X), blocks(X))
            encoder = new
        old, new, n_pairs = lesson.exactly(count)
        if old is not encoder and earlier:
            planes, margins, _ = margins.recode(old, encoder, planes, len(X), blocks(X))
        elif old is not encoder:
            margins, planes = encoded(old, centre, X)
        columns = new.changed_bits(old)
        got = {}

        def follow(new=new, old=old, planes=planes, margins=margins, got=got) -> None:
            got["planes"], _, got["work"] = margins.recode(new, old, planes, len(X), blocks(X))

        contenders = {
            "full": lambda new=new: new.encode(X),
            "plain": lambda new=new, c=columns, p=planes: recode_columns(new, c, p, len(X), blocks(X)),
            "margins": follow,
        }
        seconds = common.best(contenders, repeats)
        assert np.array_equal(got["planes"], new.encode(X).planes)
        flipped = int(np.bitwise_count(got["planes"] ^ planes).sum())
        work = got["work"]
        figures = {
            "changed": len(columns),
            "pairs": n_pairs,
            "earlier": earlier,
            **seconds,
            "rows": work.rows / len(X),
            "computed": work.computed / (len(X) * len(columns)),
            "flipped": flipped / (len(X) * len(columns)),
        }
        plain, ours = seconds["plain"] / seconds["full"], seconds["margins"] / seconds["full"]
        print(
            f"{len(columns):>5} {n_pairs:>6} {'used' if earlier else 'fresh':>8} {1e3 * seconds['full']:>8.0f} "
            f"{plain:>6.3f} {ours:>8.3f} "
            + f"{figures['rows']:>10.1%} {figures['computed']:>9.1%} {figures['flipped']:>8.1%}"
        )
        yield figures


def encoded(encoder: Encoder, centre: np.ndarray, X: np.ndarray) -> tuple[Margins, np.ndarray]:
    margins = Margins(encoder, centre)
    codes, marks = margins.encode(encoder, X)
    margins.append(marks)
    return margins, codes.planes


def cost_of_marks(X: np.ndarray, stream: tuple[np.ndarray, np.ndarray, np.ndarray], repeats: int) -> dict:
    """What keeping margins adds to encoding."""
    lesson = Lesson(stream)
    encoder, some = lesson.learner.snapshot(), X[:100_000]
    margins = Margins(encoder, lesson.learner.mean_)
    contenders = {"encode": lambda: encoder.encode(some), "with marks": lambda: margins.encode(encoder, some)}
    seconds = common.best(contenders, 3 * repeats)
    print(f"encoding with marks: {seconds['with marks'] / seconds['encode']:.2f} times encoding; 64 bytes an item")
    return seconds


if __name__ == "__main__":
    main()
