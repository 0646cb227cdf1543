"""`onlinehash load`: adds the items of a file to an index, and goes on where it stopped."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain

from onlinehash.cli import output, parameters
from onlinehash.cli.options import is_postgres
from onlinehash.errors import InvalidInput, NotSupported
from onlinehash.index.api import Capability, VectorIndex
from onlinehash.live.storage import Storage
from onlinehash.live.texts import with_texts
from onlinehash.progress import progress_bar
from onlinehash.streams.from_files import BLOCK_ROWS, read_tables
from onlinehash.streams.items import ItemReader, Items, sliced
from onlinehash.streams.tables import FilePosition, unread
from onlinehash.streams.text_tables import STANDARD_INPUT


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


def load(options: Options, choices: parameters.Choices, as_json: bool) -> None:
    """Add the items of a file; those that an earlier run has added are passed over."""
    began = time.perf_counter()
    read = ItemReader(options.id, options.text, options.vector, options.text_ids or None)
    tables = read_tables(options.file, options.format, BLOCK_ROWS)
    begin = next(tables, None)
    if begin is None:
        raise InvalidInput(f"{options.file} has no items.")
    has_vectors = read(begin).X is not None  # before the index: a file that cannot be used makes no folder
    is_new = not is_postgres(options.target) and not Storage.exists(options.target)
    embed = parameters.load_embedder(options.embed or ("lexical" if is_new and not has_vectors else None))
    with parameters.open_index(options.target, options.schema, choices, embed=embed) as index, progress_bar() as show:
        if not index.supports(Capability.POSITIONS):
            raise NotSupported(f"load needs an index that stores positions, and {type(index).__name__} does not.")
        if len(index):  # whose ids have a kind already
            read.text_ids = index.ids_kind == "strings"
        source = None if options.file == STANDARD_INPUT else f"load {os.path.abspath(options.file)}"
        stored = FilePosition.of(None if source is None else index.positions.get(source))
        before, rows = stored.rows, 0
        for table, start, position in unread(chain([begin], tables), stored, "loaded"):
            rows = position.rows
            if start < len(table):
                with nullcontext() if source is None else index.reached(source, position.as_json()):
                    _add(index, sliced(read(table), start))
            show(table.share, f"{rows:,} items")
        total = len(index)
    _tell(options, rows - before, before, total, time.perf_counter() - began, as_json)


def _add(index: VectorIndex, items: Items) -> None:
    if items.X is not None:
        payloads = items.payloads if items.texts is None else with_texts(items.payloads, items.texts)
        index.add(items.ids, items.X, payloads)
        return
    assert items.texts is not None
    index.add_texts(items.texts, items.ids, items.payloads)


def _tell(options: Options, n: int, before: int, total: int, seconds: float, as_json: bool) -> None:
    from onlinehash.consume.address import without_login

    if as_json:
        output.print_json({"added": n, "before": before, "items": total, "seconds": seconds})
        return
    earlier = f", {before:,} were there from an earlier run" if before else ""
    print(f"{n:,} items added to {without_login(options.target)} in {seconds:.1f} s{earlier}; it has {total:,} now")
