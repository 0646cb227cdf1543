"""`onlinehash load`: adds the items of a file to an index, and goes on where it stopped."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeAlias

from onlinehash.cli import output, parameters
from onlinehash.cli.options import is_postgres
from onlinehash.errors import InvalidInput, NotSupported
from onlinehash.index.api import Capability, VectorIndex
from onlinehash.live.storage import Storage
from onlinehash.live.texts import with_texts
from onlinehash.progress import progress_bar
from onlinehash.streams.from_files import BLOCK_ROWS, read_tables
from onlinehash.streams.items import ItemReader, Items, picked
from onlinehash.streams.tables import FilePosition, Table, unread, valid
from onlinehash.streams.text_tables import STANDARD_INPUT, BadRow
from onlinehash.types import Id, Json

#: Under which name an index keeps how far a file was read, and how far that is.
Position: TypeAlias = tuple[str, dict[str, Json]]


@dataclass(frozen=True)
class Options:
    """The options, except those of the learner."""

    file: str
    target: str
    schema: str | None
    id: str | None
    text: str | None
    vector: str | None
    embed: str | None
    format: str | None
    text_ids: bool = False
    skip_bad: bool = False


def load(options: Options, choices: parameters.Choices, as_json: bool) -> None:
    """Add the items of a file; those that an earlier run has added are passed over."""
    began = time.perf_counter()
    read = ItemReader(options.id, options.text, options.vector, options.text_ids or None)
    refused = list[InvalidInput]()
    bad_row = refused.append if options.skip_bad else None
    with progress_bar() as show:
        tables = read_tables(options.file, options.format, BLOCK_ROWS, bad_row=bad_row, find_numbers=True)
        begin = next(tables, None)
        if begin is None:
            raise InvalidInput(f"{options.file} has no items.")
        # before the index: a file that cannot be used makes no folder
        usable = begin if bad_row is None else valid(read, begin, lambda error: None, is_first=True)
        has_vectors = read(usable).X is not None
        is_new = not is_postgres(options.target) and not Storage.exists(options.target)
        embed = parameters.load_embedder(options.embed or ("lexical" if is_new and not has_vectors else None))
        with parameters.open_index(options.target, options.schema, choices, embed=embed) as index:
            if not index.supports(Capability.POSITIONS):
                raise NotSupported(f"load needs an index that stores positions, and {type(index).__name__} does not.")
            if len(index):  # whose ids have a kind already
                read.text_ids = index.ids_kind == "strings"
            source = None if options.file == STANDARD_INPUT else f"load {os.path.abspath(options.file)}"
            stored = FilePosition.of(None if source is None else index.positions.get(source))
            added, bad = 0, list[InvalidInput]()
            for table, start, position in unread(chain([begin], tables), stored, "loaded"):
                if start < len(table):
                    rest = table.at(range(start, len(table))) if start else table
                    if bad_row is not None:
                        rest = valid(read, rest, bad_row, is_first=False)
                    at = None if source is None else (source, position.as_json())
                    added += _add_new(index, rest, read(rest), at, bad_row) if len(rest) else _add_none(index, at)
                    bad += refused
                refused.clear()  # those among rows of an earlier run were told then
                show(table.share, f"{position.rows:,} items")
            total = len(index)
    output.print_left_out(bad)
    _tell(options, Loaded(added, stored.rows, total, len(bad)), time.perf_counter() - began, as_json)


class Loaded(NamedTuple):
    """Items added, rows that an earlier run read, items in the index now, and rows left out."""

    added: int
    before: int
    items: int
    bad: int


def _add_new(index: VectorIndex, table: Table, items: Items, at: Position | None, bad_row: BadRow | None) -> int:
    """Add items and keep the position with them; how many. A row whose id is taken is named, or left out."""
    try:
        with nullcontext() if at is None else index.reached(*at):
            _add(index, items)
    except InvalidInput:
        ids = items.ids or []
        taken = _taken(index, ids)  # only now: most files have none, and a database is asked for each
        if not taken:
            raise
    else:
        return len(items.payloads)
    errors = [table.error(row, f"there is an item with the id {ids[row]!r} already") for row in taken]
    if bad_row is None:
        raise errors[0]
    for error in errors:
        bad_row(error)
    rest = sorted(set(range(len(ids))) - set(taken))
    return _add_new(index, table, picked(items, rest), at, bad_row) if rest else _add_none(index, at)


def _add_none(index: VectorIndex, at: Position | None) -> int:
    if at is not None:
        index.put_position(*at)
    return 0


def _taken(index: VectorIndex, ids: Sequence[Id]) -> list[int]:
    """The rows whose ids items of the index have, or earlier rows."""
    seen, taken = set[Id](), list[int]()
    for row, id in enumerate(ids):
        if id in seen or id in index:
            taken.append(row)
        seen.add(id)
    return taken


def _add(index: VectorIndex, items: Items) -> None:
    if items.X is not None:
        payloads = items.payloads if items.texts is None else with_texts(items.payloads, items.texts)
        index.add(items.ids, items.X, payloads)
        return
    assert items.texts is not None
    index.add_texts(items.texts, items.ids, items.payloads)


def _tell(options: Options, loaded: Loaded, seconds: float, as_json: bool) -> None:
    from onlinehash.consume.address import without_login

    if as_json:
        output.print_json({**loaded._asdict(), "seconds": seconds})
        return
    earlier = f", {loaded.before:,} were there from an earlier run" if loaded.before else ""
    bad = f", {loaded.bad:,} rows left out" if loaded.bad else ""
    print(
        f"{loaded.added:,} items added to {without_login(options.target)} in {seconds:.1f} s{earlier}{bad}; it has "
        f"{loaded.items:,} now"
    )
