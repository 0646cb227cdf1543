"""What one request may cost: filters are bounded, reads end in time, and a service stops whatever it is asked."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from onlinehash.errors import InvalidInput, StorageError
from onlinehash.live import payloads
from onlinehash.serve import changes
from onlinehash.serve.bodies import shapes
from onlinehash.serve.bodies.from_json import from_json
from onlinehash.serve.errors import Unavailable
from onlinehash.serve.settings import Limits
from onlinehash.serve.writer import Writer
from tests.serve.services import (
    SECONDS,
    connected,
    post_json,
    request_bytes,
    rest_of,
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


def test_a_filter_ends_when_its_client_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    body = json.dumps(QUERY | {"where": {"colour": "red"}}).encode()
    head = {"Content_Type": "application/json", "Content_Length": str(len(body))}
    with served(small_index(n=2000), request_seconds=SECONDS) as (service, url):
        with connected(url) as client:
            client.sendall(request_bytes("POST", "/v1/search", url, body, **head))
            assert slow.begun.wait(SECONDS)
        until(lambda: len(service.reads) == 0)
        n = slow.n
        assert n < 2000
        time.sleep(0.1)
        assert slow.n <= n + 1


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


# ------------------------------------------------------------------ clients


def test_all_who_have_the_token_are_one_client_for_the_rate() -> None:
    known = {"Authorization": "Bearer a-secret-token"}
    with served(token="a-secret-token", rate=3.0) as (_, url), httpx.Client(base_url=url, timeout=SECONDS) as client:
        strangers = [client.get("/v1/stats").status_code for _ in range(40)]
        assert set(strangers) == {401, 429}
        assert client.get("/v1/stats", headers=known).status_code == 200  # whatever strangers at this address did
        friends = [client.get("/v1/stats", headers=known).status_code for _ in range(40)]
        assert set(friends) == {200, 429}


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


# ------------------------------------------------------------------ connections


def test_a_connection_that_was_refused_is_taken_when_there_is_room() -> None:
    with served(connections=2) as (_, url), httpx.Client(base_url=url, timeout=20) as client:
        with connected(url), connected(url):
            assert until(lambda: client.get("/v1/health").status_code == 503)
        # Over the connection that it has.
        assert until(lambda: client.get("/v1/health").status_code == 200)


def test_what_is_no_http_gets_no_answer_in_the_place_of_the_request_before_it() -> None:
    with served() as (service, url), connected(url) as connection:
        go_on = threading.Event()
        service.writer.submit(lambda: go_on.wait(20))
        body = b'{"vector": [1, 2]}'
        headers = {"Content_Type": "application/json", "Content_Length": str(len(body))}
        connection.sendall(request_bytes("POST", "/v1/items/900", url, body, **headers) + b"no HTTP\r\n\r\n")
        time.sleep(0.3)
        go_on.set()
        answers = rest_of(connection)
    assert answers.startswith(b"HTTP/1.1 201 ")
    assert answers.count(b"HTTP/1.1 ") == 1


def test_a_connection_is_closed_after_a_refused_body() -> None:
    with served(idle_seconds=0.5, json_memory=1 << 20) as (_, url), connected(url) as connection:
        head = {"Content_Type": "application/json", "Content_Length": str(1 << 21)}
        body = b'{"vector": [' + b"1, " * (1 << 19)
        body += b"1" * ((1 << 21) - len(body))
        connection.sendall(request_bytes("POST", "/v1/search", url, body, **head))
        assert rest_of(connection).startswith(b"HTTP/1.1 413 ")  # and then the service closes it


# ------------------------------------------------------------------ bodies and answers


def test_names_are_not_repeated_within_filters_and_payloads() -> None:
    for where, name in ((rb'{"a":{"b":[{"c":1,"c":2}]}}', "c"), (rb'{"a":1,"\u0061":2}', "a")):
        with pytest.raises(InvalidInput, match=f"the field '{name}' occurs twice"):
            from_json(shapes.Query, b'{"vector":[0.5],"k":3,"where":%s}' % where)
        with pytest.raises(InvalidInput, match="occurs twice"):
            from_json(shapes.NewItem, b'{"vector":[0.5],"payload":%s}' % where)


def test_names_that_only_look_the_same_are_taken() -> None:
    where = {"a": 1, 'a"': 2, "a\\": 3, "b": [{"a": 1}, {"a": 2}], 'a\\"': {"a": {"a": 4}}}
    body = {"vector": [0.5], "where": where}
    assert from_json(shapes.Query, json.dumps(body).encode()).where == where


def test_a_json_body_for_which_there_is_no_room_is_refused_before_it_is_sent() -> None:
    with served(json_memory=1 << 20) as (_, url), connected(url) as client:
        head = {"Content_Type": "application/json; charset=utf-8", "Content_Length": str(1 << 20)}
        client.sendall(request_bytes("POST", "/v1/search", url, **head))
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 413")
    with served(memory=1 << 20) as (_, url), connected(url) as client:
        client.sendall(request_bytes("POST", "/v1/search", url, **head | {"Content_Type": "application/x-npy"}))
        answered = client.recv(1 << 16)
        assert answered.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1\r\n" in answered


@pytest.fixture
def heavy() -> Any:
    """An index whose first item has a payload of 50 KB."""
    index = small_index()
    index.update([1], payloads=[{"text": "x" * 50_000}])
    return index


def test_items_are_refused_once_they_are_too_large(heavy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id may be named as often as one likes: 200 KB of ids asked for 6 GB."""
    n_read = 0
    get_many = heavy.get_many

    def count(ids: Any) -> Any:
        nonlocal n_read
        n_read += len(ids)
        return get_many(ids)

    monkeypatch.setattr(heavy, "get_many", count)
    monkeypatch.setattr("onlinehash.serve.routes.items.ITEMS_AT_ONCE", 10)
    with served(heavy, answer_bytes=1 << 20) as (_, url):
        for n, status in ((15, 200), (90_000, 413)):
            answered = post_json(url, "/v1/items/get", {"ids": [1] * n, "vectors": False})
            assert answered.status_code == status
    assert answered.json()["message"] == "the response is larger than the limit of 1,048,576 bytes; ask for less."
    assert n_read < 60


def test_a_lesson_has_as_many_pairs_as_a_batch_has_rows() -> None:
    with served(batch=20) as (_, url):
        for n, status in ((20, 200), (21, 413)):
            lesson = {"id_a": [1] * n, "id_b": [2] * n, "similar": [True] * n}
            assert post_json(url, "/v1/learn", lesson).status_code == status
