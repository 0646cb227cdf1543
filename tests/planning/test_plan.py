"""Files of unit costs, and plans by them: how many machines, and what limits them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

from onlinehash.planning import costs as unit_costs
from onlinehash.planning.designs import designs
from onlinehash.planning.plan import make
from onlinehash.planning.workload import GB, Machine, Workload
from tests.support import refused


def test_more_items_never_take_fewer_machines_or_less_memory() -> None:
    ours, machine = unit_costs.read(), Machine(64 * GB, 16, 4000 * GB)
    for store in ("local", "postgres", "milvus"):
        plans = [[make(design, machine) for design in designs(store, Workload(10.0**e), ours)] for e in range(6, 11)]
        for of_design in zip(*plans, strict=True):
            machines, memory = [plan.machines for plan in of_design], [sum(plan.memory.values()) for plan in of_design]
            assert machines == sorted(machines)
            assert memory == sorted(memory)
            assert 1 <= machines[0] < machines[-1]


def test_costs_are_kept_in_files(tmp_path: Path) -> None:
    ours, file = dataclasses.replace(unit_costs.read(), machine='a "quoted" \\ name'), tmp_path / "costs.toml"
    text = unit_costs.text_of(ours)
    file.write_text(text)
    assert unit_costs.read(str(file)) == ours
    for old, new, told in (("[memory]", "[memories]", "memory"), ("mask = ", "mast = ", "mast"), ("]", "", "TOML")):
        file.write_text(text.replace(old, new, 1))
        assert told in str(refused(unit_costs.read, str(file)))


def test_nonsense_is_refused() -> None:
    for wrong in ({"items": math.nan}, {"bits": 5000}, {"dim": 0}, {"dtype": "int8"}, {"changed_bits": 65}):
        refused(lambda wrong=wrong: Workload(**{"items": 1e6} | wrong))
    refused(lambda: Machine(memory=0))
