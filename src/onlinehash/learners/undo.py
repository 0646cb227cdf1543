"""A refused call changes nothing, also where it is refused only after it began to learn."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from onlinehash.features import Centring
from onlinehash.features.centring import Medians
from onlinehash.learners.hooks import Hooks
from onlinehash.streams import LabelPairing


@contextmanager
def undone_if_refused(learner: Hooks, at_risk: bool) -> Iterator[None]:
    """What fails inside puts all of the learner's attributes back; `at_risk`: can it fail at all?"""
    before: dict[str, Any] = {}
    if at_risk:
        parameters = learner.get_params(deep=False)
        before = {name: value if name in parameters else _kept(value) for name, value in vars(learner).items()}
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
    if isinstance(value, np.ndarray | Centring | Medians | LabelPairing):
        return copy.deepcopy(value)
    if isinstance(value, list):
        return list(value)
    if getattr(value, "is_ready", None) is False:  # a map that still collects
        value = copy.copy(value)
        vars(value).update({name: copy.copy(part) for name, part in vars(value).items() if name == "_collected"})
        return value
    return {} if isinstance(value, dict) and "encoder" in value else value
