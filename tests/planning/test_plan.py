"""How many machines, and what limits them."""

from __future__ import annotations

import dataclasses
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


def test_as_few_machines_as_hold_it() -> None:
    for items in (1e6, 1e8, 3e9, 2e10):
        for name, plan in plans(Workload(items, 64, 512)).items():
            assert sum(plan.memory.values()) <= plan.shards * 0.8 * 64e9, name
            if plan.shards > 1:
                (design,) = [d for d in designs("local", Workload(items), COSTS) if d.name == name]
                fewer = plan.shards - 1
                assert sum(design.memory(items / fewer).values()) > 0.8 * 64e9, name


def test_each_resource_can_be_the_limit() -> None:
    work = Workload(1e8, 64, 512)
    assert plans(work)["LiveIndex"].limit == "memory"
    small_disk = plans(work, Machine(64 * GB, 16, disk=50 * GB))["LiveIndex"]
    assert (small_disk.limit, small_disk.machines) == ("disk", math.ceil(small_disk.machines))
    assert small_disk.machines >= math.ceil(208e9 / 50e9)
    busy = plans(dataclasses.replace(work, queries_per_second=1e6))["MultiIndex"]
    assert busy.limit == "queries"
    assert busy.machines == busy.replicas > 1
    assert busy.probes_per_second is not None
    assert busy.probes_per_second >= 1e6
    huge = plans(Workload(1e10, 64, 512), Machine(1e6 * GB, 16))["MultiIndex"]
    assert (huge.limit, huge.shards) == ("index", 3)  # positions are kept in 32 bits


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


def test_everything_grows_with_bits() -> None:
    found = [plans(Workload(1e8, bits, 512)) for bits in (16, 32, 64, 128, 256)]
    for name in found[0]:
        for value in (lambda p: p.memory["codes"], lambda p: p.load, lambda p: p.encode, lambda p: p.one_query):
            values = [value(of[name]) for of in found]
            if name == "FlatIndex" or value(found[0][name]) != found[0][name].one_query:
                assert values == sorted(values), name


def test_fewer_changed_bits_never_take_longer() -> None:
    for store in ("local", "postgres"):
        for plan in plans(Workload(1e7), store=store).values():
            if plan.refresh_all is not None and plan.refresh_some is not None:
                assert 0 < plan.refresh_some <= plan.refresh_all


@pytest.mark.parametrize(
    "wrong",
    [
        {"items": 0}, {"items": math.nan}, {"items": math.inf}, {"items": 1e16}, {"bits": 0}, {"bits": 5000},
        {"dim": 0}, {"dtype": "int8"}, {"payload": -1}, {"payload": 100_000}, {"queries_per_second": -1},
        {"changed_bits": 0}, {"changed_bits": 65},
    ],
    ids=str,
)  # fmt: skip
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    refused(lambda: Workload(**{"items": 1e6} | wrong))


@pytest.mark.parametrize("wrong", [{"memory": 0}, {"memory": math.nan}, {"cores": 0}, {"disk": 0}], ids=str)
def test_machines_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    refused(lambda: Machine(**wrong))


def test_machines_that_hold_nothing_are_refused() -> None:
    assert "memory" in str(refused(plans, Workload(1e6), Machine(memory=1 * GB)))


def test_a_store_without_costs_is_refused() -> None:
    assert "MilvusIndex" in str(refused(plans, Workload(1e6), Machine(), "milvus"))
