"""`onlinehash plan`: what a number of items needs, and the unit costs of this machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from onlinehash.cli import output
from onlinehash.cli import target as targets
from onlinehash.errors import InvalidInput
from onlinehash.planning import costs as unit_costs
from onlinehash.planning import distances
from onlinehash.planning.designs import designs
from onlinehash.planning.plan import Plan, make
from onlinehash.planning.workload import GB, K, Machine, Workload

#: What a plan without a number of items is made for.
SIZES = (1e7, 1e8, 1e9, 1e10)

#: A card whose memory differs by more than this share from that of the card that was measured is another one.
SAME_CARD = 0.1

#: The letters of large numbers, as the table writes them.
_UNITS = {"b": 1e9, "m": 1e6, "k": 1e3}

_LABELS = {"change": "while codes change", "find": "vectors for find"}


@dataclass(frozen=True)
class Wishes:
    """The options as they were given."""

    items: str | None
    bits: int
    dim: int
    dtype: str
    payload: int
    memory: float
    cores: int
    disk: float | None
    card: float | None
    queries_per_second: float
    data: str | None
    distance: float | None
    sample: str | None
    changed_bits: int
    store: str


def show(wishes: Wishes, costs_file: str | None, as_json: bool) -> None:
    """Print the plan for the number of items, or the table of plans for several."""
    costs = unit_costs.read(costs_file)
    sizes = SIZES if wishes.items is None else [_number("items", wishes.items)]
    disk, card = (None if size is None else size * GB for size in (wishes.disk, wishes.card))
    machine = Machine(wishes.memory * GB, wishes.cores, disk, card)
    if card is not None and wishes.store != "local":
        raise InvalidInput(f"--card is for --store local; {wishes.store} searches no codes on a card.")
    measured = None if card is None else costs.card
    if card and measured and measured.memory and abs(card / (measured.memory * GB) - 1) > SAME_CARD:
        output.warn(
            f"the speeds are those of {measured.name} of {measured.memory:g} GB, not of a card of {_bytes(card)}; "
            "measure yours with benchmarks/gpu.py, and plan with --costs.",
            as_json,
        )
    works = [_workload(wishes, items) for items in sizes]
    offered = [design for work in works for design in designs(wishes.store, work, costs, card is not None)]
    plans = [make(design, machine) for design in offered]
    if as_json:
        output.print_json({"costs": costs.machine, "machine": machine, "data": works[0].data._asdict(), "plans": plans})
        return
    parts = [f"{_bytes(machine.memory)}", f"{machine.cores} cores"]
    parts += [f"{_bytes(machine.disk)} of disk"] if machine.disk is not None else []
    parts += [f"a card of {_bytes(machine.card)}"] if machine.card is not None else []
    searched = "" if measured is None else f", and of {measured.name}"
    print(f"machines of {', '.join(parts)}; costs of {costs.machine}{searched}\n")
    if wishes.items is None:
        output.print_columns(_table(plans, works[0]))
    else:
        print(_in_words(works[0]))
        output.print_columns(_sheet(plans, works[0]))


def measure(path: str, postgres: str | None, milvus: str | None, as_json: bool) -> None:
    """Write the unit costs of this machine to a file."""
    from onlinehash.planning import measurements, store_measurements
    from onlinehash.progress import progress_bar

    targets.check(path)
    addresses = {name: address for name, address in (("postgres", postgres), ("milvus", milvus)) if address is not None}
    stores = {name: partial(store_measurements.MEASURES[name], address) for name, address in addresses.items()}
    with progress_bar(measurements.N_STEPS + len(stores)) as bar:
        steps = count()
        folder = Path(path).resolve().parent
        costs = measurements.measure(folder, show=lambda step: bar(next(steps), step), stores=stores)
    Path(path).write_text(unit_costs.text_of(costs), "utf-8")
    if as_json:
        output.print_json({"output": path, "costs": costs})
    else:
        print(f"wrote the costs of {costs.machine} to {path}")


def _workload(wishes: Wishes, items: float) -> Workload:
    data = distances.KINDS[wishes.data or "clustered"]
    if wishes.distance is not None:
        if wishes.data is not None:
            raise InvalidInput("--data and --distance cannot be combined; --distance alone is more exact.")
        sample = items if wishes.sample is None else _number("sample", wishes.sample)
        data = distances.with_distance(wishes.distance, sample, K, wishes.bits)
    elif wishes.sample is not None:
        raise InvalidInput("--sample needs --distance.")
    return Workload(
        items, wishes.bits, wishes.dim, wishes.dtype, wishes.payload, wishes.queries_per_second, wishes.changed_bits,
        data,
    )  # fmt: skip


def _number(option: str, text: str) -> float:
    """A whole number, which may be written as 1e9 or 1B."""
    digits = text.strip().replace("_", "").replace(",", "")
    unit = _UNITS.get(digits[-1:].lower())
    try:
        value = float(digits) if unit is None else float(digits[:-1]) * unit
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 1 and value == int(value)):
        raise InvalidInput(expected=f"a whole number such as 1000000, 1e9 or 1B for --{option}", got=repr(text))
    return value


# ------------------------------------------------------------------ for people


def _table(plans: Sequence[Plan], work: Workload) -> list[list[str]]:
    """A line for each plan."""
    refreshes = [f"refresh {work.bits}", f"{work.changed_bits} bits"]
    rows = [["items", "design", "machines", "limit", "memory", "disk", "load", *refreshes, "scans/s", "look-ups/s"]]
    for plan in plans:
        rows.append(
            [
                _count(plan.items),
                plan.design,
                f"{plan.machines:,}",
                f"{plan.limit} {plan.filled:.0%}",
                _bytes(sum(plan.memory.values())),
                _bytes(sum(plan.disk.values())),
                _time(plan.load),
                _time(plan.refresh_all),
                _time(plan.refresh_some),
                _rate(plan.scans_per_second),
                _rate(plan.probes_per_second),
            ]
        )
    return rows


def _sheet(plans: Sequence[Plan], work: Workload) -> list[list[str]]:
    """A line for each figure, a column for each design."""
    lines: list[tuple[str, Any]] = [
        ("", lambda plan: plan.design),
        ("machines", lambda plan: f"{plan.machines:,}"),
        ("  shards x copies", lambda plan: f"{plan.shards:,} x {plan.replicas:,}"),
        ("  the limit", lambda plan: f"{plan.limit}, {plan.filled:.0%} full"),
        ("memory in all", lambda plan: _bytes(sum(plan.memory.values()))),
        *((f"  {_LABELS.get(part, part)}", _part("memory", part)) for part in _parts(plan.memory for plan in plans)),
        ("disk in all", lambda plan: _bytes(sum(plan.disk.values()))),
        *((f"  {part}", _part("disk", part)) for part in _parts(plan.disk for plan in plans)),
        ("load", lambda plan: _time(plan.load)),
        ("encode, all cores", lambda plan: _time(plan.encode)),
        (f"refresh of {work.bits} bits", lambda plan: _time(plan.refresh_all)),
        (f"refresh of {work.changed_bits} bits", lambda plan: _time(plan.refresh_some)),
        ("queries a second", lambda plan: ""),
        ("  by scan", lambda plan: _rate(plan.scans_per_second)),
        ("  by look-ups", lambda plan: _rate(plan.probes_per_second)),
        ("one query alone", lambda plan: _time(plan.one_query)),
    ]
    return [[name, *(shown(plan) for plan in plans)] for name, shown in lines]


def _parts(all_parts: Any) -> list[str]:
    """Names of parts, in the order in which they first appear; what comes on top of them last."""
    names = list(dict.fromkeys(name for parts in all_parts for name in parts))
    return sorted(names, key=lambda name: name == "change")


def _part(of: str, name: str) -> Any:
    return lambda plan: _bytes(getattr(plan, of).get(name))


def _in_words(work: Workload) -> str:
    nearest = distances.mean_distance(work.items, K, work.bits, work.data)
    payload = f", payloads of {work.payload:,} bytes" if work.payload else ""
    return (
        f"{work.items:,.0f} items of {work.bits} bits, {work.dim:,} x {work.dtype}{payload}; "
        f"the {K}th nearest at a distance of {nearest:.1f}\n"
    )


def _count(n: float) -> str:
    for name, unit in _UNITS.items():
        if n >= unit:
            return f"{n / unit:g}{name if name == 'k' else name.upper()}"
    return f"{n:g}"


def _bytes(n: float | None) -> str:
    if n is None:
        return "-"
    for unit, name in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n >= unit:
            return f"{n / unit:.3g} {name}"
    return f"{n:.0f} B"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, name in ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if seconds >= unit * (2 if name == "days" else 1):
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-6:.3g} µs"


def _rate(per_second: float | None) -> str:
    if per_second is None:
        return "-"
    return f"{float(f'{per_second:.2g}'):,.0f}" if per_second >= 10 else f"{per_second:.2g}"
