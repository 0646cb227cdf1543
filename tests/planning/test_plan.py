"""How many machines, and what limits them."""

from __future__ import annotations

import math

import pytest

from onlinehash.planning.designs import designs
from onlinehash.planning.plan import Plan, make
from onlinehash.planning.workload import GB, Machine, Workload
from tests.planning.costs_for_tests import COSTS
from tests.support import refused


def plans(work: Workload, machine: Machine | None = None, store: str = "local") -> dict[str, Plan]:
    machine = machine or Machine()
    return {design.name: make(design, machine) for design in designs(store, work, COSTS)}


def test_a_flat_index_by_hand() -> None:
    plan = plans(Workload(1e9, 64, 512))["FlatIndex"]
    slots = 4 * 2**31  # for 1.6 billion
    assert plan.memory == {"process": 1e9, "codes": 8.125e9, "ids": 8e9 + slots, "change": 8.125e9}
    assert (plan.machines, plan.shards, plan.replicas) == (1, 1, 1)
    assert plan.limit == "memory"
    assert plan.filled == pytest.approx(sum(plan.memory.values()) / (0.8 * 64e9))
    busy = 1 + 15 * 0.8
    assert plan.scans_per_second == pytest.approx(busy / (1e-5 + 8e9 * 0.0125e-9))
    assert (plan.probes_per_second, plan.refresh_all, plan.refresh_some) == (None, None, None)
    assert plan.one_query == pytest.approx(2e-5 + 8e9 * 0.05e-9)


def test_everything_grows_with_items() -> None:
    sizes = [1e6, 1e7, 1e8, 1e9, 1e10]
    for store in ("local", "postgres"):
        found = [plans(Workload(items, payload=50), Machine(64 * GB, 16, 4000 * GB), store) for items in sizes]
        for name in found[0]:
            machines, memory, disk = (
                [value(of[name]) for of in found]
                for value in (lambda p: p.machines, lambda p: sum(p.memory.values()), lambda p: sum(p.disk.values()))
            )
            assert machines == sorted(machines), name
            assert memory == sorted(memory), name
            assert disk == sorted(disk), name
            assert machines[-1] > machines[0]


def test_nonsense_is_refused() -> None:
    for wrong in ({"items": math.nan}, {"bits": 5000}, {"dim": 0}, {"dtype": "int8"}, {"changed_bits": 65}):
        refused(lambda wrong=wrong: Workload(**{"items": 1e6} | wrong))
    refused(lambda: Machine(memory=0))
