"""`average` and `add_up`: one learner out of several that went on from the same one, each on pairs of its own.

Bit k must mean the same in all of them: they must have begun with the same W¹ (the same seed), on the same features.

    W               their mean; or what it was when they parted plus all that each of them changed
    medians         their mean
    mean of points  of all points that any of them saw, those before they parted counted once
    counters        what was counted before they parted, plus what each counted since
    version         likewise, and one more where their functions differ: it is larger than that of each of them

The order of the learners does not matter; of learners that changed nothing both make the same learner, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from onlinehash.errors import InvalidInput
from onlinehash.features import same_parameters
from onlinehash.features.maps import same_values
from onlinehash.learners.base import Learner
from onlinehash.learners.multi_model import MultiModelOnlineHashing
from onlinehash.learners.online_hashing import OnlineHashing
from onlinehash.types import State

#: Those whose state is their functions, the mean and counters, nothing else.
CAN_BE_COMBINED = (OnlineHashing, MultiModelOnlineHashing)


Combined = TypeVar("Combined", bound=OnlineHashing)


def average(learners: Sequence[Combined], since: Combined | None = None) -> Combined:
    """The average of learners.

    Parameters
    ----------
    learners : sequence of OnlineHashing or MultiModelOnlineHashing
        Of one method, with the same parameters, seed and feature map.
    since : learner or None, default=None
        The learner that they all went on from. None means that they went on from nothing: their counters add up, and so
        do the points in their means.

    Returns
    -------
    learner
        A new one.

    Raises
    ------
    InvalidInput
        If the bits of the learners do not mean the same.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, load, parallel, save
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 8))
    >>> similar = A[:, 0] * B[:, 0] > 0
    >>> save(OnlineHashing(n_bits=16, random_state=0).observe(A), "begun.oh")
    >>> begun, first, second = (load("begun.oh") for _ in range(3))
    >>> _ = first.partial_fit_pairs(A[:100], B[:100], similar[:100])
    >>> _ = second.partial_fit_pairs(A[100:], B[100:], similar[100:])
    >>> parallel.average([first, second], since=begun).n_pairs_seen_
    200
    """
    return _one_of(learners, since, "average")


def add_up(learners: Sequence[Combined], since: Combined) -> Combined:
    """The learner that all of them went on from, with the sum of their changes.

    An average goes only a share of the way that each of them went; this goes all of their ways. It works for learners
    that parted not long ago.

    Parameters
    ----------
    learners, since
        As in `average`.

    Returns
    -------
    learner
        A new one.

    Raises
    ------
    InvalidInput
        If the bits of the learners do not mean the same.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, load, parallel, save
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 8))
    >>> similar = A[:, 0] * B[:, 0] > 0
    >>> save(OnlineHashing(n_bits=16, random_state=0).observe(A), "begun.oh")
    >>> begun, first, second = (load("begun.oh") for _ in range(3))
    >>> _ = first.partial_fit_pairs(A[:100], B[:100], similar[:100])
    >>> _ = second.partial_fit_pairs(A[100:], B[100:], similar[100:])
    >>> parallel.add_up([first, second], since=begun).n_pairs_seen_
    200
    """
    return _one_of(learners, since, "sum")


def _one_of(learners: Sequence[Combined], since: Combined | None, combine: str) -> Combined:
    learners = list(learners)
    if not learners:
        raise InvalidInput(expected="at least one learner", got="none")
    everybody = learners if since is None else [*learners, since]
    for learner in everybody:
        check_can_be_combined(learner)
    for learner in everybody:
        _check_same_kind(learners[0], learner)
    result = type(learners[0])(**learners[0].get_params(deep=False))
    before = {} if since is None else since.get_state()
    result.set_state(combined([learner.get_state() for learner in learners], before, combine))
    return result


def check_can_be_combined(learner: Learner) -> None:
    """Refuse a method whose functions alone do not make a learner."""
    if type(learner) not in CAN_BE_COMBINED:
        known = " or ".join(cls.__name__ for cls in CAN_BE_COMBINED)
        raise InvalidInput(
            expected=f"learners that can be made one of ({known})",
            got=type(learner).__name__,
            hint="teach one such learner all pairs instead",
        )


def _check_same_kind(first: Learner, other: Learner) -> None:
    """Whether the bits of two learners mean the same."""
    for learner in (first, other):
        learner.snapshot()  # which refuses a learner that has no hash functions yet
    a, b = first.get_state(), other.get_state()
    parameters = [learner.get_params(deep=False) | {"random_state": None} for learner in (first, other)]
    reasons = {
        "of one method": type(first) is type(other),
        "of the same parameters": same_parameters(*parameters),
        "that began with the same random_state": a["seed"] == b["seed"],
        "of vectors of the same width, type and names": all(
            a[k] == b[k] for k in ("n_features", "dtype", "feature_names")
        ),
        "with the same feature map (give it its anchors, or let them part only when it is ready)": same_values(
            a["map"], b["map"]
        ),
        "that learned from pairs alone since they parted": same_values(a["pairing"], b["pairing"]),
    }
    for reason, holds in reasons.items():
        if not holds:
            raise InvalidInput(f"the bits of these learners do not mean the same: expected learners {reason}.")


def combined(states: Sequence[State], before: State, combine: str) -> State:
    """One state of several, by "average" or "sum"; `before` is that which they all went on from, or {}."""
    if len(states) == 1:
        return states[0]
    first, methods = states[0], [state["method"] for state in states]
    zero = dict.fromkeys(first["counters"], 0)
    counters = _since([state["counters"] for state in states], before.get("counters", zero))
    counters["version_"] += int(any(not same_values(methods[0], method) for method in methods))
    counters["cumulative_loss_"] = float(counters["cumulative_loss_"])
    medians = [method["medians"] for method in methods]
    nothing = {"medians": {"count": np.zeros(1, np.int64)}}
    return first | {
        "counters": counters,
        "centring": _pooled([state["centring"] for state in states], before.get("centring")),
        "lengths": _typical([state["lengths"] for state in states], before.get("lengths")),
        "method": {
            "W": _functions([method["W"] for method in methods], before, combine),
            "medians": {
                "values": mean_of([m["values"] for m in medians]),
                "spreads": mean_of([m["spreads"] for m in medians]),
                "count": _since(medians, before.get("method", nothing)["medians"], ["count"])["count"],
            },
        },
    }


def _functions(parts: Sequence[np.ndarray], before: State, combine: str) -> np.ndarray:
    if combine == "average":
        return mean_of(parts)
    W = before["method"]["W"].astype(np.float64)
    return np.asarray(W + sum_of([part - W for part in parts])).astype(parts[0].dtype)


def _pooled(parts: Sequence[State], before: State | None) -> State:
    """The mean of all points; one that all have in common stays as it is (it was frozen before they parted)."""
    if all(same_values(parts[0], part) for part in parts):
        return parts[0]
    nothing = {name: np.zeros_like(parts[0][name]) for name in ("total", "count")}
    pooled = _since(parts, before or nothing, ["total", "count"])
    return pooled | {"mean": pooled["total"] * (1.0 / pooled["count"][0])}  # as a learner does it


def _typical(parts: Sequence[State], before: State | None) -> State:
    """The lengths of vectors, between those of the parts; vectors that were scaled down are counted."""
    counts = np.stack([part["counts"] for part in parts])
    n_scaled = np.zeros_like(counts[0, 1]) if before is None else before["counts"][1]
    return {name: mean_of([part[name] for part in parts]) for name in ("first", "values")} | {
        "counts": np.array([counts[:, 0].max(), n_scaled + (counts[:, 1] - n_scaled).sum()])
    }


def _since(parts: Sequence[State], before: State, names: Any = None) -> State:
    """What was counted before, plus what each part counted since then."""
    return {
        name: before[name] + sum_of([np.asarray(part[name]) - before[name] for part in parts])
        for name in names or parts[0]
    }


def sum_of(values: Sequence[np.ndarray]) -> Any:
    """A sum that does not depend on the order of its parts."""
    total = np.sort(np.stack(values), axis=0).sum(axis=0)
    return total.item() if total.ndim == 0 else total


def mean_of(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """A mean that does not depend on the order of its parts, and is exact where they are equal."""
    ordered = np.sort(np.stack(arrays).astype(np.float64), axis=0)
    return np.asarray(ordered[0] + (ordered - ordered[0]).mean(axis=0)).astype(arrays[0].dtype)
