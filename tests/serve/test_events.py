"""Server-sent events: what happens is told to all who listen, and nobody waits for a slow one."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import httpx

from onlinehash.serve import server
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


def test_listeners_do_not_hold_up_the_end() -> None:
    service = Service(small_index())
    with server.background(service) as url:
        listeners = [Listener(url) for _ in range(3)]
        raw = connected(url)
        raw.sendall(request_bytes("GET", "/events", url))
        until(lambda: len(service.events) == 4)
    for listener in listeners:
        listener.thread.join(SECONDS)
        assert listener.ended == "whole"
    assert rest_of(raw).endswith(b"0\r\n\r\n")
    raw.close()
