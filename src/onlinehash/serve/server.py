"""Running a service: in the foreground until it is stopped, or in a background thread."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from onlinehash.errors import InvalidInput
from onlinehash.serve import logs
from onlinehash.serve.app import make_app
from onlinehash.serve.connections import protocol
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Access

#: Connections that may wait to be accepted.
BACKLOG = 1024

#: Share of `stop_seconds` in which running requests may finish; half of it is for changes. The rest is for closing.
GRACE = 0.7


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 is any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"cannot listen at {host} port {port}: {error.strerror or error}; choose another --host or --port."
        ) from None
    os.set_inheritable(listener.fileno(), True)
    return listener


def address(listener: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(
    app: ASGIApp,
    service: Service,
    started: Callable[[], None] = lambda: None,
    stopping: Callable[[], None] = lambda: None,
) -> uvicorn.Server:
    """A server for one application."""
    limits = service.limits
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=protocol(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=int(limits.idle_seconds) or 1,
        timeout_graceful_shutdown=GRACE * limits.stop_seconds,  # type: ignore[arg-type]  # a float works too
        backlog=BACKLOG,
    )

    def stop() -> None:
        stopping()
        service.stop()

    return _Server(config, started, stop)


class _Server(uvicorn.Server):
    """Reports when it starts and stops; a stop signal ends it without an error."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None], stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start, self._on_stop = started, stopping

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)


def exit_within(seconds: float) -> None:
    """End this process after some seconds if it is still running. Every change that was answered is on the disk."""

    def end() -> None:
        time.sleep(seconds)
        logs.service.error("the service did not stop in time and ends now", extra={"fields": {"seconds": seconds}})
        os._exit(1)

    threading.Thread(target=end, name="onlinehash-exit", daemon=True).start()


@contextmanager
def background(service: Service, access: Access | None = None, port: int = 0) -> Iterator[str]:
    """Serve in a thread of this process inside a `with` block; yields the URL. The service is closed at the end."""
    access = access or Access()
    ready = threading.Event()
    running = make_server(make_app(service, access), service, ready.set)
    listener = listen(access.host, port)
    thread = threading.Thread(target=running.run, args=([listener],), name="onlinehash-server", daemon=True)
    thread.start()
    try:
        while thread.is_alive() and not ready.wait(0.02):
            pass
        if not ready.is_set():
            raise RuntimeError("the service stopped while it was starting")
        yield address(listener)
    finally:
        running.should_exit = True
        thread.join()
        listener.close()
