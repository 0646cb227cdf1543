"""Who can be compared: the learners of the registry, and two searches in float vectors that only experiments need."""

from __future__ import annotations

from functools import cache
from typing import Any

from onlinehash.experiments.adapter import ExactSearch, LinearAdapter
from onlinehash.learners import registry

SEARCHES: dict[str, Any] = {cls.__name__: cls for cls in (ExactSearch, LinearAdapter)}


@cache
def find(name: str) -> Any:
    """The class of a name; kept, as the registry asks all installed packages each time."""
    return SEARCHES.get(name) or registry.find(name)
