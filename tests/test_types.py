"""Public names have real types: `Any` is in no signature that a user meets."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import onlinehash
from onlinehash.index.api import VectorIndex
from onlinehash.learners.base import Learner

#: Where a type would say less than it promises, with the reason.
EXCEPT = {
    "Hits(payloads: list[Any] | None)": "dictionaries for one query, lists of them for several",
    "Hits.__init__(payloads: list[Any] | None)": "the same",
    "serve.background(settings: Any)": "settings of the service, which it checks",
}

NAMES = [*onlinehash.__all__, "PostgresIndex", "MilvusIndex"]


def public_things() -> Iterator[tuple[str, object]]:
    """Every function and class that users reach, by the name they reach it by."""
    yield from (("VectorIndex", VectorIndex), ("Learner", Learner))
    for name in NAMES:
        thing = getattr(onlinehash, name)
        if not isinstance(thing, ModuleType):
            yield name, thing
            continue
        for inner in getattr(thing, "__all__", None) or [one for one in vars(thing) if not one.startswith("_")]:
            found = getattr(thing, inner)
            if getattr(found, "__module__", "").startswith("onlinehash"):
                yield f"{name}.{inner}", found


def signatures() -> Iterator[tuple[str, str, str]]:
    """Name, parameter (or `return`) and annotation, as written, of everything public; fields of a class, too."""
    for name, thing in public_things():
        if not inspect.isclass(thing):
            if inspect.isfunction(thing):
                yield from ((name, part, text) for part, text in thing.__annotations__.items())
            continue
        for attribute, value in inspect.getmembers_static(thing):
            if attribute.startswith("_") and attribute not in ("__init__", "__call__"):
                continue
            function = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if inspect.isfunction(function) and function.__module__.startswith("onlinehash"):
                yield from ((f"{name}.{attribute}", part, text) for part, text in function.__annotations__.items())
        for field, text in inspect.get_annotations(thing).items():
            if not field.startswith("_"):
                yield name, field, text


def test_no_public_signature_says_any() -> None:
    found = list(signatures())
    assert len(found) > 1000
    said = {f"{name}({part}: {text})" for name, part, text in found if re.search(r"\bAny\b", str(text))}
    assert sorted(said) == sorted(EXCEPT)
