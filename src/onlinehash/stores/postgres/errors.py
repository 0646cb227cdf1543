"""Errors of the database as errors of this library: one sentence, without a password."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import psycopg_pool

from onlinehash.errors import (
    InvalidInput,
    OnlineHashError,
    ServiceUnavailable,
    StorageError,
    Unauthorized,
)

#: SQLSTATE of a wait for a lock that took too long, and of a write to a server that only reads.
LOCKED, READ_ONLY = "55P03", "25006"
#: Beginnings of SQLSTATE, and what they mean to who called; the first that fits counts.
_MEANINGS: tuple[tuple[tuple[str, ...], type[OnlineHashError]], ...] = (
    (("28", "42501"), Unauthorized),
    # No connection, no time, no room for one more.
    (("08", "57", "40", "25P03", "25P04", LOCKED, READ_ONLY, "53300", "HV00N"), ServiceUnavailable),
    (("42P01", "42703", "3F000"), StorageError),  # a table, a column or a schema is gone: no fault of what was given
    (("22", "23", "3D", "3F", "42", "54"), InvalidInput),
)
_ADVICE: dict[type[OnlineHashError], str] = {
    Unauthorized: "; connect as somebody who may",
    ServiceUnavailable: "; try again when all its servers run",
}
#: Errors that need more than what the database says: what that means, and what to do.
_SENTENCES = {
    LOCKED: "PostgreSQL at {address} has let nobody else change the index for a while, so nothing was changed; "
    "try again, and if that lasts, end the session that pg_stat_activity shows as idle in transaction.",
    READ_ONLY: "PostgreSQL at {address} is read-only, as a primary is when another one has replaced it, so nothing was "
    "changed; try again when the address leads to the primary.",
}
#: What libpq says where there is no SQLSTATE, because there was no connection.
_REFUSALS = ("authentication failed", "no password supplied", "no pg_hba.conf entry", "does not exist", "not permitted")

_NO_DATABASE = re.compile(r'FATAL:  database "(.*)" does not exist')


@contextmanager
def told(address: str) -> Iterator[None]:
    """Whatever the database says inside is raised as an error of this library; the address must have no password."""
    try:
        yield
    except psycopg_pool.PoolTimeout:
        raise ServiceUnavailable(f"PostgreSQL at {address} did not answer in time; try again when it runs.") from None
    except psycopg.Error as error:
        if error.sqlstate is None and (missing := _NO_DATABASE.search(str(error))) is not None:
            name = missing[1]
            hint = f"correct the address, or create it (on the server: createdb {shlex.quote(name)})"
            raise InvalidInput(f"PostgreSQL at {address} has no database {name!r}; {hint}.") from error
        meaning = _meaning(error)
        if error.sqlstate in _SENTENCES:
            raise meaning(_SENTENCES[error.sqlstate].format(address=address)) from error
        raise meaning(f"PostgreSQL at {address} failed: {sentence(error)}{_ADVICE.get(meaning, '')}.") from error


class Commit:
    """The commit of a transaction: if the connection is lost there, nobody knows whether it was made."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.is_next = False

    @contextmanager
    def told(self) -> Iterator[None]:
        """Around the transaction, which sets `is_next` as the last thing it does."""
        try:
            yield
        except psycopg.OperationalError as error:
            if not self.is_next or not (error.sqlstate or "08").startswith(("08", "57")):
                raise
            raise ServiceUnavailable(
                f"the connection to PostgreSQL at {self._address} was lost while a change was being committed "
                f"({sentence(error)}), so it may or may not have been kept; look before you make it again."
            ) from error


def sentence(error: psycopg.Error) -> str:
    """The first thing that the database said, as part of a sentence."""
    said = error.diag.message_primary or str(error) or type(error).__name__
    return said.strip().splitlines()[0].rstrip(".") if said.strip() else type(error).__name__


def _meaning(error: psycopg.Error) -> type[OnlineHashError]:
    state = error.sqlstate
    if state is None:  # it never answered, or stopped to
        refused = any(words in str(error) for words in _REFUSALS)
        if isinstance(error, psycopg.OperationalError):
            return Unauthorized if refused else ServiceUnavailable
        return InvalidInput if isinstance(error, psycopg.DataError) else StorageError
    return next((kind for states, kind in _MEANINGS if state.startswith(states)), StorageError)
