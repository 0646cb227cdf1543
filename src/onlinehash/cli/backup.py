"""`onlinehash backup`: copies the folder of a live index, even while another process writes to it."""

from __future__ import annotations

import time
from pathlib import Path

from onlinehash.cli import output
from onlinehash.cli.options import refuse_postgres
from onlinehash.live.sqlite import Store
from onlinehash.live.sqlite import folder as folders
from onlinehash.progress import progress_bar


def backup(path: str, target: str, as_json: bool) -> None:
    """Copy everything committed so far."""
    refuse_postgres(path, "copy the database with pg_dump")
    began = time.perf_counter()
    with progress_bar() as show_progress, Store.open(path, read_only=True) as store:
        show_progress(None, "copying")
        store.backup(target)
    seconds, n_bytes = time.perf_counter() - began, folders.size(Path(target))
    if as_json:
        output.print_json({"output": target, "bytes": n_bytes, "seconds": seconds})
    else:
        output.print_columns([("time", f"{seconds:.2f} s"), ("saved", f"{n_bytes:,} bytes, in {target}")])
