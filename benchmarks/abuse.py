"""Requests that are meant to hurt: how long they take, and what they do to those who ask beside them.

    python benchmarks/abuse.py filters [--n 5000]                expensive filters on an index, an addition beside each
    python benchmarks/abuse.py service [--n 20000 --seconds 30]  an honest client of a service beside abusive ones
    python benchmarks/abuse.py memory [--n 5000 --minutes 60]    memory of a service under all of it, over time

The honest client searches, adds and asks for the health of the service at a steady pace. The abusive one is a process
of its own with several connections, which takes from the same cores. Thirty seconds give each cell of the table two
hundred answers or more; a p99 of fewer is the slowest one.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import common
import numpy as np
from http_client import HOST, request
from http_server import Served
from http_server import service as serving

from onlinehash import LSH, LiveIndex
from onlinehash.errors import OnlineHashError

#: Seconds after which a filter is given up, and those in which the service gives back the memory of large bodies.
PATIENCE, REST = 30, 25


class TooLong(BaseException):
    """A call has taken all the time that it is given here."""


@contextmanager
def patience() -> Iterator[None]:
    """Interrupt what takes too long."""

    def interrupt(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(ask: Callable[[], Any]) -> tuple[float, str]:
    """How long a call takes, and how it ends."""
    begin = time.perf_counter()
    try:
        with patience():
            ask()
        end = "answered"
    except OnlineHashError as error:
        end = f"refused: {error}"
    except TooLong:
        end = f"given up after {PATIENCE} s"
    return time.perf_counter() - begin, end


def filters(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Filters that are expensive, and how long an addition waits beside each."""
    n = int(options.n)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 8)).astype(np.float32)
    tags = [[f"t{tag}" for tag in row] for row in rng.integers(0, 100_000, (n, 20)).tolist()]
    payloads = [{"tags": row, "name": f"n{i}", "price": i % 1000} for i, row in enumerate(tags)]
    LiveIndex(LSH(n_bits=64, random_state=0)).add(range(n), X)  # which compiles
    cases: dict[str, Any] = {
        "one tag": {"tags": "t7"},
        "1,000 wanted tags": {"tags": {"in": [f"x{i}" for i in range(1_000)]}},
        "10,000 wanted tags": {"tags": {"in": [f"x{i}" for i in range(10_000)]}},
        "1,000,000 wanted names": {"name": {"in": [f"x{i}" for i in range(1_000_000)]}},
        "10,000 integers of one hash": {"price": {"in": [i * (2**61 - 1) for i in range(10_000)]}},
        "60 unknown fields": {f"u{i}": 1 for i in range(60)},
        "1,000 unknown fields": {f"v{i}": 1 for i in range(1_000)},
        "3,000 unknown fields": {f"w{i}": 1 for i in range(3_000)},
    }
    rows = []
    print(f"{n:,} items with 20 tags each\n\n{'filter':30s} {'seconds':>8s} {'an add waits':>13s}")
    for name, where in cases.items():
        index = LiveIndex(LSH(n_bits=64, random_state=0))
        index.add(range(n), X, payloads)
        waits: list[float] = []

        def add(index: LiveIndex = index, waits: list[float] = waits) -> None:
            time.sleep(0.02)  # until the filter is at work
            begin = time.perf_counter()
            index.add([n], X[:1], payloads[:1])
            waits.append(time.perf_counter() - begin)

        adding = threading.Thread(target=add)
        adding.start()
        took, end = outcome(lambda index=index, where=where: index.search(X[0], 10, where))  # type: ignore[misc]
        adding.join()
        print(f"{name:30s} {took:8.3f} {waits[0]:13.3f}  {end}", flush=True)
        rows.append({"filter": name, "seconds": took, "add": waits[0], "end": end})
    return rows


# ------------------------------------------------------------------ a service


DIMS = 32
#: Seconds that a client waits for an answer; on a machine that does other things beside, a service may need long.
WAIT = 600
#: Connections of the abusive client, and what the honest one does between two requests, in seconds.
CONNECTIONS, PACE = 8, 0.01


def asked(port: int, method: str, path: str, document: Any = None) -> tuple[int, bytes]:
    """One answer, on a connection of its own."""
    connection = http.client.HTTPConnection(HOST, port, timeout=WAIT)
    body = None if document is None else json.dumps(document)
    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    answer = connection.getresponse()
    with ExitStack() as stack:
        stack.callback(connection.close)
        return answer.status, answer.read()


def vector(seed: int) -> list[float]:
    return np.random.default_rng(seed).standard_normal(DIMS).round(4).tolist()


def bodies(kind: str) -> Iterator[tuple[str, bytes]]:
    """What an abusive client sends, one after the other: the path and the JSON."""
    plain = {"vector": vector(0), "k": 10}
    for i in itertools.count():
        if kind == "10,000 wanted tags":
            yield "/v1/search", json.dumps(plain | {"where": {"tags": [f"x{i}-{j}" for j in range(9_990)]}}).encode()
        elif kind == "60 new fields":
            yield "/v1/search", json.dumps(plain | {"where": {f"tags.{i}-{j}": 1 for j in range(60)}}).encode()
        elif kind == "10,000 queries":
            yield "/v1/search", json.dumps({"vectors": [vector(0)] * 10_000, "k": 10}).encode()
        elif kind == "JSON of 5 MB":
            yield "/v1/search", b'{"vectors": [[%s]], "k": 10}' % b",".join([b"0.12345678901234"] * 300_000)
        elif kind == "escapes of 60 MB":
            yield "/v1/search", b'{"vector": [1], "where": {"a": "%s"}}' % (rb"\u0061" * 10_000_000)
        elif kind == "refreshes":
            pair = {"id_a": i % 1000, "id_b": (7 * i + 1) % 1000, "similar": bool(i % 2), "refresh": True}
            yield "/v1/learn", json.dumps(pair).encode()


def abuse(kind: str, port: int, seconds: float) -> None:
    """Be an abusive client."""
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=_abuse, args=(kind, port, end)) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _abuse(kind: str, port: int, end: float) -> None:
    if kind == "held bodies":
        held = []
        with suppress(OSError):
            while time.monotonic() < end and len(held) < 100:
                held.append(socket.create_connection((HOST, port), 10))
                head = request("POST", "/v1/items", b"", Content_Type="application/x-npy", Content_Length="60000000")
                held[-1].sendall(head.replace(b"Content-Length: 0\r\n", b"") + bytes(200_000))
        time.sleep(max(0.0, end - time.monotonic()))
        return
    repeated = kind in ("10,000 queries", "JSON of 5 MB", "escapes of 60 MB")
    for path, body in bodies(kind):
        while time.monotonic() < end:
            with suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection(HOST, port, timeout=WAIT)
                connection.request("POST", path, body, {"Content-Type": "application/json"})
                connection.getresponse().read()
                connection.close()
            if not repeated:
                break
        if time.monotonic() >= end:
            return


def honest(port: int, seconds: float, first_id: int) -> dict[str, list[float]]:
    """Seconds that each answer took, of a client who does what a service is for."""
    took: dict[str, list[float]] = {"search": [], "filtered": [], "add": [], "health": []}
    connection = http.client.HTTPConnection(HOST, port, timeout=WAIT)
    end = time.monotonic() + seconds
    for i in itertools.count():
        if time.monotonic() >= end:
            connection.close()
            return took
        kind = ("search", "health", "search", "filtered", "search", "add")[i % 6]
        document: dict[str, Any] = {"vector": vector(i), "k": 10}
        if kind == "filtered":
            document["where"] = {"price": {"<": 500}}
        if kind == "add":
            document = {"ids": [first_id + i], "vectors": [vector(i)], "payloads": [{"price": i % 1000}]}
        begin = time.perf_counter()
        if kind == "health":
            connection.request("GET", "/v1/health")
        else:
            path = "/v1/items" if kind == "add" else "/v1/search"
            connection.request("POST", path, json.dumps(document), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status in (200, 201), (kind, answer.status)
        took[kind].append(time.perf_counter() - begin)
        time.sleep(PACE)
    raise AssertionError


KINDS = ["10,000 wanted tags", "60 new fields", "10,000 queries", "JSON of 5 MB", "escapes of 60 MB", "held bodies",
         "refreshes"]  # fmt: skip


def fill(port: int, n: int) -> None:
    """Items with prices and tags."""
    rng = np.random.default_rng(0)
    tags = [[f"t{tag}" for tag in row] for row in rng.integers(0, 100_000, (n, 10)).tolist()]
    X = rng.standard_normal((n, DIMS)).round(4)
    for start in range(0, n, 2_000):
        some = range(start, min(start + 2_000, n))
        payloads = [{"price": i % 1000, "tags": tags[i]} for i in some]
        items = {"ids": list(some), "vectors": X[some.start : some.stop].tolist(), "payloads": payloads}
        status, said = asked(port, "POST", "/v1/items", items)
        assert status == 201, said


def at_rest(served: Served) -> int:
    """The least memory that a service has while nobody asks; it gives back that of large bodies some seconds later."""
    least = served.resident_bytes()
    for _ in range(REST):
        time.sleep(1)
        least = min(least, served.resident_bytes())
    return least


def memory(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A service under honest and abusive clients by turns, whose items stay as many: its memory at rest, over time."""
    rows: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as root,
        serving(Path(root) / "index") as served,
        ProcessPoolExecutor(1, get_context("spawn")) as abusers,
    ):
        fill(served.port, int(options.n))
        begin, first = time.monotonic(), 10**7
        while not rows or rows[-1]["minutes"] < options.minutes:
            n_answers = 0
            for kind in KINDS:
                abusive = abusers.submit(abuse, kind, served.port, options.seconds)
                took = honest(served.port, options.seconds, first)
                abusive.result()
                added = [first + i for i in range(5, 6 * len(took["add"]), 6)]
                status, said = asked(served.port, "POST", "/v1/items/remove", {"ids": added})
                assert status == 200, said
                first += 10**6
                n_answers += sum(map(len, took.values()))
            n_bytes, minutes = at_rest(served), (time.monotonic() - begin) / 60
            rows.append({"bytes": n_bytes, "minutes": minutes, "honest": n_answers})
            print(f"{minutes:6.1f} min {n_bytes / 1e6:8.0f} MB {n_answers:8,} honest answers", flush=True)
    print(
        f"after every kind has come once {rows[0]['bytes'] / 1e6:.0f} MB, {rows[-1]['minutes']:.0f} minutes later "
        f"{rows[-1]['bytes'] / rows[0]['bytes']:.2f} of it"
    )
    return rows


def service(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Honest clients beside abusive ones."""
    n = int(options.n)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as root, serving(Path(root) / "index") as served:
        fill(served.port, n)
        honest(served.port, 1, 10**7)
        quiet: dict[str, list[float]] = {}
        beside: dict[str, dict[str, list[float]]] = {}
        for number, kind in enumerate(KINDS):
            for name, times in honest(served.port, options.seconds / 2, 10**8 * (2 * number + 1)).items():
                quiet.setdefault(name, []).extend(times)
            abusive = get_context("spawn").Process(target=abuse, args=(kind, served.port, options.seconds + 2))
            abusive.start()
            time.sleep(1.5)  # until it is at work
            beside[kind] = honest(served.port, options.seconds, 10**8 * (2 * number + 2))
            abusive.join()
    print(f"{n:,} items; {CONNECTIONS} abusive connections; p99 of the honest client in ms, and over its quiet value,")
    print("which is measured before each kind of abuse; and the longest time that /v1/health took\n")
    print(f"{'beside':22s}" + "".join(f"{name:>18s}" for name in quiet) + "   worst health")
    usual = {name: float(np.quantile(times, 0.99)) for name, times in quiet.items()}
    for kind, took in {"nobody": quiet, **beside}.items():
        p99 = {name: float(np.quantile(times, 0.99)) for name, times in took.items()}
        cells = "".join(f"{1e3 * p99[name]:10.1f} ({p99[name] / usual[name]:4.1f})" for name in p99)
        print(f"{kind:22s}{cells}{1e3 * max(took['health']):12.0f}", flush=True)
        rows.append({"beside": kind, "p99": p99, "ratio": {name: p99[name] / usual[name] for name in p99}})
    return rows


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("filters", help=filters.__doc__)
    command.set_defaults(run=filters)
    command.add_argument("--n", type=float, default=5_000, help="items")
    command.add_argument("--json", type=Path, help="write the figures to this file too")
    command = commands.add_parser("service", help=service.__doc__)
    command.set_defaults(run=service)
    command.add_argument("--n", type=float, default=20_000, help="items")
    command.add_argument("--seconds", type=float, default=30.0, help="of each kind of abuse")
    command.add_argument("--folder", type=Path, help="on which disk (default: the system's temporary folder)")
    command.add_argument("--json", type=Path, help="write the figures to this file too")
    command = commands.add_parser("memory", help=memory.__doc__)
    command.set_defaults(run=memory)
    command.add_argument("--n", type=float, default=5_000, help="items")
    command.add_argument("--minutes", type=float, default=60.0, help="in all")
    command.add_argument("--seconds", type=float, default=10.0, help="of each kind of abuse")
    command.add_argument("--folder", type=Path, help="on which disk (default: the system's temporary folder)")
    command.add_argument("--json", type=Path, help="write the figures to this file too")
    return parser.parse_args()


def main() -> None:
    common.run(arguments())


if __name__ == "__main__":
    main()
