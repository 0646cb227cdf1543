"""What one request may cost: filters are bounded, reads end in time, and a service stops whatever it is asked."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from onlinehash import LiveIndex
from onlinehash.errors import StorageError
from onlinehash.live import payloads
from onlinehash.serve import changes
from onlinehash.serve.errors import Unavailable
from onlinehash.serve.requests import CLIENT_HEADER, client_of
from onlinehash.serve.routes import search
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Limits
from onlinehash.serve.writer import Writer
from tests.serve.services import (
    SECONDS,
    Process,
    connected,
    post_json,
    request_bytes,
    rest_of,
    rows,
    served,
    small_index,
    until,
)

QUERY: dict[str, Any] = {"vector": [0.5, 0.5], "k": 3}


@pytest.mark.parametrize("route", ["/v1/search", "/v1/within"])
def test_filters_beyond_the_limits_are_refused(route: str) -> None:
    asked = {"vector": [0.5, 0.5], "radius": 3} if route == "/v1/within" else QUERY
    with served(filter_fields=3, filter_values=10) as (_, url):
        many_fields = post_json(url, route, asked | {"where": {f"f{i}": 1 for i in range(4)}})
        many_values = post_json(url, route, asked | {"where": {"colour": {"in": ["red"] * 10}}})
        allowed = post_json(url, route, asked | {"where": {"colour": {"in": ["red"] * 8}}})
    assert [many_fields.status_code, many_values.status_code, allowed.status_code] == [422, 422, 200]
    assert "at most 3 fields, got 4" in many_fields.json()["message"]
    assert "at most 10 values in all" in many_values.json()["message"]


@pytest.mark.parametrize("route", ["/v1/search", "/v1/find"])
def test_a_filter_has_64_fields_at_most_by_default(route: str) -> None:
    with served() as (_, url):
        allowed, refused = (post_json(url, route, QUERY | {"where": {f"f{i}": 1 for i in range(n)}}) for n in (64, 65))
    assert (allowed.status_code, refused.status_code) == (200, 422)
    assert "at most 64 fields, got 65" in refused.json()["message"]


class Slow:
    """A first filter on a field takes as long as wanted: payloads are parsed one at a time, with pauses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.n, self.begun, self._original = 0, threading.Event(), payloads._parsed
        monkeypatch.setattr(payloads, "_parsed", self._parsed)

    def _parsed(self, texts: list[str | None]) -> Iterator[Any]:
        for text in texts:
            self.n += 1
            self.begun.set()
            time.sleep(0.02)
            yield from self._original([text])


def test_a_filter_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    with served(small_index(n=2000), request_seconds=0.2) as (service, url):
        answered = post_json(url, "/v1/search", QUERY | {"where": {"colour": "red"}})
        assert answered.status_code == 504
        assert answered.json()["error"] == "DeadlineExceeded"
        until(lambda: len(service.reads) == 0)
    assert slow.n < 2000


@pytest.mark.parametrize("n_requests", [1, 3])
def test_a_filter_ends_when_its_client_leaves(monkeypatch: pytest.MonkeyPatch, n_requests: int) -> None:
    slow = Slow(monkeypatch)
    body = json.dumps(QUERY | {"where": {"colour": "red"}}).encode()
    head = {"Content_Type": "application/json", "Content_Length": str(len(body))}
    with served(small_index(n=2000), request_seconds=SECONDS) as (service, url):
        with connected(url) as client:
            client.sendall(request_bytes("POST", "/v1/search", url, body, **head) * n_requests)
            assert slow.begun.wait(SECONDS)
        until(lambda: len(service.reads) == 0)
        n = slow.n
        assert n < 2000
        time.sleep(0.1)
        assert slow.n <= n + 1


def test_changes_and_searches_go_on_beside_an_expensive_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    with served(small_index(n=2000), request_seconds=SECONDS) as (service, url):
        asking = threading.Thread(target=lambda: post_json(url, "/v1/search", QUERY | {"where": {"colour": "red"}}))
        asking.start()
        assert slow.begun.wait(SECONDS)
        assert post_json(url, "/v1/items", {"ids": [9999], "vectors": [[1.0, 2.0]]}).status_code == 201
        assert post_json(url, "/v1/search", QUERY).status_code == 200
        assert httpx.get(f"{url}/v1/health", timeout=SECONDS).status_code == 200
        assert len(service.reads) == 1
        assert slow.n < 2000
        service.reads.stop()
        asking.join()


def test_too_many_searches_that_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    with served(small_index(n=2000), request_seconds=SECONDS, reads=1) as (service, url):
        asking = threading.Thread(target=lambda: post_json(url, "/v1/search", QUERY | {"where": {"colour": "red"}}))
        asking.start()
        assert slow.begun.wait(SECONDS)
        refused = post_json(url, "/v1/search", QUERY | {"where": {"colour": "red"}})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        service.reads.stop()
        asking.join()


def test_many_queries_are_searched_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(50, seed=3)
    with served(small_index(n=200)) as (service, url):
        for given in ({"rerank": False}, {"rerank": True}, {"where": {"colour": "red"}}):
            asked = {"vectors": X.tolist(), "k": 4} | given
            at_once = post_json(url, "/v1/search", asked).json()
            monkeypatch.setattr(search, "_COMPARED_AT_ONCE", 200 * 7)
            monkeypatch.setattr(search, "_RERANKED_AT_ONCE", 7)
            assert post_json(url, "/v1/search", asked).json() == at_once
            monkeypatch.undo()
        monkeypatch.setattr(search, "_COMPARED_AT_ONCE", 200)
        expected = service.index.search(X, 4)
        found = post_json(url, "/v1/search", {"vectors": X.tolist(), "k": 4}).json()
        assert np.array_equal(found["ids"], expected.ids)
        monkeypatch.setattr(LiveIndex, "searched", lambda *_: time.sleep(0.02) or (expected, service.index.encoder))
    with served(small_index(n=200), request_seconds=0.2) as (_, url):
        answered = post_json(url, "/v1/search", {"vectors": rows(2000).tolist(), "k": 4})
        assert answered.status_code == 504


# ------------------------------------------------------------------ clients


def test_all_who_have_the_token_are_one_client_for_the_rate() -> None:
    known = {"Authorization": "Bearer a-secret-token"}
    with served(token="a-secret-token", rate=3.0) as (_, url), httpx.Client(base_url=url, timeout=SECONDS) as client:
        strangers = [client.get("/v1/stats").status_code for _ in range(40)]
        assert set(strangers) == {401, 429}
        assert client.get("/v1/stats", headers=known).status_code == 200  # whatever strangers at this address did
        friends = [client.get("/v1/stats", headers=known).status_code for _ in range(40)]
        assert set(friends) == {200, 429}


def test_nobody_becomes_another_client_by_a_header() -> None:
    names = ("X-Forwarded-For", "X-Real-IP", "Forwarded", CLIENT_HEADER.decode())
    with served(rate=3.0) as (_, url), httpx.Client(base_url=url, timeout=SECONDS) as client:
        others = [dict.fromkeys(names, f"for=192.0.2.{number}") for number in range(40)]
        assert {client.get("/v1/stats", headers=headers).status_code for headers in others} == {200, 429}


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("testclient", "testclient"),
    ],
)
def test_an_ipv6_client_is_its_network(address: str, client: str) -> None:
    assert client_of({"client": (address, 1), "headers": [(CLIENT_HEADER, b"somebody else")]}) == client
    assert client_of({"client": None, "headers": [(CLIENT_HEADER, client.encode())]}) == client


def test_one_client_cannot_take_all_places_of_listeners() -> None:
    with served(events=4, events_per_client=2) as (service, url), ExitStack() as stack:
        for expected in (200, 200, 429):
            answered = stack.enter_context(httpx.stream("GET", f"{url}/events", timeout=SECONDS))
            assert answered.status_code == expected
        assert len(service.events) == 2


# ------------------------------------------------------------------ a full disk


def test_a_full_disk_is_logged_and_the_service_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise StorageError("the disk is full.")

    with served() as (service, url):
        ready = lambda: httpx.get(f"{url}/v1/ready", timeout=SECONDS)  # noqa: E731
        item = {"vectors": [[1.0, 2.0]]}
        assert ready().status_code == 200
        with monkeypatch.context() as patch:
            patch.setattr(service.index, "add", full)
            assert post_json(url, "/v1/items", item).status_code == 507
        assert (ready().status_code, ready().json()["status"]) == (503, "storage failing")
        ours = [record.getMessage() for record in caplog.records if record.name == "onlinehash.service"]
        assert ours == ["a change could not be stored"]
        assert post_json(url, "/v1/items", item).status_code == 201
        assert ready().status_code == 200
        service.changes.disk._failed_at = time.monotonic()
        assert ready().status_code == 503
        monkeypatch.setattr(changes, "FAILURE_REMEMBERED", 0.0)
        assert ready().status_code == 200


# ------------------------------------------------------------------ stopping


def test_changes_for_which_there_is_no_time_are_refused() -> None:
    writer, made = Writer(Limits(stop_seconds=0.1)), []
    here, go = threading.Event(), threading.Event()
    running = writer.submit(lambda: (here.set(), go.wait(SECONDS), made.append(1)))
    waiting = writer.submit(lambda: made.append(2))
    assert here.wait(SECONDS)
    writer.retire()
    with pytest.raises(Unavailable, match="shutting down"):
        writer.submit(lambda: made.append(3))
    time.sleep(0.1)
    go.set()
    running.result(SECONDS)
    with pytest.raises(Unavailable, match="the change was not made"):
        waiting.result(SECONDS)
    writer.close()
    assert made == [1]


def test_a_process_that_cannot_stop_ends_nonetheless() -> None:
    program = "import time; from onlinehash.serve import server; server.exit_within(0.1); time.sleep(600)"
    assert subprocess.run([sys.executable, "-c", program], timeout=SECONDS, capture_output=True).returncode == 1


@pytest.mark.long
def test_a_stop_signal_ends_an_expensive_filter(tmp_path: Path) -> None:
    n, fields = 5000, [f"f{i}" for i in range(50)]
    texts = [f"{i:040d}" for i in range(n)]
    with LiveIndex(path=tmp_path / "items", n_bits=8) as index:
        index.add(range(n), rows(n), [dict.fromkeys(fields, text) for text in texts])
    # So many comparisons of texts take minutes.
    where = {field: {"<": "9", "<=": "9", ">": "", ">=": ""} for field in fields}
    asked = {"vectors": rows(2000).tolist(), "k": 3, "rerank": True, "where": where}
    answers: list[int] = []
    limits = ("--limit", "request_seconds=600", "--limit", "filter_values=1000")
    with Process(tmp_path / "items", *limits, log=tmp_path / "log") as process:
        client = threading.Thread(
            target=lambda: answers.append(post_json(process.url, "/v1/search", asked).status_code)
        )
        client.start()
        time.sleep(2)
        assert not answers
        assert process.stop() == 0
        client.join()
    assert answers == [503]
    assert "in time" not in (tmp_path / "log").read_text()


class Load:
    """Clients that ask for as much as they can, until the service is gone; `added` are the items it acknowledged."""

    def __init__(self, url: str) -> None:
        self.url, self.added = url, list[int]()
        self._ids = itertools.count(100_000)
        self._X = np.random.default_rng(0).standard_normal((10_000, 32)).round(3)

    def queries(self) -> bytes:
        return json.dumps({"vectors": self._X.tolist(), "k": 10}).encode()

    def lessons(self) -> bytes:
        similar = [bool(i % 2) for i in range(5_000)]
        return json.dumps({"a": self._X[:5_000].tolist(), "b": self._X[5_000:].tolist(), "similar": similar}).encode()

    def refreshes(self) -> bytes:
        return json.dumps({"id_a": 1, "id_b": 2, "similar": True, "refresh": True}).encode()

    def numbers(self) -> bytes:
        return b'{"vectors": [[%s]], "k": 10}' % b",".join([b"0.12345678901234"] * 300_000)

    def ask(self, kind: str) -> None:
        path = "/v1/learn" if kind in ("lessons", "refreshes") else "/v1/search"
        body: bytes = getattr(self, kind)()
        while self._answer(path, body) is not None:
            pass

    def add(self) -> None:
        for i in self._ids:
            status = self._answer("/v1/items", json.dumps({"ids": [i], "vectors": [self._X[0].tolist()]}).encode())
            if status == 201:
                self.added.append(i)
            elif status is None:
                return

    def listen(self) -> None:
        with suppress(httpx.HTTPError), httpx.stream("GET", self.url + "/v1/events", timeout=SECONDS) as answer:
            for _ in answer.iter_bytes():
                pass

    def hold(self) -> None:
        with connected(self.url) as connection:
            head = request_bytes("POST", "/v1/items", self.url, Content_Type="application/x-npy", Content_Length="9999")
            connection.sendall(head + bytes(100))
            rest_of(connection)

    def _answer(self, path: str, body: bytes) -> int | None:
        try:
            headers = {"Content-Type": "application/json"}
            return httpx.post(self.url + path, content=body, headers=headers, timeout=SECONDS).status_code
        except httpx.HTTPError:
            return None


@pytest.mark.long
@pytest.mark.parametrize("kind", ["queries", "lessons", "refreshes", "numbers", "listen", "hold"])
def test_a_stop_signal_ends_a_service_under_load(tmp_path: Path, kind: str) -> None:
    with LiveIndex(path=tmp_path / "items", n_bits=64) as index:
        index.add(range(20_000), np.random.default_rng(1).standard_normal((20_000, 32)))
    with Process(tmp_path / "items", "--limit", "stop_seconds=30", log=tmp_path / "log") as process:
        load = Load(process.url)
        asking = getattr(load, kind) if kind in ("listen", "hold") else partial(load.ask, kind)
        clients = [threading.Thread(target=client) for client in (*[asking] * 8, load.add)]
        for client in clients:
            client.start()
        until(lambda: len(load.added) > 2)
        assert process.stop() == 0  # and not 1, with which it ends when `stop_seconds` are over
        for client in clients:
            client.join()
    with LiveIndex.open(tmp_path / "items") as index:
        assert set(load.added) <= set(index.ids.tolist())


def test_the_parser_of_large_bodies_rests_as_long_as_it_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else clients who send such bodies all the time leave no time to others."""
    done: list[Any] = []
    moments, service = itertools.count(), Service(small_index())
    clock = SimpleNamespace(perf_counter=lambda: 0.03 * next(moments), sleep=done.append)
    monkeypatch.setattr("onlinehash.serve.service.time", clock)

    async def parse_three() -> None:
        await asyncio.gather(*(service.parsed(partial(done.append, name)) for name in "abc"))

    asyncio.run(parse_three())
    service._parsing.shutdown()
    assert done == ["a", pytest.approx(0.03), "b", pytest.approx(0.03), "c", pytest.approx(0.03)]
