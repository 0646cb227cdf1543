"""benchmarks/check.py: how ratios are made of times, and what is said where they differ from the kept ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def check(monkeypatch, tmp_path):
    """The module, which keeps its ratios in a folder of its own."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import check

    monkeypatch.setattr(check, "KEPT", tmp_path / "benchmarks" / "ratios")
    check.KEPT.parent.mkdir()
    monkeypatch.setattr(check.platform, "machine", lambda: "made_up")
    monkeypatch.setattr(check, "machine", lambda: {"cpu": "One"})
    return check


@pytest.fixture
def ratio(check):
    return sys.modules["ratio"]


def kept(**values):
    return {name: {"value": value, "spread": 0.01} for name, value in values.items()}


def test_a_pair_has_the_best_times_of_two_groups(ratio):
    rounds = {"ours": [4.0, 2.0, 3.0], "faiss heap": [8.0, 9.0, 7.0], "faiss counting": [9.0, 6.0, 9.0]}
    assert ratio.pair("x", rounds, "faiss", "ours", "higher") == ("x", 6.0, 2.0, "higher")


def test_passes_are_merged(ratio):
    first = [ratio.Pair("x", 8.0, 4.0, "lower"), ratio.Pair("y", 1.0, 1.0, "higher")]
    second = [ratio.Pair("x", 6.0, 2.0, "lower"), ratio.Pair("y", 1.0, 1.0, "higher")]
    x, y = ratio.merged([first, second])
    assert (x.name, x.value, x.better) == ("x", 3.0, "lower")
    assert x.spread == pytest.approx((3 - 2) / 3)
    assert y == ("y", 1.0, 0.0, "higher")


@pytest.mark.parametrize(
    ("better", "now", "change", "verdict"),
    [
        ("lower", 2.2, 0.10, "same"),
        ("lower", 2.4, 0.20, "worse"),
        ("lower", 1.6, -0.20, "better"),
        ("higher", 2.4, -1 / 6, "better"),
        ("higher", 1.6, 0.25, "worse"),
        ("higher", 1.8, 1 / 9, "same"),
    ],
)
def test_what_moved_and_whereto(check, better, now, change, verdict):
    (row,) = check.compare(kept(x=2.0), [check.Ratio("x", now, 0.02, better)])
    assert (row.kept, row.now, row.verdict) == (2.0, now, verdict)
    assert row.change == pytest.approx(change)


@pytest.mark.parametrize(("before", "after"), [(0.3, 0.0), (0.0, 0.3)])
def test_a_change_within_the_spread_of_either_run_is_noise(check, before, after):
    (row,) = check.compare({"x": {"value": 1.0, "spread": before}}, [check.Ratio("x", 1.2, after, "lower")])
    assert (row.verdict, row.spread) == ("noise", 0.3)


def test_ratios_that_came_and_went(check):
    rows = check.compare(kept(old=2.0, both=1.0), [check.Ratio(name, 1.0, 0, "lower") for name in ("new", "both")])
    assert [(row.name, row.verdict) for row in rows] == [("new", "new"), ("both", "same"), ("old", "gone")]


def run(check, monkeypatch, capsys, value, *options):
    """The command, on a ratio that was not measured."""
    monkeypatch.setattr(check, "measured", lambda seconds: [check.Ratio("x", value, 0.01, "lower")])
    monkeypatch.setattr(sys, "argv", ["check.py", *map(str, options)])
    status = check.main()
    return status, capsys.readouterr().out


def test_keep_then_compare(check, monkeypatch, capsys, tmp_path):
    status, said = run(check, monkeypatch, capsys, 1.0)
    assert status == 0
    assert "Nothing is kept for made_up yet: run `make bench-keep`" in said
    assert run(check, monkeypatch, capsys, 1.0, "--keep")[0] == 0
    file = json.loads((check.KEPT / "made_up.json").read_text())
    assert file == {"machine": {"cpu": "One"}, "ratios": {"x": {"value": 1.0, "spread": 0.01}}}
    status, said = run(check, monkeypatch, capsys, 1.3, "--json", tmp_path / "rows.json")
    assert status == 0
    assert "+30%" in said
    assert "worse" in said
    assert json.loads((tmp_path / "rows.json").read_text())["rows"][0]["verdict"] == "worse"


def test_only_strict_fails_and_only_where_something_is_worse(check, monkeypatch, capsys):
    run(check, monkeypatch, capsys, 1.0, "--keep")
    assert [run(check, monkeypatch, capsys, now, "--strict")[0] for now in (1.0, 0.5, 1.5)] == [0, 0, 1]


def test_another_processor_is_named(check, monkeypatch, capsys):
    run(check, monkeypatch, capsys, 1.0, "--keep")
    monkeypatch.setattr(check, "machine", lambda: {"cpu": "Two"})
    assert "Kept on another processor: One; this is Two." in run(check, monkeypatch, capsys, 1.0)[1]


def test_what_is_kept_can_be_read():
    for path in (BENCHMARKS / "ratios").glob("*.json"):
        file = json.loads(path.read_text())
        assert {"cpu", "date", "python", "numpy", "numba"} <= file["machine"].keys()
        assert len(file["ratios"]) >= 10
        assert all(ratio["value"] > 0 <= ratio["spread"] for ratio in file["ratios"].values())
