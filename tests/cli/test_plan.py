"""`onlinehash plan`."""

from __future__ import annotations

from pathlib import Path

import pytest

from onlinehash.planning import costs, measurements
from tests.cli.running import done, onlinehash, refused
from tests.planning.sizes import TINY


def test_without_a_number_of_items_there_is_a_table() -> None:
    lines = done("plan").out.splitlines()
    assert lines[0].startswith("machines of 64 GB, 16 cores; costs of ")
    assert lines[2].split()[:3] == ["items", "design", "machines"]
    assert [line.split()[0] for line in lines[3:]] == [size for size in ("10M", "100M", "1B", "10B") for _ in range(5)]


def test_the_plan_for_a_number() -> None:
    text = done("plan", "--items", "1e9", "--bits", 64, "--dim", 512, "--payload", 100).out
    for word in (
        "FlatIndex",
        "MultiIndex",
        "LiveIndex",
        "tables",
        "payloads of 100 bytes",
        "refresh of 4 bits",
        "full",
    ):
        assert word in text
    assert "margins" in text  # of the index that has its vectors in memory
    for store in ("postgres", "milvus"):
        assert store in done("plan", "--items", "1e8", "--store", store).out.lower()


def test_json_has_all_of_it() -> None:
    document = done("plan", "--items", "2e8", "--disk", 500, "--queries-per-second", "2e5", "--json").document
    assert document["machine"] == {"memory": 64e9, "cores": 16, "disk": 500e9, "card": None}
    plans = {plan["design"]: plan for plan in document["plans"]}
    assert set(plans) == {"FlatIndex", "MultiIndex", "LiveIndex, codes only", "LiveIndex", "LiveIndex in memory"}
    live = plans["LiveIndex"]
    assert live["machines"] == live["shards"] * live["replicas"]
    assert live["limit"] in ("memory", "disk", "index", "queries")
    assert live["disk"]["vectors"] > 2e8 * 2048
    assert live["memory"]["find"] == pytest.approx(2e8 * 512)  # a byte a value of every vector it may compare
    assert "find" not in plans["LiveIndex, codes only"]["memory"]
    assert plans["FlatIndex"]["probes_per_second"] is None


def test_numbers_may_be_written_as_the_table_writes_them() -> None:
    first = done("plan", "--items", "100M", "--json").document
    assert first == done("plan", "--items", "1e8", "--json").document
    assert "100,000,000 items" in done("plan", "--items", "0.1b").out


def test_a_card_is_a_design() -> None:
    text = done("plan", "--items", "1e10", "--memory", 1e4, "--card", 141).out
    assert "a card of 141 GB" in text
    assert "and of NVIDIA H200\n" in text
    options = ("--memory", 1e4, "--card", 141, "--json")
    plans = {
        items: {plan["design"]: plan for plan in done("plan", "--items", items, *options).document["plans"]}
        for items in ("1e10", "4e10")
    }
    for items, n_shards in (("1e10", 1), ("4e10", 3)):  # eight bytes a code: a card of 141 GB holds sixteen billion
        assert plans[items]["GpuIndex"]["shards"] == n_shards
        assert plans[items]["GpuIndex"]["limit"] == "card"
    one, flat = plans["1e10"]["GpuIndex"], plans["1e10"]["FlatIndex"]
    assert one["one_query"] < flat["one_query"] / 10
    assert one["scans_per_second"] > flat["scans_per_second"]
    assert "GpuIndex" not in {plan["design"] for plan in done("plan", "--items", "1e9", "--json").document["plans"]}
    assert "--store local" in refused("plan", "--card", 141, "--store", "postgres")[1]
    done("plan", "--items", "1e8", "--card", 139.8)  # about the card that was measured
    smaller = onlinehash("plan", "--items", "1e8", "--card", 24)
    assert smaller.code == 0
    assert "the speeds are those of NVIDIA H200 of 141 GB, not of a card of 24 GB" in smaller.err


def test_a_measured_distance_decides_what_look_ups_cost() -> None:
    def rate(*options: object) -> float:
        plans = done("plan", "--items", "1e8", *options, "--json").document["plans"]
        return next(plan["probes_per_second"] for plan in plans if plan["design"] == "MultiIndex")

    assert rate("--distance", 4) > rate("--distance", 8) > rate("--data", "uniform")
    assert rate("--data", "clustered") == rate()
    assert rate("--distance", 9, "--sample", "1e6") > rate("--distance", 9)  # among more codes they are nearer


def test_costs_come_from_a_file(tmp_path: Path) -> None:
    text = costs.text_of(costs.read())
    (tmp_path / "mine.toml").write_text(text.replace(text.splitlines()[0], 'machine = "mine"'))
    assert done("plan", "--costs", tmp_path / "mine.toml", "--json").document["costs"] == "mine"
    (tmp_path / "local.toml").write_text(text[: text.index("# An index in a database")])
    done("plan", "--costs", tmp_path / "local.toml")
    code, told = refused("plan", "--costs", tmp_path / "local.toml", "--store", "postgres")
    assert code == 2
    assert "PostgresIndex" in told


@pytest.mark.long
def test_measuring_writes_a_file_to_plan_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "Sizes", lambda: TINY)
    file = tmp_path / "costs.toml"
    assert f"to {file}" in done("plan", "--measure", file).out
    assert [path.name for path in tmp_path.iterdir()] == ["costs.toml"]
    assert "1B" in done("plan", "--costs", file).out


@pytest.mark.long
def test_measuring_with_as_much_as_users_do(tmp_path: Path) -> None:
    file = tmp_path / "costs.toml"
    done("plan", "--measure", file)
    assert costs.read(str(file)).search.large == pytest.approx(measurements.Sizes().large, rel=1e-5)  # six digits


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--items", "many"], "whole number"),
        (["--items", "0"], "whole number"),
        (["--items", "M"], "whole number"),
        (["--items", "1.5"], "whole number"),
        (["--items", "nan"], "whole number"),
        (["--items", "1e30"], "items"),
        (["--bits", "0"], "bits"),
        (["--dim", "-4"], "dim"),
        (["--memory", "0"], "memory"),
        (["--cores", "0"], "cores"),
        (["--changed-bits", "65"], "changed bits"),
        (["--distance", "50", "--items", "1e6"], "distance"),
        (["--distance", "5", "--data", "uniform"], "cannot be combined"),
        (["--sample", "1e6"], "--distance"),
        (["--costs", "nowhere.toml"], "--measure"),
        (["--measure", "no-such-folder/costs.toml"], "folder"),
        (["--postgres", "postgresql://x"], "--measure"),
        (["--measure", "costs.toml", "--postgres", "no address"], "address"),
    ],
    ids=" ".join,
)
def test_nonsense_is_refused(options: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "Sizes", lambda: TINY)
    monkeypatch.chdir(tmp_path)
    code, message = refused("plan", *options)
    assert code == 2
    assert told in message
    assert list(tmp_path.iterdir()) == []
