"""Settings for the tests of the service."""

from __future__ import annotations

import pytest

from onlinehash.serve.bodies import numbers
from tests.serve.services import rows, small_index


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> None:
    """Whatever is compiled at its first use is compiled now: clients do not wait as long as that may take."""
    with small_index() as index:
        index.learn_pairs(rows(4), rows(4, seed=1), [True, False, True, False])
        index.refresh()
        index.rerank(rows(1)[0], index.search(rows(1)[0], 2))
        index.find(rows(2), 3)
        index.within(rows(2), 3)
        index.update(1, rows(1)[0])
        index.remove(2)
    numbers.parse(b"[1.5]", 0)
    numbers.parse_points(b"[[1.5]]")
