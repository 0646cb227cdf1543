"""How many machines a design needs, which resource is the limit, and how long things take."""

from __future__ import annotations

import math
from dataclasses import dataclass

from onlinehash.errors import InvalidInput
from onlinehash.planning.designs import Design, Parts
from onlinehash.planning.workload import Machine

#: The most machines that a plan may have.
MOST_MACHINES = 1_000_000


@dataclass(frozen=True)
class Plan:
    """A design for a workload: bytes of all shards together, of one copy; times of one machine, as all work at once."""

    design: str
    items: float
    shards: int  #: Machines among which the items are divided.
    replicas: int  #: Copies of all of them, for queries.
    machines: int
    limit: str  #: What asks for so many machines or, if one is enough, what fills it most.
    filled: float  #: The share of that which is taken on each machine.
    memory: Parts
    disk: Parts
    load: float
    encode: float
    refresh_all: float | None
    refresh_some: float | None
    scans_per_second: float
    probes_per_second: float | None
    one_query: float  #: Seconds of a query that comes alone, in one shard.


def make(design: Design, machine: Machine) -> Plan:
    """The fewest machines that hold the items, equally divided; then as many copies as the query rate requires."""
    items = design.work.items
    needed = {what: _shards(design, machine, what) for what in ("memory", "disk", "index", "card")}
    shards = max(needed.values())
    n = math.ceil(items / shards)
    scan, probe = design.scan(n), design.probe(n)
    busy = design.busy(machine.cores)
    best = busy / (scan if probe is None else min(scan, probe))
    replicas = max(1, math.ceil(design.work.queries_per_second / best))
    limit, filled = _limit(design, machine, n, needed, replicas, best)
    return Plan(
        design=design.name,
        items=items,
        shards=shards,
        replicas=replicas,
        machines=shards * replicas,
        limit=limit,
        filled=filled,
        memory=_times(design.memory(n), shards),
        disk=_times(design.disk(n), shards),
        load=design.load(n, machine),
        encode=design.encode(n, machine),
        refresh_all=design.refresh(n, design.work.bits, machine),
        refresh_some=design.refresh(n, design.work.changed_bits, machine),
        scans_per_second=replicas * busy / scan,
        probes_per_second=None if probe is None else replicas * busy / probe,
        one_query=design.alone(n),
    )


def _shards(design: Design, machine: Machine, what: str) -> int:
    """The least number of machines whose memory, disk or card holds a share of the items, or whose index does."""
    items = design.work.items
    shards = 1
    while (share := _filled(design, machine, items / shards, what)) > 1:
        shards = max(shards + 1, math.floor(shards * share * 0.98))  # what a machine takes is not quite in proportion
        if shards > MOST_MACHINES:
            raise InvalidInput(
                f"even {MOST_MACHINES:,} of these machines do not have enough {what} for {items:,.0f} "
                f"items in a {design.name}; plan with larger ones."
            )
    while shards > 1 and _filled(design, machine, items / (shards - 1), what) <= 1:
        shards -= 1
    return shards


def _filled(design: Design, machine: Machine, n: float, what: str) -> float:
    """The share of a machine's memory, disk, card or index that n items take."""
    if what == "memory":
        return sum(design.memory(n).values()) / (machine.memory * Machine.USABLE)
    if what == "disk":
        return sum(design.disk(n).values()) / machine.disk if machine.disk else 0.0
    if what == "card":
        return design.card(n) / (machine.card * Machine.USABLE_CARD) if machine.card else 0.0
    return n / design.most_items


def _limit(
    design: Design, machine: Machine, n: float, shards: dict[str, int], replicas: int, best: float
) -> tuple[str, float]:
    """What asks for the most machines, and how full it is; of several alike, the fullest."""
    filled = {what: _filled(design, machine, n, what) for what in shards}
    filled["queries"] = design.work.queries_per_second / (replicas * best)
    if replicas > max(shards.values()):
        return "queries", filled["queries"]
    most = max(shards.values())
    alike = [what for what in shards if shards[what] == most] + (["queries"] if most == 1 else [])
    what = max(alike, key=lambda name: filled[name])
    return what, filled[what]


def _times(parts: Parts, number: int) -> Parts:
    return {name: value * number for name, value in parts.items()}
