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
from onlinehash.cli.serve import TOKEN
from onlinehash.serve.middleware import OPEN
from onlinehash.serve.settings import Limits
from tests.client.helpers import Asked, Reply, serving
from tests.serve.services import SECONDS, served

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
MANIFEST = {
    (document["kind"], document["metadata"]["name"]): document
    for document in yaml.safe_load_all((DEPLOY / "kubernetes" / "onlinehash.yaml").read_text())
}
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
SCRAPED = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
HAPROXY = (DEPLOY / "haproxy.cfg").read_text()
REPLICAS = ["replica-1", "replica-2"]


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


@pytest.mark.parametrize("where", commands())
def test_commands_and_their_options_exist(where: str) -> None:
    words = commands()[where]
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
    assert n_arguments == sum(parameter.param_type_name == "argument" for parameter in command.params)


# ------------------------------------------------------------------ compose


def test_compose_follows_its_schema() -> None:
    schema = json.loads((files("check_jsonschema.builtin_schemas.vendor") / "compose-spec.json").read_text())
    checker = jsonschema.validators.validator_for(schema)(schema)
    checker.validate(COMPOSE)
    with pytest.raises(jsonschema.ValidationError):
        checker.validate(COMPOSE | {"services": {"postgres": {"imag": "postgres"}}})


def test_compose_names_what_is_there() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        assert set(service.get("depends_on", [])) <= services.keys(), name
        assert set(service.get("secrets", [])) <= COMPOSE["secrets"].keys(), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], volume
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), f"{name} is open to the world"
    build = services["create"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).exists()
    assert [name for name in services if name.startswith("replica")] == REPLICAS
    for name in REPLICAS:
        service = services[name]
        assert "/v1/ready" in service["healthcheck"]["test"][-1]
        grace = float(service["stop_grace_period"].removesuffix("s"))
        assert grace > Limits().stop_seconds, "it is killed before it has ended by itself"


def test_no_secret_is_written_down() -> None:
    """Passwords and tokens come from the environment, or by reference."""
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            secret = re.search("PASSWORD|TOKEN", name)
            assert not secret or re.fullmatch(r"\$\{\w+:\?.*\}", value), name
    for name, pod in pods():
        for container in pod["containers"]:
            assert container["envFrom"] == [{"secretRef": {"name": "onlinehash"}}], name
            assert "env" not in container
    text = (DEPLOY / "kubernetes" / "onlinehash.yaml").read_text()
    kept = set(re.findall(r"--from-literal=(\w+)=", text))
    assert kept == {"DATABASE", "PGPASSWORD", TOKEN}
    used = {
        name for _, pod in pods() for word in pod["containers"][0]["args"] for name in re.findall(r"\$\((\w+)\)", word)
    }
    assert used <= kept


def test_balancer_and_prometheus_know_every_replica() -> None:
    port = str(COMPOSE["services"]["replica-1"]["command"][-2])
    expected = [f"{name}:{port}" for name in REPLICAS]
    for backend in ("replicas", "events"):
        section = re.search(rf"^backend {backend}\b.*?(?=^\S|\Z)", HAPROXY, re.MULTILINE | re.DOTALL)
        assert section is not None
        assert re.findall(r"server \S+ (\S+)", section[0]) == expected
    (job,) = SCRAPED["scrape_configs"]
    assert job["static_configs"] == [{"targets": expected}]
    assert job["authorization"]["credentials_file"] == f"/run/secrets/{COMPOSE['services']['prometheus']['secrets'][0]}"
    assert all((DEPLOY / "prometheus" / name).exists() for name in SCRAPED["rule_files"])
    assert re.search(r"bind :(\d+)", HAPROXY)[1] == COMPOSE["services"]["balancer"]["ports"][0].split(":")[-1]  # type: ignore[index]


# ------------------------------------------------------------------ Kubernetes


def test_the_manifest_fits_together() -> None:
    deployment = MANIFEST["Deployment", "onlinehash"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels
    assert MANIFEST["Service", "onlinehash"]["spec"]["selector"] == labels
    assert MANIFEST["PodDisruptionBudget", "onlinehash"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFEST["PodDisruptionBudget", "onlinehash"]["spec"]["minAvailable"] < deployment["replicas"]
    versions = {document["apiVersion"] for document in MANIFEST.values()}
    assert versions == {"apps/v1", "v1", "policy/v1", "batch/v1"}
    (container,) = deployment["template"]["spec"]["containers"]
    (port,) = container["ports"]
    assert MANIFEST["Service", "onlinehash"]["spec"]["ports"][0]["targetPort"] == port["name"]
    assert str(port["containerPort"]) in container["args"]
    wait = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert deployment["template"]["spec"]["terminationGracePeriodSeconds"] > wait + Limits().stop_seconds
    images = {pod["containers"][0]["image"] for _, pod in pods()}
    assert len(images) == 1
    for name, pod in pods():
        (container,) = pod["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
        assert pod["securityContext"]["runAsNonRoot"], name
        assert container["securityContext"]["readOnlyRootFilesystem"], name
    written = (DEPLOY / "Containerfile").read_text()
    assert f"--uid {deployment['template']['spec']['securityContext']['runAsUser']} " in written
    assert f"NUMBA_CACHE_DIR={container['volumeMounts'][0]['mountPath']}" in written


def test_probes_ask_routes_that_need_no_token() -> None:
    (container,) = MANIFEST["Deployment", "onlinehash"]["spec"]["template"]["spec"]["containers"]
    probes = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert probes == {"startup": "/v1/ready", "readiness": "/v1/ready", "liveness": "/v1/health"}
    assert set(probes.values()) <= set(OPEN)
    assert re.search(r"http-check send meth GET uri (\S+)", HAPROXY)[1] in OPEN  # type: ignore[index]


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


def test_the_dashboard_shows_what_is_to_be_watched() -> None:
    titles = " ".join(panel["title"] for panel in DASHBOARD["panels"]).lower()
    for word in ("searches", "latency", "lag behind the head", "marks", "quality on held-out queries", "refreshes"):
        assert word in titles
    source = yaml.safe_load((DEPLOY / "grafana" / "datasource.yaml").read_text())["datasources"][0]
    used = {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]}
    assert used == {source["uid"]}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    folder = yaml.safe_load((DEPLOY / "grafana" / "provisioning.yaml").read_text())["providers"][0]["options"]["path"]
    assert any(f":{folder}/" in volume for volume in COMPOSE["services"]["grafana"]["volumes"])


def test_every_alert_says_what_to_do() -> None:
    page = (ROOT / "docs" / "how-to" / "operations.md").read_text()
    names = [rule["alert"] for group in ALERTS["groups"] for rule in group["rules"]]
    assert len(names) == len(set(names)) > 5
    assert not [name for name in names if f"| `{name}` |" not in page]


# ------------------------------------------------------------------ processes on loopback


def test_the_balancer_passes_connections_on_to_ports_that_take_them() -> None:
    asked: list[int] = []

    def answering(number: int) -> Any:
        def answer(request: Asked) -> Reply:
            asked.append(number)
            return Reply(body=request.body[::-1])

        return answer

    body = bytes(range(256)) * 4000
    closed = loopback.free_port()
    with serving(answering(0)) as one, serving(answering(1)) as other:
        ports = [int(url.rpartition(":")[2]) for url in (one, other)]
        with loopback.Balancer([ports[0], closed, ports[1]]) as balancer:
            for _ in range(6):
                assert httpx.post(balancer.url, content=body, timeout=SECONDS).content == body[::-1]
        assert asked == [0, 1, 1, 0, 1, 1]
    with loopback.Balancer([closed]) as balancer, pytest.raises(httpx.TransportError):
        httpx.post(balancer.url, content=body, timeout=SECONDS)


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
