"""A small service for the tests: in a thread of this process, or as a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from onlinehash import LiveIndex, OnlineHashing
from onlinehash.index.api import VectorIndex
from onlinehash.io import files
from onlinehash.serve import server
from onlinehash.serve.app import make_app
from onlinehash.serve.pictures import Pixels
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Access, Limits
from tests.processes import children

#: Vectors are as wide as those in the examples of the OpenAPI document, whose ids are there, too.
N_FEATURES = 2
IDS = list(range(1, 13))

#: For what takes a moment, unless something is wrong.
SECONDS = 60.0


def rows(n: int, seed: int = 0) -> np.ndarray:
    """Some vectors."""
    return np.random.default_rng(seed).standard_normal((n, N_FEATURES)).astype(np.float32)


def small_index(path: Path | None = None, n: int = len(IDS), **settings: Any) -> LiveIndex:
    """An index with the ids from 1 on, of which every other one has a payload."""
    index = LiveIndex(OnlineHashing(n_bits=8, random_state=0), path=path, **settings)
    index.add(range(1, n + 1), rows(n), [{"colour": "red"} if i % 2 else None for i in range(n)])
    return index


@contextmanager
def served(index: VectorIndex | None = None, token: str | None = None, **limits: Any) -> Iterator[tuple[Service, str]]:
    """A service in a thread, and where it is."""
    service = Service(small_index() if index is None else index, label="colour", limits=Limits(**limits))
    with server.background(service, Access(token=token)) as url:
        yield service, url


@contextmanager
def served_by_a_reader(path: Path, token: str | None = None) -> Iterator[tuple[Service, Service, str]]:
    """A writer, a reader that forwards to it, both in threads, and where the reader is."""
    with ExitStack() as stack:
        private = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        place = str(Path(stack.enter_context(TemporaryDirectory())) / "writer")  # whose name must be short
        private.bind(place)
        private.listen()
        public = stack.enter_context(server.listen("127.0.0.1", 0))
        writer, access = Service(LiveIndex.open(path)), Access(token=token)
        stack.enter_context(_running(server.make_server(make_app(writer, access), writer), private))
        reader = Service(LiveIndex.open(path, read_only=True), read_only=True)
        stack.enter_context(_running(server.make_server(make_app(reader, access, place), reader), public))
        yield writer, reader, server.address(public)


@contextmanager
def _running(running: Any, listener: socket.socket) -> Iterator[None]:
    thread = threading.Thread(target=running.run, args=([listener],), daemon=True)
    thread.start()
    try:
        until(lambda: running.started)
        yield
    finally:
        running.should_exit = True
        thread.join()


@contextmanager
def served_with_all(**limits: Any) -> Iterator[tuple[Service, str]]:
    """A service with everything that may accompany one."""
    service = Service(small_index(), label="colour", pictures=Pixels(1, N_FEATURES, 1.0), limits=Limits(**limits))
    service.compare_methods()
    service.simulate_teacher(IDS, [i % 2 for i in IDS])
    with server.background(service) as url:
        yield service, url


def everything(index: VectorIndex) -> str:
    """A digest of all that can be seen of an index, and of what its learner will do next."""
    digest = hashlib.blake2b()
    items = [] if index.encoder is None else index.get_many(index.ids)
    for item in items:
        digest.update(repr((item.id, item.payload, item.vector.tobytes())).encode())
    if index.encoder is not None:
        digest.update(index.codes.rows().tobytes() + files.to_bytes(index.encoder))
    digest.update(files.to_bytes(index.learner))
    digest.update(repr((len(index), index.serial, index.refreshes, index.paused, index.pairs_behind)).encode())
    return digest.hexdigest()


def until(holds: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Wait for something to hold, and give what it was."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.01)
    return found


# ------------------------------------------------------------------ processes


class Process:
    """`onlinehash serve` in a process of its own, with the readers it starts."""

    def __init__(self, *arguments: object, log: Path, token: str | None = None, seconds: float = 180) -> None:
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        environment.pop("ONLINEHASH_TOKEN", None)
        if token is not None:
            environment["ONLINEHASH_TOKEN"] = token
        self.log = log
        command = [sys.executable, "-m", "onlinehash", "serve", *map(str, arguments), "--port", "0", "--json"]
        with log.open("w") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment)
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            self.end()
            raise AssertionError(f"it did not start: {log.read_text()[-2000:]}")
        self.url: str = json.loads(line)["url"]
        self.pid = self._process.pid

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill it, if it still runs."""
        self.kill()

    def kill(self) -> None:
        """Without a chance to say goodbye."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def stop(self) -> int:
        """Ask it to end; gives its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    def children(self) -> list[int]:
        """The processes it started and that still run."""
        return children(self.pid)


# ------------------------------------------------------------------ bytes


def connected(url: str, receive_bytes: int | None = None) -> socket.socket:
    """A bare connection."""
    place = urlsplit(url)
    connection = socket.socket()
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.settimeout(SECONDS)
    connection.connect((place.hostname, place.port))
    return connection


def request_bytes(method: str, target: str, url: str, body: bytes = b"", **headers: str) -> bytes:
    """A request as it goes over the wire; underscores in the names of headers are dashes."""
    given = {"Host": urlsplit(url).netloc} | {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def rest_of(connection: socket.socket) -> bytes:
    """All that comes until the other side ends the connection."""
    parts = []
    with suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def post_json(url: str, path: str, document: Any, **headers: str) -> httpx.Response:
    """One request on a connection of its own."""
    return httpx.post(url + path, json=document, headers=headers, timeout=SECONDS, verify=False)
