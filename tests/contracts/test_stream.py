"""What a stream does to a learner, however it is cut, and what a learner says about it."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onlinehash import Encoder, RbfAnchors
from onlinehash.io.files import from_bytes, to_bytes
from tests.contracts.contract import EVERY, FEW, FROM_PAIRS, STREAMING, TAKE_PAIRS, TAUGHT, each
from tests.strategies import splits, streams
from tests.support import (
    IN_BOTH_PRECISIONS,
    Pairs,
    as_bytes,
    centrings,
    clusters,
    feed,
    make,
    pairs,
    quietly,
    state_bytes,
)

#: None, a map that starts in the middle of most streams, and one that hardly ever does.
MAPS = (None, RbfAnchors(4), RbfAnchors(15, width=2.0))


def variants(name: str) -> list[dict[str, Any]]:
    """What a stream passes through on its way: every feature map and centring; and pairs from labels in both ways."""
    has_share = "similar_share" in make(name).get_params()
    return [
        {"features": features, "centre": centre} | ({"similar_share": (None, 0.3)[n % 2]} if has_share else {})
        for n, (features, centre) in enumerate(product(MAPS, centrings(name)))
    ]


def drawn_streams(name: str, max_rows: int = 30) -> Any:
    return streams((np.float64, np.float32) if name in IN_BOTH_PRECISIONS else (np.float64,), max_rows)


@each(STREAMING)
@given(data=st.data())
def test_any_split_of_a_stream_gives_the_same_bytes(name: str, data: Any) -> None:
    """Batch = loop, bit for bit, also while a feature map waits for its anchors; and where a learner is saved and
    loaded in between, it goes on exactly where it would have."""
    params, stream = data.draw(st.sampled_from(variants(name))), data.draw(drawn_streams(name))
    parts = data.draw(splits(stream))
    saved = data.draw(st.integers(0, len(parts)), label="saved before the part")
    whole, cut = feed(make(name, **params), stream), make(name, **params)
    for n, part in enumerate(parts):
        if n == saved:
            cut = from_bytes(to_bytes(cut), "a learner")
        feed(cut, [part])
    assert_equal_learners(cut, whole)
    assert_equal_learners(quietly(cut.flush), quietly(whole.flush))


def assert_equal_learners(one: Any, other: Any) -> None:
    """In their states, in what they show, and in what they do."""
    assert state_bytes(one) == state_bytes(other)
    shown = [{name: value for name, value in vars(x).items() if name.endswith("_")} for x in (one, other)]
    assert as_bytes(shown[0]) == as_bytes(shown[1])
    if hasattr(one, "_centring"):
        rows = pairs(d=one.n_features_in_, shift=0).A
        assert one.encode(rows) == other.encode(rows)
        assert one.version_ == one.snapshot().version


@each(["OnlineHashing", "BlendedPairHashing", "HadamardHashing"])
def test_long_batches_are_the_loop_too(name: str) -> None:
    """Batches are taken in blocks inside; a stream that is longer than a block says whether that shows."""
    stream = pairs(n=9001, d=3)
    whole = feed(make(name, centre="running"), [stream])
    parts = [stream.part(rows) for rows in (slice(0, 1), slice(1, 3000), slice(3000, None))]
    assert state_bytes(feed(make(name, centre="running"), parts)) == state_bytes(whole)


@each(TAKE_PAIRS)
def test_updates_tell_of_each_pair_and_name_the_bits_that_change(name: str) -> None:
    """A batch returns what a loop does, and counters count it. No bit is named that stays: an index would hash it again
    for nothing."""
    stream = pairs(n=40)
    one, many = (make(name).observe(stream.A) for _ in range(2))
    n_steps, n_updates = many.n_steps_, many.n_updates_
    updates = list(many.learn_pairs(stream.A, stream.B, stream.similar, stream.weight))
    for t, update in enumerate(updates):
        before = one.snapshot()
        alone = one.learn_pair(stream.A[t], stream.B[t], stream.similar[t], stream.weight[t])
        assert (alone.loss, alone.pending) == (update.loss, update.pending)
        assert np.array_equal(alone.step, update.step)
        assert np.array_equal(alone.bits, update.bits)
        assert set(changed_for_queries(one.snapshot(), before)) == set(update.bits)
    assert state_bytes(one) == state_bytes(many)
    steps = np.array([np.atleast_1d(update.step) for update in updates])
    assert (many.n_pairs_seen_, many.n_points_seen_, many.n_features_in_) == (40, 120, 5)
    assert many.cumulative_loss_ == sum(update.loss for update in updates)
    assert many.n_steps_ == n_steps + np.count_nonzero(steps)
    assert many.n_updates_ == n_updates + np.count_nonzero(steps.any(axis=1))


def changed_for_queries(now: Encoder, before: Encoder) -> np.ndarray:
    """The columns whose function changed, for queries: of a method that keeps the codes of items, all others stay."""
    if now.queries is None or before.queries is None:
        return now.changed_bits(before)
    assert len(now.changed_bits(before)) == 0, "the codes of items are to stay"
    return now.queries[1].changed_bits(before.queries[1])


@each(STREAMING)
@given(data=st.data())
def test_the_version_grows_exactly_when_codes_could_differ(name: str, data: Any) -> None:
    """And `Update.bits` names every bit whose function changed."""
    params, stream = data.draw(st.sampled_from(variants(name))), data.draw(drawn_streams(name, max_rows=12))
    learner = make(name, **params).observe(stream[0].part(slice(0, 1)).points())
    for event in stream:
        for t in range(len(event)):
            one = event.part(slice(t, t + 1))
            if not learner.is_ready:
                feed(learner, [one])
                continue
            before = learner.snapshot()
            bits = set(range(before.n_columns))
            if isinstance(one, Pairs) and name in TAKE_PAIRS:
                bits = set(learner.learn_pair(one.A[0], one.B[0], one.similar[0], one.weight[0]).bits)
                assert (learner.version_ > before.version) == bool(bits)
            else:
                feed(learner, [one])
            now = learner.snapshot()
            changed = set(now.changed_bits(before))
            assert changed <= bits
            assert now.version == learner.version_ >= before.version
            assert now.version > before.version or not changed
            if not changed:
                assert now.encode(event.points()) == before.encode(event.points())


@each(TAUGHT)
def test_the_version_stands_still_when_nothing_can_change(name: str) -> None:
    """Frozen mean, pairs of weight zero, points without pairs: no function changes, so no version either."""
    stream = pairs()
    learner = feed(make(name, burn_in=10), [stream])
    version, n_steps, before = learner.version_, learner.n_steps_, learner.snapshot()
    learner.observe(stream.A)
    assert (learner.version_, learner.n_steps_) == (version, n_steps)
    if name in TAKE_PAIRS:
        for update in learner.learn_pairs(stream.A, stream.B, stream.similar, np.zeros(len(stream))):
            assert not np.any(update.step)
            assert len(update.bits) == 0
        assert learner.version_ == version
        assert len(learner.snapshot().changed_bits(before)) == 0


@each(EVERY)
def test_copies_go_on_alike(name: str) -> None:
    """A deep copy, and a learner with a state that was taken before, which learning does not change."""
    learner, twin = feed(make(name), [pairs()]), make(name)
    copied, state, before = copy.deepcopy(learner), learner.get_state(), state_bytes(learner)
    feed(learner, [pairs(seed=1)])
    twin.set_state(state)
    assert state_bytes(copied) == state_bytes(twin) == before
    for one in (copied, twin):
        assert_equal_learners(feed(one, [pairs(seed=1)]), learner)


@each(EVERY)
def test_a_snapshot_never_changes_and_reading_never_writes(name: str) -> None:
    rows, (X, y) = pairs(seed=5).A, clusters(60, d=5)
    learner = feed(make(name), [pairs()])
    encoder, before = learner.snapshot(), state_bytes(learner)
    weights, thresholds, codes = encoder.weights.copy(), encoder.thresholds.copy(), encoder.encode(rows)
    assert learner.encode(rows) == codes
    learner.transform(rows)
    learner.score(X, y)
    learner.projection_[:] = 0
    learner.mean_[:] = 0
    assert state_bytes(learner) == before
    feed(learner, [pairs(seed=seed) for seed in range(3)])
    learner.fit(rows, np.arange(len(rows)) % 2)
    assert np.array_equal(encoder.weights, weights)
    assert np.array_equal(encoder.thresholds, thresholds)
    assert encoder.encode(rows) == codes
    assert not encoder.weights.flags.writeable
    assert not encoder.thresholds.flags.writeable


@each(STREAMING)
def test_fit_forgets_and_partial_fit_continues(name: str) -> None:
    X, y = clusters(60)
    once = make(name).fit(X, y)
    assert state_bytes(feed(make(name), [pairs(d=3)]).fit(X, y)) == state_bytes(once)
    parts = make(name).partial_fit(X[:31], y[:31]).partial_fit(X[31:], y[31:]).flush()
    assert state_bytes(parts) == state_bytes(once)


@each(STREAMING)
def test_the_state_does_not_grow(name: str) -> None:
    """Its size is the same after 200 and after 1,000 points, whatever way they came."""
    learner, sizes = make(name), []
    for rounds in (1, 4):
        for seed in range(rounds):
            X, y = clusters(100, seed, d=6)
            feed(learner, [pairs(n=50, d=6, seed=seed)])
            learner.partial_fit(X, y).observe(X)
        sizes.append(size_but_for_groups(learner))
    assert sizes[0] == sizes[1]


def size_but_for_groups(learner: Any) -> int:
    """Of what a learner keeps; points that marks connect fill a table of bounded size."""
    state = learner.get_state()
    return len(as_bytes(state | {"method": {k: v for k, v in state["method"].items() if k != "groups"}}))


@each([name for name in FEW if name in STREAMING])
def test_kept_pairs_are_replayed_in_order(name: str) -> None:
    """A map that had to wait gives what a map with the same anchors from the start gives."""
    stream = pairs(n=40, d=6)
    points = np.stack([stream.A, stream.B], axis=1).reshape(-1, 6)
    for centre in centrings(name):
        waited = feed(make(name, features=RbfAnchors(25), centre=centre), [stream])
        direct = feed(make(name, features=RbfAnchors(anchors=points[:25]), centre=centre), [stream])
        assert waited.encode(points) == direct.encode(points)
        assert np.array_equal(waited.projection_, direct.projection_)
        assert waited.version_ == direct.version_
        assert waited.cumulative_loss_ == direct.cumulative_loss_


@each(["OnlineHashing", "MultiModelOnlineHashing"])
def test_pending_counts_the_pairs_that_wait(name: str) -> None:
    stream = pairs(n=10)
    points = np.stack([stream.A, stream.B], axis=1).reshape(-1, 5)
    learner = make(name, features=RbfAnchors(8), centre="none")
    direct = make(name, features=RbfAnchors(anchors=points[:8]), centre="none")
    updates = list(learner.learn_pairs(stream.A, stream.B, stream.similar))
    expected = list(direct.learn_pairs(stream.A, stream.B, stream.similar))
    assert [update.pending for update in updates] == [1, 2, 3, 0, 0, 0, 0, 0, 0, 0]
    assert all(update.loss == 0 and len(update.bits) == 0 for update in updates[:3])
    assert updates[3].loss == sum(update.loss for update in expected[:4])
    assert set(updates[3].bits) == set().union(*(update.bits for update in expected[:4]))
    assert [update.loss for update in updates[4:]] == [update.loss for update in expected[4:]]


@each(FROM_PAIRS)
def test_labelled_points_are_pairs(name: str) -> None:
    """Two by two; the odd one waits."""
    X, y = clusters(101, d=7)
    X = X + 3 * np.random.default_rng(0).standard_normal(X.shape)  # so that no method knows all before it learns
    labelled = make(name).partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    paired = make(name).partial_fit_pairs(X[0:100:2], X[1:100:2], y[0:100:2] == y[1:100:2])
    assert np.array_equal(labelled.projection_, paired.projection_)
    assert labelled.n_pairs_seen_ == 50
    assert labelled.cumulative_loss_ == paired.cumulative_loss_ > 0


def test_the_mean_is_what_the_mode_says() -> None:
    stream = pairs(n=30)
    points = np.concatenate([np.stack([stream.A, stream.B], axis=1).reshape(-1, 5), stream.A])
    first = points[:12].mean(axis=0)
    expected = {"burn-in": first, "median": first, "running": points.mean(axis=0), "none": np.zeros(5)}
    for centre, mean in expected.items():
        learner = feed(make("OnlineHashing", centre=centre), [stream]).observe(stream.A)
        np.testing.assert_allclose(learner.mean_, mean, rtol=1e-13, atol=0)


def test_medians_split_the_data_in_half() -> None:
    """With centre="median" each bit is set on about half of skewed data; without, it is not."""
    X = np.random.default_rng(0).exponential(size=(4000, 6))

    def imbalance(centre: str) -> float:
        learner = make("OnlineHashing", centre=centre, n_bits=16, burn_in=100).observe(X)
        return float(np.abs(learner.transform(X).mean(axis=0) - 0.5).max())

    assert imbalance("median") < 0.05 < 0.08 < imbalance("burn-in")
