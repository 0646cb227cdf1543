"""An index over the slow obvious backend does what `LiveIndex` does."""

from __future__ import annotations

from typing import Any

import pytest

from onlinehash.stores.index import StoreIndex
from tests.programs import SOME_WORLDS, WORLDS
from tests.stores.congruence import check, check_find
from tests.stores.memory_backend import MemoryBackend, Tables

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a stream of few similar pairs warns, in both


def made(learner: Any, policy: Any, follow: bool) -> StoreIndex:
    index = StoreIndex(MemoryBackend(Tables.create(learner, policy)), follow=follow)
    index.batch_rows = 3
    return index


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("world", SOME_WORLDS)
def test_the_same_program_has_the_same_results(world: str, follow: bool) -> None:
    check(lambda learner, policy: made(learner, policy, follow), world, list(WORLDS).index(world), 50)


def test_it_finds_the_same() -> None:
    check_find(lambda learner, policy: made(learner, policy, follow=True))
