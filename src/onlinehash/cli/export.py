"""`onlinehash export`: writes the items of a live index to a file, even if its learner cannot be read."""

from __future__ import annotations

import json

from onlinehash.cli import output
from onlinehash.cli.target import check as check_target
from onlinehash.errors import FormatError
from onlinehash.io.atomic import replacing
from onlinehash.live.export import export as items_of
from onlinehash.progress import progress_bar


def export(path: str, target: str, as_json: bool) -> int:
    """Write a line of JSON for each item; returns the exit code, which says whether any was left out."""
    check_target(target)
    n, lost = 0, []
    with progress_bar() as show_progress, replacing(target) as file:
        for item in items_of(path):
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
