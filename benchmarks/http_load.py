"""Searches, additions and learning at once over HTTP; then the same with the service killed in the middle."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from http_client import FORMAT, Client, Sender, request, sender
from http_items import Items, K, adding, asked_once, fill, got
from http_server import Served, bare_service, service

from onlinehash import LiveIndex
from onlinehash.io import format

#: Items of one addition, pairs of one lesson, and how many of each are sent in a second.
ADDED, TAUGHT, PER_SECOND = 100, 5, 10


def load(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Searches beside additions and learning, on an index that lasts; then the same under SIGKILL."""
    n, items = int(options.n), Items(options.dims)
    bodies = items.searches()
    searches = [request("POST", "/v1/search", body) for body in bodies]
    with tempfile.TemporaryDirectory(dir=options.folder) as root, sender() as load:
        folder = Path(root) / "index"
        with service(folder) as served:
            took = fill(served.port, items, n)
            print(f"{n:,} items of {options.dims} dimensions, 64 bits, loaded in {took:.1f} s ({n / took:,.0f}/s)")
            n_bytes = len(asked_once(served.port, searches[0]))
            rows = [{"n": n, "loading": took} | limits(folder, bodies, searches, n_bytes, load, options)]
            for kill in (False, True):
                print(f"{options.connections} connections search for {options.seconds:g} s, one adds {ADDED} items "
                      f"{PER_SECOND} times a second, one teaches {TAUGHT} pairs {PER_SECOND} times a second"
                      + (", and the service is killed in the middle" if kill else ""), flush=True)  # fmt: skip
                trial = Trial(served, items, f"kill{kill}", options.seconds)
                searching = load.start(served.port, searches, options.connections, options.seconds)
                rows.append(trial.run(searching, searches[0] if kill else None))
                trial.check()
    return rows


def limits(
    folder: Path, bodies: list[bytes], searches: list[bytes], n_bytes: int, load: Sender, options: argparse.Namespace
) -> dict[str, float]:
    """What the machine gives at most: a route that does nothing, a search without HTTP, a write that lasts."""
    with bare_service(n_bytes) as bare:
        route = load.flood(bare.port, searches, options.connections, 2)["rate"]
    with LiveIndex.open(folder, read_only=True) as index:
        vectors = [np.array(orjson.loads(body)["vector"], np.float32) for body in bodies]
        index.search(vectors[0], K)
        done, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < 2:
            index.search(vectors[done % len(vectors)], K)
            done += 1
        alone = done / (time.perf_counter() - begin)
    writes = []
    with open(folder.parent / "probe", "wb") as file:
        for _ in range(100):
            begin = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            writes.append(time.perf_counter() - begin)
    print(f"limits: a bare route {route:,.0f}/s, search in process {alone:,.0f}/s, a write of 4 KiB to the disk "
          f"{quantiles(writes)}", flush=True)  # fmt: skip
    return {"bare": route, "in_process": alone, "fsync": float(np.median(writes))}


class Changes:
    """One connection that changes something again and again at a steady pace, each time under a key of its own.

    A request that was cut is sent again until it is answered, as the key allows.
    """

    def __init__(self, name: str, port: int, make: Callable[[int, str], bytes]) -> None:
        self._name, self._make, self._client = name, make, Client(port)
        self.latencies: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.answers: list[dict[str, Any]] = []
        self.replayed = 0

    async def run(self, seconds: float) -> None:
        begin = time.perf_counter()
        for turn in range(int(seconds * PER_SECOND)):
            await asyncio.sleep(max(0.0, begin + turn / PER_SECOND - time.perf_counter()))
            data, sent = self._make(turn, f"{self._name}-{turn}"), time.perf_counter()
            answer = await self._client.insist(data)
            self.latencies.append(time.perf_counter() - sent)
            self.statuses[answer.status] += 1
            self.replayed += b"idempotency-replayed: true" in answer.head
            self.answers.append(orjson.loads(answer.body))
        self._client.close()

    @property
    def retries(self) -> int:
        return self._client.retries


class Trial:
    """One run of the load, and what must be true after it."""

    def __init__(self, served: Served, items: Items, name: str, seconds: float) -> None:
        self._served, self._items, self._seconds = served, items, seconds
        self._n, self._n_pairs, self._refreshes = self._counts()
        self.added = Changes(f"{name}-add", served.port, self._addition)
        self.taught = Changes(f"{name}-learn", served.port, self._lesson)

    def _counts(self) -> tuple[int, int, int]:
        stats = got(self._served.port, "/v1/stats")
        return stats["n"], stats["n_pairs"], stats["refreshes"]

    def _rows(self, turn: int) -> np.ndarray:
        return self._items.batch(self._n + turn * ADDED, ADDED)

    def _addition(self, turn: int, key: str) -> bytes:
        return adding(self._rows(turn), Idempotency_Key=key)

    def _lesson(self, turn: int, key: str) -> bytes:
        a, b = np.random.default_rng((self._n, turn)).integers(0, self._n, (2, TAUGHT))
        pairs = {"id_a": a.tolist(), "id_b": b.tolist(), "similar": self._items.similar(a, b).tolist()}
        return request("POST", "/v1/learn", orjson.dumps(pairs), Idempotency_Key=key)

    def run(self, searching: Future[dict[str, Any]], probe: bytes | None) -> dict[str, Any]:
        """All at once; with a probe (a search) the service is killed, started again, and probed until it answers."""

        async def all_at_once() -> float | None:
            changes = [asyncio.create_task(kind.run(self._seconds)) for kind in (self.added, self.taught)]
            back = None if probe is None else await self._killed(probe)
            await asyncio.gather(*changes)
            return back

        back = asyncio.run(all_at_once())
        found = searching.result()
        statuses = found["statuses"]
        print(f"searches: {found['rate']:,.0f}/s, {quantiles(found['latencies'])}; {statuses}"
              + (f", {found['lost']} connections cut" if found["lost"] else ""))  # fmt: skip
        row: dict[str, Any] = {"killed": probe is not None, "back": back, "searches": summary(found["latencies"])}
        for name, kind in (("additions", self.added), ("lessons", self.taught)):
            print(f"{name}: {len(kind.latencies)}, {quantiles(kind.latencies)}; {dict(kind.statuses)}, "
                  f"{kind.retries} tries again, {kind.replayed} had been made before the kill")  # fmt: skip
            row[name] = summary(kind.latencies)
        return row | {"rate": found["rate"]}

    async def _killed(self, probe: bytes) -> float:
        await asyncio.sleep(self._seconds / 2)
        begin = time.perf_counter()
        await asyncio.to_thread(self._served.kill)
        await asyncio.to_thread(self._served.start)
        listening = time.perf_counter() - begin
        client = Client(self._served.port)
        answer = await client.insist(probe)
        client.close()
        assert answer.status == 200, answer.body
        back = time.perf_counter() - begin
        print(f"killed and started again: it listens after {listening:.2f} s, and has answered after {back:.2f} s")
        return back

    def check(self) -> None:
        """Everything acknowledged is there, once, and nothing else."""
        assert set(self.added.statuses) == {201}, self.added.statuses
        assert set(self.taught.statuses) == {200}, self.taught.statuses
        ids = [answer["ids"] for answer in self.added.answers]
        n, n_pairs, refreshes = self._counts()
        assert len({id for some in ids for id in some}) == n - self._n == ADDED * len(ids)
        assert n_pairs - self._n_pairs == TAUGHT * len(self.taught.answers)
        for turn, some in enumerate(ids):
            data = request("POST", "/v1/items/get", orjson.dumps({"ids": some}), Accept=FORMAT)
            _, content = format.from_bytes(asked_once(self._served.port, data), "the answer")
            assert np.array_equal(np.stack(content["vectors"]), self._rows(turn))
        print(f"all {n - self._n:,} items and {n_pairs - self._n_pairs} pairs that were acknowledged are there, once; "
              f"{refreshes - self._refreshes} refreshes", flush=True)  # fmt: skip


def summary(latencies: list[float]) -> dict[str, float]:
    """Seconds."""
    return {"p50": float(np.median(latencies)), "p99": float(np.quantile(latencies, 0.99)), "max": max(latencies)}


def quantiles(latencies: list[float]) -> str:
    return ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in summary(latencies).items())
