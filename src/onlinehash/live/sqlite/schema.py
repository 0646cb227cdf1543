"""The tables of a store's database, connections to it, and SQLite's errors in our words.

Every record has an integer key and a sum over its table, key and columns; only vectors have sums of their own, one a
row, so that a row can be read without the others. Long columns come last: SQLite reads a record from its start.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from onlinehash.errors import FormatError, InvalidInput, OnlineHashError, StorageError
from onlinehash.live.sqlite.folder import DATABASE

COLUMNS: dict[str, tuple[str, ...]] = {
    "state": ("value",),  # one record: the numbers and counts of everything else
    "settings": ("value",),  # JSON: the settings, and how far sources were read
    "rows": ("row_sum", "id", "payload", "vector"),  # the fresh tail, and rows that override a sealed one
    "blocks": ("numbers", "row_sums", "ids", "payloads", "vectors"),  # sealed rows; the key is the first one's number
    "gone": (),  # sealed rows that were removed
    "codes": ("value",),  # the codes of CODES_CHUNK numbers, perhaps twice: those that count, and newer ones
    "learner": ("value",),  # one record: the checkpoint
    "events": ("value",),  # what was learned since
    "encoders": ("facts", "value"),
    "receipts": ("name", "digest", "value"),  # of changes that are to be made once, for those who try again
    "changes": ("value",),  # the numbers that a transaction changed or removed; its own number is the key
}
OWN_SUMS = ("vector", "vectors")  #: Columns that the sum of a record leaves out.
STATE_KEY = 0

FORMAT = 3  # which a store of format 2 becomes when its codes move for the first time
_SINCE = {"receipts": 2, "changes": 2}  # the format that brought a table; the others were there from the first
_TABLES = 2  # the first format with all tables
_APPLICATION = 0x6F6E6861  # "onha"
_PAGE_BYTES = 16384
_CACHE_KIB = 16384
_LOG_BYTES = 64 << 20  # a write-ahead log that grew larger is cut to this when it was emptied

_STORAGE = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
}


@contextmanager
def translated(folder: Path) -> Iterator[None]:
    """SQLite's and the system's errors as ours, which name the folder."""
    try:
        yield
    except OnlineHashError:
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code & 0xFF in _STORAGE and code != sqlite3.SQLITE_IOERR_SHORT_READ:
            raise _storage_error(folder, str(error)) from error
        if code == sqlite3.SQLITE_CORRUPT:  # SQLite says the same where the system could not read the file
            raise FormatError(
                f"{folder} is damaged, or its disk could not be read ({error}); onlinehash check tells which, and a "
                "damaged one must be restored from a copy."
            ) from error
        raise FormatError(f"{folder} is damaged ({error}); restore it from a copy.") from error
    except UnicodeDecodeError as error:  # SQLite's message quotes a damaged name
        raise FormatError(f"{folder} is damaged (a name in it is no text); restore it from a copy.") from error
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise InvalidInput(
            f"{folder} cannot be used as a folder: {error.strerror}; give another path.",
            expected=f"a folder at {folder}",
            got=error.strerror,
            hint="give another path",
        ) from error
    except OSError as error:
        raise _storage_error(folder, error.strerror or str(error)) from error


def _storage_error(folder: Path, problem: str) -> StorageError:
    return StorageError(
        f"the disk failed to read or write {folder}: {problem}; nothing of this call was kept, make room or repair the "
        "disk and try again.",
        got=problem,
    )


def is_doubtful(error: sqlite3.Error) -> bool:
    """Whether an error of COMMIT leaves open if the transaction is on the disk.

    It may be when everything was written and only the sync failed. What could not be written is not there.
    """
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_IOERR and code != sqlite3.SQLITE_IOERR_WRITE


def connect(folder: Path, writing: bool, sync: str = "full", name: str = DATABASE) -> sqlite3.Connection:
    """A connection that begins and ends transactions only where it is told to, for one thread at a time."""
    file = folder / name
    options = "mode=rw" if writing else "mode=ro"
    if not writing and not os.access(folder, os.W_OK) and not (folder / f"{name}-shm").exists():
        log, n_bytes = folder / f"{name}-wal", 0
        with suppress(FileNotFoundError):
            n_bytes = log.stat().st_size
        if n_bytes:  # committed changes, which SQLite passes over in what it takes to be immutable
            raise StorageError(
                f"{folder} may not be written, and its last changes are in {log.name}, which cannot be read without "
                f"{name}-shm; open it once where it may be written, and close it."
            )
        options += "&immutable=1"  # SQLite cannot make the files it shares with a writer, and there is no writer
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?{options}", uri=True, isolation_level=None, check_same_thread=False, timeout=30
    )
    try:
        connection.text_factory = bytes  # all that we keep is bytes; a damaged record must not become text
        if writing:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if sync == 'full' else 'NORMAL'}")
            # On macOS, what is synced otherwise may be in the drive's cache still; elsewhere these two do nothing.
            connection.execute(f"PRAGMA fullfsync = {int(sync == 'full')}")
            connection.execute("PRAGMA checkpoint_fullfsync = 1")  # a commit may be lost, but no part of one
            connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    except BaseException:
        connection.close()
        raise
    return connection


def create_tables(file: Path) -> sqlite3.Connection:
    """A new database with empty tables, in a transaction that the caller ends."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        # For its map of pages: a row in the midst of a long blob is found without walking the pages before it.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("BEGIN")
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {_TABLES}")
        for table in COLUMNS:
            connection.execute(_definition(table))
    except BaseException:
        connection.close()
        raise
    return connection


def upgrade_tables(connection: sqlite3.Connection) -> list[str]:
    """In a transaction: the tables that an older format lacks, and the present format; returns what is new."""
    present = tables_of(connection)
    new = [table for table in COLUMNS if table not in present]
    for table in new:
        connection.execute(_definition(table))
    connection.execute(f"PRAGMA user_version = {_TABLES}")
    return new


def allow_moved_codes(connection: sqlite3.Connection) -> None:
    """In a transaction: the format of stores whose codes may begin at another key."""
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def tables_of(connection: sqlite3.Connection) -> list[str]:
    """The tables that a database of this format has."""
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    return [table for table in COLUMNS if _SINCE.get(table, 1) <= number]


def check_tables(connection: sqlite3.Connection, folder: Path) -> None:
    """Refuse a database of something else, of a newer version, or whose definitions were changed."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION:
        raise FormatError(f"{folder / DATABASE} is a database of something else, not a store of onlinehash.")
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    if not 1 <= number <= FORMAT:
        raise FormatError(
            f"{folder} has format {number}, and this version of onlinehash reads formats 1 to {FORMAT}; "
            "upgrade onlinehash."
        )
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master").fetchall())
    if found != {table.encode(): _definition(table).encode() for table in tables_of(connection)}:
        raise FormatError(f"{folder} is damaged (the definitions of its tables differ); restore it from a copy.")


def _definition(table: str) -> str:
    columns = "".join(f", {column} BLOB" for column in COLUMNS[table])
    return f"CREATE TABLE {table} (key INTEGER PRIMARY KEY, sum INTEGER{columns})"
