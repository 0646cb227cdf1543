"""Many small changes at once: committed together, beside one change in a transaction, in the same run.

    python benchmarks/group_commit.py [--clients 64] [--n 2e4] [--dims 64] [--seconds 2] [--rounds 2] [--json FILE]
                                      [--where http folder postgres] [--folder FOLDER] [--beside N]

Each client adds one item or teaches one pair in a request, and sends the next one when it has its answer. `http` is the
service over a folder, on loopback, with its clients in a process of their own; `folder` and `postgres` are the same
changes without HTTP, from threads of this process, and PostgreSQL syncs its disk. "Alone" is the same program with
groups of one. The best of some rounds, in turn; then the latencies at half of that load, of as many rounds together,
from the moment at which a request was due, even if its client still waited for the last answer. The time that the
processor works for a change is printed too: it depends least on what else the machine does (for `postgres`, without the
server). So is how long the disk takes to sync: nobody has an answer before, and at half load many wait for the sync of
those before them as well.

With `--beside N` a folder of N items is refreshed again and again while one client adds items: how long it waits.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import common
import numpy as np
import orjson
from http_client import Client, Sender, request, sender
from http_items import Items, fill
from http_load import quantiles, summary
from http_server import Served

from onlinehash import LiveIndex, OnlineHashing, PostgresIndex, refresh
from onlinehash.index.api import VectorIndex
from onlinehash.serve import writer
from onlinehash.serve.changes import Changes
from onlinehash.serve.settings import Limits
from onlinehash.serve.writer import Writer

KINDS = ("add", "learn")
MODES = {"alone": 1, "together": writer.MOST_TOGETHER}
#: Starts the command line with groups of so many.
PROGRAM = "import sys; from onlinehash.serve import writer; writer.MOST_TOGETHER = int(sys.argv.pop(1)); " \
          "from onlinehash.cli import main; main()"  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--n", type=float, default=2e4, help="items before the first change")
    parser.add_argument("--dims", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each load")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--where", nargs="*", default=["http", "folder", "postgres"])
    parser.add_argument("--beside", type=float, default=0, help="items of an index that is refreshed; 0 leaves it out")
    parser.add_argument("--folder", type=Path, help="on which disk (default: the system's temporary folder)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(common.machine())
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder) as root:
        print(f"fdatasync of 4 KiB: {quantiles(synced(Path(root) / 'synced'))}", flush=True)
        for where in options.where:
            with PLACES[where](Path(root), options) as loads:
                rows += [measured(where, kind, loads, options) for kind in KINDS]
        if options.beside:
            rows.append(beside_a_refresh(Path(root), options))
    common.write_json(rows, options.json)


def synced(path: Path, times: int = 300) -> list[float]:
    """Seconds until so many bytes as a small change has are on the disk."""
    seconds = []
    with path.open("wb", buffering=0) as file:
        for _ in range(times):
            file.write(bytes(4096))
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - begin)
    return seconds


class Load:
    """What clients send to one place, in one mode.

    flood : function of the kind
        As much as they can; changes in a second, and seconds of the processor for each.
    pace : function of the kind and a rate
        So many a second; seconds of each answer, from when its request was due.
    """

    def __init__(self, flood: Callable[[str], tuple[float, float]], pace: Callable[[str, float], list[float]]) -> None:
        self.flood, self.pace = flood, pace


def measured(where: str, kind: str, loads: dict[str, Load], options: argparse.Namespace) -> dict[str, Any]:
    """Changes in a second alone and together, and the latencies of both at half the load of the latter."""
    found: dict[str, list[tuple[float, float]]] = {mode: [] for mode in loads}
    for _ in range(options.rounds):
        for mode, load in loads.items():
            found[mode].append(load.flood(kind))
    best = {mode: max(rate for rate, _ in some) for mode, some in found.items()}
    cpu = {mode: 1e3 * min(used for _, used in some) for mode, some in found.items()}
    rounds = (loads["together"].pace(kind, best["together"] / 2) for _ in range(options.rounds))
    half = [seconds for latencies in rounds for seconds in latencies]
    ratio = best["together"] / best["alone"]
    print(f"{where:8} {kind:5} {options.clients} clients: alone {best['alone']:7,.0f}/s, together "
          f"{best['together']:7,.0f}/s, {ratio:4.1f} times as many; processor {cpu['alone']:.2f} and "
          f"{cpu['together']:.2f} ms a change; at half load {quantiles(half)}", flush=True)  # fmt: skip
    return {"where": where, "kind": kind, "ratio": ratio, "half": summary(half), "cpu": cpu} | best


# ------------------------------------------------------------------ over HTTP


@contextmanager
def over_http(root: Path, options: argparse.Namespace) -> Iterator[dict[str, Load]]:
    items = Items(options.dims)
    with sender() as flooding, ExitStack() as stack:
        loads = {}
        for mode, most in MODES.items():
            command = [sys.executable, "-c", PROGRAM, str(most), "serve", str(root / mode)]
            served = Served([*command, "--method", "OnlineHashing", "--json"])
            stack.callback(served.stop)
            fill(served.port, items, int(options.n))
            loads[mode] = http_load(served, flooding, requests(items, options.dims), options)
        yield loads


def requests(items: Items, dims: int) -> dict[str, list[bytes]]:
    """Single items and single pairs, as people send them."""
    numpy = orjson.OPT_SERIALIZE_NUMPY
    rows = items.batch(0, 400, seed=2)
    similar = items.similar(np.arange(200), np.arange(200, 400)).tolist()
    return {
        "add": [request("POST", "/v1/items", orjson.dumps({"vectors": [row]}, option=numpy)) for row in rows],
        "learn": [
            request("POST", "/v1/learn", orjson.dumps({"a": [a], "b": [b], "similar": [s]}, option=numpy))
            for a, b, s in zip(rows[:200], rows[200:], similar, strict=True)
        ],
    }


def http_load(served: Served, flooding: Sender, bodies: dict[str, list[bytes]], options: argparse.Namespace) -> Load:
    def flood(kind: str) -> tuple[float, float]:
        used = served.cpu_seconds()
        found = flooding.flood(served.port, bodies[kind], options.clients, options.seconds)
        assert set(found["statuses"]) <= {200, 201}, found["statuses"]
        return found["rate"], (served.cpu_seconds() - used) / sum(found["statuses"].values())

    def pace(kind: str, rate: float) -> list[float]:
        return asyncio.run(paced(served.port, bodies[kind], options.clients, rate, options.seconds))

    return Load(flood, pace)


async def paced(port: int, bodies: list[bytes], n_clients: int, rate: float, seconds: float) -> list[float]:
    """Seconds of each answer from when it was due, where clients send so many requests a second together."""
    latencies: list[float] = []
    begin = time.perf_counter() + 0.1

    async def client(number: int) -> None:
        connection = Client(port)
        for turn in range(number, int(rate * seconds), n_clients):
            due = begin + turn / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            answer = await connection.ask(bodies[turn % len(bodies)])
            latencies.append(time.perf_counter() - due)
            assert answer.status in (200, 201), answer.body
        connection.close()

    await asyncio.gather(*map(client, range(n_clients)))
    return latencies


# ------------------------------------------------------------------ without HTTP


@contextmanager
def in_folders(root: Path, options: argparse.Namespace) -> Iterator[dict[str, Load]]:
    with ExitStack() as stack:
        made = {}
        for mode in MODES:
            learner = OnlineHashing(64, random_state=0)
            made[mode] = stack.enter_context(LiveIndex(learner, refresh.by_hand(), path=root / f"plain-{mode}"))
        yield {mode: thread_load(filled(index, options), mode, options) for mode, index in made.items()}


@contextmanager
def in_postgres(root: Path, options: argparse.Namespace) -> Iterator[dict[str, Load]]:
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the servers are those of the tests
    from tests.servers import PostgresServer

    class Syncing(PostgresServer):
        def _command(self) -> list[str]:
            return [*super()._command(), "--fsync=on"]

    with Syncing() as server, ExitStack() as stack:
        made = {}
        for mode in MODES:
            learner = OnlineHashing(64, random_state=0)
            index = PostgresIndex.create(server.address(), learner, refresh.by_hand(), schema=mode)
            made[mode] = stack.enter_context(index)
        yield {mode: thread_load(filled(index, options), mode, options) for mode, index in made.items()}


def filled(index: VectorIndex, options: argparse.Namespace) -> VectorIndex:
    index.add(None, Items(options.dims).batch(0, int(options.n)))
    index.refresh()
    return index


def thread_load(index: VectorIndex, mode: str, options: argparse.Namespace) -> Load:
    """Changes as the service makes them, asked for by threads."""
    rows = Items(options.dims).batch(0, 1000, seed=2)

    def run(kind: str, rate: float | None) -> list[float]:
        writer.MOST_TOGETHER = MODES[mode]
        queue, latencies = Writer(Limits()), list[float]()
        changes, begin = Changes(index, queue), time.perf_counter()

        def client(number: int) -> None:
            for turn in range(number, 10**9, options.clients):
                due = now = time.perf_counter()
                if rate is not None:
                    due = begin + turn / rate
                    time.sleep(max(0.0, due - now))
                if max(due, now) > begin + options.seconds:
                    return
                a, b = rows[[turn % 1000]], rows[[(turn + 1) % 1000]]
                done = changes.add(None, a) if kind == "add" else changes.learn(a, b, [turn % 2 == 0])
                done.result()
                latencies.append(time.perf_counter() - due)

        threads = [threading.Thread(target=client, args=(number,)) for number in range(options.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        queue.close()
        return latencies

    def flood(kind: str) -> tuple[float, float]:
        used, latencies = time.process_time(), run(kind, None)
        return len(latencies) / options.seconds, (time.process_time() - used) / len(latencies)

    return Load(flood, run)


PLACES = {"http": over_http, "folder": in_folders, "postgres": in_postgres}


# ------------------------------------------------------------------ beside a refresh


def beside_a_refresh(root: Path, options: argparse.Namespace) -> dict[str, Any]:
    """How long single additions wait while all codes are written again and again, whole and in parts."""
    from onlinehash.live import storage

    n, items, found = int(options.beside), Items(options.dims), {}
    learner = OnlineHashing(64, random_state=0)
    with LiveIndex(learner, refresh.by_hand(), path=root / "beside") as index:
        for start in range(0, n, 10_000):
            index.add(None, items.batch(start, min(10_000, n - start)))
        index.refresh()
        for name, part in (("whole", 1 << 40), ("parts", storage.PART_BYTES)):
            storage.PART_BYTES, waits, turns = part, list[float](), 0
            for turn in range(3):
                rows = items.batch(turn, 40)
                index.learn_pairs(rows[:20], rows[20:], np.arange(20) % 2 == 0)
                job = index.refresh(wait=False)
                while not job.done:
                    begin = time.perf_counter()
                    index.add(None, rows[:1])
                    waits.append(time.perf_counter() - begin)
                turns += 1
            found[name] = summary(waits)
            print(
                f"{n:,} items, {turns} refreshes, codes written {name}: an addition takes {quantiles(waits)}",
                flush=True,
            )
    return {"where": "beside", "n": n} | found


if __name__ == "__main__":
    main()
