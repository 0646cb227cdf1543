"""Readings: what the paper leaves open, read otherwise. Claims are judged under each of them.

A reading changes a plan in one point, for everybody alike; see `plans/_readings.toml`. Lines keep their names, so that
the same rule judges them, whoever stands in for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onlinehash.errors import InvalidInput
from onlinehash.experiments import toml
from onlinehash.experiments.toml import Conditions, Parameters


@dataclass(frozen=True)
class Reading:
    """One of them.

    title: a few words, over a column of the map of claims. why: what makes it fair.
    plans: which plans are run so. values: at which of its lengths, where a plan varies the bits; empty for all.
    bits: the length where a plan varies something else; None for the plan's own.
    conditions, features, parameters: what changes, for whoever has it.
    instead: contestants by who stands in for them; where there are several, the best of them on a set.
    choose: parameters and the values among which pairs that are held out decide.
    """

    name: str
    title: str
    why: str
    plans: tuple[str, ...]
    values: tuple[int, ...] = ()
    bits: int | None = None
    conditions: Conditions = field(default_factory=dict)
    features: Mapping[str, Any] = field(default_factory=dict)
    parameters: Parameters = field(default_factory=dict)
    instead: Mapping[str, str | list[str]] = field(default_factory=dict)
    choose: Mapping[str, list[Any]] = field(default_factory=dict)

    def stand_ins(self, label: str) -> list[str]:
        """Who may run in the place of a contestant: itself, if the reading says nothing of it."""
        found = self.instead.get(label, label)
        return [found] if isinstance(found, str) else found


#: Repetitions of a plan under a reading. A verdict under a reading is compared with the plan's own at the same seeds,
#: so three are enough to see whether the reading turns it.
SEEDS = 3

#: As the plans are: the reading of the rest of the project.
OURS = Reading("", "as planned", "", ())


def known_readings() -> dict[str, Reading]:
    """All of them, in their order."""
    return {
        name: toml.make(Reading, {"name": name, **entry}, f"the reading {name}")
        for name, entry in toml.read("_readings").items()
    }


def find_readings(names: Sequence[str]) -> list[Reading]:
    """By name; `all` for all."""
    known = known_readings()
    wanted = list(known) if list(names) == ["all"] else list(names)
    for name in wanted:
        if name not in known:
            raise InvalidInput(expected=f"a reading among {', '.join(known)} or all", got=repr(name))
    return [known[name] for name in wanted]
