"""Server-sent events: what happens is told to all who listen, and nobody waits for a slow one."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from onlinehash.serve import server
from onlinehash.serve.events import BACKLOG
from onlinehash.serve.service import Service
from tests.serve.services import (
    IDS,
    SECONDS,
    connected,
    post_json,
    request_bytes,
    rest_of,
    served,
    small_index,
    until,
)


class Listener:
    """What one listener heard."""

    def __init__(self, url: str) -> None:
        self.events: list[tuple[str, Any]] = []
        self.headers: Any = None
        self.ended: str | None = None
        self._url = url
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()
        until(lambda: self.events or self.ended)

    def _listen(self) -> None:
        name = ""
        try:
            with httpx.stream("GET", self._url + "/events", timeout=SECONDS) as answered:
                self.headers = answered.headers
                for line in answered.iter_lines():
                    if line.startswith("event: "):
                        name = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        self.events.append((name, json.loads(line.removeprefix("data: "))))
            self.ended = "whole"
        except httpx.HTTPError as error:
            self.ended = repr(error)

    def heard(self, name: str) -> list[Any]:
        return [data for event, data in list(self.events) if event == name]


def test_what_happens_is_told() -> None:
    with served() as (service, url):
        listener = Listener(url)
        assert listener.headers["Content-Type"].startswith("text/event-stream")
        name, hello = listener.events[0]
        stats = httpx.get(url + "/v1/stats", timeout=SECONDS).json()
        assert name == "hello"
        assert set(hello) == {*stats, "teacher"}
        assert hello["n"] == len(IDS)
        pairs = {"a": [[1, 2], [2, 1], [0, 1]], "b": [[-2, 1], [1, 1], [1, 0]], "similar": [True, False, True]}
        losses = post_json(url, "/v1/learn", pairs).json()
        learned = until(lambda: listener.heard("learned"))
        assert sum(event["count"] for event in learned) == 3
        assert [loss for event in learned for loss in event["losses"]] == losses["loss"]
        assert learned[-1]["n_pairs"] == 3
        moved = [bit for bits in losses["bits"] for bit in bits]
        assert {int(bit): n for event in learned for bit, n in event["bits"].items()} == {
            bit: moved.count(bit) for bit in set(moved)
        }
        post_json(url, "/v1/refresh", {"wait": True})
        refreshed = until(lambda: [event for event in listener.heard("refreshed") if event["n_pairs"] == 3])[-1]
        assert refreshed["serial"] == service.index.serial
        assert refreshed["encoder"] == service.index.encoder.version
        post_json(url, "/v1/items/90", {"vector": [1, 2]})
        assert until(lambda: listener.heard("items"))[-1] == {"n": len(IDS) + 1}
        told = until(lambda: [event for event in listener.heard("stats") if event["n"] == len(IDS) + 1])
        assert set(told[-1]) | {"encoder"} == set(stats)
    listener.thread.join(SECONDS)
    assert listener.ended == "whole"


def test_there_are_only_so_many_listeners() -> None:
    with served(events=3) as (service, url):
        first = [Listener(url) for _ in range(3)]
        until(lambda: len(service.events) == 3)
        refused = httpx.get(url + "/events", timeout=SECONDS)
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) >= 1
        assert all(listener.ended is None for listener in first)


def test_many_at_once_are_not_more_than_may_listen() -> None:
    with served(events=3) as (service, url):
        connections = [connected(url) for _ in range(20)]
        for connection in connections:
            connection.sendall(request_bytes("GET", "/events", url))
        heads = [connection.recv(20) for connection in connections]
        assert sum(b"200" in head for head in heads) == 3
        assert sum(b"429" in head for head in heads) == 17
        for connection in connections:
            connection.close()
        until(lambda: len(service.events) == 0)  # those who left make room
        assert Listener(url).events[0][0] == "hello"


def test_a_slow_listener_slows_nobody_and_is_cut_off() -> None:
    with served(idle_seconds=0.5) as (service, url):
        quick = Listener(url)
        with connected(url, receive_bytes=4096) as slow:
            slow.sendall(request_bytes("GET", "/events", url))
            until(lambda: len(service.events) == 2)
            big = {"filler": "x" * 20_000}
            for i in range(200):
                service.events.send("big", big | {"i": i})
                time.sleep(0.002)
            until(lambda: len(quick.heard("big")) == 200, 10)
            assert [event["i"] for event in quick.heard("big")] == list(range(200))
            until(lambda: len(service.events) == 1, 10)
        assert post_json(url, "/v1/search", {"vector": [1, 2]}).status_code == 200


def test_a_listener_that_falls_behind_misses_the_oldest() -> None:
    with served() as (service, url):
        listener = Listener(url)
        stop = threading.Event()
        service.events._loop.call_soon_threadsafe(stop.wait, SECONDS)  # nobody is told anything meanwhile
        for i in range(BACKLOG + 50):
            service.events.send("count", {"i": i})
        stop.set()
        until(lambda: [event for event in listener.heard("count") if event["i"] == BACKLOG + 49])
        heard = [event["i"] for event in listener.heard("count")]
        assert heard == sorted(heard)
        assert len(heard) <= BACKLOG


@contextmanager
def clock() -> Iterator[list[float]]:
    seconds: list[float] = []
    start = time.monotonic()
    yield seconds
    seconds.append(time.monotonic() - start)


def test_listeners_do_not_hold_up_the_end() -> None:
    service = Service(small_index())
    with clock() as seconds, server.background(service) as url:
        listeners = [Listener(url) for _ in range(3)]
        raw = connected(url)
        raw.sendall(request_bytes("GET", "/events", url))
        until(lambda: len(service.events) == 4)
    assert seconds[0] < 10
    for listener in listeners:
        listener.thread.join(SECONDS)
        assert listener.ended == "whole"
    assert rest_of(raw).endswith(b"0\r\n\r\n")
    raw.close()


def test_one_fault_does_not_end_the_events(caplog: pytest.LogCaptureFixture) -> None:
    with served() as (service, url):
        real, faults = service.send_events, iter(range(2))

        def send_events() -> None:
            if next(faults, None) is not None:
                raise RuntimeError("a fault")
            real()

        service.send_events = send_events  # type: ignore[method-assign]
        listener = Listener(url)
        until(lambda: "sending events failed" in caplog.text)
        post_json(url, "/v1/items/90", {"vector": [1, 2]})
        assert until(lambda: listener.heard("items"))[-1] == {"n": len(IDS) + 1}


def test_faults_are_told_when_they_begin_and_when_they_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "onlinehash.service")
    with served() as (service, _):
        real, faults = service.send_events, list[int]()

        def fail() -> None:
            faults.append(len(faults))
            raise RuntimeError("a fault")

        def told(words: str) -> int:
            return sum(words in record.message for record in list(caplog.records))

        for times in (1, 2):
            service.send_events = fail  # type: ignore[method-assign]
            until(lambda times=times: len(faults) >= 5 * times)
            service.send_events = real  # type: ignore[method-assign]
            until(lambda times=times: told("events are sent again") == times)
            assert told("sending events failed") == times
