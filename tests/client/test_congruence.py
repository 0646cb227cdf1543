"""The same program, through a live index in memory and through a client: the same results and the same errors.

The client's service has a live index, or one in a database. An error has the same class; the client, which
refuses what cannot be sent before it asks, may say it in other words, and of two mistakes it may name the other one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onlinehash
from onlinehash.serve import background
from onlinehash.stores.index import StoreIndex
from tests.programs import FACTS, SOME_WORLDS, WORLDS, live_index, run
from tests.stores.memory_backend import MemoryBackend, Tables
from tests.support import thorough

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a stream of few similar pairs warns, in both

TWO_MISTAKES = ("learn unknown ones with bad labels", "update unknown ones with bad payloads")


def alike(name: str, expected: Any, got: Any) -> bool:
    """The same result, or an error of the same class; one of values that are no numbers may be called one of input."""
    if not (_is_error(expected) and _is_error(got)):
        return bool(expected == got)
    return bool(
        expected[1].replace("InvalidType", "InvalidInput") == got[1].replace("InvalidType", "InvalidInput")
    ) or (name in TWO_MISTAKES)


def _is_error(outcome: Any) -> bool:
    return isinstance(outcome, tuple) and outcome[:1] == ("raised",)


@pytest.mark.thorough
@pytest.mark.parametrize("texts", [False, True], ids=["integers", "strings"])
@pytest.mark.parametrize("world", SOME_WORLDS)
def test_the_same_program_has_the_same_results(world: str, texts: bool) -> None:
    for seed in range(thorough(1, 2)):
        rng = np.random.default_rng([seed, *world.encode(), texts])
        with background(live_index(world)) as url, onlinehash.connect(url) as there:
            run(live_index(world), there, rng, texts, thorough(15, 75), FACTS, f"seed {seed}", alike)


#: No backend keeps margins, so none skips a bit.
STORE_FACTS = FACTS | {"counts": lambda index: (index.refreshes, index.bits_rehashed, index.bits_flipped)}


@pytest.mark.thorough
@pytest.mark.parametrize("world", SOME_WORLDS)
def test_a_service_over_an_index_in_a_database_has_the_same_results(world: str) -> None:
    learner, policy = WORLDS[world]
    for seed in range(thorough(1, 2)):
        rng = np.random.default_rng([seed, *world.encode()])
        index = StoreIndex(MemoryBackend(Tables.create(learner(), policy())))
        index.bits_at_once = onlinehash.LiveIndex.bits_at_once  # so that policies find the same refreshes cheap
        with background(index) as url, onlinehash.connect(url) as there:
            run(live_index(world), there, rng, bool(seed % 2), thorough(12, 75), STORE_FACTS, f"seed {seed}", alike)
