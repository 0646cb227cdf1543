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
from onlinehash.experiments.plan import read_plan
from onlinehash.experiments.readings import known_readings
from onlinehash.experiments.results import Store
from tests.cli.running import onlinehash
from tests.experiments.made_up import made_up, named_sets
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


@pytest.fixture(scope="module")
def read_otherwise(tmp_path_factory) -> Path:
    """Made-up results of a plan, as it is and under a reading."""
    folder = tmp_path_factory.mktemp("read-otherwise")
    plan, store = read_plan("beta"), Store(folder)
    for one in (plan, plan.under(known_readings()["48-bits"])):
        for row in made_up(one, named_sets("labelme", "cifar10")):
            store.add(row.result)
    return folder


def test_claims_under_a_reading(read_otherwise):
    arguments = "experiment", "claims", "--results", read_otherwise
    planned = {claim["name"]: claim for claim in onlinehash(*arguments, "--json").document}
    under = onlinehash(*arguments, "--reading", "48-bits", "--json")
    assert under.code == 0, under.err
    assert {claim["reading"] for claim in under.document} == {"48-bits"}
    judged = [claim for claim in under.document if claim["verdict"] != "not tested"]
    assert judged
    assert all("beta" in claim["plans"] and claim["seeds"] == [3, 3] for claim in judged)  # three under a reading
    assert all(claim["planned"] != "not tested" for claim in judged)
    assert all(claim["measured"] != planned[claim["name"]]["measured"] for claim in judged)
    told = onlinehash(*arguments, "--reading", "48-bits")
    assert told.out.startswith("Under the reading 48-bits: ")
    first, number = judged[0], 1 + list(planned).index(judged[0]["name"])
    verdicts = f"{first['verdict']}; as planned, by the same lengths and seeds: {first['planned']}"
    assert f"{number}. {first['text']}\n   {verdicts}\n   {first['measured'].splitlines()[0]}" in told.out
    assert onlinehash(*arguments, "--reading", "all", "--json").document == under.document  # no other one was run


def test_plans_are_listed():
    assert "beta" in onlinehash("experiment", "list").out
    assert {plan["name"] for plan in onlinehash("experiment", "list", "--json").document} > {"beta", "online", "batch"}


def test_data_of_ones_own(plan, tmp_path):
    import numpy as np

    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", X=rng.standard_normal((200, 4)), y=rng.integers(0, 3, 200))
    ran = onlinehash(
        "experiment", "run", plan, "--data", tmp_path / "mine.npz", "--seeds", 1, "--workers", 1, "--method", "ITQ",
        "--results", tmp_path / "runs", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert ran.document["done"] == 7  # three by two lengths, and floats
    told = onlinehash("experiment", "table", plan, "--method", "ITQ", "--results", tmp_path / "runs")
    assert "ITQ" in told.out


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "nothing"), "expected a plan among"),
        (("run", "beta", "--data", "no.npz"), "no.npz"),
        (("run", "beta", "--data", "other=digits"), "other=digits"),
        (("run", "loss", "--data", "gist1m=digits"), "role photo-tourism"),
        (("figure", "beta", "--results", "nowhere"), "no results in nowhere"),
        (("verify", "--results", "nowhere"), "no results in nowhere"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(arguments, message):
    told = onlinehash("experiment", *arguments)
    assert told.code == 2
    assert message in told.err
    assert len(told.err.strip().splitlines()) == 1
