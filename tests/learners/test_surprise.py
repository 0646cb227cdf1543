"""Surprise: against running means computed anew, and when it is surprised."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash.errors import FormatError
from onlinehash.learners.surprise import Surprise
from tests.reference.smooth_pairs import rose, running_mean


def surprises(losses: np.ndarray, n_pairs: int = 1) -> list[int]:
    """The chunks after which the count of pairs began again."""
    surprise = Surprise()
    found = []
    for n, loss in enumerate(losses):
        surprise.enter(float(loss), n_pairs)
        if surprise.n_since == 0:
            found.append(n)
    return found


def stationary(n: int, seed: int) -> np.ndarray:
    return 1 + 0.2 * np.random.default_rng(seed).standard_normal(n)


@pytest.mark.parametrize("seed", range(3))
def test_against_the_slow_version(seed: int) -> None:
    losses = np.concatenate([stationary(120, seed), 0.5 + stationary(120, seed + 10)])
    expected, since = [], []
    for n, loss in enumerate(losses):
        since.append(float(loss))
        if rose(since):
            expected.append(n)
            since = []
    assert expected
    assert surprises(losses) == expected


def test_the_means() -> None:
    losses = stationary(45, 0)
    surprise = Surprise()
    for loss in losses:
        surprise.enter(float(loss), 1)
    fast, slow, variance = surprise.get_state()["means"]
    assert fast == pytest.approx(running_mean(list(losses), 0.1), rel=1e-12)
    assert slow == pytest.approx(losses.mean(), rel=1e-12)  # fewer than a hundred have a plain mean
    assert variance == pytest.approx(losses.var(), rel=0.3)


def test_a_stationary_loss_is_no_surprise() -> None:
    found = sum(len(surprises(stationary(2000, seed))) for seed in range(20))
    assert found <= 2  # of 40,000 chunks


def test_a_falling_loss_is_no_surprise() -> None:
    assert not surprises(stationary(2000, 0) + 5 / np.sqrt(1 + np.arange(2000)))
    assert not surprises(np.full(500, 0.7))


@pytest.mark.parametrize("seed", range(5))
def test_a_loss_that_rises_is_noticed_soon(seed: int) -> None:
    losses = stationary(600, seed)
    losses[400:] += 0.6  # three standard deviations
    found = surprises(losses)
    assert len(found) == 1
    assert 400 <= found[0] < 430


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_the_loss_does_not_matter(unit: float) -> None:
    losses = stationary(600, 0)
    losses[400:] += 0.4
    assert surprises(unit * losses) == surprises(losses) != []


def test_it_does_not_judge_before_50_chunks_and_begins_anew() -> None:
    losses = np.full(300, 1.0)
    losses[20:] = 9.0
    assert not surprises(losses[:50])
    later = np.concatenate([stationary(100, 0), 3 + stationary(30, 1), 6 + stationary(30, 2)])
    found = surprises(later)
    assert len(found) == 1  # the second rise comes within the 50 chunks after the first
    assert 100 <= found[0] < 110


def test_it_counts_pairs() -> None:
    surprise = Surprise()
    for n_pairs in (32, 32, 7):
        surprise.enter(1.0, n_pairs)
    assert surprise.n_since == 71


def test_state() -> None:
    losses = stationary(150, 0)
    losses[120:] += 1
    straight = Surprise()
    for loss in losses:
        straight.enter(float(loss), 4)
    for cut in (0, 1, 60, 125, 150):
        begun, goes_on = Surprise(), Surprise()
        for loss in losses[:cut]:
            begun.enter(float(loss), 4)
        goes_on.set_state(begun.get_state())
        for loss in losses[cut:]:
            goes_on.enter(float(loss), 4)
        assert goes_on.get_state() == straight.get_state()
    with pytest.raises(FormatError):
        Surprise().set_state({"counts": [-1, 0], "means": [1.0, 1.0, 1.0]})
    with pytest.raises(FormatError):
        Surprise().set_state({"counts": [1, 1], "means": [1.0, 1.0, -1.0]})
