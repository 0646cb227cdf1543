"""Replicas over PostgreSQL beside the same service over a folder: searches a second, and how far a replica is behind.

    python benchmarks/replicas.py [--n 1e6] [--dims 16] [--rounds 3] [--seconds 3] [--additions 1000] [--json FILE]

It starts a PostgreSQL server of its own and fills an index in it and one in a folder with the same items, codes of 64
bits. `onlinehash serve` serves both; searches for k = 10 are sent to them in turn, over 16 connections, and printed is
the ratio of what they answer a second. The answers of both are compared. Then two replicas are searched at once; where
there are no more cores than processes, the cores are the limit. Filters that one item in 2 passes, one in 10, 100 and
1,000, and one of all are sent one after the other: the first request with a filter, the median of the next ones, and
the median of those that each come after a change of a payload.

The lag is measured while another process adds items, in so many changes a second as a service would make of them: from
when the change was recorded, just before its commit, to when a replica that searches nothing else shows it.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import common
import numpy as np
import orjson
from http_client import request, sender
from http_items import Items, K, asked_once
from http_server import Served

from onlinehash import LiveIndex, OnlineHashing, PostgresIndex, refresh
from onlinehash.stores.postgres.connections import connect

sys.path.insert(0, str(Path(__file__).parents[1]))  # the server is that of the tests
from tests.servers import PostgresServer

BATCH, CONNECTIONS = 10_000, 16
#: What is asked for with filters, by requests one after the other.
FILTERS, REQUESTS = {"of_2": 1, "of_10": 7, "of_100": 7, "of_1000": 7, "number": 77}, 10
#: Changes a second into which a service puts additions that come at the same time.
CHANGES = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=float, default=1e6)
    parser.add_argument("--dims", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load")
    parser.add_argument("--additions", type=int, default=1000, help="items a second, while the lag is measured")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(common.machine())
    items = Items(options.dims)
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        fill(items, int(options.n), Path(folder) / "items", server.address())
        rows = [searches(items, Path(folder) / "items", server.address(), options)]
        rows += filtered(items, Path(folder) / "items", server.address())
        rows.append(lag(items, server.address(), options.additions, 2 * options.seconds))
    common.write_json(rows, options.json)


def fill(items: Items, n: int, folder: Path, address: str) -> None:
    """The same items in both, with the same learner."""
    learner = OnlineHashing(n_bits=64, random_state=0)
    made = {
        "folder": lambda: LiveIndex(learner, refresh.by_hand(), path=folder, sync="batch"),
        "PostgreSQL": lambda: PostgresIndex.create(
            address, OnlineHashing(n_bits=64, random_state=0), refresh.by_hand()
        ),
    }
    for name, make in made.items():
        start = time.perf_counter()
        with make() as index:
            for begin in range(0, n, BATCH):
                end = min(begin + BATCH, n)
                shares = {f"of_{share}": share for share in (2, 10, 100, 1000)}
                payloads = [
                    {name: i % share for name, share in shares.items()} | {"number": i} for i in range(begin, end)
                ]
                index.add(None, items.batch(begin, end - begin), payloads=payloads)
        print(f"{n:,} items into {name}: {time.perf_counter() - start:.1f} s", flush=True)


# ------------------------------------------------------------------ searches


def searches(items: Items, folder: Path, address: str, options: argparse.Namespace) -> dict[str, Any]:
    """Searches a second of each service, in turn, and of two replicas at once."""
    asked = [request("POST", "/v1/search", body) for body in items.searches()]
    served, rates, cpu = dict[str, Served](), dict[str, list[float]](), dict[str, list[float]]()
    try:
        for name, where in (("folder", str(folder)), ("replica", address), ("another replica", address)):
            start = time.perf_counter()
            served[name] = Served([sys.executable, "-m", "onlinehash", "serve", where, "--json"])
            print(f"{name} serves after {time.perf_counter() - start:.1f} s", flush=True)
        for data in asked[:20]:
            answers = [orjson.loads(asked_once(one.port, data)) for one in served.values()]
            assert all(answer["ids"] == answers[0]["ids"] for answer in answers)
        with sender() as load, sender() as second:
            for _ in range(options.rounds):
                for name in ("folder", "replica"):
                    used = served[name].cpu_seconds()
                    found = load.flood(served[name].port, asked, CONNECTIONS, options.seconds)
                    used = served[name].cpu_seconds() - used
                    cpu.setdefault(name, []).append(used / found["statuses"][200])
                    assert set(found["statuses"]) == {200}, found["statuses"]
                    rates.setdefault(name, []).append(found["rate"])
                both = (load, served["replica"]), (second, served["another replica"])
                with ThreadPoolExecutor(2) as pool:
                    at_once = pool.map(lambda one: one[0].flood(one[1].port, asked, CONNECTIONS, options.seconds), both)
                    rates.setdefault("two replicas", []).append(sum(found["rate"] for found in at_once))
                print(", ".join(f"{name} {values[-1]:,.0f}/s" for name, values in rates.items()), flush=True)
    finally:
        for one in served.values():
            one.stop()
    ratios = [ours / theirs for ours, theirs in zip(rates["replica"], rates["folder"], strict=True)]
    best = {name: max(values) for name, values in rates.items()}
    of_folder, by_cpu = best["replica"] / best["folder"], min(cpu["folder"]) / min(cpu["replica"])
    print(f"k = {K}: a replica answers {of_folder:.2f} of what the service over a folder answers by the best rounds, "
          f"{median(ratios):.2f} by the median of rounds, {by_cpu:.2f} by CPU")  # fmt: skip
    print(f"two replicas answer {best['two replicas'] / best['replica']:.2f} times what one does; they and two senders "
          f"share {os.cpu_count()} cores")  # fmt: skip
    return {"rates": rates, "cpu": cpu, "ratio": of_folder, "ratios": ratios}


# ------------------------------------------------------------------ filters


def filtered(items: Items, folder: Path, address: str) -> list[dict[str, Any]]:
    """Milliseconds of a search and of a find with a filter, by each service."""
    rows = []
    bodies = [orjson.loads(body) for body in items.searches(REQUESTS)]
    served = {
        name: Served([sys.executable, "-m", "onlinehash", "serve", *where, "--json"])
        # By default a folder's service rounds vectors to a byte a value, so that a find may end with other candidates.
        for name, where in (("folder", [str(folder), "--precision", "float32"]), ("replica", [address]))
    }
    try:
        for route, (field, value) in itertools.product(("search", "find"), FILTERS.items()):
            where = {field: value if route == "search" else value - 1}  # new to both
            asked = [request("POST", f"/v1/{route}", orjson.dumps(body | {"where": where})) for body in bodies]
            answers = dict[str, list[Any]]()
            for name, one in served.items():
                times = dict[str, list[float]]()
                for number, data in enumerate([*asked, *asked]):
                    if number >= len(asked):
                        change = orjson.dumps({"ids": [number], "payloads": [{field: -1}]})
                        changed = orjson.loads(asked_once(one.port, request("PATCH", "/v1/items", change)))
                        assert "error" not in changed, changed
                    begin = time.perf_counter()
                    answer = orjson.loads(asked_once(one.port, data))
                    took = 1e3 * (time.perf_counter() - begin)
                    kind = "first" if number == 0 else "next" if number < len(asked) else "after a change"
                    times.setdefault(kind, []).append(took)
                    answers.setdefault(name, []).append(answer["ids"])
                row = {"route": route, "where": where, "service": name}
                rows.append(row | {kind: median(values) for kind, values in times.items()})
                shown = ", ".join(f"{kind} {rows[-1][kind]:.1f} ms" for kind in times)
                print(f"{route} where {field} = {where[field]}, {name}: {shown}", flush=True)
            assert answers["folder"] == answers["replica"]
    finally:
        for one in served.values():
            one.stop()
    return rows


# ------------------------------------------------------------------ lag


def lag(items: Items, address: str, additions: int, seconds: float) -> dict[str, Any]:
    """Seconds from a change to when a replica shows it, while another process adds items."""
    seen: list[tuple[float, int]] = []
    ended = threading.Event()
    with PostgresIndex.open(address, refresh.by_hand(), follow=True) as index:

        def watch() -> None:
            while not ended.wait(0.0002):
                epoch = index.epoch
                if not seen or epoch > seen[-1][1]:
                    seen.append((time.time(), epoch))

        watching = threading.Thread(target=watch)
        watching.start()
        first, begin = index.epoch, time.perf_counter()
        context = multiprocessing.get_context("spawn")
        adding = context.Process(target=add, args=(address, items.batch(0, BATCH, seed=2), additions, seconds))
        adding.start()
        adding.join()
        n_added, took = len(index), time.perf_counter() - begin
        time.sleep(1)
        ended.set()
        watching.join()
    with connect(address) as connection:
        written = connection.execute(
            "SELECT epoch, extract(epoch FROM written)::float8 FROM onlinehash.deltas WHERE epoch > %s ORDER BY epoch",
            (first,),
        ).fetchall()
    times, epochs = np.array([at for at, _ in seen]), np.array([epoch for _, epoch in seen])
    shown = np.searchsorted(epochs, [epoch for epoch, _ in written])
    lags = times[shown] - np.array([at for _, at in written])
    span = written[-1][1] - written[0][1]
    rate = additions / CHANGES * len(written) / span
    p50, p99 = (1e3 * np.quantile(lags, [0.5, 0.99])).tolist()
    print(f"{rate:,.0f} additions a second in {len(written) / span:.0f} changes, beside {n_added:,} items: a replica "
          f"is {p50:.1f} ms behind (p50), {p99:.1f} ms (p99), {1e3 * lags.max():.1f} ms (most)")  # fmt: skip
    return {"additions": rate, "p50": p50 / 1e3, "p99": p99 / 1e3, "most": lags.max(), "seconds": took}


def add(address: str, rows: np.ndarray, additions: int, seconds: float) -> None:
    """In a process of its own: so many items a second, in groups, as a service commits what waits."""
    of_group = max(1, additions // CHANGES)
    with PostgresIndex.open(address, refresh.by_hand()) as index:
        begin = time.perf_counter()
        for number in range(int(seconds * CHANGES)):
            time.sleep(max(0.0, begin + number / CHANGES - time.perf_counter()))
            with index.group_commit():
                for i in range(of_group):
                    index.add(None, rows[(number * of_group + i) % len(rows)][None])


if __name__ == "__main__":
    main()
