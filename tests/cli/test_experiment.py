"""`onlinehash experiment`, on small plans and in real processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest

from onlinehash.experiments import runner
from tests.cli.running import onlinehash
from tests.processes import children, is_alive

PLAN = """
title = "Small"
question = "Does it run?"
source = "a test"
contestants = ["OH, linear", "LSH"]
vary = "bits"
values = [8, 16]
seeds = 2

[conditions]
protocol = "retrieval"
pairs = 200

[drawing]
x_label = "bits"
"""


def without_processes():
    """A process takes seconds to start; the long test that is about processes starts them."""
    return mock.patch.object(runner, "_pool", ThreadPoolExecutor)


@pytest.fixture(autouse=True)
def _without_processes():
    with without_processes():
        yield


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "small.toml"
    path.write_text(PLAN)
    return path


@pytest.fixture(scope="module")
def folder(plan, tmp_path_factory) -> Path:
    """Results of the small plan, run once."""
    folder = tmp_path_factory.mktemp("runs")
    with without_processes():
        ran = onlinehash("experiment", "run", plan, "--results", folder, "--workers", 2, "--json")
    assert ran.code == 0, ran.err
    # Two roles of the digits, two seeds; two contestants and ITQ at two lengths, and floats, which have none.
    assert ran.document["done"] == 28
    return folder


def test_a_second_run_finds_everything(plan, folder):
    again = onlinehash("experiment", "run", plan, "--results", folder, "--json")
    assert (again.document["done"], again.document["found"]) == (0, 32)  # floats at each length


def test_figures_and_a_page_are_written(plan, folder):
    drawn = onlinehash("experiment", "figure", plan, "--results", folder, "--json")
    assert drawn.code == 0, drawn.err
    names = {Path(path).name for path in drawn.document["figures"]}
    assert {"small.png", "small.svg"} <= names
    assert all(Path(path).stat().st_size > 5000 for path in drawn.document["figures"])
    assert Path(drawn.document["page"]).name == "small.html"
    assert "<html" in Path(drawn.document["page"]).read_text()


def test_tables_are_printed(plan, folder):
    told = onlinehash("experiment", "table", plan, "--results", folder)
    assert told.code == 0, told.err
    assert "OH, linear" in told.out
    assert "±" in told.out
    assert onlinehash("experiment", "table", plan, "--results", folder, "--json").document


def test_a_run_that_fails_is_told_and_the_others_are_kept(tmp_path):
    broken = tmp_path / "broken.toml"
    varied = PLAN.replace('vary = "bits"', 'vary = "dissimilar_ratio"').replace("[8, 16]", "[0.4, -1.0]")
    broken.write_text(varied.replace("seeds = 2", "seeds = 1"))
    ran = onlinehash("experiment", "run", broken, "--results", tmp_path / "runs", "--workers", 1, "--json")
    assert ran.code == 1
    assert ran.document["done"] == 8
    assert len(ran.document["failures"]) == 2
    assert "dissimilar_ratio" in json.dumps(ran.document["failures"])


#: The command, which waits for ever when it has kept three results: on no machine is it done before it is killed.
STOPS_AFTER_THREE = """
import threading
from onlinehash.cli import main
from onlinehash.experiments.results import Store

add = Store.add

def add_and_wait(self, result):
    add(self, result)
    if len(self) == 3:
        threading.Event().wait()

Store.add = add_and_wait
main()
"""


@pytest.mark.long
def test_killed_and_run_again_it_goes_on_where_it_stopped(tmp_path, plan):
    many = tmp_path / "many.toml"
    many.write_text(PLAN.replace("seeds = 2", "seeds = 6"))
    command = [sys.executable, "-c", STOPS_AFTER_THREE, "experiment", "run", many]
    command += ["--results", str(tmp_path / "runs"), "--workers", "2", "--json"]
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, start_new_session=True)
    lines = tmp_path / "runs" / "results.jsonl"
    deadline = time.monotonic() + 120
    while not (lines.exists() and lines.read_bytes().count(b"\n") == 3):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    workers = children(process.pid)
    assert len(workers) >= 2
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while any(is_alive(pid) for pid in workers):
        assert time.monotonic() < deadline, "workers outlived the command"
        time.sleep(0.05)
    process.stdout.close()
    again = onlinehash("experiment", "run", many, "--results", tmp_path / "runs", "--workers", 2, "--json")
    assert again.code == 0, again.err
    assert again.document["found"] == 3
    assert again.document["done"] == 84 - 3


@pytest.fixture(scope="module")
def known_runs(tmp_path_factory) -> Path:
    """Results of a plan of the project, as `verify` knows only those."""
    folder = tmp_path_factory.mktemp("known")
    with without_processes():
        ran = onlinehash(
            "experiment", "run", "centring", "--quick", "--seeds", 1, "--workers", 1, "--results", folder, "--json"
        )
    assert ran.code == 0, ran.err
    return folder


def test_kept_results_can_be_verified(known_runs, tmp_path):
    kept = onlinehash("experiment", "keep", "--results", known_runs, "-o", tmp_path / "kept", "--json")
    assert kept.document["bytes"] > 0
    checked = onlinehash("experiment", "verify", "--cells", 2, "--seed", 4, "--results", tmp_path / "kept", "--json")
    assert checked.code == 0, checked.err + checked.out
    assert len(checked.document) == 2
    assert all(line["verdict"] == "identical" and line["kept"] == line["now"] for line in checked.document)
    places = {(line["plan"], line["reading"], line["measured"]) for line in checked.document}
    assert places == {("centring (quick)", "as planned", "map")}
    other = onlinehash("experiment", "verify", "--cells", 2, "--seed", 5, "--results", tmp_path / "kept", "--json")
    assert other.document != checked.document
