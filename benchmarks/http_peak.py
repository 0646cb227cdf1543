"""Searches a second over HTTP beside a bare route that only parses the same JSON, and the parts of a request."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import common
import numpy as np
import orjson
import uvloop
from http_client import JSON, request, sender
from http_items import Items, K, asked_once, fill
from http_server import bare_app, bare_service, service
from ratio import Pair, pair

from onlinehash import LiveIndex, OnlineHashing


def peak(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Searches a second beside a bare route, and where the time of a request goes."""
    n = int(options.n)
    items, index = Items(options.dims), LiveIndex(OnlineHashing(n_bits=64, random_state=0))
    bodies = items.searches()
    rounds: dict[str, list[dict[str, float]]] = {"bare": [], "ours": []}
    with both(items, n, index, bodies) as (flood, n_bytes):
        print(f"{n:,} items of {options.dims} dimensions, 64 bits; k = {K}")
        for _ in range(options.rounds):
            for name in rounds:
                rounds[name].append(flood(name, options.connections, options.seconds))
            print(*(f"{name} {rounds[name][-1]['rate']:,.0f}/s" for name in rounds), sep=", ", flush=True)
    rates = {name: [row["rate"] for row in rows] for name, rows in rounds.items()}
    cpu = {name: min(row["cpu"] for row in rows) for name, rows in rounds.items()}
    by_round = [ours / bare for bare, ours in zip(rates["bare"], rates["ours"], strict=True)]
    for name, values in rates.items():
        busy = max(row["busy"] for row in rounds[name])
        print(f"{name}: best {max(values):,.0f}, median {median(values):,.0f} searches/s; "
              f"{cpu[name] * 1e6:.0f} µs of CPU each; the sender was busy {busy:.0%} of the time")  # fmt: skip
    of_bare = max(rates["ours"]) / max(rates["bare"])
    print(f"ours of bare: {of_bare:.2f} by the best rounds, {median(by_round):.2f} by the median of rounds, "
          f"{cpu['bare'] / cpu['ours']:.2f} by CPU")  # fmt: skip
    rows = parts(index, bodies, n_bytes, {name: 1 / max(values) for name, values in rates.items()})
    return [{"n": n, "ratio": of_bare, "ratios": by_round, "rates": rates, "cpu": cpu, "parts": rows}]


def compared(seconds: float) -> Iterator[Pair]:
    """Searches beside a bare route, in short rounds, as the best of many is what noise changes least."""
    items, index = Items(512), LiveIndex(OnlineHashing(n_bits=64, random_state=0))
    wall: dict[str, list[float]] = {"bare": [], "ours": []}
    cpu: dict[str, list[float]] = {"bare": [], "ours": []}
    with both(items, 20_000, index, items.searches()) as (flood, _):
        for _ in range(max(4, round(4 * seconds))):
            for name in wall:
                found = flood(name, 16, 0.4)
                wall[name].append(1 / found["rate"])
                cpu[name].append(found["cpu"])
    yield pair("HTTP search: seconds over a bare route's", wall, "ours", "bare", "lower")
    if min(cpu["bare"]) > 0:  # not every system tells
        yield pair("HTTP search: CPU over a bare route's", cpu, "ours", "bare", "lower")


@contextmanager
def both(
    items: Items, n: int, index: LiveIndex, bodies: list[bytes]
) -> Iterator[tuple[Callable[[str, int, float], dict[str, float]], int]]:
    """Ours with n items, which the index is given too, and a bare route whose answers are as long.

    Gives what sends the searches to "ours" or "bare" over some connections for some seconds, and the length.
    """
    asked = [request("POST", "/v1/search", body) for body in bodies]
    with service(None) as ours, sender() as load:
        fill(ours.port, items, n, index)
        answer = asked_once(ours.port, asked[0])
        check(answer, index, bodies[0])
        with bare_service(len(answer)) as bare:

            def flood(name: str, connections: int, seconds: float) -> dict[str, float]:
                served = {"ours": ours, "bare": bare}[name]
                used = served.cpu_seconds()
                found = load.flood(served.port, asked, connections, seconds)
                assert set(found["statuses"]) == {200}, found["statuses"]
                cpu = (served.cpu_seconds() - used) / found["statuses"][200]
                return {"rate": found["rate"], "cpu": cpu, "busy": found["busy"]}

            yield flood, len(answer)


def check(answer: bytes, index: LiveIndex, body: bytes) -> None:
    """The service must find what the same index finds in this process."""
    hits = index.search(np.array(orjson.loads(body)["vector"], np.float32), K)
    found = orjson.loads(answer)
    assert (found["ids"], found["distances"]) == (hits.ids.tolist(), hits.distances.tolist())


def parts(index: LiveIndex, bodies: list[bytes], n_bytes: int, totals: dict[str, float]) -> list[dict[str, Any]]:
    """Microseconds of a request by part, one part at a time in this process.

    What is left of the whole is the server, its sockets, and that
    nothing is in the caches any more when the next request comes, which costs more the more there is to do.
    """
    from onlinehash.serve.app import make_app
    from onlinehash.serve.bodies import shapes
    from onlinehash.serve.bodies.from_json import from_json
    from onlinehash.serve.bodies.parser import read
    from onlinehash.serve.responses import answer
    from onlinehash.serve.service import Service

    served, bodies = Service(index), bodies[:20]  # so few at a time that some go through without a disturbance
    vectors = [np.array(orjson.loads(body)["vector"], np.float32) for body in bodies]
    view, encoder = index.view, index.encoder
    assert encoder is not None
    codes = [encoder.encode(vector[None]) for vector in vectors]
    hits = [index.search(vector, K) for vector in vectors]

    def each(work: Callable[..., object], *lists: Any) -> Callable[[], object]:
        return lambda: [work(*values) for values in zip(*lists, strict=True)]

    contenders = {
        "orjson": each(orjson.loads, bodies),
        "json": each(lambda body: from_json(shapes.Query, body), bodies),
        "read": each(lambda body: read(shapes.Query, JSON, body, {}, served.limits), bodies),
        "encode": each(lambda vector: encoder.encode(vector[None]), vectors),
        "scan": each(lambda code: view.search(code, K), codes),
        "search": each(lambda vector: index.searched(vector, K), vectors),
        "answer": each(lambda found: answer({"ids": found.ids, "distances": found.distances}, encoder), hits),
        "app": called(make_app(served), bodies),
        "bare app": called(bare_app(n_bytes), bodies),
    }
    took = {name: seconds / len(bodies) for name, seconds in common.best(contenders, 60, time.process_time).items()}
    served.writer.close()
    inside = took["read"] + took["search"] + took["answer"]
    rows = [
        ("JSON", took["json"], took["orjson"]),
        ("array, checks", took["read"] - took["json"], 0.0),
        ("encode", took["encode"], 0.0),
        ("scan", took["scan"], 0.0),
        ("rest of search", took["search"] - took["encode"] - took["scan"], 0.0),
        ("answer", took["answer"], 0.0),
        ("routes, guard", took["app"] - inside, took["bare app"] - took["orjson"]),
        ("server, less what batches save", totals["ours"] - took["app"], totals["bare"] - took["bare app"]),
        ("whole request", totals["ours"], totals["bare"]),
    ]  # fmt: skip
    print(
        f"in process, search alone: {1 / took['search']:,.0f} searches/s\n{'µs a request':30} {'ours':>8} {'bare':>8}"
    )
    for name, ours, bare in rows:
        print(f"{name:30} {ours * 1e6:8.1f} {bare * 1e6:8.1f}")
    return [{"part": name, "ours": ours, "bare": bare} for name, ours, bare in rows]


def called(app: Any, bodies: list[bytes]) -> Callable[[], object]:
    """An application called as a server calls it, without one."""
    loop = uvloop.new_event_loop()
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def run() -> None:
        for body in bodies:
            sent.clear()

            async def receive(body: bytes = body) -> dict[str, Any]:
                return {"type": "http.request", "body": body, "more_body": False}

            await app(scope_of(body), receive, send)
            assert sent[0]["status"] == 200

    return lambda: loop.run_until_complete(run())


def scope_of(body: bytes) -> dict[str, Any]:
    """What a server tells an application of a request."""
    headers = [(b"host", b"127.0.0.1"), (b"content-length", str(len(body)).encode()), (b"content-type", JSON.encode())]
    path = {"method": "POST", "path": "/v1/search", "raw_path": b"/v1/search", "query_string": b"", "root_path": ""}
    ends = {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "scheme": "http", "state": {}}
    return {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "headers": headers} | path | ends
