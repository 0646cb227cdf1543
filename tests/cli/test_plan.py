"""`onlinehash plan`."""

from __future__ import annotations

import pytest

from tests.cli.running import done


def test_without_a_number_of_items_there_is_a_table() -> None:
    lines = done("plan").out.splitlines()
    assert lines[0].startswith("machines of 64 GB, 16 cores; costs of ")
    assert lines[2].split()[:3] == ["items", "design", "machines"]
    assert [line.split()[0] for line in lines[3:]] == [size for size in ("10M", "100M", "1B", "10B") for _ in range(5)]


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
