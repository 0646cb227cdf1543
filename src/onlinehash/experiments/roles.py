"""What the experiments do with a set of data: as the paper did with the set that it stands for."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from onlinehash.errors import InvalidInput
from onlinehash.experiments import toml
from onlinehash.experiments.toml import Parameters

if TYPE_CHECKING:
    from onlinehash.datasets import Dataset


@dataclass(frozen=True)
class Role:
    """A line of `plans/_sets.toml`."""

    name: str
    title: str
    truth: str
    split: tuple[int, int]
    names: tuple[str, ...] = ()
    similar_share: float | None = None
    distractors: float = 0.0
    parameters: Parameters = field(default_factory=dict)

    def conditions(self) -> dict[str, Any]:
        """What of it decides results."""
        return {
            "truth": self.truth,
            "split": list(self.split),
            "similar_share": self.similar_share,
            "distractors": self.distractors,
        }


@dataclass(frozen=True)
class NamedSet:
    """A set of data and its role. `title` names it in figures."""

    path: str
    name: str
    fingerprint: str
    role: Role

    @property
    def title(self) -> str:
        """Under which heading it is shown."""
        return self.name if self.role.name in ("labelled", "unlabelled") else f"{self.name} (for {self.role.title})"


def told_apart(sets: Sequence[NamedSet]) -> list[NamedSet]:
    """Different data of one name and role carry a part of their sum in their name."""
    titles = Counter(named.title for named in sets)
    return [
        replace(named, name=f"{named.name} {named.fingerprint[:6]}") if titles[named.title] > 1 else named
        for named in sets
    ]


@cache
def roles() -> dict[str, Role]:
    """All of them, in the order in which names are compared."""
    return {
        name: toml.make(Role, {"name": name, **entry}, f"the role {name}") for name, entry in toml.read("_sets").items()
    }


def role_of(data: Dataset, wanted: str | None = None) -> Role:
    """The role that was asked for, or the one that the name tells, or one by whether there are labels."""
    known = roles()
    if wanted is not None:
        if wanted not in known:
            raise InvalidInput(expected=f"a role among {', '.join(known)}", got=repr(wanted))
        role = known[wanted]
    else:
        fitting = [r for r in known.values() if any(fnmatch.fnmatch(data.name.lower(), name) for name in r.names)]
        role = fitting[0] if fitting else known["unlabelled" if data.y is None else "labelled"]
    if role.truth == "labels" and data.y is None:
        raise InvalidInput(f"the role {role.name} needs labels, and {data.name} has none; choose another role.")
    return role
