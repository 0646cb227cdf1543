"""`check`: verifies that a durable index is as it was written, and that its parts fit together.

All of it is read as of one moment, through one transaction, so that a writer may go on meanwhile. Vectors pass block by
block; what else there is takes the memory it takes in an open index.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.codes.layout import planes_per_model
from onlinehash.errors import FormatError, OnlineHashError
from onlinehash.io import files, format
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.live.receipts import outcome_of
from onlinehash.live.settings import check_settings
from onlinehash.live.sqlite import folder as folders
from onlinehash.live.sqlite.checksums import check_record, check_total, damaged, read_value, summed_columns
from onlinehash.live.sqlite.receipts import Book, read_news
from onlinehash.live.sqlite.records import Contents, read_contents, read_positions
from onlinehash.live.sqlite.schema import check_tables, connect, tables_of, translated
from onlinehash.live.sqlite.segments import Reader
from onlinehash.live.sqlite.state import State
from onlinehash.live.storage import expect, replay

#: SQLite names at most so many of its own problems, which are counted.
MOST_OF_SQLITE = 1_000_000

Progress = Callable[[float], None]


@dataclass
class Report:
    """What was found: one sentence a problem, and a few facts of size."""

    path: Path
    items: int = 0
    problems: list[str] = field(default_factory=list)
    facts: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether everything is as it should be."""
        return not self.problems


def check(path: str | os.PathLike[str], progress: Progress = lambda fraction: None) -> Report:
    """Read and verify everything in the durable index at a path; collects all problems and changes nothing.

    `progress` is called with the share of the vectors that was read, from 0 to 1.
    """
    report = Report(Path(path))
    try:
        folders.expect_store(report.path)
    except FormatError as error:
        report.problems.append(str(error))
    else:
        with _noting(report):
            acknowledged = folders.read_commits(report.path)  # before the transaction begins: a writer may be running
            with closing(connect(report.path, False)) as connection:
                connection.execute("BEGIN")
                _Check(report, connection).everything(acknowledged, progress)
    report.facts["bytes"] = folders.size(report.path)
    return report


@contextmanager
def _noting(report: Report) -> Iterator[None]:
    """Turn errors inside into problems of the report."""
    try:
        with translated(report.path):
            yield
    except OnlineHashError as error:
        problem = str(error) if str(report.path) in str(error) else f"{report.path} is of no use: {error}"
        if problem not in report.problems:
            report.problems.append(problem)
    except (ValueError, TypeError, KeyError) as error:  # its sum was right, so it was not written by us
        report.problems.append(f"{report.path} is no work of onlinehash ({checks.shown(error)}); restore it.")


class _Check:
    """One check, in steps; a step that needs something unreadable is skipped."""

    def __init__(self, report: Report, connection: sqlite3.Connection) -> None:
        self._report, self._connection, self._folder = report, connection, report.path

    def everything(self, acknowledged: int, progress: Progress) -> None:
        state: State | None = None
        settings: dict[str, Any] = {}
        with self._noting():
            self._database()
        with self._noting():
            check_tables(self._connection, self._folder)
        with self._noting():
            state = State.read(self._connection, self._folder)
        self._tables = tables_of(self._connection)
        for table in self._tables:
            with self._noting():
                self._records(table)
        with self._noting():
            settings = self._settings()
        with self._noting():
            read_positions(self._connection, self._folder)
        self._receipts()
        learner = self._learner()
        encoders = self._encoders(learner)
        present = encoders.get(settings.get("serial", 0))
        if settings.get("serial") and present is None:
            self._wrong("encoders", settings["serial"], "the encoder of the codes is missing")
        if state is not None:
            self._items(state, acknowledged, learner, present, progress)
        progress(1.0)

    def _noting(self) -> Any:
        return _noting(self._report)

    def _wrong(self, table: str, key: Any, what: str) -> None:
        self._report.problems.append(str(damaged(self._folder, table, key, what)))

    # ------------------------------------------------------------------ the database

    def _database(self) -> None:
        """What SQLite itself finds: one place that is damaged makes many lines, of which the first says enough."""
        answers = self._connection.execute(f"PRAGMA integrity_check({MOST_OF_SQLITE})").fetchall()
        lines = [line for (answer,) in answers for line in answer.decode(errors="replace").splitlines()]
        found = [" ".join(line.split()) for line in lines if line != "ok" and not line.startswith("***")]
        if found:
            others = f", and {len(found) - 1:,} more" if len(found) > 1 else ""
            raise FormatError(f"{self._folder} is damaged (SQLite: {found[0]}{others}); restore it from a copy.")

    def _records(self, table: str) -> None:
        """The sum of every record; vectors have their own."""
        columns = ", ".join(("key", "sum", *summed_columns(table)))
        number = 0
        for key, total, *values in self._connection.execute(f"SELECT {columns} FROM {table}"):
            number += 1
            with self._noting():
                check_record(self._folder, table, key, total, values)
        self._report.facts[table] = number

    def _settings(self) -> dict[str, Any]:
        value = read_value(self._connection, self._folder, "settings", 0)
        if value is None:
            raise damaged(self._folder, "settings", 0, "it is missing")
        settings: dict[str, Any] = json.loads(value)
        check_settings(settings, self._folder)
        return settings

    def _receipts(self) -> None:
        """Outcomes that can be read, under names that are all different."""
        if "receipts" in self._tables:
            with self._noting():
                read_news(self._connection, self._folder, Book())
            for key, value in self._connection.execute("SELECT key, value FROM receipts ORDER BY key").fetchall():
                with self._noting():
                    outcome_of(value, f"receipt {key} in {self._folder}")

    # ------------------------------------------------------------------ the learner and the encoders

    def _learner(self) -> Learner | None:
        """The learner, if it can be read and learns again what it was taught."""
        with self._noting():
            name = f"learner in {self._folder}"
            blob = read_value(self._connection, self._folder, "learner", 0)
            if blob is None:
                raise damaged(self._folder, "learner", 0, "it is missing")
            learner = expect(files.from_bytes(blob, name), Learner, name)
            events = self._connection.execute("SELECT key, value FROM events ORDER BY key")
            replay(learner, (format.from_bytes(value, f"{self._folder} (event {key})")[1] for key, value in events))
            return learner
        return None

    def _encoders(self, learner: Learner | None) -> dict[int, Encoder]:
        """Those that can be read and make codes of the learner's shape, by their serial numbers."""
        found: dict[int, Encoder] = {}
        for serial, facts, blob in self._connection.execute("SELECT key, facts, value FROM encoders").fetchall():
            with self._noting():
                name = f"encoder {serial} in {self._folder}"
                encoder = expect(files.from_bytes(blob, name), Encoder, name)
                n_pairs = json.loads(facts)["n_pairs"]
                if type(n_pairs) is not int or n_pairs < 0:
                    raise damaged(self._folder, "encoders", serial, f"expected a count of pairs, got {n_pairs!r}")
                if learner is not None and (encoder.n_bits, encoder.n_models) != learner.shape_of_codes[:2]:
                    raise damaged(self._folder, "encoders", serial, "its codes have another width than the learner's")
                found[serial] = encoder
        return found

    # ------------------------------------------------------------------ the items

    def _items(
        self, state: State, acknowledged: int, learner: Learner | None, encoder: Encoder | None, progress: Progress
    ) -> None:
        self._report.items = state.alive
        self._report.facts |= {"commit": state.commit, "log_bytes": state.log_bytes}
        if state.commit < acknowledged:
            self._wrong("state", "commit", f"the last {acknowledged - state.commit} transactions are missing")
        for table in self._tables:
            if table != "state":
                with self._noting():
                    check_total(self._connection, self._folder, table, state.totals.get(table, [0, 0]))
        if learner is not None and state.alive:
            n_bits, n_models, _ = learner.shape_of_codes
            if state.code_bytes != n_models * planes_per_model(n_bits):
                self._wrong("state", "code_bytes", "codes have another width than the learner's")
            if (state.width, state.dtype) != (learner.n_features_in_, learner.dtype_.name):
                self._wrong("state", "width", "vectors are of another kind than the learner's")
        contents: Contents | None = None
        with self._noting():
            contents = read_contents(self._connection, self._folder, state)
        if contents is not None:
            self._names(contents)
            self._vectors(state, contents, encoder, progress)

    def _names(self, contents: Contents) -> None:
        """Ids that are all different and of one kind, and payloads that are JSON objects."""
        kinds = {type(name) for name in contents.ids}
        if len(kinds) > 1 or not kinds <= {int, str}:
            self._wrong("rows", "ids", "ids are not all integers, and not all strings")
        elif len(set(contents.ids)) != len(contents.ids):
            self._wrong("rows", "ids", "two items have the same id")
        for name, text in zip(contents.ids, contents.payloads, strict=True):
            try:
                sound = text is None or isinstance(json.loads(text), dict)
            except (ValueError, TypeError):
                sound = False
            if not sound:
                self._wrong("rows", "payloads", f"that of item {checks.shown(name)} is no JSON object")

    def _vectors(self, state: State, contents: Contents, encoder: Encoder | None, progress: Progress) -> None:
        """Every vector, one sealed block after the other, and the codes that the present encoder makes of them."""
        keys = [key for (key,) in self._connection.execute("SELECT key FROM blocks ORDER BY key")]
        edges = np.searchsorted(contents.numbers, [*keys, state.sealed]).tolist()
        reader = Reader(self._connection, self._folder, state)
        for first, stop in zip([0, *edges], [*edges, len(contents.numbers)], strict=True):
            progress(first / max(1, len(contents.numbers)))
            with self._noting():
                for start, rows, found in reader.blocks(contents.numbers[first:stop]):
                    here = slice(first + start, first + start + len(rows))
                    if not found.all():
                        raise damaged(self._folder, "rows", contents.numbers[here][~found][0], "it is missing")
                    if encoder is not None:
                        self._codes(encoder, rows, contents.codes[here], contents.ids[here])

    def _codes(self, encoder: Encoder, rows: np.ndarray, codes: np.ndarray, ids: list[Any]) -> None:
        differ = np.flatnonzero((encoder.encode(rows).rows() != codes).any(axis=1))
        if len(differ):
            raise FormatError(
                f"{self._folder} is damaged (the codes of {len(differ)} items, the first of them "
                f"{checks.shown(ids[differ[0]])}, are not what its encoder makes of their vectors); restore a copy."
            )
