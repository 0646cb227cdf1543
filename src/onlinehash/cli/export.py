"""`onlinehash export`: writes an index's codes for another store, or its vectors, even if its learner is damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from onlinehash import export as exports
from onlinehash.cli import output
from onlinehash.cli.options import is_postgres
from onlinehash.cli.search import opened
from onlinehash.cli.target import check as check_target
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.io.atomic import replacing
from onlinehash.live.export import Export
from onlinehash.live.export import export as items_in_folder
from onlinehash.progress import progress_bar


def export(path: str, target: str, as_json: bool, schema: str | None = None) -> int:
    """Write a line of JSON for each item; returns the exit code, which says whether any was left out."""
    check_target(target)
    n, lost = 0, []
    with progress_bar() as show_progress, _items(path, schema) as items, replacing(target) as file:
        for item in items:
            if item.vector is None:
                lost.append(item.id)
                continue
            line = {"id": item.id, "vector": item.vector.tolist()}
            line |= {} if item.payload is None else {"payload": item.payload}
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            n += 1
            if n % 1000 == 0:
                show_progress(None, f"{n:,} items")
    if as_json:
        output.print_json({"output": target, "items": n, "damaged": lost})
    else:
        output.print_columns([("saved", f"{n:,} items, in {target}")])
        if lost:
            output.print_columns(
                [("damaged", f"{len(lost):,} vectors were left out; the first is that of {lost[0]!r}")]
            )
    return FormatError.exit_code if lost else 0


@contextmanager
def _items(path: str, schema: str | None) -> Iterator[Iterator[Export]]:
    """The items of an index, which is not opened as one."""
    if not is_postgres(path):
        if schema is not None:
            raise InvalidInput("--schema needs an address postgresql://....")
        if os.path.isfile(path):
            raise InvalidInput(
                f"{path} is a file, and vectors are exported from the folder of a live index; --to STORE exports the "
                "codes of an index in a file."
            )
        yield items_in_folder(path)
        return
    from onlinehash.stores.export import export as items_in_store
    from onlinehash.stores.postgres.backend import PostgresBackend

    with closing(PostgresBackend(path, schema or "onlinehash")) as backend:
        yield items_in_store(backend)


def export_codes(path: str, target: str, to: str, name: str, since: str | None, as_json: bool) -> None:
    """Write the codes of an index for another store."""
    from onlinehash.consume.address import without_login

    is_first = since is not None and not os.path.exists(since)
    with opened(path) as index, progress_bar() as show_progress:
        written = exports.codes(
            index, target, to, name=name, since=since, show_progress=lambda n: show_progress(None, f"{n:,} items")
        )
    target = without_login(target)
    if as_json:
        record = {} if since is None else {"record": since, "record_started": is_first}
        output.print_json({"output": target, "to": to, "name": name} | written._asdict() | record)
        return
    lines = [("written", f"{written.items:,} codes, for {to}, to {target}")]
    if is_first:
        lines += [("record", f"started at {since}; the next export with it writes only what changed")]
    elif since is not None:
        lines += [("removed", f"{written.removed:,} items"), ("record", f"updated at {since}")]
    output.print_columns(lines)
