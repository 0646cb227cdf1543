"""What one change writes to PostgreSQL: a transaction of the first server, and of each other one that holds rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.stores.backend import FOREVER, Change, Head, Layout
from onlinehash.stores.deltas import Added, Ended, Rewound, Step
from onlinehash.stores.postgres import receipts, rows
from onlinehash.stores.postgres.chunks import Chunks
from onlinehash.stores.postgres.connections import Connection
from onlinehash.stores.postgres.news import put_head


class PostgresChange(Change):
    """Inside a transaction that holds the lock of the head."""

    def __init__(self, connection: Connection, schema: str, layout: Layout, chunks: Chunks, head: Head) -> None:
        self.head = head
        self.is_put = False
        self._connection = connection
        self._schema = schema
        self._layout = layout
        self._chunks = chunks
        self.steps: list[Step] = []

    def add_items(
        self, born: int, places: np.ndarray, ids: Sequence[str], vectors: np.ndarray, payloads: Sequence[str | None]
    ) -> None:
        unfit = next((id for id in ids if "\0" in id), None)
        if unfit is not None:
            raise InvalidInput(
                expected="ids without the character 0, which PostgreSQL cannot hold", got=checks.shown(unfit)
            )
        self._append("items", *rows.of_items(born, places, ids, vectors, payloads))

    def add_codes(self, born: int, places: np.ndarray, ids: Sequence[str], codes: np.ndarray) -> None:
        self._append("codes", *rows.of_codes(born, places, ids, codes, self._layout, self._chunks))
        self.steps.append(Added(born, places, ids, codes))

    def _append(self, table: str, fixed: dict[str, np.ndarray], texts: dict[str, Sequence[str | None]]) -> None:
        if len(fixed["place"]):
            rows.copy(self._connection, self._name(table), fixed, texts)

    def end_items(self, died: int, places: np.ndarray) -> None:
        self._write(
            f"UPDATE {self._name('items')} SET died = %s WHERE place = ANY(%s::bigint[]) AND died = {FOREVER}",
            died,
            places.tolist(),
        )

    def end_codes(self, died: int, places: np.ndarray) -> None:
        name, listed = self._name("codes"), places.tolist()
        self._write(f"DELETE FROM {name} WHERE place = ANY(%s::bigint[]) AND born >= %s", listed, died)
        self._write(f"UPDATE {name} SET died = %s WHERE place = ANY(%s::bigint[]) AND died > %s", died, listed, died)
        self.steps.append(Ended(died, places))

    def rewind(self, epoch: int) -> None:
        for table in ("items", "codes"):
            name = self._name(table)
            self._write(f"DELETE FROM {name} WHERE born > %s", epoch)
            self._write(f"UPDATE {name} SET died = {FOREVER} WHERE died > %s AND died < {FOREVER}", epoch)
        self.steps.append(Rewound(epoch))

    def purge(self, epoch: int) -> None:
        for table in ("items", "codes"):
            self._write(f"DELETE FROM {self._name(table)} WHERE died <= %s AND died < {FOREVER}", epoch)

    def _write(self, statement: str, *values: object) -> None:
        """Change rows; every statement that does so passes here or through `_append`."""
        self._connection.execute(statement, values)

    def put_blob(self, name: str, value: bytes) -> None:
        self._connection.execute(
            f"INSERT INTO {self._name('blobs')} VALUES (%s, %s) "
            "ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value",
            (name, value),
            binary=True,
        )

    def drop_blobs(self, names: Sequence[str]) -> None:
        self._connection.execute(f"DELETE FROM {self._name('blobs')} WHERE name = ANY(%s)", (list(names),))

    def put_receipt(self, key: str, digest: str, value: bytes) -> bool:
        put = self._connection.execute(receipts.put_statement(self._schema), receipts.parameters(key, digest, value))
        found = put.fetchone()
        if found is not None:
            receipts.forget_old(self._connection, self._schema, *found)
        return found is not None

    def put_head(self, head: Head) -> None:
        put_head(self._connection, self._schema, self.head, head, self.steps)
        self.is_put = True

    def _name(self, table: str) -> str:
        return f'"{self._schema}".{table}'


class ShardedChange(PostgresChange):
    """A change of rows on several servers, which have no commit in common.

    Before the first row is written, the first server notes for good that a change is unfinished; the note goes with the
    commit of its head. What finds such a note knows that rows may be there that count for nothing.
    """

    def __init__(
        self,
        connection: Connection,
        schema: str,
        layout: Layout,
        chunks: Chunks,
        head: Head,
        note: Callable[[], None],
    ) -> None:
        super().__init__(connection, schema, layout, chunks, head)
        self._note = note
        self._passed = False  # the gates

    def recover(self) -> None:
        """Undo what a change left that was cut off, if one was."""
        if self._connection.execute(f"SELECT 1 FROM {self._name('unfinished')}").fetchone() is None:
            return
        self._pass_gates()
        self.rewind(self.head.epoch)
        self.rewound = True

    def put_head(self, head: Head) -> None:
        super().put_head(head)
        self._connection.execute(f"DELETE FROM {self._name('unfinished')}")

    def _write(self, statement: str, *values: object) -> None:
        self._begin()
        super()._write(statement, *values)

    def _append(self, table: str, fixed: dict[str, np.ndarray], texts: dict[str, Sequence[str | None]]) -> None:
        """By way of a table of this session: rows then go to the other servers in packets, and not one by one."""
        if not len(fixed["place"]):
            return
        self._begin()
        names = ", ".join([*fixed, *texts])
        self._connection.execute(f"CREATE TEMPORARY TABLE onlinehash_new (LIKE {self._name(table)}) ON COMMIT DROP")
        rows.copy(self._connection, "pg_temp.onlinehash_new", fixed, texts)
        self._connection.execute(
            f"INSERT INTO {self._name(table)} ({names}) SELECT {names} FROM pg_temp.onlinehash_new"
        )
        self._connection.execute("DROP TABLE pg_temp.onlinehash_new")

    def _begin(self) -> None:
        if not self._passed:
            self._note()
            self._pass_gates()

    def _pass_gates(self) -> None:
        self._passed = True
        self._connection.execute(f"UPDATE {self._name('gates')} SET passed = passed + 1")
