"""Codes that follow a new encoder are those it gives, whatever was skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onlinehash import Codes, Encoder
from onlinehash.live.margins import Margins
from tests.support import feed, make, pairs


def blocks_of(rows: np.ndarray, size: int = 128) -> Iterator[tuple[int, np.ndarray]]:
    for first in range(0, len(rows), size):
        yield first, rows[first : first + size]


class Follower:
    """Rows, codes and margins that follow one encoder after the other, compared with encoding anew at every step."""

    def __init__(self, encoder: Encoder, rows: np.ndarray, centre: np.ndarray | None = None) -> None:
        self.encoder, self.rows = encoder, rows
        self.margins = Margins(encoder, centre)
        codes, marks = self.margins.encode(encoder, rows)
        assert codes == encoder.encode(rows)
        self.margins.append(marks)
        self.planes = codes.planes
        self.computed = self.skipped = 0

    def follow(self, new: Encoder, centre: np.ndarray | None = None) -> None:
        before = self.planes.copy()
        old_marks = marks_of(self.margins)
        found = self.margins.recode(new, self.encoder, self.planes, len(self.rows), blocks_of(self.rows), centre=centre)
        assert found is not None
        planes, margins, work = found
        codes = Codes.from_planes(planes, len(self.rows), new.n_bits, new.n_models).checked()
        assert codes == new.encode(self.rows)
        assert np.array_equal(before, self.planes)
        assert np.array_equal(old_marks, marks_of(self.margins)), "the old margins stay"
        assert len(margins) == len(self.rows)
        self.encoder, self.planes, self.margins = new, planes, margins
        self.computed, self.skipped = self.computed + work.computed, self.skipped + work.skipped

    @property
    def share(self) -> float:
        return self.computed / (self.computed + self.skipped)


def marks_of(margins: Margins) -> np.ndarray:
    """Those of marked columns, and -1 for the others."""
    margins.settle()
    nothing = np.full(len(margins), -1)
    return np.array([nothing if column is None else column[: len(margins)] for column in margins._columns])


def drift(encoder: Encoder, rng: np.random.Generator, scale: float, columns: Any) -> Encoder:
    """Some columns moved a little, thresholds as well."""
    W, b = encoder.weights.copy(), encoder.thresholds.copy()
    W[columns] += (rng.standard_normal(W[columns].shape) * scale).astype(W.dtype)
    b[columns] += rng.standard_normal(b[columns].shape) * scale / 10
    return with_functions(encoder, W, b)


def with_functions(encoder: Encoder, W: np.ndarray, b: np.ndarray) -> Encoder:
    shape = (encoder.n_features, encoder.n_models, encoder.fusion, encoder.version + 1, encoder.method)
    return Encoder(W, b, encoder.feature_map, *shape)


def test_hundreds_of_small_steps() -> None:
    """Without a wrong bit, on rows among which many come near a boundary, and with most bits skipped."""
    rng = np.random.default_rng(0)
    learner = feed(make("OnlineHashing", n_bits=10), [pairs(n=20, dtype=np.float32)])
    follower = Follower(learner.snapshot(), pairs(n=130, seed=2, dtype=np.float32).A)
    for _ in range(300):
        columns = rng.choice(10, size=rng.integers(1, 4), replace=False)
        follower.follow(drift(follower.encoder, rng, 10.0 ** rng.uniform(-6, -2), columns))
    assert follower.share < 0.2


def test_items_come_change_and_go() -> None:
    rng = np.random.default_rng(0)
    learner = feed(make("OnlineHashing"), [pairs(n=20)])
    follower = Follower(learner.snapshot(), pairs(n=3, seed=2).A, learner.mean_)
    for seed in range(40):
        added = pairs(n=int(rng.integers(1, 40)), seed=seed).A * rng.choice([0.1, 1, 10])
        follower.margins.append(follower.margins.encode(follower.encoder, added)[1])
        rows = np.concatenate([follower.rows, added])
        at = rng.choice(len(rows), size=2, replace=False)
        rows[at] = pairs(n=2, seed=seed + 100).A
        follower.margins.put(at, follower.margins.encode(follower.encoder, rows[at])[1])
        if seed % 7 == 6:
            kept = np.flatnonzero(rng.random(len(rows)) < 0.5)
            rows = rows[kept]
            follower.margins.keep(kept)
        follower.rows, follower.planes = rows, follower.encoder.encode(rows).planes
        assert len(follower.margins) == len(rows)
        follower.follow(drift(follower.encoder, rng, 1e-3, rng.choice(8, size=2, replace=False)))
        if seed % 10 == 5:
            follower.follow(drift(follower.encoder, rng, 10.0, rng.choice(8, size=4, replace=False)))
    assert follower.skipped > follower.computed / 2
    assert follower.margins.nbytes >= len(follower.margins.marked) * len(follower.rows)
