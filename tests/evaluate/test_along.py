import itertools

import numpy as np
import pytest

from onlinehash import MultiModelOnlineHashing, OnlineHashing, evaluate, streams
from onlinehash.errors import InvalidInput

rng = np.random.default_rng(0)
A, B = rng.normal(size=(2, 250, 8))
SIMILAR = rng.random(250) < 0.4


def learner(**options):
    return MultiModelOnlineHashing(6, n_models=2, random_state=0, **options)


def test_rows_tell_what_the_updates_told():
    rows = list(evaluate.along(learner(), (A, B, SIMILAR), every=100))
    updates = learner().learn_pairs(A, B, SIMILAR)
    assert [row.n_pairs for row in rows] == [100, 200, 250]
    for row in rows:
        n = row.n_pairs
        assert row.cumulative_loss == pytest.approx(updates.loss[:n].sum(), abs=1e-9)
        assert row.update_rate == (updates.step[:n] > 0).any(axis=1).mean()
        assert row.bits_moved == np.count_nonzero(updates.flips[:n])


def test_pair_by_pair_gives_the_same_rows_and_the_same_bytes():
    whole, single = learner(), learner()
    fast = list(evaluate.along(whole, (A, B, SIMILAR), every=60))
    slow = list(evaluate.along(single, zip(A, B, SIMILAR, strict=True), every=60))
    assert [row.n_pairs for row in slow] == [60, 120, 180, 240, 250]
    assert fast == slow
    np.testing.assert_array_equal(whole.projection_, single.projection_)


def test_weights_count_one_by_one_and_in_arrays(tmp_path):
    weight = np.round(rng.random(250), 2)
    expected = learner().partial_fit_pairs(A, B, SIMILAR, weight).projection_
    assert not np.array_equal(expected, learner().partial_fit_pairs(A, B, SIMILAR).projection_)
    np.savez(tmp_path / "p.npz", A=A, B=B, similar=SIMILAR, weight=weight)
    (block,) = streams.blocks(tmp_path / "p.npz")
    for stream in (streams.read(tmp_path / "p.npz"), (A, B, SIMILAR, weight), block):
        model = learner()
        assert [row.n_pairs for row in evaluate.along(model, stream, every=100)] == [100, 200, 250]
        np.testing.assert_array_equal(model.projection_, expected)


@pytest.mark.parametrize(
    ("stream", "every", "message"),
    [
        ((A, B), 10, "three arrays"),
        ((A, B, SIMILAR), 0, "every to be an integer of at least 1"),
        ([(A[0], B[0])], 10, r"\(a, b, similar\)"),
    ],
)
def test_streams_of_another_shape_are_refused(stream, every, message):
    with pytest.raises(InvalidInput, match=message):
        list(evaluate.along(learner(), stream, every=every))


def rows_of(*points):
    return [evaluate.Row(n, 0.0, 0.0, 0, {"map": value}) for n, value in points]


def test_the_area_is_a_mean_over_checkpoints_or_over_pairs():
    rows = rows_of((100, 0.2), (200, 0.4), (600, 0.6))
    assert evaluate.area(rows, "map") == pytest.approx(0.4)
    assert evaluate.area(rows, "map", rule="pairs") == pytest.approx((0.3 * 100 + 0.5 * 400) / 500)
    assert evaluate.area(rows[:1], "map", rule="pairs") == 0.2
    assert evaluate.area(rows, "n_pairs") == 300


def test_changed_bits_are_those_that_differ_between_rows():
    model = learner()
    model.observe(A)
    before = [model.transform(A)]

    def measure(learner):
        before.append(learner.transform(A))
        return changes(learner)

    changes = evaluate.CodeChanges(A, before=model)
    rows = list(evaluate.along(model, (A, B, SIMILAR), every=60, measure=measure))
    expected = [np.count_nonzero(old != new) for old, new in itertools.pairwise(before)]
    assert [row.bits_changed for row in rows] == expected
    assert sum(expected) > 0
    assert evaluate.CodeChanges(A)(model) == {"bits_changed": 0}
    with pytest.raises(InvalidInput, match="equal width"):
        changes(OnlineHashing(4, random_state=0).observe(A))
