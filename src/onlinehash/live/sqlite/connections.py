"""A store's connections: one that writes, and as many that read as there are readers at a time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from onlinehash.errors import InvalidInput
from onlinehash.live.sqlite.schema import connect


class Connections:
    """Connections to one database. Readers that are done wait for the next one, as opening takes longer than a read."""

    def __init__(self, folder: Path, sync: str | None) -> None:
        """With `sync` None there is no writer."""
        self._folder = folder
        self._writer = None if sync is None else connect(folder, True, sync)
        self._idle: list[sqlite3.Connection] = []
        self._process = os.getpid()
        self.closed = False

    @property
    def is_inherited(self) -> bool:
        """Whether this is a fork of the process that opened them, which SQLite's connections do not survive."""
        return os.getpid() != self._process

    @property
    def writer(self) -> sqlite3.Connection:
        """The connection that writes."""
        self._check_open()
        if self._writer is None:
            raise InvalidInput(f"{self._folder} was opened read-only and cannot be changed.")
        return self._writer

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """A connection of one's own in a transaction, which sees what was committed when it began."""
        self._check_open()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self._folder, False)
        try:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM state").fetchone()  # a transaction begins with its first read
            yield connection
        finally:
            self._give_back(connection)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            connection.close()
            return
        if not os.access(self._folder, os.W_OK):  # it may be one that takes the file to be immutable
            connection.close()
            return
        self._idle.append(connection)
        if self.closed:
            self._close_idle()

    def copy_to(self, file: Path) -> None:
        """A compact copy of what is committed, as a database of its own that will keep a write-ahead log too."""
        self._check_open()
        with closing(connect(self._folder, False)) as connection:
            connection.execute("VACUUM INTO ?", (str(file),))
        with closing(sqlite3.connect(file, isolation_level=None)) as copied:
            copied.execute("PRAGMA journal_mode = WAL")

    def close(self) -> None:
        """Close all but those that are being read from, which are closed when their readers are done."""
        self.closed = True
        self._close_idle()
        if self._writer is not None:  # last, as the last one to close empties the write-ahead log into the database
            self._writer.close()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _check_open(self) -> None:
        if self.closed:
            raise InvalidInput(f"{self._folder} is closed; open it again.")
        if self.is_inherited:
            raise InvalidInput(
                f"another process opened {self._folder}, of which this one is a fork; open it again with "
                "read_only=True."
            )
