"""`onlinehash refresh`: gives all items the codes of the learner's newest hash functions."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext, suppress

import onlinehash
from onlinehash.cli import output
from onlinehash.cli.options import is_postgres
from onlinehash.errors import InvalidInput, NotReady, RefreshCancelled
from onlinehash.index.api import VectorIndex
from onlinehash.live import policies

#: Where the token of a service is read from.
TOKEN = "ONLINEHASH_TOKEN"
#: Seconds that a service may take for it.
PATIENCE = 24 * 3600.0


def refresh(target: str, schema: str | None, as_json: bool) -> None:
    """Refresh, and tell what that changed."""
    with _opened(target, schema) as index:
        began, before = time.perf_counter(), index.counters
        with nullcontext() if len(index) else suppress(NotReady):  # before the first item there is nothing to refresh
            index.refresh()
        after, seconds = index.counters, time.perf_counter() - began
        if len(index) and (index.paused or after.refreshes == before.refreshes):
            raise RefreshCancelled(
                f"the refresh was cancelled by somebody else, and codes are those of serial number {index.serial}; run "
                "the command again if they should follow the learner after all."
            )
        document = {"items": len(index), "serial": index.serial, "seconds": round(seconds, 3)}
        document |= {name: getattr(after, name) - getattr(before, name) for name in ("bits_rehashed", "bits_flipped")}
    if as_json:
        output.print_json(document)
    else:
        bits = f"{document['bits_flipped']:,} of {document['bits_rehashed']:,} computed"
        columns = [("items", f"{document['items']:,}"), ("encoder", f"serial number {document['serial']}")]
        output.print_columns([*columns, ("bits changed", bits), ("time", f"{seconds:.2f} s")])


def _opened(target: str, schema: str | None) -> VectorIndex:
    if schema is not None and not is_postgres(target):
        raise InvalidInput("--schema needs an address postgresql://....")
    if is_postgres(target):
        return onlinehash.PostgresIndex.open(target, policies.by_hand(), schema=schema or "onlinehash")
    if target.startswith(("http://", "https://")):
        return onlinehash.connect(target, os.environ.get(TOKEN) or None, timeout=PATIENCE)
    if "://" in target:
        raise InvalidInput(expected="a folder, postgresql://... or the http://... of a service", got="another address")
    return onlinehash.LiveIndex.open(target)
