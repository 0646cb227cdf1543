"""Results in the order of a plan: what figures, tables and claims are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinehash.experiments.plan import Cell
from onlinehash.experiments.results import Result, Store

#: Runs that a mean needs at least.
FEWEST = 3


@dataclass(frozen=True)
class Row:
    """A finished run in its place: which plan, set, contestant (`line`) and varied value."""

    cell: Cell
    result: Result

    @property
    def plan(self) -> str:
        return self.cell.plan

    @property
    def data(self) -> str:
        """The heading of its set."""
        return self.cell.set.title

    @property
    def role(self) -> str:
        """The role of its set, such as `gist1m`."""
        return self.cell.set.role.name

    @property
    def line(self) -> str:
        return self.cell.line

    @property
    def value(self) -> Any:  # a number, but for a few parameters
        return self.cell.value

    @property
    def seed(self) -> int:
        return self.cell.seed

    @property
    def is_reference(self) -> bool:
        """Whether it is shown beside the contestants, and is none."""
        return self.cell.is_reference

    @property
    def reading(self) -> str:
        """Under which reading of the paper; nothing for that of the plans."""
        return self.cell.reading


class Rows(Sequence[Row]):
    """Many of them, to choose from: `rows.of(plan="beta", role="cifar10", line="OH", value=0.4)`."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = tuple(rows)
        self._groups: dict[str, dict[Any, Rows]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, k: Any) -> Any:
        return self._rows[k]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def of(self, **wanted: Any) -> Rows:
        """Those that have all of these values."""
        found = self
        for name, value in wanted.items():
            found = found._grouped(name).get(value, NO_ROWS)
        return found

    def _grouped(self, name: str) -> dict[Any, Rows]:
        """By the values of an attribute; kept, as claims and tables choose by the same attributes again and again."""
        if name not in self._groups:
            groups: dict[Any, list[Row]] = {}
            for row in self:
                groups.setdefault(getattr(row, name), []).append(row)
            self._groups[name] = {value: Rows(some) for value, some in groups.items()}
        return self._groups[name]

    def distinct(self, name: str) -> list[Any]:
        """The different values of an attribute, in the order in which they come."""
        return list(dict.fromkeys(getattr(row, name) for row in self))

    def seeds_of_places(self) -> list[int]:
        """How many runs each place (set, contestant and value) rests on."""
        return list(Counter((row.data, row.line, row.value) for row in self).values())

    def finals(self, measured: str) -> np.ndarray:
        """What was measured at the end, one for each row that has it."""
        return np.array([row.result.final[measured] for row in self if measured in row.result.final], np.float64)

    def mean(self, measured: str) -> float:
        """Over the rows, NaN where there is none."""
        values = self.finals(measured)
        return float(values.mean()) if len(values) else float("nan")

    def spread(self, measured: str) -> float:
        """Standard deviation over the rows (seeds), NaN where there are fewer than two."""
        values = self.finals(measured)
        return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


NO_ROWS = Rows([])


def rows_of(cells: Iterable[Cell], store: Store) -> Rows:
    """Those that are done."""
    found = ((cell, store.get(cell.setting.name)) for cell in cells)
    return Rows(Row(cell, cell.read(result)) for cell, result in found if result is not None)


def rows_to_speak_of(cells: Iterable[Cell], store: Store, others: Collection[str] = ()) -> Rows:
    """Those that are done, of sets on which three quarters of the places of the plan (contestant and value) are filled.

    Plans share runs, so a few of another plan's would otherwise pass for a figure of this one. For the same reason,
    `others` names runs that belong to another reading as well, and do not count. A set on which that reading changes
    nothing comes along with those on which it does. References come along with those beside which they are shown.
    """
    of_sets: dict[str, list[Cell]] = {}
    for cell in cells:
        of_sets.setdefault(cell.set.title, []).append(cell)
    taught = {title: [cell for cell in some if not cell.is_reference] for title, some in of_sets.items()}
    own = {title: [cell for cell in some if cell.setting.name not in others] for title, some in taught.items()}
    filled = {title for title, some in taught.items() if _is_filled(own[title] or some, store)}
    if not any(own[title] for title in filled):
        return NO_ROWS
    return best_stand_ins(row for title, some in of_sets.items() if title in filled for row in rows_of(some, store))


def best_stand_ins(rows: Iterable[Row]) -> Rows:
    """Of several that stand in for a contestant, the one with the highest mAP on each set and at each value.

    Of those alone that have enough runs there, and over the seeds that all of these have, so that nobody wins by an
    easy seed.
    """
    rows = Rows(rows)
    found: dict[tuple[Any, ...], dict[str, dict[int, float]]] = {}
    for row in rows:
        forms = found.setdefault(_place(row), {})
        forms.setdefault(row.cell.who, {})[row.seed] = row.result.final.get("map", 0.0)
    best = {place: _best(forms) for place, forms in found.items()}
    return Rows(row for row in rows if row.cell.who == best[_place(row)])


def _best(forms: Mapping[str, Mapping[int, float]]) -> str:
    """The one with the highest mean, of a value for each seed."""
    enough = min(FEWEST, max(map(len, forms.values())))
    candidates = {who: runs for who, runs in forms.items() if len(runs) >= enough}
    seeds = set.intersection(*map(set, candidates.values()))
    return max(candidates, key=lambda who: np.mean([candidates[who][seed] for seed in seeds or candidates[who]]))


def _place(row: Row) -> tuple[Any, ...]:
    return row.plan, row.data, row.line, row.value


def _is_filled(cells: Sequence[Cell], store: Store) -> bool:
    """Whether three quarters of the places have a run."""
    return 4 * _places(cell for cell in cells if cell.setting.name in store) >= 3 * _places(cells)


def _places(cells: Iterable[Cell]) -> int:
    return len({(cell.line, cell.value) for cell in cells})
