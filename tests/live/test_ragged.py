"""Rows of unequal length are refused in one sentence, wherever vectors are taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing
from onlinehash.errors import InvalidInput

RAGGED = [[1.0, 2.0], [3.0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda index: index.add(None, RAGGED),
        lambda index: index.update([0, 1], RAGGED),
        lambda index: index.search(RAGGED, 1),
        lambda index: index.within(RAGGED, 1),
        lambda index: index.rerank(RAGGED, index.search(np.eye(2, dtype=np.float32), 1)),
        lambda index: index.learn_pairs(RAGGED, RAGGED, [True, False]),
    ],
    ids=["add", "update", "search", "within", "rerank", "learn_pairs"],
)
def test_ragged_rows(call: Callable[[LiveIndex], object]) -> None:
    index = LiveIndex(OnlineHashing(8, random_state=0))
    index.add(None, np.eye(2, dtype=np.float32))
    before = index.learner.get_state()
    with pytest.raises(InvalidInput, match=r"expected|equal lengths"):
        call(index)
    assert len(index) == 2
    assert repr(index.learner.get_state()) == repr(before)
