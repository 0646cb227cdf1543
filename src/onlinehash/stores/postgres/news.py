"""How processes hear of changes: a record of each in the table `deltas`, for some time, and a notification.

One row is inserted for a change, whatever it did, so that who reads them finds out if one is missing. An insertion by
key is the cheapest thing to write. It is on the first server alone, so replicas follow even while one that holds rows
is down.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from onlinehash.stores import deltas
from onlinehash.stores.backend import FOREVER, Head, Layout, News, StoredCodes
from onlinehash.stores.deltas import Delta, Step
from onlinehash.stores.postgres.connections import Connection, connect
from onlinehash.stores.postgres.errors import told

#: Seconds for which records are kept. They are looked at after so many changes, and as many of them go at once.
KEPT_SECONDS, CHANGES = 120, 64
#: Seconds after which who waits for notifications makes sure that the server still knows of it.
CHECK_SECONDS = 5.0
#: Places whose codes are read by one statement.
_PLACES = 1 << 18
#: An epoch as a notification has it.
_EPOCH = re.compile(r"[0-9]{1,18}")


def tables(schema: str) -> list[str]:
    """Statements that make the table."""
    name = f'"{schema}".deltas'
    return [
        f"CREATE TABLE {name} (epoch bigint PRIMARY KEY, before bigint NOT NULL, "
        "written timestamptz NOT NULL DEFAULT clock_timestamp(), value bytea NOT NULL)",
        f"ALTER TABLE {name} ALTER COLUMN value SET STORAGE EXTERNAL",
    ]


def channel(schema: str) -> str:
    """Where changes of an index are told."""
    return f"onlinehash_{schema}"


def put_head(connection: Connection, schema: str, before: Head, head: Head, steps: Sequence[Step]) -> None:
    """Replace the head, record the change and tell of it, which others hear when it is committed."""
    connection.execute(
        f'WITH replaced AS (UPDATE "{schema}".head SET epoch = %s, state = %s), '
        f'recorded AS (INSERT INTO "{schema}".deltas (epoch, before, value) VALUES (%s, %s, %s) ON CONFLICT (epoch) '
        "DO UPDATE SET before = EXCLUDED.before, value = EXCLUDED.value) SELECT pg_notify(%s, %s)",
        (
            head.epoch, json.dumps(head.state), head.epoch, before.epoch, deltas.to_bytes(steps),
            channel(schema), str(head.epoch),
        ),
    )  # fmt: skip
    if head.epoch % CHANGES == 0:
        connection.execute(
            f'DELETE FROM "{schema}".deltas WHERE epoch IN (SELECT epoch FROM (SELECT epoch, written FROM '
            f'"{schema}".deltas ORDER BY epoch LIMIT {2 * CHANGES}) AS oldest '
            f"WHERE written < clock_timestamp() - interval '{KEPT_SECONDS} seconds')"
        )


def read(connection: Connection, schema: str, layout: Layout, after: int) -> News:
    """Head and records by one statement, so that they belong together."""
    rows = connection.execute(
        f"SELECT epoch, NULL::bigint, 0::float8, convert_to(state, 'UTF8') FROM \"{schema}\".head UNION ALL "
        "(SELECT epoch, before, extract(epoch FROM clock_timestamp() - written)::float8, value "
        f'FROM "{schema}".deltas WHERE epoch > %s ORDER BY epoch)',
        (after,),
        binary=True,
    ).fetchall()
    ((epoch, _, _, state),) = (row for row in rows if row[1] is None)
    records = sorted(row for row in rows if row[1] is not None)
    found = [Delta(before, at, deltas.from_bytes(value, layout.n_bytes), age) for at, before, age, value in records]
    return News(Head(epoch, json.loads(state)), found)


def stored_codes(connection: Connection, schema: str, layout: Layout, epoch: int) -> Iterator[StoredCodes]:
    """Codes of an epoch and of later ones, many of them in one row of bytes, which is quicker than a row for each."""
    groups = [f"string_agg(bit_send(code{group}), '')" for group in range(len(layout.groups))]
    columns = [
        "string_agg(int8send(place), '')", "string_agg(int8send(born), '')",
        "string_agg(int4send(octet_length(convert_to(id, 'UTF8'))), '')", "string_agg(convert_to(id, 'UTF8'), '')",
        *groups,
    ]  # fmt: skip
    statement = f'SELECT {", ".join(columns)} FROM "{schema}".codes WHERE place >= %s AND place < %s AND died + 0 > %s'
    ((last,),) = connection.execute(f'SELECT max(place) FROM "{schema}".codes').fetchall()
    for first in range(0, -1 if last is None else last + 1, _PLACES):
        row = connection.execute(statement, (first, first + _PLACES, epoch), binary=True).fetchone()
        assert row is not None
        if row[0] is not None:
            yield _unpacked(row, layout)


def _unpacked(row: Sequence[bytes], layout: Layout) -> StoredCodes:
    places, born, lengths = (np.frombuffer(row[i], kind) for i, kind in enumerate((">i8", ">i8", ">i4")))
    ends = np.cumsum(lengths).tolist()
    ids = [row[3][end - length : end].decode() for end, length in zip(ends, lengths.tolist(), strict=True)]
    parts = [
        np.frombuffer(bits, np.uint8).reshape(len(places), 4 + n_bits // 8)[:, 4:]  # behind their number
        for bits, n_bits in zip(row[4:], layout.groups, strict=True)
    ]
    return StoredCodes(places.astype(np.int64), born.astype(np.int64), ids, np.hstack(parts))


@contextmanager
def listening(
    address: str, shown: str, schema: str, check: Callable[[Connection], None]
) -> Iterator[Callable[[float], int | None]]:
    """A connection of its own that waits for notifications; `check`, which raises if it is lost, is called at times."""
    with told(shown), connect(address) as connection:
        connection.execute(f'LISTEN "{channel(schema)}"')
        checked = time.monotonic()

        def wait(seconds: float) -> int | None:
            nonlocal checked
            if time.monotonic() - checked > CHECK_SECONDS:
                check(connection)
                checked = time.monotonic()
            # All of them, before anything can fail: a generator that is left halfway keeps the connection's lock.
            heard = [note.payload for note in connection.notifies(timeout=seconds, stop_after=1)]
            return max(map(_epoch, heard), default=None)

        yield wait


def _epoch(payload: str) -> int:
    """What a notification says, which any role of the database may send; for nonsense, the last of all epochs."""
    return int(payload) if _EPOCH.fullmatch(payload) else FOREVER
