"""Files of unit costs, and the measurements behind them with little."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from onlinehash.errors import FormatError
from onlinehash.planning import costs as unit_costs
from onlinehash.planning import measurements, store_measurements
from onlinehash.planning.costs import Costs
from onlinehash.planning.designs import designs
from onlinehash.planning.plan import make
from onlinehash.planning.workload import Machine, Workload
from tests.planning.costs_for_tests import COSTS
from tests.planning.sizes import TINY
from tests.servers import PostgresServer
from tests.support import refused


def numbers(costs: Costs) -> dict[str, float]:
    groups = {name: getattr(costs, name) for name in unit_costs.GROUPS}
    return {f"{name}.{key}": v for name, group in groups.items() if group for key, v in vars(group).items()}


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    costs = dataclasses.replace(COSTS, machine='a "quoted" \\ name')
    (tmp_path / "costs.toml").write_text(unit_costs.text_of(costs))
    assert unit_costs.read(str(tmp_path / "costs.toml")) == costs


def test_every_cost_has_a_unit_and_a_meaning() -> None:
    text = unit_costs.text_of(COSTS)
    for group in unit_costs.GROUPS.values():
        for cost in dataclasses.fields(group):
            assert cost.metadata["unit"] in ("bytes", "ns", "items", "share", "GB", "name")
            assert f"# {cost.metadata['unit']}: {cost.metadata['meaning']}" in text


def test_a_card_may_lack_its_name(tmp_path: Path) -> None:
    lines = unit_costs.text_of(COSTS).splitlines()
    file = tmp_path / "costs.toml"
    file.write_text("\n".join(line for line in lines if "name = " not in line and "GB: its" not in line))
    assert unit_costs.read(str(file)) == COSTS
    file.write_text("\n".join("name = 3" if line.startswith("name = ") else line for line in lines))
    with pytest.raises(FormatError, match=r"expected name in \[card\] .* to be a string, got 3"):
        unit_costs.read(str(file))


def test_ours_were_measured_for_all_designs() -> None:
    ours = unit_costs.read()
    for store in ("local", "postgres", "milvus"):
        for design in designs(store, Workload(1e9), ours):
            assert make(design, Machine()).machines >= 1
    assert len(numbers(ours)) > 50


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[memory]", "[memories]", "memory"),
        ("mask = 0.125", "mask = -1", "mask"),
        ("mask = 0.125", "mask = nan", "mask"),
        ("mask = 0.125", "mask = true", "mask"),
        ("mask = 0.125", 'mask = "x"', "mask"),
        ("mask = 0.125", "mast = 1", "mast"),
        ("mask = 0.125", "", "mask"),
        ('machine = "none"', "machine = 3", "machine"),
        ("[memory]", "[memory", "TOML"),
    ],
)
def test_damaged_files_are_refused(old: str, new: str, told: str, tmp_path: Path) -> None:
    text = unit_costs.text_of(COSTS)
    assert old in text
    (tmp_path / "costs.toml").write_text(text.replace(old, new, 1))
    assert told in str(refused(unit_costs.read, str(tmp_path / "costs.toml")))


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    assert "--measure" in str(refused(unit_costs.read, str(tmp_path / "none.toml")))


@pytest.mark.long
def test_measuring_with_little(tmp_path: Path) -> None:
    steps: list[str] = []
    costs = measurements.measure(tmp_path, TINY, steps.append)
    assert len(steps) == measurements.N_STEPS
    assert list(tmp_path.iterdir()) == []  # the index is gone
    memory, disk, search = costs.memory, costs.disk, costs.search
    assert memory.mask == pytest.approx(0.125, rel=0.01)
    assert memory.entry == pytest.approx(12, rel=0.05)
    assert memory.bucket == pytest.approx(4, rel=0.01)
    assert (memory.row, memory.id, memory.slot) == (8, 8, 4)
    assert memory.process > 1e7
    assert 0 < memory.item < 200
    assert 20 < memory.payload < 200
    assert 16 < disk.item < 100
    assert disk.fetch_byte >= disk.read_byte >= 0
    assert min(search.scan_one, search.scan_many, search.sort_small, search.sort_large, search.query) > 0
    assert costs.encoding.product > 0
    assert (costs.postgres, costs.milvus) == (None, None)
    for design in designs("local", Workload(1e9), costs):
        assert make(design, Machine()).machines >= 1


@pytest.mark.long
def test_measuring_postgres() -> None:
    import psycopg

    with PostgresServer() as server:
        store = store_measurements.postgres(server.address(), COSTS.encoding, 6000)
        with psycopg.connect(server.address()) as connection:
            left = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'plan%'").fetchall()
    assert left == []
    assert store.vector_byte >= 1
    assert 50 < store.code < 1000
    assert store.write_item > 0
    assert store.look_up > 0
    assert store.compare > store.look_up


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_measuring_milvus(tmp_path: Path) -> None:
    store = store_measurements.milvus(str(tmp_path / "some.db"), COSTS.encoding, 4000)
    assert list(tmp_path.iterdir()) == []
    assert store.vector_byte >= 1
    assert store.write_item > 0
    assert (store.look_up, store.compare) == (0, 0)
