"""Files of unit costs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from onlinehash.planning import costs as unit_costs
from onlinehash.planning.designs import designs
from onlinehash.planning.plan import make
from onlinehash.planning.workload import Machine, Workload
from tests.planning.costs_for_tests import COSTS
from tests.support import refused


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    costs = dataclasses.replace(COSTS, machine='a "quoted" \\ name')
    (tmp_path / "costs.toml").write_text(unit_costs.text_of(costs))
    assert unit_costs.read(str(tmp_path / "costs.toml")) == costs


def test_ours_were_measured_for_all_designs() -> None:
    ours = unit_costs.read()
    for store in ("local", "postgres", "milvus"):
        for design in designs(store, Workload(1e9), ours):
            assert make(design, Machine()).machines >= 1


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    text = unit_costs.text_of(COSTS)
    for old, new, told in (
        ("[memory]", "[memories]", "memory"),
        ("mask = 0.125", "mask = nan", "mask"),
        ("mask = 0.125", "mast = 1", "mast"),
        ("[memory]", "[memory", "TOML"),
    ):
        (tmp_path / "costs.toml").write_text(text.replace(old, new, 1))
        assert told in str(refused(unit_costs.read, str(tmp_path / "costs.toml")))
