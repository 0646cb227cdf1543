"""What every learner of the registry has to keep: which of them a test of the contract is about.

The modules beside this one hold the tests by theme; each runs on all learners of one kind, in float64, because another
precision compiles all kernels anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support import CLOSELY, LEARNERS


def those(kind: Callable[[Any], bool]) -> list[str]:
    """The names of the learners of one kind."""
    return [name for name, cls in LEARNERS.items() if kind(cls)]


def each(names: list[str]) -> Any:
    """Run a test on each of these learners."""
    return pytest.mark.parametrize("name", names)


EVERY = those(lambda cls: True)
#: The paper's, the default, and one of each other kind; for what the base of all learners does.
FEW = [name for name in LEARNERS if name in CLOSELY]
BATCH = those(lambda cls: cls.traits.unit == "batch")
STREAMING = those(lambda cls: cls.traits.unit != "batch")
FROM_PAIRS = those(lambda cls: cls.traits.learns_from == "pairs")
FROM_LABELS = those(lambda cls: cls.traits.learns_from == "labels")
SUPERVISED = those(lambda cls: cls.traits.learns_from != "nothing")
#: They take pairs, be it only as points.
TAKE_PAIRS = [name for name in STREAMING if name not in FROM_LABELS]
SEVERAL_LABELS = those(lambda cls: cls.traits.several_labels)
#: Only feedback changes their functions; points without it do not, once the mean is frozen.
TAUGHT = [name for name in STREAMING if name in SUPERVISED or name == "LSH"]
