"""Codes that follow a new encoder are those it gives, whatever was skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from onlinehash import Codes, Encoder, RbfAnchors
from onlinehash.live.margins import MOST_LATE, Margins, recode_columns
from tests.numeric.test_signs import cancelling
from tests.support import feed, make, pairs, refused, thorough


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", [None, RbfAnchors(7)])
@pytest.mark.parametrize("name", ["OnlineHashing", "MultiModelOnlineHashing"])
@pytest.mark.parametrize("share", [0.2, -1])
def test_learners_are_followed_from_the_burn_in_on(
    name: str, features: Any, dtype: Any, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onlinehash.live.margins.ENOUGH_SMALL", share)
    learner = feed(make(name, n_bits=13, features=features, burn_in=80, C=0.01), [pairs(n=20, dtype=dtype)])
    rows = pairs(n=301, seed=2, dtype=dtype).A
    follower = Follower(learner.snapshot(), rows, learner.mean_)
    for seed in range(60):
        feed(learner, [pairs(n=1, seed=seed, dtype=dtype)])
        follower.follow(learner.snapshot(), learner.mean_)
    assert follower.skipped > (follower.computed if share < 0 else 0)


@pytest.mark.parametrize("centre", ["running", "median", "none"])
def test_every_kind_of_centring(centre: str) -> None:
    learner = feed(make("OnlineHashing", n_bits=16, centre=centre, C=0.01), [pairs(n=100)])
    follower = Follower(learner.snapshot(), pairs(n=200, seed=2).A, learner.mean_)
    for seed in range(60):
        feed(learner, [pairs(n=1, seed=seed)])
        follower.follow(learner.snapshot(), learner.mean_)
    assert follower.skipped > 0


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thousands_of_small_steps(dtype: Any) -> None:
    """Without a wrong bit, on rows among which many come near a boundary, and with most bits skipped."""
    rng = np.random.default_rng(0)
    learner = feed(make("OnlineHashing", n_bits=10), [pairs(n=20, dtype=dtype)])
    follower = Follower(learner.snapshot(), pairs(n=130, seed=2, dtype=dtype).A)
    for _ in range(thorough(500, 2000)):
        columns = rng.choice(10, size=rng.integers(1, 4), replace=False)
        follower.follow(drift(follower.encoder, rng, 10.0 ** rng.uniform(-6, -2), columns))
    assert follower.share < 0.2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_on_the_boundary(dtype: Any) -> None:
    """Functions that move to and fro across rows, by the last digit."""
    W = np.stack([cancelling(8, dtype, seed)[0] for seed in range(12)])
    rows = np.stack([cancelling(8, dtype, seed)[1] for seed in range(12)] * 6)
    rows[5] = rows[40] = 0
    start = Encoder(W, np.zeros(12), None, 16, 1, "min", 1, "ByHand")
    rng = np.random.default_rng(0)
    follower = Follower(start, rows)
    for _ in range(100):
        W, b = follower.encoder.weights.copy(), follower.encoder.thresholds.copy()
        k = rng.integers(12)
        at = rng.integers(16)
        W[k, at] = np.nextafter(W[k, at], dtype(rng.choice([-np.inf, np.inf])))
        b[(k + 1) % 12] = np.nextafter(b[(k + 1) % 12], rng.choice([-1, 1]))
        follower.follow(with_functions(follower.encoder, W, b))
    assert follower.skipped > 0


def test_a_row_that_is_the_centre() -> None:
    learner = feed(make("OnlineHashing"), [pairs(n=20)])
    rows = np.tile(learner.mean_, (70, 1))
    rng = np.random.default_rng(0)
    for those in (rows, np.concatenate([rows, pairs(n=70).A])):
        follower = Follower(learner.snapshot(), those, learner.mean_)
        for _ in range(20):
            follower.follow(drift(follower.encoder, rng, 1e-3, [0, 3]))


@pytest.mark.usefixtures("after_large_moves")
def test_little_is_computed_for_little_steps() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1000, 20))
    W = rng.standard_normal((16, 20))
    follower = Follower(Encoder(W, np.zeros(16), None, 20, 1, "min", 1, "ByHand"), rows)
    follower.follow(drift(follower.encoder, rng, 1e-4, [2, 5, 11]))
    assert follower.skipped + follower.computed == 3000
    assert follower.computed < 100
    follower.follow(drift(follower.encoder, rng, 10.0, [2, 5]))
    assert follower.computed >= 2000, "functions that are others altogether"
    assert follower.margins.marked.tolist() == [k for k in range(16) if k not in (2, 5)], "and may be again"
    follower.follow(drift(follower.encoder, rng, 1e-4, [2, 5]))
    assert len(follower.margins.marked) == 16
    before = follower.computed
    follower.follow(drift(follower.encoder, rng, 1e-4, [2, 5]))
    assert follower.computed < before + 100, "whose units were chosen anew"


def test_nothing_is_read_when_nothing_changed() -> None:
    follower = Follower(feed(make("OnlineHashing"), [pairs()]).snapshot(), pairs(n=70).A)
    encoder = with_functions(follower.encoder, follower.encoder.weights, follower.encoder.thresholds)
    found = follower.margins.recode(encoder, follower.encoder, follower.planes, 70, iter([(0, None)]))  # type: ignore[list-item]
    assert found is not None
    assert np.array_equal(found[0], follower.planes)


def test_only_changed_columns_are_made_anew() -> None:
    follower = Follower(feed(make("OnlineHashing"), [pairs()]).snapshot(), pairs(n=70).A)
    follower.margins.settle()
    before = follower.margins._columns[:]
    follower.follow(drift(follower.encoder, np.random.default_rng(0), 1e-3, [1, 4]))
    others = [old is not new for old, new in zip(before, follower.margins._columns, strict=True)]
    assert np.flatnonzero(others).tolist() == [1, 4]


def test_another_feature_map() -> None:
    first, other = (
        feed(make("OnlineHashing", features=RbfAnchors(4)), [pairs(seed=seed)]).snapshot() for seed in (0, 1)
    )
    follower = Follower(first, pairs(n=70).A)
    follower.follow(other)
    assert follower.skipped == 0


def test_only_rows_in_doubt_are_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = feed(make("OnlineHashing", features=RbfAnchors(7)), [pairs(n=100)])
    follower = Follower(learner.snapshot(), pairs(n=2000, seed=2).A)
    mapped = []
    map_rows = RbfAnchors.map_rows
    monkeypatch.setattr(RbfAnchors, "map_rows", lambda self, X: mapped.append(len(X)) or map_rows(self, X))
    new = drift(follower.encoder, np.random.default_rng(0), 1e-4, [3])
    found = follower.margins.recode(new, follower.encoder, follower.planes, 2000, blocks_of(follower.rows))
    assert found is not None
    assert 0 < found[2].rows < 200
    assert sum(mapped) == found[2].rows


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


@pytest.fixture
def after_large_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if moves had been large for long: marks are made only where the last one was small."""
    monkeypatch.setattr("onlinehash.live.margins.ENOUGH_SMALL", 1)


def test_marks_outlast_a_rare_large_move_but_not_many() -> None:
    follower, rng = by_hand(), np.random.default_rng(1)
    for _ in range(3):
        follower.follow(drift(follower.encoder, rng, 10.0, np.arange(16)))
        assert len(follower.margins.marked) == 16
        before = follower.computed
        for _ in range(3):
            follower.follow(drift(follower.encoder, rng, 1e-5, np.arange(4)))
        assert follower.computed < before + 0.05 * 3 * 4 * 700
    for _ in range(8):
        follower.follow(drift(follower.encoder, rng, 10.0, np.arange(16)))
    assert len(follower.margins.marked) == 0


def by_hand(n_columns: int = 16) -> Follower:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((n_columns, 32)).astype(np.float32)
    rows = rng.standard_normal((700, 32)).astype(np.float32)
    return Follower(Encoder(W, np.zeros(n_columns), None, 32, 1, "min", 1, "ByHand"), rows)


@pytest.mark.usefixtures("after_large_moves")
def test_many_columns_computed_at_once_lose_their_marks() -> None:
    """And a few columns computed later get them again; the others keep what they have."""
    follower, rng = by_hand(), np.random.default_rng(1)
    follower.follow(drift(follower.encoder, rng, 1e-5, np.arange(16)))
    assert len(follower.margins.marked) == 16, "where little is in doubt, any number is"
    follower.follow(drift(follower.encoder, rng, 10.0, np.arange(3, 8)))
    assert follower.margins.marked.tolist() == [0, 1, 2, *range(8, 16)]
    assert follower.margins.nbytes == 11 * 700
    computed = follower.computed
    follower.follow(drift(follower.encoder, rng, 1e-5, [0, 1]))
    assert follower.computed < computed + 100, "these still have theirs"
    computed = follower.computed
    follower.follow(drift(follower.encoder, rng, 1e-5, [4, 6, 9]))
    assert computed + 1400 <= follower.computed, "those without marks are all in doubt"
    assert follower.margins.marked.tolist() == [0, 1, 2, 4, 6, *range(8, 16)]
    computed = follower.computed
    follower.follow(drift(follower.encoder, rng, 1e-5, [4, 6, 9]))
    assert follower.computed < computed + 100


@pytest.mark.usefixtures("after_large_moves")
def test_all_marks_are_lost_and_come_again() -> None:
    follower, rng = by_hand(), np.random.default_rng(1)
    follower.follow(drift(follower.encoder, rng, 10.0, np.arange(16)))
    assert (len(follower.margins.marked), follower.margins.nbytes) == (0, 0)
    codes, marks = follower.margins.encode(follower.encoder, follower.rows[:70])
    assert codes == follower.encoder.encode(follower.rows[:70])
    assert marks.shape == (0, 70)
    follower.margins.append(marks)
    follower.margins.put(np.arange(3), marks[:, :3])
    follower.margins.keep(np.arange(700))
    for k in range(0, 16, 4):
        follower.follow(drift(follower.encoder, rng, 1e-5, np.arange(k, k + 4)))
    assert len(follower.margins.marked) == 16
    computed = follower.computed
    follower.follow(drift(follower.encoder, rng, 1e-5, np.arange(16)))
    assert follower.computed < computed + 500


@pytest.mark.usefixtures("after_large_moves")
def test_new_items_get_marks_of_marked_columns_only() -> None:
    follower, rng = by_hand(), np.random.default_rng(1)
    follower.follow(drift(follower.encoder, rng, 10.0, np.arange(9)))
    codes, marks = follower.margins.encode(follower.encoder, follower.rows)
    assert np.array_equal(codes.planes, follower.planes)
    assert marks.shape == (7, 700)
    assert (np.abs(marks.astype(int) - marks_of(follower.margins)[9:]) <= 1).all()


@pytest.mark.usefixtures("after_large_moves")
def test_a_single_column_gets_its_marks_again() -> None:
    follower, rng = by_hand(n_columns=1), np.random.default_rng(1)
    for scale, marked in ((10.0, 0), (1e-5, 1), (1e-5, 1)):
        follower.follow(drift(follower.encoder, rng, scale, [0]))
        assert len(follower.margins.marked) == marked
    assert follower.skipped > 0


def test_another_ruler_leaves_no_marks_of_the_former() -> None:
    """It is chosen anew when it was chosen by very few rows; marks of other columns would be read by the wrong one."""
    follower, rng = by_hand(), np.random.default_rng(1)
    few = Follower(follower.encoder, follower.rows[:3])
    few.margins.append(few.margins.encode(few.encoder, follower.rows[3:])[1])
    few.rows, few.planes = follower.rows, follower.planes
    few.follow(drift(few.encoder, rng, 1e-5, [2, 7]))
    assert few.margins.marked.tolist() == [2, 7]
    for k in range(16):
        few.follow(drift(few.encoder, rng, 1e-3, [k]))
    assert len(few.margins.marked) == 16


def test_items_that_come_one_by_one() -> None:
    """Their marks wait together; no change, and no recoding, is without them."""
    encoder, rows = feed(make("OnlineHashing"), [pairs()]).snapshot(), pairs(n=MOST_LATE + 40, seed=2).A
    at_once = Follower(encoder, rows)
    one_by_one = Margins(encoder)
    one_by_one.encode(encoder, rows)  # which chooses the same units
    for row in rows:
        one_by_one.append(one_by_one.encode(encoder, row[None])[1])
    assert len(one_by_one) == len(rows)
    changed = np.array([3, len(rows) - 1])  # the last one still waits
    for margins in (at_once.margins, one_by_one):
        margins.put(changed, margins.encode(encoder, rows[:2])[1])
        margins.append(margins.encode(encoder, rows[:1])[1])
        margins.keep(np.arange(1, len(rows) + 1))
    assert np.array_equal(marks_of(at_once.margins), marks_of(one_by_one))
    follower = Follower(encoder, rows)
    follower.margins = Margins(encoder)
    for row in rows:
        follower.margins.append(follower.margins.encode(encoder, row[None])[1])
    follower.follow(drift(encoder, np.random.default_rng(0), 1e-3, [1, 4]))


def test_items_added_during_a_recoding() -> None:
    follower = Follower(feed(make("OnlineHashing"), [pairs()]).snapshot(), pairs(n=100, seed=2).A)
    new = drift(follower.encoder, np.random.default_rng(0), 1e-3, [1, 4])
    added = pairs(n=300, seed=3).A

    def blocks() -> Iterator[tuple[int, np.ndarray]]:
        yield 0, follower.rows[:64]
        follower.margins.append(follower.margins.encode(follower.encoder, added)[1])
        yield 64, follower.rows[64:]

    found = follower.margins.recode(new, follower.encoder, follower.planes, 100, blocks())
    assert found is not None
    assert np.array_equal(found[0], new.encode(follower.rows).planes)
    assert (len(found[1]), len(follower.margins)) == (100, 400)


def test_planes_of_more_items_than_asked_for() -> None:
    encoder = feed(make("OnlineHashing"), [pairs()]).snapshot()
    follower = Follower(encoder, pairs(n=200, seed=2).A)
    new = drift(encoder, np.random.default_rng(0), 1e-2, [1, 4])
    rows = follower.rows[:70]
    found = follower.margins.recode(new, encoder, follower.planes, 70, blocks_of(rows))
    plain = recode_columns(new, np.array([1, 4]), follower.planes, 70, blocks_of(rows))
    assert found is not None
    for planes in (found[0], plain):
        assert np.array_equal(planes, new.encode(rows).planes)


def test_a_recoding_can_be_stopped() -> None:
    follower = Follower(feed(make("OnlineHashing"), [pairs()]).snapshot(), pairs(n=300, seed=2).A)
    new = drift(follower.encoder, np.random.default_rng(0), 1e-2, [1, 4])
    for calls in (0, 1, 2):
        answers = iter([False] * calls + [True])
        stop = answers.__next__
        assert (
            follower.margins.recode(new, follower.encoder, follower.planes, 300, blocks_of(follower.rows), stop) is None
        )
        answers = iter([False] * calls + [True])
        found = recode_columns(new, np.array([1, 4]), follower.planes, 300, blocks_of(follower.rows), answers.__next__)
        assert found is None
    follower.follow(new)


@pytest.mark.parametrize("features", [None, RbfAnchors(7)])
def test_rows_that_are_not_finite_are_refused(features: Any) -> None:
    encoder = feed(make("OnlineHashing", features=features), [pairs()]).snapshot()
    margins = Margins(encoder)
    rows = pairs(n=5).A
    rows[3, 1] = np.nan
    refused(margins.encode, encoder, rows)
    codes, marks = margins.encode(encoder, pairs(n=5).A)
    assert codes == encoder.encode(pairs(n=5).A)
    assert marks.any()
    refused(margins.encode, encoder, rows)


def test_margins_of_no_items() -> None:
    learner = feed(make("OnlineHashing"), [pairs()])
    old = learner.snapshot()
    new = drift(old, np.random.default_rng(0), 1.0, [1])
    margins = Margins(old)
    found = margins.recode(new, old, old.encode(pairs().A).planes[:0], 0, iter([]))
    assert found is not None
    assert found[0].shape[0] == len(found[1]) == 0
