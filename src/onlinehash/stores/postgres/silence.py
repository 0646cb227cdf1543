"""Connections that notice when nobody answers them any more, or when nobody wants the answer any more.

TCP finds out that a machine is gone, but not that whatever is on the way, such as a proxy or a firewall, takes
everything and passes on nothing. A server that works on a statement is as silent, for as long as that takes, so no
fixed time tells the one from the other. Therefore who has waited for a while asks the server by another connection
whether it works for this one at all.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from onlinehash.live import stop

#: Seconds without a word from the server after which one asks what it does, and in how many one that is there, however
#: busy, answers what takes it no time.
SILENT_SECONDS, ANSWER_SECONDS = 10, 6
#: Seconds after which `psycopg` has not come back already because it only looks for signals.
_AT_ONCE = 0.05
#: One session of the server, whoever else has had its process id before.
_THIS = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
#: Whether a session does nothing, or waits for what its client should have sent.
_IS_IDLE = (
    "SELECT coalesce(state LIKE 'idle%%', false) OR coalesce(wait_event = 'ClientRead', false) "
    "FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"
)
#: What a server says that is there but lets nobody in.
_FULL = ("too many clients", "too many connections", "connection slots")


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed if it gets no answer and the server does not work on one."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.made = time.monotonic()
        self._session: tuple[Any, ...] | None = None
        self._ask: Callable[[], psycopg.Connection[tuple[Any, ...]]] | None = None
        self._lost: Callable[[], None] = lambda: None

    def watch(
        self, ask: Callable[[], psycopg.Connection[tuple[Any, ...]]], lost: Callable[[], None] = lambda: None
    ) -> None:
        """Wait from now on for a server that works; `ask` connects to it, and `lost` is called if this is closed."""
        self._lost = lost
        with suppress(psycopg.errors.InsufficientPrivilege):  # then one can only wait, and TCP must find out
            session = self.execute(_THIS).fetchone()
            # A pool of sessions, such as PgBouncer's, tells another number, and may give this one's session to others.
            self._session = session if session is not None and session[0] == self.info.backend_pid else None
        self._ask = ask

    @contextmanager
    def in_a_hurry(self) -> Iterator[None]:
        """What is asked inside takes the server no time: without an answer, the connection is lost."""
        ask, self._ask = self._ask, None
        try:
            yield
        finally:
            self._ask = ask

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
        """All that waits for the server passes here."""
        return super().wait(self._watched(gen), *args, **options)

    def _watched(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The same generator, to which `psycopg` comes back now and then even if nothing has come.

        Then one looks whether whoever waits should stop, and has the server cancel the statement. The end of that is
        waited for, so that the connection can be used again.
        """
        heard = time.monotonic()
        why: Exception | None = None  # to stop
        try:
            wanted = next(gen)
            while True:
                asked = time.monotonic()
                ready = yield wanted
                now = time.monotonic()
                # psycopg 3.2.1 says so of all it comes back for, so what took a moment is looked at here.
                if now - asked < _AT_ONCE or self._is_ready(wanted):
                    heard = now
                elif why is None and self._ask is not None and (why := stop.reason()) is not None:
                    self._cancel()
                elif now - heard > (ANSWER_SECONDS if self._ask is None else SILENT_SECONDS):
                    self._check_server(now - heard)
                    heard = time.monotonic()
                wanted = gen.send(ready)
        except StopIteration as end:
            if why is None:
                return end.value
        except psycopg.errors.QueryCanceled:
            if why is None:
                raise
        raise why

    def _cancel(self) -> None:
        with suppress(psycopg.Error):  # if the server does not hear of it, the statement comes to its own end
            self.cancel_safe(timeout=ANSWER_SECONDS)

    def _is_ready(self, wanted: int) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self.pgconn.socket, wanted)
            return bool(selector.select(0))

    def _check_server(self, seconds: float) -> None:
        """Raise, and close this, unless the server works for this connection."""
        if self._ask is not None and (self._session is None or _works(self._ask, self._session)):
            return
        self.close()
        self._lost()
        raise psycopg.OperationalError(f"no answer for {seconds:.0f} s, and nothing is being done about one")


def _works(ask: Callable[[], psycopg.Connection[tuple[Any, ...]]], session: tuple[Any, ...]) -> bool:
    """Whether a server works for a session; one that waits for its client in vain is ended, as it may hold locks."""
    try:
        with ask() as other:
            found = other.execute(_IS_IDLE, session).fetchone()
            if found == (True,):
                other.execute("SELECT pg_terminate_backend(%s)", session[:1])
    except psycopg.Error as error:
        return any(words in str(error) for words in _FULL)
    return found == (False,)
