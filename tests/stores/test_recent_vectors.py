"""`RecentVectors` gives what the backend has, and asks it only for what it has not seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onlinehash.stores.manifest import Moment, State
from onlinehash.stores.reader import Gone
from onlinehash.stores.vectors import RecentVectors

D = 3


class Table:
    """As much of a backend as is asked; it notes which places were."""

    def __init__(self, n: int) -> None:
        self.rows = np.random.default_rng(0).standard_normal((n, D)).astype(np.float32)
        self.asked: list[list[int]] = []

    def vectors(self, epoch: int, places: np.ndarray, size: int) -> dict[int, bytes]:
        assert size == 4 * D
        self.asked.append(places.tolist())
        return {place: self.rows[place].tobytes() for place in places.tolist() if place < len(self.rows)}


def moment(n_added: int, **changes: Any) -> Moment:
    """Of an index to which so many items were added."""
    state = State(None, n=n_added, next_place=n_added, changed=n_added, n_features=D)
    return Moment(1, replace(state, **changes))


def test_only_what_is_new_is_asked_for() -> None:
    table, recent = Table(50), RecentVectors()
    for places, new in (([3, 1, 7], [3, 1, 7]), ([7, 9, 1], [9]), ([1, 9], [])):
        table.asked.clear()
        found = recent.take(table, moment(50), np.array(places))
        assert found.tolist() == table.rows[places].tolist()
        assert [place for places in table.asked for place in places] == new
    later = moment(60, n=58, changed=62)  # ten more were added and two removed, which changes no vector
    assert (later.state.n_updates, recent.take(table, later, np.array([9])).tolist()) == (0, [table.rows[9].tolist()])
    assert table.asked == []


def test_after_an_update_all_are_asked_for_anew() -> None:
    table, recent = Table(50), RecentVectors()
    before, after = moment(50), moment(50, changed=51)
    recent.take(table, before, np.array([3, 4]))
    table.rows[3] += 1
    assert recent.take(table, after, np.array([3, 4])).tolist() == table.rows[[3, 4]].tolist()
    table.asked.clear()
    recent.take(table, before, np.array([4]))  # a reader of an earlier moment neither takes nor leaves anything
    recent.take(table, before, np.array([4]))
    recent.take(table, after, np.array([3, 4]))
    assert table.asked == [[4], [4]]


def test_memory_is_bounded() -> None:
    table, recent = Table(200), RecentVectors(most_bytes=4 * D * 20)
    rng = np.random.default_rng(1)
    for _ in range(200):
        places = rng.choice(200, int(rng.integers(1, 25)), replace=False)
        assert recent.take(table, moment(200), places).tolist() == table.rows[places].tolist()
    assert len(recent._row_of) <= 20
    table.asked.clear()
    for _ in range(3):
        recent.take(table, moment(200), np.arange(15))
    assert sum(map(len, table.asked)) <= 15


def test_rows_that_went_meanwhile() -> None:
    with pytest.raises(Gone):
        RecentVectors().take(Table(5), moment(9), np.array([2, 7]))
