"""Clicks become weighted pairs by a rule that is worked out by hand here, and in the mean over all readers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash.errors import InvalidInput
from onlinehash.streams import ClickPairs, from_clicks

#: The probability that somebody who looks at the item of this place likes it.
LIKED = np.array([0.2, 0.6, 0.3, 0.5, 0.4, 0.7])


def rows(pairs: ClickPairs) -> list[tuple]:
    return list(zip(*pairs, strict=True))


# ------------------------------------------------------------------------------------------------ by hand


def test_clicks_are_similar_and_what_was_passed_over_is_not():
    pairs = from_clicks("q", ["a", "b", "c", "d"], ["c"])
    assert rows(pairs) == [("q", "a", False, 0.5), ("q", "b", False, 0.5), ("q", "c", True, 1.0)]


def test_only_what_is_above_the_last_click_was_passed_over():
    pairs = from_clicks(7, [1, 2, 3, 4, 5], [4, 1], skip_weight=0.25)
    assert rows(pairs) == [(7, 1, True, 1.0), (7, 2, False, 0.25), (7, 3, False, 0.25), (7, 4, True, 1.0)]


def test_without_a_click_there_are_no_pairs():
    assert from_clicks(7, [1, 2, 3], []) == ClickPairs([], [], [], [])
    assert from_clicks(7, [], []) == ClickPairs([], [], [], [])


def test_the_query_among_its_results_takes_a_place_and_makes_no_pair():
    """Place 3 stays place 3; and a click on the query proves that what is above it was seen."""
    assert rows(from_clicks(7, [7, 1, 2], [2], position_bias=1)) == [(7, 1, False, 1.5), (7, 2, True, 3.0)]
    assert rows(from_clicks(7, [1, 7, 2], [7])) == [(7, 1, False, 0.5)]


def test_nothing_counts_more_than_ten_times():
    pairs = from_clicks(0, range(1, 101), [100], position_bias=1)
    assert set(pairs.weight) == {5.0, 10.0}
    assert from_clicks(0, range(1, 101), [100], position_bias=10).weight[-1] == 10.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, [1, 2], [3]), "the clicked id 3 is not among those shown"),
        ((0, [1, 2, 1], [1]), "shown contains the id 1 twice"),
        ((0, "abc", ["a"]), "a list of ids for shown, got 'abc'"),
        ((0, [1, True], [1]), "integers or strings as ids for shown, got True"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        from_clicks(*arguments)


# ------------------------------------------------------------------------------------------------ by a slow reference


@given(
    n=st.integers(0, 12),
    clicks=st.sets(st.integers(1, 12)),
    bias=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    query_at=st.none() | st.integers(1, 12),
)
def test_the_rule_item_by_item(n, clicks, bias, query_at):
    """Each item looked at by itself: is it clicked, which is the next click below it?"""
    shown, clicks = list(range(1, n + 1)), {place for place in clicks if place <= n}
    expected = []
    for place in shown:
        below = [c for c in clicks if c >= place]
        if below and place != query_at:
            similar, times = place in clicks, min(10.0, min(below) ** bias)
            expected.append((query_at, place, similar, times if similar else 0.5 * times))
    assert rows(from_clicks(query_at, shown, clicks, position_bias=bias)) == expected


def test_corrected_weights_are_those_of_readers_who_look_at_everything():
    """Readers start at the top and reach place i with a known probability; each item is liked with a known one.

    Over all that can happen, the mean evidence must be what readers with all the time in the world would give. Without
    the correction it is not: what is shown low counts for a fraction of what it should.
    """
    places = np.arange(1, 7)
    reached = np.append(places**-1.0, 0.0)

    def mean(bias: float, stopping: np.ndarray) -> dict[bool, np.ndarray]:
        """The mean weight of each item as similar and as dissimilar, where readers stop after place i so often."""
        found = {True: np.zeros(6), False: np.zeros(6)}
        for depth, share in zip(places, stopping, strict=True):
            for likes in itertools.product([False, True], repeat=int(depth)):
                probability = share * np.prod(np.where(likes, LIKED[:depth], 1 - LIKED[:depth]))
                clicked = places[:depth][np.array(likes)]
                for _, item, similar, weight in rows(from_clicks(None, places, clicked, position_bias=bias)):
                    found[similar][item - 1] += probability * weight
        return found

    patient = mean(0.0, np.eye(6)[-1])
    assert patient[True] == pytest.approx(LIKED)
    hasty, corrected = (mean(bias, reached[:-1] - reached[1:]) for bias in (0.0, 1.0))
    for kind in (True, False):
        assert corrected[kind] == pytest.approx(patient[kind], abs=1e-12)
        assert np.abs(hasty[kind] - patient[kind]).max() > 0.1
    assert hasty[True] == pytest.approx(LIKED / places)
