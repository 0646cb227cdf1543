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
from tests.programs import FACTS, WORLDS, live_index, run
from tests.stores.memory_backend import MemoryBackend, Tables

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


@pytest.mark.parametrize(
    ("world", "texts"), [("OH by hand", True), ("MMOH", False)], ids=["OH with strings", "MMOH with integers"]
)
def test_the_same_program_has_the_same_results(world: str, texts: bool) -> None:
    rng = np.random.default_rng([*world.encode(), texts])
    with background(live_index(world)) as url, onlinehash.connect(url) as there:
        run(live_index(world), there, rng, texts, 15, FACTS, world, alike)


#: No backend keeps margins, so none skips a bit.
STORE_FACTS = FACTS | {"counts": lambda index: (index.refreshes, index.bits_rehashed, index.bits_flipped)}


def test_a_service_over_an_index_in_a_database_has_the_same_results() -> None:
    learner, policy = WORLDS["OH by hand"]
    index = StoreIndex(MemoryBackend(Tables.create(learner(), policy())))
    index.bits_at_once = onlinehash.LiveIndex.bits_at_once  # so that policies find the same refreshes cheap
    with background(index) as url, onlinehash.connect(url) as there:
        run(live_index("OH by hand"), there, np.random.default_rng(0), False, 12, STORE_FACTS, "seed 0", alike)
