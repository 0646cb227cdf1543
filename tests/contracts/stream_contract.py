"""What a stream does to a learner, however it is cut, and what a learner says about it."""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinehash import Encoder, RbfAnchors, load, save
from tests.contracts.contract import (
    chooses_centring,
    contract,
    contract_of,
    from_pairs,
    streaming,
    supervised,
    takes_pairs,
    taught,
)
from tests.strategies import cuts, splits, streams
from tests.support import Pairs, as_bytes, centrings, clusters, feed, make, pairs, quietly, state_bytes, thorough

#: None, a map that starts in the middle of most streams, and one that hardly ever does.
MAPS = (None, RbfAnchors(4), RbfAnchors(15, width=2.0))


def variants(name: str) -> Iterator[dict[str, Any]]:
    """What a stream passes through on its way: every feature map and centring; and pairs from labels in both ways."""
    has_share = "similar_share" in make(name).get_params()
    for n, (features, centre) in enumerate(product(MAPS, centrings(name))):
        yield {"features": features, "centre": centre} | ({"similar_share": (None, 0.3)[n % 2]} if has_share else {})


@contract_of(streaming)
@settings(max_examples=thorough(30, 150))  # some of each variant
@given(data=st.data())
def any_split_of_a_stream_gives_the_same_bytes(name: str, data: Any) -> None:
    """Batch = loop, bit for bit; also inside the phase in which a feature map waits for its anchors."""
    params, stream = data.draw(st.sampled_from([*variants(name)])), data.draw(streams())
    parts = data.draw(splits(stream))
    whole, cut = feed(make(name, **params), stream), feed(make(name, **params), parts)
    assert state_bytes(cut) == state_bytes(whole), params


@contract_of(streaming)
def long_batches_are_the_loop_too(name: str) -> None:
    """Batches are taken in blocks inside; a stream that is longer than a block says whether that shows."""
    stream = pairs(n=9001, d=3)
    whole = feed(make(name, centre="running"), [stream])
    parts = [stream.part(rows) for rows in (slice(0, 1), slice(1, 3000), slice(3000, None))]
    assert state_bytes(feed(make(name, centre="running"), parts)) == state_bytes(whole)


@contract_of(takes_pairs)
@given(data=st.data())
def what_is_returned_does_not_depend_on_the_split(name: str, data: Any) -> None:
    params, stream = data.draw(st.sampled_from([*variants(name)])), data.draw(streams(kinds=[Pairs]))
    one, many = make(name, **params), make(name, **params)
    for event in stream:
        updates = quietly(many.learn_pairs, event.A, event.B, event.similar, event.weight)
        assert len(updates) == len(event)
        for t, update in enumerate(updates):
            alone = quietly(one.learn_pair, event.A[t], event.B[t], event.similar[t], event.weight[t])
            assert (alone.loss, alone.pending) == (update.loss, update.pending)
            assert np.array_equal(alone.step, update.step)
            assert np.array_equal(alone.bits, update.bits)
    assert state_bytes(one) == state_bytes(many)


@contract_of(streaming)
@given(data=st.data())
def saving_and_loading_is_as_if_nothing_happened(name: str, data: Any) -> None:
    """At any cut of a stream: the file goes on exactly where the learner would have."""
    params, stream = data.draw(st.sampled_from([*variants(name)])), data.draw(streams())
    before, after = data.draw(cuts(stream))
    never_stopped = feed(make(name, **params), before)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.oh")
        save(never_stopped, path)
        loaded = load(path)
    assert type(loaded) is type(never_stopped)
    assert_equal_learners(loaded, never_stopped)
    assert_equal_learners(feed(loaded, after), feed(never_stopped, after))
    assert_equal_learners(quietly(loaded.flush), quietly(never_stopped.flush))


def assert_equal_learners(one: Any, other: Any) -> None:
    """In their states, in what they show, and in what they do."""
    assert state_bytes(one) == state_bytes(other)
    shown = [{name: value for name, value in vars(x).items() if name.endswith("_")} for x in (one, other)]
    assert as_bytes(shown[0]) == as_bytes(shown[1])
    if hasattr(one, "_centring"):
        rows = pairs(d=one.n_features_in_, shift=0).A
        assert one.encode(rows) == other.encode(rows)
        assert one.version_ == one.snapshot().version


@contract
def a_state_is_a_copy(name: str) -> None:
    """Learning goes on without changing a state that was taken before, and the other way round."""
    for d in (5, 16):
        learner = feed(make(name), [pairs(d=d)])
        state, before = learner.get_state(), state_bytes(learner)
        twin, again = make(name), make(name)
        feed(learner, [pairs(d=d, seed=1)])
        twin.set_state(state)
        assert state_bytes(twin) == before
        assert_equal_learners(feed(twin, [pairs(d=d, seed=1)]), learner)
        again.set_state(state)
        assert state_bytes(again) == before


@contract
def copies_go_on_alike(name: str) -> None:
    """A deep copy and a pickle (as scikit-learn's parallel tools make) are learners of their own."""
    for features in (None, RbfAnchors(5), RbfAnchors(1000)):
        learner = feed(make(name, features=features), [pairs()])
        copies = [copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))]
        feed(learner, [pairs(seed=1)])
        for one in copies:
            assert_equal_learners(feed(one, [pairs(seed=1)]), learner)


@contract_of(streaming)
def a_state_can_be_taken_while_waiting(name: str) -> None:
    learner = feed(make(name, features=RbfAnchors(100)), [pairs(n=20)])
    twin = make(name, features=RbfAnchors(100))
    twin.set_state(learner.get_state())
    for one in (learner, twin):
        feed(one, [pairs(n=60, seed=1)])
    assert learner.is_ready
    assert state_bytes(learner) == state_bytes(twin)


@contract_of(streaming)
def the_state_does_not_grow(name: str) -> None:
    """Its size is the same after 200 and after 1,000 points (`make long`: 4,000), whatever way they came."""
    params = {"similar_share": 0.3} if "similar_share" in make(name).get_params() else {}
    centre = "median" if "median" in centrings(name) else centrings(name)[0]
    for features in (None, RbfAnchors(4)):
        learner, sizes = make(name, features=features, centre=centre, **params), []
        for rounds in (1, thorough(4, 19)):
            for seed in range(rounds):
                X, y = clusters(100, seed, d=6)
                feed(learner, [pairs(n=50, d=6, seed=seed)])
                learner.partial_fit(X, y).observe(X)
            sizes.append(size_but_for_groups(learner))
        assert sizes[0] == sizes[1]


def size_but_for_groups(learner: Any) -> int:
    """Of what a learner keeps. Points that marks connect fill a table; tests/learners/test_groups.py has its bound."""
    state = learner.get_state()
    return len(as_bytes(state | {"method": {k: v for k, v in state["method"].items() if k != "groups"}}))


@contract_of(streaming)
def memory_grows_at_most_with_the_square_of_the_dimension(name: str) -> None:
    """O(d r) to O(d²), whatever the method keeps."""
    sizes = [len(state_bytes(feed(make(name), [pairs(n=40, d=d)]))) for d in (200, 400)]
    assert sizes[1] < 4.2 * sizes[0]
    assert sizes[1] < 8 * (400**2 + 400 * (4 * 8 + 500)), "the constants: a few matrices, buffers and reservoirs"


@contract_of(streaming)
@given(data=st.data())
def the_version_grows_exactly_when_codes_could_differ(name: str, data: Any) -> None:
    """And `Update.bits` names every bit whose function changed."""
    params, stream = data.draw(st.sampled_from([*variants(name)])), data.draw(streams())
    learner = make(name, **params).observe(stream[0].part(slice(0, 1)).points())
    for event in stream:
        for t in range(len(event)):
            one = event.part(slice(t, t + 1))
            if not learner.is_ready:
                feed(learner, [one])
                continue
            before = learner.snapshot()
            bits = set(range(before.n_columns))
            if isinstance(one, Pairs) and takes_pairs(type(learner)):
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


@contract_of(takes_pairs)
def on_plain_data_the_named_bits_are_those_that_change(name: str) -> None:
    """No bit is named that stays: an index would hash it again for nothing."""
    stream = pairs()
    for features, centre in product((None, RbfAnchors(6)), centrings(name)):
        learner = make(name, features=features, centre=centre).observe(stream.A)
        for a, b, similar in zip(stream.A, stream.B, stream.similar, strict=True):
            before = learner.snapshot()
            update = learner.learn_pair(a, b, similar)
            assert set(changed_for_queries(learner.snapshot(), before)) == set(update.bits)


def changed_for_queries(now: Encoder, before: Encoder) -> np.ndarray:
    """The columns whose function changed, for queries: of a method that keeps the codes of items, all others stay."""
    if now.queries is None or before.queries is None:
        return now.changed_bits(before)
    assert len(now.changed_bits(before)) == 0, "the codes of items are to stay"
    return now.queries[1].changed_bits(before.queries[1])


@contract_of(taught)
def the_version_stands_still_when_nothing_can_change(name: str) -> None:
    """Frozen mean, pairs of weight zero, points without pairs: no function changes, so no version either."""
    stream = pairs()
    learner = feed(make(name, burn_in=10), [stream])
    version, before = learner.version_, learner.snapshot()
    learner.observe(stream.A)
    assert learner.version_ == version
    if not takes_pairs(type(learner)):
        return
    for update in learner.learn_pairs(stream.A, stream.B, stream.similar, np.zeros(len(stream))):
        assert update.step == 0 if np.ndim(update.step) == 0 else not np.any(update.step)
        assert len(update.bits) == 0
    assert learner.version_ == version
    assert len(learner.snapshot().changed_bits(before)) == 0


@contract_of(chooses_centring)
def a_moving_mean_counts_as_a_change(name: str) -> None:
    stream = pairs()
    learner = feed(make(name, centre="running"), [stream])
    assert learner.version_ >= len(stream)
    before = learner.snapshot()
    learner.observe(stream.B[:1])
    assert learner.version_ == before.version + 1
    assert len(learner.snapshot().changed_bits(before)) == before.n_columns
    if takes_pairs(type(learner)):
        assert len(learner.learn_pair(stream.A[0], stream.B[0], True).bits) == before.n_columns


@contract
def a_snapshot_never_changes(name: str) -> None:
    rows = pairs(seed=5).A
    for features in (None, RbfAnchors(4)):
        for centre in centrings(name):
            learner = feed(make(name, features=features, centre=centre), [pairs()])
            encoder = learner.snapshot()
            weights, thresholds, codes, version = (
                encoder.weights.copy(),
                encoder.thresholds.copy(),
                encoder.encode(rows),
                encoder.version,
            )
            feed(learner, [pairs(seed=seed) for seed in range(3)])
            learner.fit(rows, np.arange(len(rows)) % 2)
            assert np.array_equal(encoder.weights, weights)
            assert np.array_equal(encoder.thresholds, thresholds)
            assert encoder.encode(rows) == codes
            assert encoder.version == version
            assert not encoder.weights.flags.writeable
            assert not encoder.thresholds.flags.writeable


@contract
def reading_never_writes(name: str) -> None:
    X, y = clusters(60)
    for features in (None, RbfAnchors(4)):
        learner = make(name, features=features).fit(X, y)
        before = state_bytes(learner)
        learner.transform(X)
        learner.encode(X)
        learner.score(X, y)
        learner.snapshot().encode(X)
        learner.get_state()
        learner.get_feature_names_out()
        repr(learner)
        learner.projection_[:] = 0
        learner.mean_[:] = 0
        assert state_bytes(learner) == before


@contract_of(streaming)
def fit_forgets_and_partial_fit_continues(name: str) -> None:
    X, y = clusters(60)
    once = make(name).fit(X, y)
    assert state_bytes(feed(make(name), [pairs(d=3)]).fit(X, y)) == state_bytes(once)
    parts = make(name).partial_fit(X[:31], y[:31]).partial_fit(X[31:], y[31:]).flush()
    assert state_bytes(parts) == state_bytes(once)
    assert make(name).fit(X[:32], y[:32]).partial_fit(X[32:], y[32:]).n_points_seen_ == once.n_points_seen_
    assert state_bytes(once.fit(X, y).fit(X, y)) == state_bytes(make(name).fit(X, y))


@contract
def fit_starts_a_waiting_map(name: str) -> None:
    """A fitted estimator can transform, also when there were fewer points than anchors asked for."""
    X, y = clusters(20)
    learner = make(name, features=RbfAnchors(300)).fit(X, y)
    assert learner.transform(X).shape == (20, learner.snapshot().n_columns)
    assert learner.snapshot().weights.shape[1] == 20


@contract_of(streaming)
def kept_pairs_are_replayed_in_order(name: str) -> None:
    """A map that had to wait gives what a map with the same anchors from the start gives."""
    stream = pairs(n=40, d=6)
    points = np.stack([stream.A, stream.B], axis=1).reshape(-1, 6)
    for centre in centrings(name):
        waited = feed(make(name, features=RbfAnchors(25), centre=centre), [stream])
        given = feed(make(name, features=RbfAnchors(anchors=points[:25]), centre=centre), [stream])
        assert waited.encode(points) == given.encode(points)
        assert np.array_equal(waited.projection_, given.projection_)
        assert np.array_equal(waited.mean_, given.mean_)
        assert waited.version_ == given.version_
        assert waited.cumulative_loss_ == given.cumulative_loss_


@contract_of(takes_pairs)
def pending_counts_the_pairs_that_wait(name: str) -> None:
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


@contract_of(from_pairs)
def labelled_points_are_pairs(name: str) -> None:
    X, y = clusters(101, d=7)
    X = X + 3 * np.random.default_rng(0).standard_normal(X.shape)  # so that no method knows all before it learns
    labelled = make(name).partial_fit(X, y)
    paired = make(name).partial_fit_pairs(X[0:100:2], X[1:100:2], y[0:100:2] == y[1:100:2])
    assert np.array_equal(labelled.projection_, paired.projection_)
    assert labelled.n_pairs_seen_ == 50
    assert labelled.cumulative_loss_ == paired.cumulative_loss_ > 0


@contract_of(from_pairs)
def the_odd_labelled_point_waits(name: str) -> None:
    X, y = clusters(4)
    learner = make(name)
    counts = []
    for t in range(4):
        learner.partial_fit(X[t : t + 1], y[t : t + 1])
        counts.append(learner.n_pairs_seen_)
    assert counts == [0, 1, 1, 2]


@contract_of(takes_pairs)
def counters_count(name: str) -> None:
    stream = pairs()
    learner = make(name)
    updates = list(learner.learn_pairs(stream.A, stream.B, stream.similar))
    steps = np.array([np.atleast_1d(update.step) for update in updates])
    assert learner.n_pairs_seen_ == 60
    assert learner.n_points_seen_ == 120
    assert learner.cumulative_loss_ == sum(update.loss for update in updates)
    assert learner.n_steps_ == np.count_nonzero(steps)
    assert learner.n_updates_ == np.count_nonzero(steps.any(axis=1))
    assert 0 <= learner.n_capped_ <= learner.n_steps_
    assert learner.n_features_in_ == 5
    learner.observe(stream.A)
    assert (learner.n_pairs_seen_, learner.n_points_seen_) == (60, 180)
    if supervised(type(learner)):
        assert learner.n_steps_ == np.count_nonzero(steps), "points without feedback teach it nothing"


@contract_of(chooses_centring)
def the_mean_is_what_the_mode_says(name: str) -> None:
    stream = pairs(n=30)
    points = np.concatenate([np.stack([stream.A, stream.B], axis=1).reshape(-1, 5), stream.A])
    first = points[:12].mean(axis=0)
    expected = {"burn-in": first, "median": first, "running": points.mean(axis=0), "none": np.zeros(5)}
    for centre in centrings(name):
        learner = feed(make(name, centre=centre), [stream]).observe(stream.A)
        np.testing.assert_allclose(learner.mean_, expected[centre], rtol=1e-13, atol=0)


@contract_of(lambda cls: "median" in centrings(cls.__name__))
def medians_split_the_data_in_half(name: str) -> None:
    """With centre="median" each bit is set on about half of skewed data; without, it is not."""
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(4000, 6))

    def imbalance(centre: str) -> float:
        learner = make(name, centre=centre, n_bits=16, burn_in=100).observe(X)
        return float(np.abs(learner.transform(X).mean(axis=0) - 0.5).max())

    assert imbalance("median") < 0.05 < 0.08 < imbalance("burn-in")
