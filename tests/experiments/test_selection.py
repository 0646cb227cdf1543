"""OH by choice: the paper's choice gives OH itself, others move as many bits of the same kind."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import OnlineHashing
from onlinehash.errors import InvalidParameter
from onlinehash.experiments.selection import CHOICES, OnlineHashingByChoice

RNG = np.random.default_rng(5)
A, B = RNG.standard_normal((2, 300, 20)) + 0.3
SIMILAR = RNG.random(300) < 0.4


@pytest.mark.parametrize("parameters", [{}, {"C": 1e-3}, {"similar_radius": 3, "dissimilar_ratio": 0.55}])
def test_the_least_margins_are_online_hashing(parameters):
    ours, slow = (cls(24, random_state=3, **parameters) for cls in (OnlineHashing, OnlineHashingByChoice))
    # Observed first: two points less their own mean have margins that are equal but for rounding.
    first, second = (learner.observe(A + B).learn_pairs(A, B, SIMILAR) for learner in (ours, slow))
    np.testing.assert_allclose(slow.projection_, ours.projection_, rtol=1e-9, atol=1e-9)
    for name in ("loss", "capped", "flips", "n_moved", "moved"):
        np.testing.assert_array_equal(getattr(second, name), getattr(first, name))
    np.testing.assert_allclose(second.step, first.step, rtol=1e-9)


def test_each_choice_flips_as_many_bits_that_were_wrong():
    for s in (True, False):
        a, b = A[0], A[0] + 0.8 * B[0]
        moved = {}
        for choice in CHOICES:
            learner = OnlineHashingByChoice(64, choice=choice, similar_radius=4, random_state=0)
            learner.observe(np.tile(A, (7, 1)))  # beyond the burn-in, so that the mean stays
            codes = learner.encode(np.stack([a, b])).bits()
            update = learner.learn_pair(a, b, s)
            assert ((codes[0] != codes[1])[update.bits] == s).all()
            moved[choice] = set(update.bits.tolist())
        assert len(set(map(len, moved.values()))) == 1
        assert len(set(map(frozenset, moved.values()))) == 3


def test_another_choice_is_refused():
    with pytest.raises(InvalidParameter, match="choice"):
        OnlineHashingByChoice(8, choice="best").learn_pair(A[0], B[0], True)
