"""The head and the blobs of an index, and how one writer notices another.

Milvus replaces a row by removing it and adding another, in two steps where it is embedded, so that the row could be
lost between them. The head is therefore written anew with the next number each time; the highest number counts, and
those before it are removed afterwards. Before a change writes anything it puts the head as it is, with a mark: whoever
finds a mark when a change begins knows that one was cut off. Two that put the same number at the same time see each
other.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

from onlinehash.errors import FormatError, StorageError
from onlinehash.stores.backend import Head, Layout
from onlinehash.stores.milvus.engine import Engine
from onlinehash.stores.milvus.tables import NOTHING, bytes_of, texts_of_bytes

_HEAD = "head"
#: Rows that one request asks for, the most bytes that one has, and names that one request tells.
_ROWS, _ROW_BYTES, _NAMES = 100, 1 << 16, 1_000
_FORMAT = 1


class Standing(NamedTuple):
    """A head with what else is written beside it."""

    number: int
    writer: str  #: Who put it.
    head: Head
    layout: Layout
    writing: bool  #: A change is under way, or was cut off.
    dropped: list[str]  #: Blobs that nobody needs any more, which may still be there.


class Records:
    """The collection of the head and the blobs."""

    def __init__(self, engine: Engine, collection: str) -> None:
        self._engine, self._collection = engine, collection
        self.address = engine.address
        self.writer = secrets.token_hex(8)

    # ------------------------------------------------------------------------------------------------ the head

    def standing(self) -> Standing | None:
        """What counts now, if there is a head."""
        fields = ["key", "number", "part", "parts", "value"]
        heads: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for row in self._engine.query(self._collection, f'name == "{_HEAD}"', fields):
            writer = row["key"].split("/")[2]
            heads.setdefault((row["number"], writer), []).append(row)
        whole = [which for which, parts in heads.items() if len(parts) == parts[0]["parts"]]
        if not whole:
            return None
        number, writer = max(whole)
        told = json.loads(_joined(heads[number, writer]))
        if told["format"] != _FORMAT:
            raise FormatError(
                expected=f"format {_FORMAT} of an index in {self.address}",
                got=f"{told['format']}",
                hint="use the version of onlinehash that wrote it",
            )
        head = Head(told["epoch"], told["state"])
        return Standing(number, writer, head, Layout(*told["layout"]), told["writing"], told["dropped"])

    def put(self, standing: Standing) -> None:
        """A head with its number; from now on it counts."""
        (epoch, state), layout = standing.head, list(standing.layout)
        told = {"format": _FORMAT, "epoch": epoch, "state": state, "layout": layout}
        told |= {"writing": standing.writing, "dropped": standing.dropped}
        self._insert(_key(standing), _HEAD, standing.number, json.dumps(told).encode())

    def mark(self, standing: Standing) -> Standing:
        """The same head with a mark; refused if another writer has put one of this number or later, too."""
        marked = standing._replace(number=standing.number + 1, writer=self.writer, writing=True, dropped=[])
        self.put(marked)
        rows = self._engine.query(self._collection, f'name == "{_HEAD}" and number >= {marked.number}', ["key"])
        own = [row["key"] for row in rows if row["key"].startswith(_key(marked))]
        if len(own) < len(rows):
            self._engine.delete_keys(self._collection, own)
            raise another_writer(self.address)
        return marked

    def is_last(self, standing: Standing) -> bool:
        """Whether nobody has put a head since."""
        return not self._engine.query(self._collection, f'name == "{_HEAD}" and number > {standing.number}', ["key"])

    def tidy(self, standing: Standing) -> None:
        """Remove what nobody needs after this head was put."""
        self._engine.delete(self._collection, f'name == "{_HEAD}" and number < {standing.number}')
        self._delete(standing.dropped)

    # ------------------------------------------------------------------------------------------------ blobs

    def put_blob(self, name: str, value: bytes) -> None:
        """Bytes under a name, which no head that stands tells of."""
        self._delete([name])
        self._insert(f"blob/{name}", name, 0, value)

    def blobs(self, names: Sequence[str]) -> dict[str, bytes]:
        """Those of these names that are there."""
        rows: list[dict[str, Any]] = []
        for some in _portions(names, _NAMES):
            rows += self._engine.query(self._collection, f"name in {json.dumps(some)}", ["key", "name"])
        parts: dict[str, list[dict[str, Any]]] = {row["name"]: [] for row in rows}
        for some in _portions([row["key"] for row in rows], _ROWS):
            for row in self._engine.query(self._collection, f"key in {json.dumps(some)}", ["name", "part", "value"]):
                parts[row["name"]].append(row)
        return {name: _joined(found) for name, found in parts.items()}

    def _insert(self, key: str, name: str, number: int, value: bytes) -> None:
        texts = texts_of_bytes(value)
        same = {"name": name, "number": number, "parts": len(texts)} | NOTHING
        rows = [{"key": f"{key}/{part}", "part": part, "value": text} | same for part, text in enumerate(texts)]
        self._engine.insert(self._collection, rows, _ROW_BYTES)

    def _delete(self, names: Sequence[str]) -> None:
        for some in _portions(names, _NAMES):
            self._engine.delete(self._collection, f"name in {json.dumps(some)}")


def _key(standing: Standing) -> str:
    return f"{_HEAD}/{standing.number}/{standing.writer}"


def _joined(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(bytes_of(row["value"]) for row in sorted(rows, key=lambda row: row["part"]))


def _portions(texts: Sequence[str], size: int) -> list[list[str]]:
    return [list(texts[i : i + size]) for i in range(0, len(texts), size)]


def another_writer(address: str) -> StorageError:
    """The error for who is not the only one that writes."""
    return StorageError(
        f"another process changes the index in {address}, and only one may; open it again when that one has stopped."
    )
