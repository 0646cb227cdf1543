"""`MilvusIndex` on the embedded engine does what `LiveIndex` does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onlinehash import MilvusIndex
from onlinehash.stores.milvus.engine import Engine
from tests.programs import SOME_WORLDS, WORLDS
from tests.stores.congruence import check, check_find
from tests.support import thorough

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a stream of few similar pairs warns, in both


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file whose engine runs until the last test is done."""
    path = tmp_path_factory.mktemp("milvus") / "milvus.db"
    engine = Engine(str(path))
    yield path
    engine.close()


@pytest.mark.thorough
@pytest.mark.parametrize("world", SOME_WORLDS)
def test_the_same_program_has_the_same_results(world: str, file: Path) -> None:
    numbers = itertools.count()

    def make(learner: Any, policy: Any) -> MilvusIndex:
        index = MilvusIndex.create(str(file), learner, policy, name=f"index_{world.replace(' ', '_')}_{next(numbers)}")
        index.batch_rows = 3
        return index

    for seed in range(thorough(1, 2)):
        check(make, world, seed + list(WORLDS).index(world) % 2, thorough(20, 60))


@pytest.mark.long
def test_it_finds_the_same(file: Path) -> None:
    def reopen(index: MilvusIndex) -> MilvusIndex:
        index.close()
        return MilvusIndex.open(str(file), name="found")

    check_find(lambda learner, policy: MilvusIndex.create(str(file), learner, policy, name="found"), reopen)
