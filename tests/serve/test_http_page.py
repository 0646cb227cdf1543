"""docs/reference/http.md: every curl line works, every route has one, every status and limit is on the page."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from onlinehash.serve.openapi import PROBLEMS
from onlinehash.serve.settings import Limits
from tests.needs import missing
from tests.serve.services import SECONDS, served

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text()
SERVED = "127.0.0.1:8000"
DEMO = "127.0.0.1:8001"
TEXTS = "127.0.0.1:8002"
LINES = [
    line
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    for line in re.findall(r"^\$ (.*)$", block, flags=re.MULTILINE)
]
START = next(line for line in LINES if line.startswith("onlinehash serve items --bits"))
START_TEXTS = next(line for line in LINES if line.startswith("onlinehash serve notes --embed"))
ASKED = [line for line in LINES if re.match("curl .*(8000|8001|8002)|python -c", line) and "192.0.2.1" not in line]
JSON_NOT_EXPECTED = ("--output", "/metrics", "/events", "python -c")


class Running:
    """A service in a process of its own, as the page starts it."""

    def __init__(self, command: str, folder: Path) -> None:
        arguments = [*command.split()[1:], "--port", "0", "--json"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "onlinehash", *arguments], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.port = self.url.rpartition(":")[2]

    def stop(self) -> int:
        self.process.terminate()
        code = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Running, Path]]:
    folder = tmp_path_factory.mktemp("page")
    served, demo = Running(START, folder), Running("onlinehash serve --demo", folder)
    yield served, demo, folder
    assert [served.stop(), demo.stop()] == [0, 0]


@pytest.fixture(scope="module")
def texts(services: tuple[Running, Running, Path]) -> Iterator[Running]:
    running = Running(START_TEXTS, services[2])
    yield running
    assert running.stop() == 0


@pytest.mark.long  # it starts three services and some sixty processes
def test_every_line_works(services: tuple[Running, Running, Path], texts: Running) -> None:
    if shutil.which("curl") is None:
        missing("curl")
    served, demo, folder = services
    assert len(ASKED) > 40
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for line in ASKED:
        local = line.replace(SERVED, f"127.0.0.1:{served.port}").replace(DEMO, f"127.0.0.1:{demo.port}")
        local = local.replace(TEXTS, f"127.0.0.1:{texts.port}")
        local = local.replace("curl ", "curl --silent --show-error --fail-with-body ", 1)
        done = subprocess.run(
            ["bash", "-c", local], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        if not any(word in line for word in JSON_NOT_EXPECTED):
            assert isinstance(json.loads(done.stdout), dict), line
        if "/events" in line:
            assert done.stdout.startswith("event: hello\ndata: {"), done.stdout


def test_every_route_has_a_line() -> None:
    with served() as (_, url):
        document = httpx.get(f"{url}/openapi.json", timeout=SECONDS).json()
    routes = {(method, path) for path, operations in document["paths"].items() for method in operations}
    assert len(routes) > 30
    for method, path in routes:
        pattern = re.escape(path).replace(re.escape("{id}"), r"[^/\s']+")
        verb = "" if method == "get" else rf"-X {method.upper()} "
        assert any(re.search(rf"curl .*{verb}.*:800\d{pattern}['?\s]", f"{line} ") for line in ASKED), (method, path)


def test_every_status_is_on_the_page() -> None:
    listed = set(map(int, re.findall(r"^\| (\d{3}) \|", PAGE, flags=re.MULTILINE)))
    assert listed == set(PROBLEMS)


def test_every_limit_is_on_the_page_in_its_own_words() -> None:
    rows = [
        f"| `{limit.name}` | {limit.default if isinstance(limit.default, int) else f'{limit.default:g}'} | "
        f"{limit.metadata['text'].replace('/events', '`/events`')} |"
        for limit in dataclasses.fields(Limits)
    ]
    assert "\n".join(rows) in PAGE, "\n".join(rows)
