"""What a store holds besides items: settings, positions, the learner with its log, and encoders."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

from onlinehash import format
from onlinehash.live.sqlite.ledger import check_record, damaged, read_value

ONLY = 0  #: The key of a table's only record.
POSITIONS = 1  #: The key of the positions in the table of settings; there is no such record where none was ever kept.

LearnerAndLog = tuple[bytes, list[dict[str, Any]]]
Encoders = list[tuple[int, dict[str, Any], bytes]]


class Records(NamedTuple):
    """All of it, as of one moment."""

    settings: dict[str, Any]
    positions: dict[str, Any]
    learner: LearnerAndLog
    encoders: Encoders


def read_records(connection: sqlite3.Connection, folder: Path) -> Records:
    """All of it."""
    return Records(
        read_settings(connection, folder),
        read_positions(connection, folder),
        read_learner(connection, folder),
        read_encoders(connection, folder),
    )


def read_settings(connection: sqlite3.Connection, folder: Path) -> dict[str, Any]:
    """The settings as last put."""
    value = read_value(connection, folder, "settings", ONLY)
    if value is None:
        raise damaged(folder, "settings", ONLY, "it is missing")
    settings: dict[str, Any] = json.loads(value)
    return settings


def read_positions(connection: sqlite3.Connection, folder: Path) -> dict[str, Any]:
    """How far each source was read, by its name."""
    value = read_value(connection, folder, "settings", POSITIONS)
    positions: dict[str, Any] = {} if value is None else json.loads(value)
    if not isinstance(positions, dict):
        raise damaged(folder, "settings", POSITIONS, "expected the positions of sources by their names")
    return positions


def read_learner(connection: sqlite3.Connection, folder: Path) -> LearnerAndLog:
    """The learner as it was put, empty if it never was, and what happened to it since."""
    blob = read_value(connection, folder, "learner", ONLY)
    return blob or b"", read_events(connection, folder)[0]


def read_events(connection: sqlite3.Connection, folder: Path, first: int = 0) -> tuple[list[dict[str, Any]], int]:
    """What was added to the learner's log from an event on, and the sum of the sums."""
    found = connection.execute("SELECT key, sum, value FROM events WHERE key >= ? ORDER BY key", (first,)).fetchall()
    for key, total, value in found:
        check_record(folder, "events", key, total, [value])
    events = [format.from_bytes(value, f"{folder} (event {key})")[1] for key, _, value in found]
    return events, sum(total for _, total, _ in found)


def read_encoders(connection: sqlite3.Connection, folder: Path) -> Encoders:
    """Serial number, facts and bytes of each encoder, ascending."""
    found = connection.execute("SELECT key, sum, facts, value FROM encoders ORDER BY key").fetchall()
    for key, total, *values in found:
        check_record(folder, "encoders", key, total, values)
    return [(key, json.loads(facts), value) for key, _, facts, value in found]
