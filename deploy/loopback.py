"""The topology of compose.yaml as processes on loopback: PostgreSQL, replicas of one index, and a load balancer.

    python deploy/loopback.py                               two replicas over a new database
    python deploy/loopback.py --replicas 3 --shards 2       whose rows are on two more servers
    python deploy/loopback.py --target postgresql://...     over an index that is there

Ctrl-C stops all of it; a database that was started for it is removed. Run it in a clone, with the dev dependencies.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Self

sys.path.insert(0, str(Path(__file__).parents[1]))  # the servers are those of the tests
from onlinehash import PostgresIndex
from tests.servers import PostgresServer, free_port

#: Seconds that a replica may take to answer, on a machine with other things to do.
PATIENCE = 120


class Replica:
    """`onlinehash serve TARGET` on a port that stays the same when it is started again."""

    def __init__(self, target: str, log: Path, password: str | None = None) -> None:
        self.port, self.log = free_port(), log
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [sys.executable, "-m", "onlinehash", "serve", target, "--port", str(self.port), "--json"]
        self._environment = {**os.environ} if password is None else {**os.environ, "PGPASSWORD": password}
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start it; `wait` says when it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=self._environment
            )

    def wait(self) -> None:
        """Return when it answers: it then prints where it is."""
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        line = self._process.stdout.readline() if ready else b""
        if not line or json.loads(line)["url"] != self.url:
            raise RuntimeError(f"a replica did not start: {self.log.read_text(errors='replace')[-2000:]}")

    def start(self) -> None:
        """Start it, or start it again, and wait until it answers."""
        self.begin()
        self.wait()

    def ask_to_end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to stop, or kill it, and return at once."""
        if self._process is not None:
            self._process.send_signal(how)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it, or kill it, and return when it has ended."""
        self.ask_to_end(how)
        if self._process is not None:
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


class Balancer:
    """Passes each connection on to the next port that takes it."""

    def __init__(self, ports: Sequence[int], port: int = 0) -> None:
        self._ports, self._turns = list(ports), itertools.count()
        self._started: Future[int] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(port)), name="balancer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._started.result()}"
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self, port: int) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            server = await asyncio.start_server(self._pass_on, "127.0.0.1", port)
        except OSError as error:
            self._started.set_exception(error)
            return
        self._started.set_result(server.sockets[0].getsockname()[1])
        await self._stop.wait()
        server.close()  # the end of the loop cancels what is still passed on

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(self._turns)
        for number in range(len(self._ports)):
            port = self._ports[(first + number) % len(self._ports)]
            try:
                from_there, to_there = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            await asyncio.gather(_copy(reader, to_there), _copy(from_there, writer))
            return
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy what comes until one side goes away."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


class Topology(NamedTuple):
    """What runs: where the balancer is, the replicas behind it, and the database servers, the first with the head."""

    url: str
    replicas: list[Replica]
    servers: list[PostgresServer]


@contextmanager
def topology(n_replicas: int = 2, n_shards: int = 0, target: str | None = None, port: int = 0) -> Iterator[Topology]:
    """All of it, until the end of the block."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onlinehash-logs-")))
        servers: list[PostgresServer] = []
        password = None
        if target is None:
            servers = [stack.enter_context(PostgresServer()) for _ in range(1 + n_shards)]
            PostgresIndex.create(servers[0].address(), shards=[server.address() for server in servers[1:]]).close()
            target, password = f"postgresql://postgres@127.0.0.1:{servers[0].port}/postgres", "secret"
        replicas = [Replica(target, folder / f"replica-{number}.log", password) for number in range(n_replicas)]
        for replica in replicas:
            stack.callback(replica.end)
            replica.begin()
        stack.callback(
            lambda: [replica.ask_to_end() for replica in replicas]
        )  # all at once, before the first is waited for
        for replica in replicas:
            replica.wait()
        balancer = stack.enter_context(Balancer([replica.port for replica in replicas], port))
        yield Topology(balancer.url, replicas, servers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--shards", type=int, default=0, help="more servers that hold the rows: none, or two and more")
    parser.add_argument("--target", help="an index in PostgreSQL that is there, in place of a new one")
    parser.add_argument("--port", type=int, default=8000, help="of the load balancer")
    options = parser.parse_args()
    with topology(options.replicas, options.shards, options.target, options.port) as running:
        for number, replica in enumerate(running.replicas):
            print(f"replica {number}: {replica.url}")
        print(f"Open {running.url} in a browser; Ctrl-C stops.", flush=True)
        stop = threading.Event()
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda *_: stop.set())
        stop.wait()


if __name__ == "__main__":
    main()
