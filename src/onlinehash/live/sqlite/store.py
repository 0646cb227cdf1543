"""The durable half of a live index: a folder with an SQLite database of items, codes, learner and encoders.

Vectors are known by position; the numbers behind the positions, and what is dead, are in memory, all else on the disk.
One writer at a time changes the store, in transactions that happen wholly or not at all; any thread may read meanwhile,
through connections of its own, and sees what was committed when it began.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinehash.checks import shown
from onlinehash.errors import FormatError, InvalidInput, OnlineHashError, StorageError
from onlinehash.io import format
from onlinehash.live.sqlite import folder as folders
from onlinehash.live.sqlite.changes import Difference, note_changes, read_changes, read_difference
from onlinehash.live.sqlite.checksums import Ledger, damaged
from onlinehash.live.sqlite.connections import Connections
from onlinehash.live.sqlite.receipts import Book, Stored, read_news, read_receipt, size
from onlinehash.live.sqlite.records import (
    ONLY,
    POSITIONS,
    Contents,
    Encoders,
    LearnerAndLog,
    Records,
    read_contents,
    read_encoders,
    read_learner,
    read_positions,
    read_records,
    read_settings,
    write_codes,
)
from onlinehash.live.sqlite.row_numbers import RowNumbers
from onlinehash.live.sqlite.schema import (
    COLUMNS,
    allow_moved_codes,
    check_tables,
    connect,
    create_tables,
    is_doubtful,
    tables_of,
    translated,
    upgrade_tables,
)
from onlinehash.live.sqlite.segments import Batch, Reader, Sealing
from onlinehash.live.sqlite.state import State

SYNCS = ("full", "batch")

#: Codes begin at the key 0 or at this one.
_APART = 1 << 40


class Loaded(NamedTuple):
    """All of a store but the vectors, as of one moment."""

    state: State
    contents: Contents
    records: Records
    book: Book


class Staged(NamedTuple):
    """What a transaction does to the receipts: the sizes of new ones, and the numbers of those that go."""

    new: dict[str, int]
    too_old: dict[str, int]


class Store:
    """Items, codes, learner and encoders in a folder.

    With `sync="full"` every transaction is on the disk when it ends. With `"batch"` a crash of the process loses
    nothing, but a power failure may lose the last transactions, and so may damage to the database's log, unnoticed.

    A store that was opened read-only is as of the moment of its last `load`. Vectors stay on the disk, so those of
    items that the writer has changed or removed since are refused until the next one.
    """

    def __init__(self, path: str | os.PathLike[str], read_only: bool = False, sync: str = "full") -> None:
        if sync not in SYNCS:
            raise InvalidInput(expected="sync to be 'full' or 'batch'", got=shown(sync))
        self.path, self.read_only, self.sync = folders.absolute(path), read_only, sync
        folders.expect_store(self.path)
        self._writer: int | None = None  # the thread that is in a transaction
        self._is_in_doubt = False  # whether the last transaction, which failed, may be on the disk
        self._records: Records | None = None  # as of the last load, where others may write meanwhile
        with translated(self.path):
            lock = None if read_only else folders.Lock(self.path)
            try:
                self._connections = Connections(self.path, None if read_only else sync)
            except BaseException:
                if lock is not None:
                    lock.release()
                raise
        # Also for a store that nobody closed: its process may want to open it again.
        self._let_go = weakref.finalize(self, _let_go, self._connections, lock)
        self._let_go.atexit = False  # the end of the process lets go by itself, and threads may still be at work
        self._staged = Staged({}, {})  # what a transaction does to the book of receipts
        self._touched: list[np.ndarray] = []  # the numbers that it changes or removes
        try:
            with translated(self.path):
                acknowledged = folders.read_commits(self.path)
            self._loaded: Loaded | None = self._read(acknowledged)
            self.adopt(self._loaded)
            if not read_only:
                self._upgrade()
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------ life

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], settings: dict[str, Any], learner: bytes = b"", sync: str = "full"
    ) -> Store:
        """A new store in a new or empty folder, there as a whole or not at all."""
        folder = folders.absolute(path)
        if folders.is_store(folder):
            raise InvalidInput(
                expected="a new or empty folder for a store", got=f"{folder}, which holds one", hint="open it"
            )
        with translated(folder):
            folders.make_room(folder)
            lock = folders.Lock(folder)
            try:
                folders.remove_unfinished(folder)
                with closing(create_tables(folder / folders.UNFINISHED)) as connection:
                    state = State(commit=1)
                    ledger = Ledger(connection, state.totals)
                    ledger.put("settings", ONLY, json.dumps(settings).encode())
                    ledger.put("learner", ONLY, learner)
                    state.write(connection)
                    connection.execute("COMMIT")
                    connection.execute("PRAGMA journal_mode = WAL")
                folders.publish(folder)
                folders.write_commits(folder, state.commit)
            finally:
                lock.release()
        return cls(folder, sync=sync)

    @classmethod
    def open(cls, path: str | os.PathLike[str], read_only: bool = False, sync: str = "full") -> Store:
        """The store that is there, checked but for its vectors, which are checked when they are read."""
        return cls(path, read_only, sync)

    @classmethod
    def exists(cls, path: str | os.PathLike[str]) -> bool:
        """Whether a store was made there; what a crash left of one that was being made is none."""
        return folders.is_store(folders.absolute(path))

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        if self._connections.closed:
            return
        try:
            with suppress(sqlite3.Error, OnlineHashError):
                self._end_doubt()
            self._connections.close()
            if self.sync == "batch" and not self.read_only and hasattr(self, "_state"):
                with suppress(OSError):  # a commit is noted only when it is on the disk
                    folders.sync_log(self.path)
                    folders.write_commits(self.path, self._state.commit)
        finally:
            self._let_go()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def backup(self, target: str | os.PathLike[str]) -> None:
        """A store with all that is committed now, in a new or empty folder; the writer may go on meanwhile."""
        folder = Path(target)
        if folders.is_store(folder):
            raise InvalidInput(expected="a new or empty folder for a backup", got=f"{folder}, which holds a store")
        with translated(folder):
            folders.make_room(folder)
            folders.remove_unfinished(folder)
            try:
                self._connections.copy_to(folder / folders.UNFINISHED)
                commit = self._verify(folder)
                folders.publish(folder)
            except BaseException:
                with suppress(OSError):
                    folders.remove_unfinished(folder)
                raise
            folders.write_commits(folder, commit)

    def _verify(self, folder: Path) -> int:
        """Refuse a copy with anything in it that is not as it was written; the number of its last commit."""
        with closing(connect(folder, False, name=folders.UNFINISHED)) as connection:
            connection.execute("BEGIN")
            state = State.read(connection, self.path)
            contents = read_contents(connection, self.path, state)
            read_records(connection, self.path)
            for _, _, found in Reader(connection, self.path, state).blocks(contents.numbers):
                if not found.all():
                    raise damaged(self.path, "rows", "vectors", "some are missing")
            return state.commit

    # ------------------------------------------------------------------ reading

    def load(self) -> Contents:
        """Load everything but vectors, as last committed; positions are renumbered."""
        loaded = self.read()
        self.adopt(loaded)
        return loaded.contents

    def read(self) -> Loaded:
        """What `load` would give, and more, while this stays as it is."""
        loaded, self._loaded = self._loaded, None
        return loaded if loaded is not None else self._read(self._state.commit)

    def adopt(self, loaded: Loaded) -> None:
        """Move on to the moment of this `read`."""
        self._state, self._row_numbers, self._book = loaded.state, RowNumbers(loaded.contents.numbers), loaded.book
        self._records = loaded.records if self.read_only else None

    def _read(self, acknowledged: int) -> Loaded:
        with self._reading() as connection:
            try:
                check_tables(connection, self.path)
                state = State.read(connection, self.path)
                if state.commit < acknowledged:
                    raise FormatError(
                        f"{self.path} is damaged (the last {acknowledged - state.commit} transactions are missing); "
                        "restore it from a copy."
                    )
                contents = read_contents(connection, self.path, state)
                if len(set(contents.ids)) != len(contents.ids):
                    raise damaged(self.path, "rows", "ids", "two items have the same id")
                records = read_records(connection, self.path)
                book = Book()
                book.follow(read_news(connection, self.path, book))
            except (ValueError, TypeError, KeyError) as error:  # sums were right, so this was never written by us
                if isinstance(error, FormatError):
                    raise
                raise FormatError(f"{self.path} is no work of onlinehash ({error}); restore it from a copy.") from None
        return Loaded(state, contents, records, book)

    def difference(self) -> Difference | None:
        """What was committed since this was last loaded or followed; None where everything has to be read.

        Only for those who read beside a writer. It changes nothing here; `follow` does.
        """
        with self._reading() as connection:
            return read_difference(connection, self.path, self._state, self._row_numbers, self._book, self.settings)

    @property
    def commit(self) -> int:
        """Transactions so far, as of when this was last loaded or followed."""
        return self._state.commit

    @property
    def is_behind(self) -> bool:
        """Whether anything was committed since this was last loaded or followed."""
        with self._reading() as connection:
            return State.read(connection, self.path).commit != self._state.commit

    def positions(self, numbers: np.ndarray) -> np.ndarray:
        """The positions of known numbers."""
        return self._row_numbers.positions(numbers)

    def follow(self, difference: Difference) -> None:
        """Move on to the moment of this difference; removed items stay, dead, until `keep`."""
        self._row_numbers.bury(difference.removed)
        self._row_numbers.append(difference.added.numbers)
        self._row_numbers.mark()  # nobody will undo this
        self._book.follow(difference.receipts)
        self._state = difference.state
        if self._records is not None:
            self._records = self._records._replace(positions=difference.positions)
            if difference.settings is not None and difference.encoders is not None:
                self._records = self._records._replace(settings=difference.settings, encoders=difference.encoders)

    def _upgrade(self) -> None:
        """Bring a store of an older format to the present one, in one transaction."""
        connection, loaded = self._connections.writer, self._loaded
        if len(tables_of(connection)) < len(COLUMNS):
            with self.transaction():
                self._state.totals |= {table: [0, 0] for table in upgrade_tables(connection)}
                self._state.forgotten = self._state.commit + 1
            self._loaded = loaded  # it is as it was

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """A connection that sees the running transaction in the thread that writes, and what is committed elsewhere."""
        with translated(self.path):
            if self._writer == threading.get_ident():
                yield self._connections.writer
            else:
                with self._connections.reader() as connection:
                    yield connection

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def numbers(self) -> np.ndarray:
        """The number of each position, ascending; numbers are given once, and keep their meaning."""
        return self._row_numbers.numbers

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as last put."""
        if self._records is not None:
            return self._records.settings
        with self._reading() as connection:
            return read_settings(connection, self.path)

    @property
    def sources(self) -> dict[str, Any]:
        """How far each source was read, by its name."""
        if self._records is not None:
            return dict(self._records.positions)
        with self._reading() as connection:
            return read_positions(connection, self.path)

    def take(self, positions: np.ndarray) -> np.ndarray:
        """The rows at these positions; those of dead positions are NaN."""
        numbers = self.numbers[positions]
        with self._reading() as connection:
            self._check_present(connection, numbers)
            rows, found = Reader(connection, self.path, self._state).take(numbers)
            self._check_missing(numbers[~found])
        rows[~found] = np.nan
        return rows

    def blocks(self, n: int) -> Iterator[tuple[int, np.ndarray]]:
        """The rows of the first n positions block by block as they are at this call, zeros for dead ones."""
        blocks = self._blocks(self.numbers[:n])
        next(blocks)  # opens the connection, now and not when the first block is asked for
        return blocks

    def _blocks(self, numbers: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        with self._reading() as connection:
            self._check_present(connection, numbers)
            yield 0, numbers
            for first, rows, found in Reader(connection, self.path, self._state).blocks(numbers):
                if not found.all():
                    self._check_missing(numbers[first : first + len(rows)][~found])
                yield first, rows

    def _check_present(self, connection: Any, numbers: np.ndarray) -> None:
        """Who reads beside a writer must not get vectors that are newer than the rest of what was loaded."""
        if not self.read_only:
            return
        now, known = State.read(connection, self.path), self._state.commit
        if now.rewritten <= known:
            return
        are_noted = known >= now.forgotten and "changes" in tables_of(connection)
        if are_noted and not np.isin(numbers, read_changes(connection, self.path, known)).any():
            return
        raise InvalidInput(f"the writer of {self.path} has changed or removed some of these items; call reload().")

    def _check_missing(self, numbers: np.ndarray) -> None:
        """Rows may be missing only if they were removed."""
        lost = numbers[self._row_numbers.alive(numbers)]
        if len(lost):
            raise damaged(self.path, "rows", lost[0], "it is missing")

    # ------------------------------------------------------------------ changes

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes inside happen when it ends or, on any exception, none."""
        if self.read_only:
            raise InvalidInput(f"{self.path} was opened read-only (read_only=True) and cannot be changed.")
        if self._writer is not None:
            raise RuntimeError("a transaction is running; one at a time")
        before, mark = self._state.copy(), self._row_numbers.mark()
        connection = self._connections.writer
        try:
            with translated(self.path):
                self._end_doubt()
                connection.execute("BEGIN IMMEDIATE")
                self._writer = threading.get_ident()
                yield
                self._state.commit += 1
                if self._touched:
                    note_changes(connection, self._state, np.unique(np.concatenate(self._touched)))
                self._state.write(connection)
                self._commit(connection)
        except BaseException:
            if connection.in_transaction:
                with translated(self.path):
                    connection.execute("ROLLBACK")
            elif self._is_ahead_of(before):
                self._settle_book()
                raise  # an interrupt came after all was done
            self._state = before
            self._row_numbers.restore(mark)
            raise
        else:
            self._settle_book()
        finally:
            self._writer, self._staged, self._touched = None, Staged({}, {}), []
        self._loaded = None
        if self.sync == "full":
            folders.write_commits(self.path, self._state.commit)

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if not is_doubtful(error):
                raise
            self._is_in_doubt = True
            raise StorageError(
                f"the disk of {self.path} failed while this call was being synced ({error}), so it may or may not have "
                "been kept if this process ends now; repair the disk and try again, which is safe with the same key."
            ) from error

    def _end_doubt(self) -> None:
        """Where a transaction was written but not synced, write another one over it.

        Nobody has seen it, but who opens the log after a crash might. What follows goes to the same place in the log.
        """
        if self._is_in_doubt:
            connection = self._connections.writer
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._state.write(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            self._is_in_doubt = False

    def _is_ahead_of(self, state: State) -> bool:
        """Whether the transaction that began with this state is on the disk; SQLite ends some without a commit."""
        try:
            return State.read(self._connections.writer, self.path).commit > state.commit
        except (sqlite3.Error, OnlineHashError):
            return False

    def _ledger(self) -> Ledger:
        return Ledger(self._changing(), self._state.totals)

    def _sealing(self) -> Sealing:
        return Sealing(self._changing(), self.path, self._state)

    def _changing(self) -> Any:
        if self._writer != threading.get_ident():
            raise RuntimeError("changes are made within a transaction, in the thread that began it")
        return self._connections.writer

    def put_settings(self, settings: dict[str, Any]) -> None:
        """Replace the settings."""
        self._ledger().put("settings", ONLY, json.dumps(settings).encode())

    def put_position(self, source: str, position: Any) -> None:
        """How far a source was read."""
        sources = self.sources | {source: position}
        self._ledger().put("settings", POSITIONS, json.dumps(sources).encode())

    def add(self, ids: Sequence[Any], rows: np.ndarray, payloads: Sequence[str | None]) -> None:
        """New items at new positions at the end."""
        sealing, state = self._sealing(), self._state
        if not state.dtype:
            state.dtype, state.width = rows.dtype.name, rows.shape[1]
        numbers = np.arange(state.next_number, state.next_number + len(rows))
        sealing.add(self._batch(numbers, ids, rows, payloads))
        state.next_number += len(rows)
        state.next_id = max(state.next_id, *(id + 1 for id in ids if isinstance(id, int)), 0)
        state.alive += len(rows)
        self._row_numbers.append(numbers)

    def update(
        self, positions: np.ndarray, ids: Sequence[Any], rows: np.ndarray, payloads: Sequence[str | None]
    ) -> None:
        """Whole new contents of the items at some positions."""
        numbers = self._living(positions)
        self._sealing().override(self._batch(numbers, ids, rows, payloads))
        self._rewritten(numbers)

    def _rewritten(self, numbers: np.ndarray) -> None:
        """Those who read beside this must know that these items are not as they were."""
        self._state.rewritten = self._state.commit + 1
        self._touched.append(numbers)

    def _living(self, positions: np.ndarray) -> np.ndarray:
        """The numbers at these positions; a dead one would be counted twice."""
        numbers: np.ndarray = self.numbers[positions]
        if self._row_numbers.any_dead(numbers):
            raise InvalidInput(expected="positions of living items", got="dead ones too")
        return numbers

    def _batch(
        self, numbers: np.ndarray, ids: Sequence[Any], rows: np.ndarray, payloads: Sequence[str | None]
    ) -> Batch:
        if (rows.dtype.name, rows.shape) != (self._state.dtype, (len(numbers), self._state.width)):
            expected = f"{self._state.dtype} {(len(numbers), self._state.width)}"
            raise InvalidInput(expected=f"rows of {expected}", got=f"{rows.dtype} {rows.shape}")
        return Batch(numbers, list(ids), list(payloads), np.ascontiguousarray(rows))

    def remove(self, positions: np.ndarray) -> None:
        """Remove the items at some positions, which stay, dead, until `keep`."""
        numbers = self._living(positions)
        self._sealing().remove(numbers)
        self._row_numbers.bury(numbers)
        self._state.alive -= len(numbers)
        self._rewritten(numbers)

    def keep(self, positions: np.ndarray) -> None:
        """Keep only these positions, which ascend, and renumber them; nothing changes on the disk."""
        self._row_numbers.keep(positions)

    def put_codes(self, positions: np.ndarray | None, codes: np.ndarray) -> None:
        """The codes at some positions, or at all; those of all may have another width than before."""
        ledger, state = self._ledger(), self._state
        if positions is None:
            ledger.clear("codes")
            state.codes_at = 0
            state.code_bytes = codes.shape[1]
        state.code_bytes = state.code_bytes or codes.shape[1]
        numbers = self.numbers if positions is None else self.numbers[positions]
        self._write_codes(ledger, state.codes_at, numbers, codes)

    def _write_codes(self, ledger: Ledger, base: int, numbers: np.ndarray, codes: np.ndarray) -> None:
        if codes.dtype != np.uint8 or codes.shape != (len(numbers), self._state.code_bytes):
            expected = f"uint8 {(len(numbers), self._state.code_bytes)}"
            raise InvalidInput(expected=f"codes of {expected}", got=f"{codes.dtype} {codes.shape}")
        write_codes(self._connections.writer, self.path, ledger, base, numbers, codes)

    @property
    def code_bytes(self) -> int:
        """Bytes of one code, 0 as long as there were none."""
        return self._state.code_bytes

    def put_next_codes(self, positions: np.ndarray, codes: np.ndarray) -> None:
        """Codes of some positions that do not count before `move_codes`; of the width of those that do."""
        self._write_codes(self._ledger(), self._next_codes, self.numbers[positions], codes)

    def move_codes(self) -> None:
        """Let the next codes count, which must be there for all positions; those before them stay for now."""
        if not self._state.codes_at:
            allow_moved_codes(self._connections.writer)
        self._state.codes_at = self._next_codes

    def drop_next_codes(self, most: int) -> bool:
        """Delete so many records of codes that do not count; whether any are left."""
        first = self._next_codes
        found = self._changing().execute(
            "SELECT key FROM codes WHERE key >= ? AND key < ? ORDER BY key LIMIT ?", (first, first + _APART, most + 1)
        )
        keys = [key for (key,) in found.fetchall()]
        self._ledger().delete("codes", keys[:most])
        return len(keys) > most

    @property
    def _next_codes(self) -> int:
        return _APART - self._state.codes_at

    # ------------------------------------------------------------------ learner and encoders

    @property
    def next_id(self) -> int:
        """The first number that is above all ids that ever were."""
        return self._state.next_id

    @property
    def log_bytes(self) -> int:
        """Bytes in the log since the learner was put."""
        return self._state.log_bytes

    def put_learner(self, blob: bytes) -> None:
        """Store the learner as it is now; the log is emptied."""
        ledger = self._ledger()
        ledger.put("learner", ONLY, blob)
        ledger.clear("events")
        self._state.log_bytes = 0

    def log(self, event: dict[str, Any]) -> None:
        """What happened to the learner, after all that was logged before."""
        data = format.to_bytes("event", event)
        self._ledger().insert("events", [(self._state.totals["events"][0], data)])
        self._state.log_bytes += len(data)

    def learner(self) -> LearnerAndLog:
        """The learner as it was put, empty if it never was, and what happened to it since."""
        if self._records is not None:
            return self._records.learner
        with self._reading() as connection:
            return read_learner(connection, self.path)

    def put_encoder(self, serial: int, facts: dict[str, Any], blob: bytes) -> None:
        """An encoder under its serial number, in the place of one that has the same."""
        self._ledger().put("encoders", serial, json.dumps(facts).encode(), blob)

    def drop_encoder(self, serial: int) -> None:
        """Delete an encoder."""
        self._ledger().delete("encoders", [serial])

    def encoders(self) -> Encoders:
        """Serial number, facts and bytes of each encoder, ascending."""
        if self._records is not None:
            return self._records.encoders
        with self._reading() as connection:
            return read_encoders(connection, self.path)

    # ------------------------------------------------------------------ receipts

    def put_receipt(self, name: str, digest: str, value: bytes) -> None:
        """A receipt of a change in this transaction, under a name that has none; too old ones go."""
        record, ledger, staged = (name.encode(), digest.encode(), value), self._ledger(), self._staged
        number = self._book.next_number + len(staged.new)
        staged.new[name] = size(*record)
        too_old = self._book.too_old(sum(staged.new.values()), len(staged.new))
        ledger.delete("receipts", [old for gone, old in too_old.items() if gone not in staged.too_old])
        ledger.insert("receipts", [(number, *record)])
        staged.too_old.update(too_old)

    def _settle_book(self) -> None:
        """The book follows when the transaction is on the disk."""
        for old in self._staged.too_old:
            self._book.drop(old)
        for name, n_bytes in self._staged.new.items():
            self._book.enter(name, n_bytes)

    def receipt(self, name: str) -> Stored | None:
        """The receipt of a name, if there is one and it is not too old."""
        number = self._book.number(name)
        if number is None:
            return None
        with self._reading() as connection:
            return read_receipt(connection, self.path, number)


def _let_go(connections: Connections, lock: folders.Lock | None) -> None:
    """Close what is open; what reads in a thread is closed when it is done. A fork of the process closes nothing."""
    if connections.is_inherited:
        return
    connections.close()
    if lock is not None:
        lock.release()
