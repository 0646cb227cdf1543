"""Reader processes: how far they are behind the writer, and what they add to the searches a second."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import http_load
import numpy as np
import orjson
from http_client import Client, request, sender
from http_items import Items, adding, fill
from http_server import Served, service

#: Seconds of waiting for a reader after which it is given up, and between two questions.
PATIENCE, PAUSE = 60.0, 0.002


def lag(options: argparse.Namespace) -> list[dict[str, Any]]:
    """How far readers are behind the writer, and searches a second with none, one, ... of them."""
    n, items = int(options.n), Items(options.dims)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as root, sender() as load:
        folder = Path(root) / "index"
        with service(folder) as writer, ExitStack() as stack:
            took = fill(writer.port, items, n)
            print(f"{n:,} items of {options.dims} dimensions, 64 bits, loaded in {took:.1f} s")
            # Behind one port nobody can say which process answers, so these readers have ports of their own.
            readers = [stack.enter_context(service(folder, "--read-only")) for _ in range(options.readers)]
            for teach in (False, True):
                trial = http_load.Trial(writer, items, f"lag{teach}", options.writes)
                kinds = [trial.added, trial.taught] if teach else [trial.added]
                waits = asyncio.run(behind(writer, readers, items, options.writes, kinds))
                beside = f"{http_load.ADDED * http_load.PER_SECOND} additions/s" + (" and learning" if teach else "")
                print(f"{options.readers} readers beside {beside}: behind by {least(waits)}, "
                      f"{http_load.quantiles(waits)}", flush=True)  # fmt: skip
                rows.append({"n": n, "teach": teach, "behind": waits})
        searches = [request("POST", "/v1/search", body) for body in items.searches()]
        for n_readers in range(options.readers + 1):
            with service(folder, "--readers", str(n_readers)) as served:
                settle(served)
                found = load.flood(served.port, searches, options.connections, options.seconds)
            assert set(found["statuses"]) == {200}, found["statuses"]
            print(f"{n_readers} readers: {found['rate']:,.0f} searches/s, {http_load.quantiles(found['latencies'])}")
            rows.append({"n": n, "readers": n_readers, "rate": found["rate"]})
    return rows


def least(waits: list[float]) -> str:
    return f"best {min(waits) * 1e3:.1f} ms"


async def behind(
    writer: Served, readers: list[Served], items: Items, n_writes: int, kinds: list[http_load.Changes]
) -> list[float]:
    """Seconds from a write's acknowledgement until a reader shows it, for every write and reader."""
    beside = [asyncio.create_task(kind.run(n_writes * PATIENCE)) for kind in kinds]
    client, asked, waits = Client(writer.port), [Client(reader.port) for reader in readers], []
    for turn in range(n_writes):
        answer = await client.ask(adding(items.batch(turn, 1, seed=2)))
        acknowledged = time.perf_counter()
        (name,) = orjson.loads(answer.body)["ids"]
        waits += await asyncio.gather(*(shown(reader, name, acknowledged) for reader in asked))
        await asyncio.sleep(0.05 * np.random.default_rng(turn).random())  # not in step with the readers
    for task in beside:
        task.cancel()
    await asyncio.gather(*beside, return_exceptions=True)
    for open_client in (client, *asked):
        open_client.close()
    return waits


async def shown(reader: Client, name: int, since: float) -> float:
    """Ask until the item is there."""
    data = request("GET", f"/v1/items/{name}?vector=false")
    while time.perf_counter() - since < PATIENCE:
        if (await reader.ask(data)).status == 200:
            return time.perf_counter() - since
        await asyncio.sleep(PAUSE)
    raise TimeoutError(f"a reader did not show item {name} within {PATIENCE:g} s")


def settle(served: Served, most: float = 30.0) -> None:
    """Wait until all processes are up, which is when they have little to do."""
    begin, used = time.perf_counter(), -1.0
    while served.cpu_seconds() - used > 0.2 and time.perf_counter() - begin < most:
        used = served.cpu_seconds()
        time.sleep(1)
