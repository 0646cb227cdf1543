"""What the benchmarks over HTTP store and ask for."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import common
import numpy as np
import orjson
from http_client import FORMAT, Client, request

from onlinehash import LiveIndex
from onlinehash.io import format

#: Neighbours of a search; rows of one request while an index is filled, as many as a service takes by default.
K, ROWS = 10, 10_000


class Items:
    """Any number of vectors around so many centres of ten classes; the class of item i is known."""

    def __init__(self, dims: int, n_different: int = 20_000) -> None:
        self._rows, self._labels = common.clusters(n_different, dims)

    def batch(self, start: int, n: int, seed: int = 0) -> np.ndarray:
        """The items from there on; with another seed, others that are near them."""
        noise = np.random.default_rng((seed, start)).standard_normal((n, self._rows.shape[1]), np.float32)
        return self._rows[np.arange(start, start + n) % len(self._rows)] + 0.02 * noise

    def similar(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Are these items, by their numbers, of one class?"""
        return self._labels[a % len(self._labels)] == self._labels[b % len(self._labels)]

    def searches(self, n: int = 200) -> list[bytes]:
        """Bodies as people send them: float32 values by their shortest decimals."""
        rows = self.batch(0, n, seed=1)
        return [orjson.dumps({"vector": row, "k": K}, option=orjson.OPT_SERIALIZE_NUMPY) for row in rows]


def adding(rows: np.ndarray, **headers: str) -> bytes:
    """A request that adds items, numbered on."""
    body = format.to_bytes("body", {"ids": None, "vectors": rows})
    return request("POST", "/v1/items", body, FORMAT, **headers)


def fill(port: int, items: Items, n: int, index: LiveIndex | None = None) -> float:
    """Send n items, and give them to an index of this process too; the seconds that the service took."""

    async def run() -> float:
        client, seconds = Client(port), 0.0
        for start in range(0, n, ROWS):
            rows = items.batch(start, min(ROWS, n - start))
            data = adding(rows)
            begin = time.perf_counter()
            answer = await client.ask(data)
            seconds += time.perf_counter() - begin
            assert answer.status == 201, answer.body
            if index is not None:
                index.add(None, rows)
            if (start // ROWS) % 20 == 19:
                print(f"  {start + len(rows):,} items, {seconds:.1f} s", flush=True)
        client.close()
        return seconds

    return asyncio.run(run())


def got(port: int, path: str) -> dict[str, Any]:
    """The answer to one GET."""
    return orjson.loads(asked_once(port, request("GET", path)))


def asked_once(port: int, data: bytes) -> bytes:
    """The body of the answer to one request."""

    async def run() -> bytes:
        client = Client(port)
        answer = await client.insist(data)
        client.close()
        assert answer.status < 300, answer.body
        return answer.body

    return asyncio.run(run())
