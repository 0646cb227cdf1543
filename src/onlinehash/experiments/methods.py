"""Who can be compared: the learners of the registry, and what only experiments need: float vectors, OH by choice."""

from __future__ import annotations

from functools import cache
from typing import Any

from onlinehash.experiments.adapter import ExactSearch, LinearAdapter
from onlinehash.experiments.selection import OnlineHashingByChoice
from onlinehash.learners import registry

OURS: dict[str, Any] = {cls.__name__: cls for cls in (ExactSearch, LinearAdapter, OnlineHashingByChoice)}


@cache
def find(name: str) -> Any:
    """The class of a name; kept, as the registry asks all installed packages each time."""
    return OURS.get(name) or registry.find(name)
