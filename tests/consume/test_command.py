"""`onlinehash consume`, typed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from onlinehash import LiveIndex
from tests.cli.running import done, refused
from tests.consume.program import MALFORMED, after, make, new_learner, policy, same
from tests.servers import free_port, wait_until


@pytest.fixture
def folder(tmp_path):
    LiveIndex(new_learner(), policy(), path=tmp_path / "items").close()
    return tmp_path / "items"


def figures(url):
    """What Prometheus reads, by the names of the figures."""
    text = urllib.request.urlopen(url, timeout=30).read().decode()
    return {name: float(value) for name, value in re.findall(r"^onlinehash_consume_(\w+)\{.*\} (.*)$", text, re.M)}


def test_until_nothing_is_left(redis_broker, stream, folder):
    data, broker = make(120, 1), redis_broker
    broker.send(stream, data)
    expected, dead = after(data)
    outcome = done("consume", broker.address(stream), folder, "--until-empty", "--batch", 50, "--json")
    announced, counted = outcome.lines
    assert announced["target"] == str(folder)
    assert (counted["messages"], counted["dead_letters"], counted["lag"]) == (len(data), len(dead), 0)
    with LiveIndex.open(folder) as index:
        assert list(index.positions) == [announced["source"]]
        assert same(index, expected)
    outcome = done("consume", broker.address(stream), folder, "--until-empty")
    assert "0 messages: 0 pairs learned, 0 items changed, 0 dead letters" in outcome.out


def test_a_new_folder(redis_broker, stream, tmp_path):
    redis_broker.send(stream, make(20, 2, bad=0))
    typed = ["consume", redis_broker.address(stream), tmp_path / "new", "--until-empty", "--name", "pairs"]
    done(*typed, "--bits", 16, "--set", "burn_in=50", "--seed", 7)
    with LiveIndex.open(tmp_path / "new") as index:
        assert (index.learner.n_bits, index.learner.burn_in, index.learner.random_state) == (16, 50, 7)
        assert list(index.positions) == ["pairs"]
        assert len(index) > 0
    done(*typed, "--bits", 16, "--set", "burn_in=50", "--seed", 7)
    code, sentence = refused(*typed, "--bits", 32, "--set", "burn_in=50", "--seed", 7)
    assert (code, "expected n_bits=16" in sentence) == (2, True)


def test_what_cannot_be_done_is_told_in_a_sentence(redis_broker, stream, tmp_path, monkeypatch):
    port = free_port()
    for code, words, arguments in (
        (2, "expected a source such as redis://", ["ftp://me:secret@x/y", "items"]),
        (7, "Connection refused", [f"redis://:secret@127.0.0.1:{port}/0?stream=x", "items"]),
        (2, "expected a folder or an address", [redis_broker.address(stream), "mysql://me:secret@x"]),
        (2, "--bits is not allowed here", [redis_broker.address(stream), "postgresql://me:secret@x/y", "--bits", 8]),
        (2, "--schema needs an address", [redis_broker.address(stream), "items", "--schema", "x"]),
        (2, "expected KEY=VALUE after --setting", [redis_broker.address(stream), "items", "--setting", "secret"]),
        (2, "begin with ssl_", [redis_broker.address(stream), "items", "--setting", "a=secret"]),
    ):
        monkeypatch.chdir(tmp_path)
        found, sentence = refused("consume", *arguments, "--until-empty")
        assert (found, words in sentence) == (code, True), sentence
        assert "secret" not in sentence
    assert not (tmp_path / "items").exists()


@pytest.mark.long
def test_a_service_with_metrics_that_ends_after_the_batch(redis_broker, stream, folder):
    """A process of its own, killed in the midst, started again, and told to stop."""
    data = make(300, 3, bad=0)
    bad = list(MALFORMED.values())[:3]
    redis_broker.send(stream, data[:200] + bad)
    command = [sys.executable, "-m", "onlinehash", "consume", redis_broker.address(stream), str(folder)]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    options = ["--batch", "10", "--metrics-port", "0", "--json"]
    for end in (signal.SIGKILL, signal.SIGTERM):
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env=environment)
        url = json.loads(process.stdout.readline())["metrics"]
        assert url.startswith("http://127.0.0.1:")
        if end == signal.SIGTERM:
            redis_broker.send(stream, data[200:])
            wait_until(lambda url=url: figures(url)["lag"] == 0 and figures(url)["messages_total"] > 0, "the rest")
            told = figures(url)
            assert told["pairs_total"] + told["items_total"] + told["dead_letters_total"] == told["messages_total"]
            assert 0 <= told["idle_seconds"] < 600
            assert told["waiting"] == 0
        else:
            wait_until(lambda url=url: figures(url)["messages_total"] > 30, "some messages")
        process.send_signal(end)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == (0 if end == signal.SIGTERM else -end)
    assert json.loads(rest)["messages"] == told["messages_total"]
    with LiveIndex.open(folder) as index:
        assert same(index, after(data)[0])
    assert len(redis_broker.dead(stream)) == 3
