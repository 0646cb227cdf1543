"""`Update` and `Updates`: what pairs did."""

from __future__ import annotations

import numpy as np

from onlinehash import RbfAnchors
from onlinehash.learners.update import Updates
from tests.support import make, pairs


def test_one_model_has_a_number_as_step_several_have_an_array() -> None:
    a, b = pairs().A[:2]
    assert isinstance(make("OnlineHashing").learn_pair(a, b, True).step, float)
    assert make("MultiModelOnlineHashing").learn_pair(a, b, True).step.shape == (3,)


def test_a_batch_is_a_row_for_each_pair() -> None:
    stream = pairs(n=10)
    updates = make("MultiModelOnlineHashing").learn_pairs(stream.A, stream.B, stream.similar)
    assert len(updates) == len(list(updates)) == 10
    assert updates.loss.shape == updates.moved.shape == updates.pending.shape == (10,)
    assert updates.step.shape == updates.capped.shape == (10, 3)
    assert updates.flips.shape == (10, 24)
    for t, update in enumerate(updates):
        assert update.loss == updates.loss[t]
        assert np.array_equal(update.bits, updates.bits(t))
        assert update.bits.dtype == np.int64


def test_blocks_join_into_one() -> None:
    """Also where the update of a block told what pairs kept back had done."""
    stream = pairs(n=30)
    learner, twin = (make("OnlineHashing", features=RbfAnchors(20)) for _ in range(2))
    whole = learner.learn_pairs(stream.A, stream.B, stream.similar)
    cuts = [stream.part(slice(a, b)) for a, b in ((0, 4), (4, 15), (15, 30))]
    joined = Updates.join([twin.learn_pairs(part.A, part.B, part.similar) for part in cuts])
    assert [repr(update) for update in joined] == [repr(update) for update in whole]
    assert whole.pending.tolist() == [*range(1, 10), *[0] * 21]
    assert len(whole[9].bits) == 8


def test_the_bits_of_all_pairs_are_those_of_each() -> None:
    updates = Updates.empty(4, 1, 6)
    updates.flips[0, [1, 4]], updates.flips[2, 5], updates.moved[3] = 1, -3, True
    updates.replayed[1] = np.array([0, 2])
    updates.replayed[2] = np.array([1])
    assert updates.all_bits() == [[1, 4], [0, 2], [1, 5], [0, 1, 2, 3, 4, 5]]
    assert updates.all_bits() == [updates.bits(t).tolist() for t in range(4)]
    assert Updates.empty(0, 1, 6).all_bits() == []
