"""One writer process and several readers, behind one port.

All of them accept connections from the same listening socket. A reader answers searches from its own memory and
forwards the rest to the writer through a Unix socket that only this user can open. Readers exit when the writer does,
however it ends, and a reader that dies is replaced.
"""

from __future__ import annotations

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

from prometheus_client import multiprocess, values

from onlinehash.serve import logs
from onlinehash.serve.metrics import SHARED_FOLDER

#: Seconds before a reader that died is replaced.
PATIENCE = 0.5

#: How the writer tells its readers where to listen, where it listens, and how they know that it is alive.
LISTENER, WRITER, LIFELINE = "ONLINEHASH_LISTENER", "ONLINEHASH_WRITER", "ONLINEHASH_LIFELINE"


@contextmanager
def shared_numbers() -> Iterator[None]:
    """Let all processes store their metrics in one folder; call it before anything is counted."""
    with tempfile.TemporaryDirectory(prefix="onlinehash-metrics-") as folder:
        os.environ[SHARED_FOLDER] = folder
        # prometheus_client has chosen another when it was imported.
        values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            del os.environ[SHARED_FOLDER]
            values.ValueClass = values.MutexValue


class Readers(NamedTuple):
    """The socket on which the writer hears its readers, how to start them once it does, and how to replace none.

    Whoever ends a service may end all its processes at once, and the writer, which has the most to finish, is the last.
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
        keepers = [_Keeper(arguments, environment, (listener.fileno(), lifeline)) for _ in range(n)]
        stack.callback(os.close, held)  # readers see its end, and stop

        def start() -> None:
            for keeper in keepers:
                keeper.start()
                stack.callback(keeper.stop)

        def retire() -> None:
            for keeper in keepers:
                keeper.retire()

        yield Readers(private, start, retire)


class _Keeper:
    """One reader process, started again when it dies."""

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
            except OSError as error:  # no memory or no room for a process now; there may be soon
                logs.service.warning("a reader could not be started", extra={"fields": {"reason": error.strerror}})
                self._stop.wait(PATIENCE)
                continue
            if self._stop.is_set():
                self._process.terminate()
            code = self._process.wait()
            # Its lag is nobody's now.
            multiprocess.mark_process_dead(self._process.pid)  # type: ignore[no-untyped-call]
            if not self._stop.wait(PATIENCE):
                logs.service.warning("a reader ended and will be replaced", extra={"fields": {"code": code}})


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
