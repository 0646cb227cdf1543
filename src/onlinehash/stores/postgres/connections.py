"""Connections: who is meant by an address, one connection for setting up, and a pool for all else."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
from psycopg import conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from onlinehash import checks
from onlinehash.errors import InvalidInput, ServiceUnavailable
from onlinehash.stores.postgres.errors import told
from onlinehash.stores.postgres.silence import ANSWER_SECONDS, WatchedConnection

# What the pool says of each attempt to connect stays out of terminals, unless somebody has asked for logs.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

Connection = psycopg.Connection[tuple[Any, ...]]

#: Connections of one index at most, and how many seconds to wait for one.
MOST, PATIENCE = 8, 20
#: For how many seconds a server that was found to be down is not looked for again.
DOWN_SECONDS = 2
#: Seconds for which a statement waits for a lock. Changes take turns, and most hold the head's lock for milliseconds, a
#: large one for seconds. Who waits for longer waits for a process that hangs, and its client has soon waited enough.
LOCK_SECONDS = 10
#: Seconds to wait for a connection before one looks whether there is a server at all; and if there was none just now.
_SOON, _AT_ONCE = 0.25, 0.01
#: For who only wants to know whether anybody is there.
_SOON_THERE = {"connect_timeout": ANSWER_SECONDS}
#: A schema's name: one that SQL takes as it is, between quotes.
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,49}")
#: A server whose machine vanished, or whose packets are dropped on the way, is given up after half a minute.
_GIVE_UP = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # milliseconds
}
#: A client whose machine vanished holds its locks for a minute, and one that hangs for ten, not for hours.
_KEEP_ALIVE = (
    "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3 "
    "-c idle_in_transaction_session_timeout=10min"
)


def parts(address: Any) -> dict[str, Any]:
    """What an address says, which may be less than it takes to connect: the rest is in the environment."""
    try:
        return dict(conninfo.conninfo_to_dict(address))
    except (psycopg.ProgrammingError, AttributeError, UnicodeError):
        raise InvalidInput(
            expected="the address of a database, such as postgresql://user@host:5432/name", got="something else"
        ) from None


def shown(address: Any) -> str:
    """An address for messages: without a password."""
    known = {name: str(value) for name, value in parts(address).items() if value is not None}
    if "service" in known and "host" not in known:
        return f"service {known['service']}"
    user, host, port = known.get("user"), known.get("host", "localhost"), known.get("port")
    name = known.get("dbname", "")
    return f"postgresql://{f'{user}@' if user else ''}{host}{f':{port}' if port else ''}/{name}"


def checked_schema(schema: Any) -> str:
    """A name that can stand in SQL between quotes."""
    if not isinstance(schema, str) or not _NAME.fullmatch(schema):
        raise InvalidInput(
            expected="the schema's name to be of small letters, digits and _, and to begin with no digit",
            got=checks.shown(schema),
        )
    return schema


def connect(address: str, **settings: Any) -> Connection:
    """One connection, whose errors say why there is none; each statement is a transaction unless one is begun."""
    with told(shown(address)):
        connection = WatchedConnection.connect(address, autocommit=True, **_settings(address) | settings)
        connection.watch(lambda: _bare(address))
        return connection


def _bare(address: str) -> Connection:
    """A connection for questions whose answers take no time."""
    return WatchedConnection.connect(address, autocommit=True, **_settings(address) | _SOON_THERE)


class Lender:
    """A pool of connections: they are looked at before they are lent, and replaced if their server died meanwhile.

    While all are lent one waits for one, for long. If there is none because the server is down, that is told at once.
    """

    def __init__(self, address: str) -> None:
        connect(address).close()  # a pool only tells that it waited in vain
        self._address, self._down, self._down_until = address, "", 0.0
        self._stale = 0.0  # connections that were made before are dropped
        self._pool: ConnectionPool[WatchedConnection] = ConnectionPool(
            address,
            connection_class=WatchedConnection,
            kwargs={"autocommit": True} | _settings(address, f"-c lock_timeout={LOCK_SECONDS * 1000:.0f}"),
            min_size=1,
            max_size=MOST,
            reconnect_timeout=DOWN_SECONDS,  # then the next one who asks lets it connect again
            check=self.check,
            configure=self._configure,
            open=False,
            name="onlinehash",
        )
        self._pool.open()

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """A connection; errors are those of `psycopg`, unless there is none."""
        with ExitStack() as held:
            yield self._taken(held)

    def drop_all(self) -> None:
        """Make new connections from now on: those that are there lead to a server that is gone, or to a wrong one."""
        self._stale = time.monotonic()

    def check(self, connection: Connection) -> None:
        """Raise if a connection is of no use any more, so that it is replaced."""
        assert isinstance(connection, WatchedConnection)
        if connection.made <= self._stale:
            connection.close()  # else the pool takes it back
            raise psycopg.OperationalError("the connection is to be replaced")
        with connection.in_a_hurry():
            connection.execute("")

    def _configure(self, connection: WatchedConnection) -> None:
        # A change must see what others did while it waited for them.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        connection.watch(lambda: _bare(self._address), self.drop_all)

    def _taken(self, held: ExitStack) -> Connection:
        until = time.monotonic() + PATIENCE
        while True:
            is_down = time.monotonic() < self._down_until
            try:
                return held.enter_context(self._pool.connection(_AT_ONCE if is_down else _SOON))
            except PoolTimeout:
                if time.monotonic() > until:
                    raise
                self._check_server()

    def _check_server(self) -> None:
        """Raise if nobody can connect, which is then known for a while."""
        if time.monotonic() < self._down_until:
            raise ServiceUnavailable(self._down)
        try:
            connect(self._address, **_SOON_THERE).close()
        except ServiceUnavailable as error:
            self._down, self._down_until = str(error), time.monotonic() + DOWN_SECONDS
            raise

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


def _settings(address: str, more: str = "") -> dict[str, Any]:
    """What libpq is told; what the address says about the same counts, so that its options come last."""
    given = parts(address)
    defaults = {"application_name": "onlinehash", "connect_timeout": PATIENCE // 2} | _GIVE_UP
    settings: dict[str, Any] = {name: value for name, value in defaults.items() if name not in given}
    return settings | {"options": " ".join([_KEEP_ALIVE, more, given.get("options") or ""]).strip()}


@contextmanager
def planned(connection: Connection, settings: dict[str, str]) -> Iterator[None]:
    """Settings of the planner for what is read inside; it ends with a rollback, which takes them back."""
    if not settings:
        yield
        return
    with connection.transaction(force_rollback=True):
        calls = ", ".join("set_config(%s, %s, true)" for _ in settings)
        connection.execute(f"SELECT {calls}", [word for setting in settings.items() for word in setting])
        yield
