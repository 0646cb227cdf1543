"""exp by plain arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onlinehash.numeric.exponential import exp_of_nonpositive


def test_it_is_exp() -> None:
    rng = np.random.default_rng(0)
    for t in [-0.0, 0.0, -5e-324, -1e-300, *(-rng.exponential(size=1000)), *np.linspace(-708, 0, 1001)]:
        assert exp_of_nonpositive(t) == pytest.approx(math.exp(t), rel=4e-16)


def test_exp_of_zero_is_one_and_very_small_ones_are_zero() -> None:
    assert exp_of_nonpositive(0.0) == 1.0
    assert exp_of_nonpositive(-709.0) == 0.0
    assert exp_of_nonpositive(-1e300) == 0.0
    assert exp_of_nonpositive(-math.inf) == 0.0


def test_it_never_exceeds_one() -> None:
    assert all(exp_of_nonpositive(-(2.0**-k)) <= 1.0 for k in range(1075))
