"""Services for the benchmarks over HTTP: processes to start, to kill and to stop; and a bare route beside ours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Served:
    """A service in a process of its own, which says its address on its first line."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self.port = 0
        self.start()

    def start(self) -> None:
        """Start it, again at the same port if it had one."""
        self._process = subprocess.Popen([*self._command, "--port", str(self.port)], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(json.loads(self._process.stdout.readline())["url"].rpartition(":")[2])

    def kill(self) -> None:
        """End it as a power cut would end it."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()

    def cpu_seconds(self) -> float:
        """What it and the processes under it have used so far; 0 where the system does not tell."""
        return sum(map(_cpu_seconds, [self._process.pid, *_children(self._process.pid)]))

    def resident_bytes(self) -> int:
        """Memory that it holds now; 0 where the system does not tell."""
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        except OSError:
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def service(folder: Path | None, *options: str) -> Iterator[Served]:
    """`onlinehash serve` while inside."""
    where = ["--memory"] if folder is None else [str(folder)]
    command = [sys.executable, "-m", "onlinehash", "serve", *where, "--method", "OnlineHashing", "--json", *options]
    with _stopping(Served(command)) as served:
        yield served


@contextmanager
def bare_service(n_bytes: int) -> Iterator[Served]:
    """A bare Starlette route while inside, which parses JSON and answers so many bytes."""
    with _stopping(Served([sys.executable, __file__, "--bytes", str(n_bytes)])) as served:
        yield served


@contextmanager
def _stopping(served: Served) -> Iterator[Served]:
    try:
        yield served
    finally:
        served.stop()


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, tasks.read_text().split())
    return found


def bare_app(n_bytes: int) -> Any:
    """What any search over HTTP in Python pays at least."""
    import orjson
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    constant = b'"' + b"x" * (n_bytes - 2) + b'"'

    async def search(request: Request) -> Response:
        orjson.loads(await request.body())
        return Response(constant, media_type="application/json")

    return Starlette(routes=[Route("/v1/search", search, methods=["POST"])])


def main() -> None:
    """Serve the bare route as `onlinehash serve` serves its own: uvloop, httptools, no access log."""
    import argparse

    import uvicorn

    from onlinehash.serve.server import address, listen

    parser = argparse.ArgumentParser(description=bare_service.__doc__)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    listener = listen("127.0.0.1", options.port)
    print(json.dumps({"url": address(listener)}), flush=True)
    config = uvicorn.Config(
        bare_app(options.bytes), loop="uvloop", http="httptools", ws="none", log_config=None, access_log=False,
        server_header=False, proxy_headers=False,
    )  # fmt: skip
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
