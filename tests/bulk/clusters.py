"""Real clusters for tests: a scheduler and workers of Dask, a head and a node of Ray, as processes of this machine."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.servers import free_port, wait_until

ROOT = Path(__file__).parents[2]


@contextmanager
def processes(**variables: str) -> Iterator[Processes]:
    """Processes in sessions of their own, all of which are killed at the end."""
    with tempfile.TemporaryDirectory(prefix="oh-", ignore_cleanup_errors=True) as folder:
        started = Processes(Path(folder), variables)
        try:
            yield started
        finally:
            for process in started.running:
                kill_session(process)


class Processes:
    """What was started, and where it writes."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[bytes]] = []
        paths = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": str(folder)}
        self._environment = {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **paths, **variables}

    def start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """A program of this environment."""
        command = [str(Path(sys.executable).with_name(program)), *arguments]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command, env=self._environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        self.running.append(process)
        return process

    def wait_for(self, address: str) -> None:
        """Until somebody listens there."""
        wait_until(lambda: is_open(address), f"{address} to answer", self.log)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to a process and all that it started: what the death of a machine looks like."""
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == process.pid:
                os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # gone meanwhile, or somebody else's
    process.wait()


def is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


class DaskCluster(NamedTuple):
    """Where its scheduler listens, and its process."""

    address: str
    scheduler: subprocess.Popen[bytes]


@contextmanager
def dask_cluster() -> Iterator[DaskCluster]:
    """A scheduler with two workers of one thread."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    with processes() as started:
        scheduler = started.start(
            "dask", "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-show"
        )
        started.wait_for(address)
        for name in ("first", "second"):
            options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--name", name]
            started.start("dask", "worker", f"tcp://{address}", *options)
        yield DaskCluster(address, scheduler)


class RayCluster(NamedTuple):
    """Where its client server listens, and the node that may be killed."""

    address: str
    node: subprocess.Popen[bytes]


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """A head and a node with one CPU each, on two addresses of loopback, as if they were two machines.

    Parts of Ray listen on all addresses whatever they are told, so only who knows the token is let in. This process
    knows it as long as the cluster is there.
    """
    token = ray_token()
    memory = ["--num-cpus=1", "--object-store-memory=80000000", "--block"]
    with ExitStack() as at_the_end, processes(**token, RAY_USAGE_STATS_ENABLED="0") as started:
        os.environ.update(token)
        at_the_end.callback(lambda: [os.environ.pop(name) for name in token])
        port, client_port = _low_port(), _low_port()
        address = f"127.0.0.2:{client_port}"
        head = ["--head", f"--port={port}", f"--ray-client-server-port={client_port}", "--include-dashboard=false"]
        started.start("ray", "start", *head, f"--temp-dir={started.folder}", "--node-ip-address=127.0.0.2", *memory)
        started.wait_for(f"127.0.0.2:{port}")
        node = started.start("ray", "start", f"--address=127.0.0.2:{port}", "--node-ip-address=127.0.0.3", *memory)
        started.wait_for(address)
        wait_until(lambda: started.log().count("Ray runtime started") == 2, "the second node", started.log)
        yield RayCluster(address, node)


def ray_token() -> dict[str, str]:
    """What lets in nobody but those who have it; Ray reads it when it is imported."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def _low_port() -> int:
    """A free port outside 10002 to 19999, which Ray keeps for its workers."""
    while 10000 <= (port := free_port()) < 20000:
        pass
    return port
