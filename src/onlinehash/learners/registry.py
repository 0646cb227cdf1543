"""The methods by name. Adding one is a file beside this one and a line here.

The key is the class name; aliases are the literature's abbreviations. Packages of others register theirs under the
entry point group `onlinehash.learners`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from onlinehash.errors import UnknownMethod


@dataclass(frozen=True)
class Method:
    """Where a learner lives, without importing it."""

    name: str
    module: str
    aliases: tuple[str, ...]

    def load(self) -> Any:
        """The class."""
        return getattr(importlib.import_module(self.module), self.name)


METHODS = (
    Method("OnlineHashing", "onlinehash.learners.online_hashing", ("OH",)),
    Method("MultiModelOnlineHashing", "onlinehash.learners.multi_model", ("MMOH",)),
    Method("LSH", "onlinehash.learners.locality_sensitive", ()),
)


def methods() -> tuple[Method, ...]:
    """Ours, then those that other packages registered."""
    others = (
        Method(e.attr, e.module, () if e.name == e.attr else (e.name,))
        for e in entry_points(group="onlinehash.learners")
    )
    return METHODS + tuple(others)


def find(name: str) -> Any:
    """The class of that name or alias (letter case does not matter)."""
    for method in methods():
        if name.lower() in {n.lower() for n in (method.name, *method.aliases)}:
            return method.load()
    known = ", ".join(method.name + "".join(f" ({alias})" for alias in method.aliases) for method in methods())
    raise UnknownMethod(f"expected a method among {known}; got {name!r}.")
