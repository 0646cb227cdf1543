"""A refused call changes nothing, also where it is refused only after it began to learn."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onlinehash.learners.hooks import Hooks


@contextmanager
def undone_if_refused(learner: Hooks, at_risk: bool) -> Iterator[None]:
    """What fails inside puts all of the learner's attributes back; `at_risk`: can it fail at all?"""
    before: dict[str, Any] = {}
    if at_risk:
        lasting = {*learner.get_params(deep=False), "_parameters"}
        before = {name: value if name in lasting else _kept(value) for name, value in vars(learner).items()}
    try:
        yield
    except Exception:
        if at_risk:
            for name in set(vars(learner)) - set(before):
                delattr(learner, name)
            learner.__dict__.update(before)
        raise


def _kept(value: Any) -> Any:
    """What an attribute is now, safe from later learning; what never changes in place is not copied."""
    if isinstance(value, list):
        return list(value)
    if isinstance(value, dict) and "encoder" in value:
        return {}
    if hasattr(value, "is_ready"):
        return value if value.is_ready else _waiting_map(value)
    return value if isinstance(value, weakref.ref) else copy.deepcopy(value)


def _waiting_map(feature_map: Any) -> Any:
    """A map that still collects."""
    twin = copy.copy(feature_map)
    vars(twin).update({name: copy.copy(part) for name, part in vars(twin).items() if name == "_collected"})
    return twin
