"""What a plan may say: anything else is refused before the first run, in one sentence."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from onlinehash.errors import InvalidInput
from onlinehash.experiments.toml import Conditions
from onlinehash.features import RbfAnchors

if TYPE_CHECKING:
    from onlinehash.experiments.plan import Plan


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _share(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1


def _rising(value: Any) -> bool:
    whole = isinstance(value, list) and all(number == 0 or _whole(number) for number in value)
    return whole and len(value) > 0 and all(a < b for a, b in pairwise(value))


def _one_of(*words: Any) -> Callable[[Any], bool]:
    return lambda value: value in words


#: Every condition, what it may be, and in words.
CONDITIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "protocol": (
        _one_of("retrieval", "unseen", "incremental", "drift", "feedback"),
        "retrieval, unseen, incremental, drift or feedback",
    ),
    "pairs": (_whole, "a whole number"),
    "exam": (_one_of(True, False), "true or false"),
    "checkpoints": (_whole, "a whole number"),
    "spacing": (_one_of("even", "log"), "even or log"),
    "sampling": (_one_of("random", "consecutive"), "random or consecutive"),
    "bounds": (_one_of(True, False), "true or false"),
    "stored_order": (_one_of(True, False), "true or false"),
    "groups": (_whole, "a whole number"),
    "drift": (_one_of("sudden", "gradual"), "sudden or gradual"),
    "world": (_one_of("rotated", "meaning"), "rotated or meaning"),
    "marks": (_one_of("random", "uniform", "shown", "clicks"), "random, uniform, shown or clicks"),
    "wrong_share": (_share, "a number from 0 to 1"),
    "looks": (_rising, "rising whole numbers from 0 up"),
    "similar_share": (_share, "a number from 0 to 1"),
    "vectors": (_one_of("unit", "uncentred", "raw"), "unit, uncentred or raw"),
    "neighbours": (_one_of("raw", "prepared"), "raw or prepared"),
    "inputs": (_whole, "a whole number"),
    "distractors": (lambda value: isinstance(value, int | float) and value >= 0, "a number from 0 up"),
}
#: What a protocol cannot do without.
NEEDED = {
    "retrieval": ("pairs",),
    "unseen": ("pairs",),
    "incremental": ("pairs", "groups"),
    "drift": ("pairs", "drift", "world", "checkpoints"),
    "feedback": ("pairs", "marks", "looks"),
}
#: What exams measure; and with it all that runs measure and a figure can show.
FOUND = ("map", "map_stored", "map@1000", "precision@10", "precision@100", "precision@r2", "recall@1000")
MEASURED = (
    *FOUND,
    *("seconds", "loss", "update_rate", "bits_moved", "capped_share", "smallest_C", "F2", "largest_R"),
)


def check(plan: Plan, parameters_of: Callable[[str], set[str]]) -> None:
    """Refuse what would fail later, or would change nothing; `parameters_of` tells those of a contestant's method."""
    what = f"the plan {plan.name}"
    if not _whole(plan.seeds) or not _whole(plan.bits):
        raise InvalidInput(expected=f"whole numbers for seeds and bits of {what}", got=f"{plan.seeds!r}, {plan.bits!r}")
    for key in ("values", "contestants"):
        if not isinstance(getattr(plan, key), tuple) or not getattr(plan, key):
            raise InvalidInput(f"{key} of {what} must be a list that is not empty, got {getattr(plan, key)!r}.")
    check_conditions(plan.conditions, what)
    room, _, name = plan.vary.rpartition(".")
    rooms: dict[str, set[str]] = {
        "conditions": set(CONDITIONS) - {"protocol"},
        "features": set(inspect.signature(RbfAnchors).parameters),
        "": {"bits"}.union(*map(parameters_of, plan.contestants)),
    }
    if room not in rooms or name not in rooms[room]:
        known = ", ".join(sorted(rooms.get(room, rooms[""])))
        raise InvalidInput(
            expected=f"vary of {what} to be bits, a parameter, conditions.NAME or features.NAME",
            got=repr(plan.vary),
            hint=f"known are {known}",
        )
    for value in plan.values:
        if room == "conditions":
            check_conditions({**plan.conditions, name: value}, what)
        if plan.vary == "bits" and not _whole(value):
            raise InvalidInput(expected=f"whole numbers of bits as values of {what}", got=repr(value))
    if plan.drawing.y not in MEASURED:
        raise InvalidInput(expected=f"y of {what} to be among {', '.join(MEASURED)}", got=repr(plan.drawing.y))
    if plan.drawing.y == "map_stored" and not plan.conditions.get("stored_order"):
        raise InvalidInput(f"map_stored is drawn, so {what} needs stored_order = true.")
    if plan.drawing.y in FOUND and not plan.conditions.get("exam", True):
        raise InvalidInput(f"{plan.drawing.y} is drawn, so {what} needs exam = true.")


def check_conditions(conditions: Conditions, what: str) -> None:
    """Known, of the right kind, and all that the protocol needs."""
    for key, value in conditions.items():
        if key not in CONDITIONS:
            raise InvalidInput(expected=f"conditions among {', '.join(CONDITIONS)} in {what}", got=repr(key))
        holds, words = CONDITIONS[key]
        if not holds(value):
            raise InvalidInput(expected=f"{words} for {key} in {what}", got=repr(value))
    if "protocol" not in conditions:
        raise InvalidInput(f"the conditions of {what} lack a protocol.")
    for key in NEEDED[conditions["protocol"]]:
        if key not in conditions:
            raise InvalidInput(f"the conditions of {what} lack {key}.")
