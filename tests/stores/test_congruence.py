"""An index over the slow obvious backend does what `LiveIndex` does."""

from __future__ import annotations

from typing import Any

import pytest

from onlinehash.stores.index import StoreIndex
from tests.programs import WORLDS
from tests.stores.congruence import check, check_find
from tests.stores.memory_backend import MemoryBackend, Tables
from tests.support import mostly_long, thorough

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a stream of few similar pairs warns, in both


@pytest.mark.thorough
@pytest.mark.parametrize("world", WORLDS)
def test_the_same_program_has_the_same_results(world: str) -> None:
    def small_batches(learner: Any, policy: Any) -> StoreIndex:
        index = StoreIndex(MemoryBackend(Tables.create(learner, policy)))
        index.batch_rows = 3
        return index

    def whole(learner: Any, policy: Any) -> StoreIndex:
        return StoreIndex(MemoryBackend(Tables.create(learner, policy)))

    for seed in range(thorough(2, 6)):
        check(small_batches if seed % 4 < 2 else whole, world, seed, thorough(30, 100))


@pytest.mark.thorough
@pytest.mark.parametrize("world", WORLDS)
def test_the_same_program_has_the_same_results_in_a_replica(world: str) -> None:
    def following(learner: Any, policy: Any) -> StoreIndex:
        index = StoreIndex(MemoryBackend(Tables.create(learner, policy)), follow=True)
        index.batch_rows = 3
        return index

    for seed in range(thorough(1, 4)):
        check(following, world, seed + list(WORLDS).index(world), thorough(50, 100))


@pytest.mark.parametrize("follow", mostly_long([False, True], {True}))
def test_it_finds_the_same(follow: bool) -> None:
    check_find(lambda learner, policy: StoreIndex(MemoryBackend(Tables.create(learner, policy)), follow=follow))
