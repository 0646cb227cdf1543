"""What a plan asks for and no result answers yet, on the sets that stand for the paper's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onlinehash.experiments.plan import Plan, cells
from onlinehash.experiments.readings import OURS
from onlinehash.experiments.results import Store
from onlinehash.experiments.roles import NamedSet


@dataclass(frozen=True)
class Lacking:
    """The runs of a plan, under its reading, that are not done.

    n_asked: how many there are in all; under a reading, those that it changes. by_line: how many a contestant lacks.
    """

    plan: Plan
    n_asked: int
    by_line: Mapping[str, int]

    @property
    def n(self) -> int:
        """How many runs."""
        return sum(self.by_line.values())

    @property
    def command(self) -> str:
        """What runs them, and nothing that is done."""
        reading = f" --reading {self.plan.reading.name}" if self.plan.reading.name else ""
        return f"onlinehash experiment run {self.plan.name}{reading} --data data/"


def lacking(plan: Plan, sets: Sequence[NamedSet], store: Store) -> Lacking:
    """Of a plan on these sets."""
    ours = {cell.setting.name for cell in cells(plan.under(OURS), sets)} if plan.reading.name else set()
    asked = {cell.setting.name: cell.line for cell in cells(plan, sets) if cell.setting.name not in ours}
    return Lacking(plan, len(asked), Counter(line for name, line in asked.items() if name not in store))
