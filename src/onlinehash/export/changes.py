"""What a store has to take over: all items of an index, or those that are not as an earlier export left them."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput, MissingExtra, NotReady, StorageError
from onlinehash.index.api import Capability, Id, Payload, VectorIndex
from onlinehash.index.base import Index

#: Items handed to a store at once.
BLOCK_ITEMS = 4096


class Block(NamedTuple):
    """Some items: their ids, codes and payloads."""

    ids: list[Id]
    codes: Codes
    payloads: list[Payload | None]

    def texts(self) -> list[str | None]:
        """The payloads as JSON."""
        return [None if payload is None else json_text(payload) for payload in self.payloads]


def json_text(value: object) -> str:
    """Compact JSON, which can be written as UTF-8 whatever strings hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can only escape
        return json.dumps(value, separators=(",", ":"))
    return text


@dataclass(frozen=True)
class Contents:
    """The ids and codes of an index as of one moment, and a way to its payloads."""

    ids: np.ndarray
    codes: Codes
    payloads_of: Callable[[Sequence[Id]], list[Payload | None]]

    @classmethod
    def of(cls, index: VectorIndex | Index) -> Contents:
        """Read an index; refused where no store could search its codes."""
        encoder = index.encoder
        if isinstance(index, VectorIndex):
            if encoder is None:
                raise NotReady("the index has no codes yet; add items first.")
            fusion, payloads_of = encoder.fusion, index.payloads_of
            ids, codes = _of_one_moment(index)
        else:
            fusion, payloads_of = index.fusion, _no_payloads
            ids, codes = index.ids, index.codes
        if codes.n_models > 1 and fusion == "min":
            raise InvalidInput(
                f"the codes of {codes.n_models} models are compared by the nearest model's distance (fusion='min'), "
                "which other stores cannot do; use one model, or fusion='sum'."
            )
        return cls(ids, codes, payloads_of)

    def blocks(self, positions: np.ndarray | None = None) -> Iterator[Block]:
        """The items at some positions, or all of them, in the order of insertion."""
        for start in range(0, len(self.codes) if positions is None else len(positions), BLOCK_ITEMS):
            some = slice(start, start + BLOCK_ITEMS)
            rows: Any = some if positions is None else positions[some]
            ids = self.ids[rows].tolist()
            yield Block(ids, self.codes[rows], self.payloads_of(ids))


def _of_one_moment(index: VectorIndex) -> tuple[np.ndarray, Codes]:
    if index.supports(Capability.VIEW):
        view = index.view
        return view.ids, view.codes
    while True:
        ids, codes = index.ids, index.codes
        if np.array_equal(ids, index.ids):  # no item came or went in between
            return ids, codes


def _no_payloads(ids: Sequence[Id]) -> list[Payload | None]:
    return [None] * len(ids)


@dataclass(frozen=True)
class Changes:
    """Items to write and ids to remove.

    `positions` are None where a store begins empty and gets everything, and only then is it created.
    """

    contents: Contents
    positions: np.ndarray | None = None
    removed: tuple[Id, ...] = ()
    record: str = ""  #: The file that records earlier exports, for messages.
    show_progress: Callable[[int], None] = lambda n: None

    @property
    def is_first(self) -> bool:
        """Whether the store is created now."""
        return self.positions is None

    @property
    def n_items(self) -> int:
        """How many items are written."""
        return len(self.contents.codes) if self.positions is None else len(self.positions)

    @property
    def ids_are_text(self) -> bool:
        """Whether ids are strings, or else integers."""
        return self.contents.ids.dtype == object

    @property
    def n_bits(self) -> int:
        """Bits of a code over all models."""
        return self.contents.codes.n_columns

    @property
    def n_bytes(self) -> int:
        """Bytes of a packed code."""
        return -(-self.n_bits // 8)

    def blocks(self) -> Iterator[Block]:
        """The items to write."""
        n = 0
        for block in self.contents.blocks(self.positions):
            yield block
            n += len(block.ids)
            self.show_progress(n)

    def check_table(self, exists: bool, target: str, name: str) -> None:
        """Refuse to create a table that is there already, or to update one that is not."""
        if exists and self.is_first:
            raise InvalidInput(f"{target} already has {name!r}; export to a new place, or under another name.")
        if not exists and not self.is_first:
            raise InvalidInput(
                f"{target} has no {name!r} to update, although {self.record} records an earlier export; name the place "
                "of that export, or delete this record to export everything."
            )

    def check_place(self, target: str, name: str) -> None:
        """The same for a file or a folder that is not there; opening it would make it."""
        if not os.path.exists(target):
            self.check_table(False, target, name)


@contextmanager
def told(store: str, *kinds: type[Exception]) -> Iterator[None]:
    """Raise what the library of a store raises inside as one sentence."""
    try:
        yield
    except kinds as error:
        text = str(getattr(error, "message", error)).strip()  # that of Milvus is inside brackets otherwise
        said = (text.splitlines() or [type(error).__name__])[0].rstrip(".")
        raise StorageError(f"{store} failed: {said}.") from error


def need(module: str, store: str, extra: str) -> ModuleType:
    """Import a library that an export needs."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(f"exporting to {store}", module, extra) from None


def quoted(name: str) -> str:
    """A name in SQL, also where it is a word of the language."""
    return '"' + name.replace('"', '""') + '"'
