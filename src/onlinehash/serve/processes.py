"""One writer process and several readers, behind one port.

All of them accept connections from the same listening socket. A reader answers searches from its own memory and
forwards the rest to the writer through a Unix socket that only this user can open. Readers exit when the writer does,
however it ends, and a reader that dies is replaced.
"""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from onlinehash.serve import logs

#: Seconds before a reader that died is replaced.
RESTART_SECONDS = 0.5

#: Environment variable of prometheus_client: the folder in which the processes of one service store their metrics.
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"

#: Environment variables of a reader: the listening socket, the writer's socket, and the pipe that ends with the writer.
LISTENER, WRITER, LIFELINE = "ONLINEHASH_LISTENER", "ONLINEHASH_WRITER", "ONLINEHASH_LIFELINE"


@contextmanager
def shared_metrics() -> Iterator[None]:
    """Let all processes of a service store their metrics in one folder.

    prometheus_client looks at the environment when it is imported, so nothing may have imported it before.
    """
    if "prometheus_client" in sys.modules:
        raise RuntimeError("prometheus_client was imported before shared_metrics()")
    with tempfile.TemporaryDirectory(prefix="onlinehash-metrics-") as folder:
        os.environ[METRICS_FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[METRICS_FOLDER]


class Readers(NamedTuple):
    """The socket on which the writer listens to its readers, and two functions.

    `start` starts the readers, once the writer listens. `retire` stops replacing those that end: a stop signal may go
    to all processes at once, and the writer, which has the most to finish, is the last to end.
    """

    socket: socket.socket
    start: Callable[[], None]
    retire: Callable[[], None]


@contextmanager
def readers(n: int, listener: socket.socket, arguments: Sequence[str]) -> Iterator[Readers]:
    """Run n reader processes once `start` is called; `arguments` are those of the command that starts one."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onlinehash-")))
        private = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        private.bind(str(folder / "writer"))
        os.chmod(folder / "writer", 0o600)
        private.listen(socket.SOMAXCONN)
        lifeline, held = os.pipe()
        stack.callback(os.close, lifeline)
        environment = os.environ | {
            LISTENER: str(listener.fileno()),
            WRITER: str(folder / "writer"),
            LIFELINE: str(lifeline),
        }
        supervisors = [_Supervisor(arguments, environment, (listener.fileno(), lifeline)) for _ in range(n)]
        stack.callback(os.close, held)  # readers notice, and stop

        def start() -> None:
            for supervisor in supervisors:
                supervisor.start()
                stack.callback(supervisor.stop)

        def retire() -> None:
            for supervisor in supervisors:
                supervisor.retire()

        yield Readers(private, start, retire)


class _Supervisor:
    """Runs one reader process, and starts it again when it dies."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str], kept: tuple[int, ...]) -> None:
        self._arguments, self._environment, self._kept = arguments, environment, kept
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._thread.start()

    def retire(self) -> None:
        self._stop.set()

    def stop(self) -> None:
        self.retire()
        if self._process is not None:
            self._process.terminate()
        self._thread.join()

    def _run(self) -> None:
        command = [sys.executable, "-m", "onlinehash", *self._arguments]
        while not self._stop.is_set():
            try:
                self._process = subprocess.Popen(command, env=self._environment, pass_fds=self._kept)
            except OSError as error:  # too little memory or too many processes; there may be room soon
                logs.service.warning("a reader could not be started", extra={"fields": {"reason": error.strerror}})
                self._stop.wait(RESTART_SECONDS)
                continue
            if self._stop.is_set():
                self._process.terminate()
            code = self._process.wait()
            _forget_metrics(self._process.pid)
            if not self._stop.wait(RESTART_SECONDS):
                logs.service.warning("a reader ended and will be replaced", extra={"fields": {"code": code}})


def _forget_metrics(pid: int) -> None:
    """Let the metrics no longer tell the lag of a reader that ended."""
    from prometheus_client import multiprocess  # not before `shared_metrics`

    multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]


def spare_the_collector() -> None:
    """Let Python's garbage collector look no more at what is there now: modules and the index, which stay to the end.

    A full collection stops all threads. It took 120 ms while it looked at everything that was imported, and came every
    thousand changes.
    """
    gc.collect()
    gc.freeze()


def inherited_listener() -> socket.socket:
    """In a reader: the socket that it shares with the writer."""
    return socket.socket(fileno=int(os.environ[LISTENER]))


def end_with_writer() -> None:
    """In a reader: exit when the writer does, however it ends."""
    lifeline = int(os.environ[LIFELINE])

    def wait() -> None:
        os.read(lifeline, 1)  # returns when the writer's end is closed, by the writer or by its death
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
