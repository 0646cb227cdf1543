"""Responses of a service, as the results and the errors of a `LiveIndex`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from onlinehash import errors
from onlinehash.errors import InvalidInput, MissingExtra, OnlineHashError, ServiceUnavailable, Unauthorized
from onlinehash.learners.update import Updates

# ------------------------------------------------------------------ errors


def error_of(status: int, content: bytes, url: str) -> OnlineHashError:
    """The error in a response: of the class that it names, or else of one that fits the status."""
    try:
        document = json.loads(content)
        name, message = document["error"], document["message"]
        parts = {part: document.get(part) for part in ("expected", "got")}
    except (ValueError, TypeError, LookupError, RecursionError):
        return foreign(status, url)
    if not isinstance(name, str) or not isinstance(message, str):
        return foreign(status, url)
    cls = _class(name)
    if cls is MissingExtra:
        return cls.__new__(cls, message)  # its own __init__ would compose the message
    return (cls or _class_for(status))(message, **parts)


def name_of(content: bytes) -> str | None:
    """The name of the error in a response; None if it is not from an onlinehash service."""
    try:
        name = json.loads(content)["error"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return name if isinstance(name, str) else None


def _class(name: str) -> type[OnlineHashError] | None:
    if name == "NotFitted":
        from onlinehash.features import NotFitted  # which brings scikit-learn along

        return NotFitted
    cls = vars(errors).get(name)
    return cls if isinstance(cls, type) and issubclass(cls, OnlineHashError) else None


def _class_for(status: int) -> type[OnlineHashError]:
    if status in (401, 403):
        return Unauthorized
    if status in (408, 429, 502, 503, 504):
        return ServiceUnavailable
    return InvalidInput if 400 <= status < 500 else OnlineHashError


def foreign(status: int, url: str) -> OnlineHashError:
    """The error for a response that does not come from an onlinehash service."""
    cls = _class_for(status) if status >= 400 else InvalidInput
    return cls(f"the response from {url} (status {status}) is not that of an onlinehash service; check the URL.")


def seconds_to_wait(retry_after: str | None) -> float:
    """The seconds of a `Retry-After` header; 0 for a date, which our service does not send."""
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else 0.0


# ------------------------------------------------------------------ results


def updates_of(answer: dict[str, Any], n_columns: int, per_model: bool) -> Updates:
    """What each pair did."""
    n, steps = len(answer["loss"]), answer["step"]
    updates = Updates.empty(n, len(steps[0]) if n else 1, n_columns, per_model)
    updates.loss[:], updates.pending[:] = answer["loss"], answer["pending"]
    if n:
        updates.step[:] = steps
    updates.replayed.update({t: np.array(bits, np.int64) for t, bits in enumerate(answer["bits"])})
    return updates
