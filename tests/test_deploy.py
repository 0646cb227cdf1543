"""What `deploy/` has fits together, and fits the code: commands, options, routes, metrics, names and files."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import jsonschema
import numpy as np
import pytest
import typer
import yaml

import onlinehash
from onlinehash.cli.app import app
from tests.serve.services import SECONDS, served

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
MANIFEST = {
    (document["kind"], document["metadata"]["name"]): document
    for document in yaml.safe_load_all((DEPLOY / "kubernetes" / "onlinehash.yaml").read_text())
}
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())


def load_loopback() -> ModuleType:
    """A script, which is in no package."""
    spec = importlib.util.spec_from_file_location("loopback", DEPLOY / "loopback.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["loopback"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


loopback = load_loopback()


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for (kind, name), document in MANIFEST.items():
        spec = document["spec"]
        if kind == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if "template" in spec:
            yield name, spec["template"]["spec"]


def commands() -> dict[str, list[str]]:
    """The command lines of `onlinehash`, by where they stand, without the name of the program."""
    found = {name: one["command"] for name, one in COMPOSE["services"].items() if one["image"] == "onlinehash"}
    for name, pod in pods():
        (container,) = pod["containers"]
        assert container["command"] == ["/opt/onlinehash/bin/onlinehash"]
        found[f"kubernetes {name}"] = container["args"]
    unit = re.search(r"^ExecStart=\S+/onlinehash (.*)$", (DEPLOY / "onlinehash.service").read_text(), re.MULTILINE)
    entry = re.search(r"^ENTRYPOINT (.*)$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    assert unit is not None
    assert entry is not None
    return found | {"systemd": unit[1].split(), "container": json.loads(entry[1])[1:]}


def test_commands_and_their_options_exist() -> None:
    for where, words in commands().items():
        command: Any = typer.main.get_command(app)
        while hasattr(command, "commands"):
            command, words = command.commands[words[0]], words[1:]
        options = {flag: parameter for parameter in command.params for flag in parameter.opts}
        n_arguments = 0
        left = iter(words)
        for word in left:
            if not word.startswith("--"):
                n_arguments += 1
            elif not options[word].is_flag:
                next(left)
        assert n_arguments == sum(parameter.param_type_name == "argument" for parameter in command.params), where


# ------------------------------------------------------------------ compose


def test_compose_follows_its_schema() -> None:
    schema = json.loads((files("check_jsonschema.builtin_schemas.vendor") / "compose-spec.json").read_text())
    checker = jsonschema.validators.validator_for(schema)(schema)
    checker.validate(COMPOSE)


# ------------------------------------------------------------------ metrics


def expressions() -> list[str]:
    rules = [rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]]
    return rules + [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_metrics_and_their_labels_exist() -> None:
    with served() as (_, url):
        httpx.post(url + "/v1/search", json={"vector": [0.5, 0.5], "k": 1}, timeout=SECONDS)
        text = httpx.get(url + "/metrics", timeout=SECONDS).text
        routes = list(httpx.get(url + "/openapi.json", timeout=SECONDS).json()["paths"])
    known = set(re.findall(r"^(\w+)[ {]", text, flags=re.MULTILINE))
    labels = set(re.findall(r'[{,](\w+)="', text)) | {"job", "instance"}
    named = {name for expression in expressions() for name in re.findall(r"\bonlinehash_\w+", expression)}
    assert len(named) > 12
    assert named <= known
    for expression in expressions():
        assert set(re.findall(r"[{,](\w+)(?:=|=~)\"", expression)) <= labels, expression
        for route in re.findall(r'route=~"([^"]+)"', expression):
            assert sum(re.fullmatch(route, path) is not None for path in routes) == route.count("|") + 1, expression


# ------------------------------------------------------------------ processes on loopback


@pytest.mark.long
def test_a_topology_goes_on_while_a_replica_is_killed_and_started_again() -> None:
    X = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)
    with loopback.topology(n_replicas=2) as running:
        urls = [replica.url for replica in running.replicas]
        with onlinehash.connect(urls) as index, onlinehash.connect(running.url) as balanced:
            index.add(range(20), X[:20])
            assert balanced.find(X[7], 1).ids.tolist() == [7]
            running.replicas[0].end(loopback.signal.SIGKILL)
            for number in range(20, 40):
                index.add(number, X[number])
                assert index.find(X[number], 1).ids.tolist() == [number]
                assert balanced.find(X[number], 1).ids.tolist() == [number]
            running.replicas[0].start()
            running.replicas[1].end()
            for number in range(40, 60):
                index.add(number, X[number])
                assert index.search(X[number], 1).distances.tolist() == [0]
            assert len(balanced) == 60
            assert balanced.ids.tolist() == list(range(60))
