"""`onlinehash search INDEX --text ...`: the nearest items of a text."""

from __future__ import annotations

from typing import Any

from onlinehash.cli import output, parameters
from onlinehash.cli.options import is_postgres
from onlinehash.live.texts import FIELD
from onlinehash.progress import progress_bar

#: Characters of a hit's text that are printed.
SHOWN = 90


def search_text(
    path: str,
    schema: str | None,
    text: str,
    k: int,
    where: dict[str, Any] | None,
    by_codes: bool,
    embed: str | None,
    as_json: bool,
) -> None:
    """Find what is nearest to a text, in a folder or in PostgreSQL, and print it with its texts."""
    from onlinehash.index.api import VectorIndex
    from onlinehash.live.index import LiveIndex

    embedder = parameters.load_embedder(embed)
    index: VectorIndex
    if is_postgres(path):
        from onlinehash.stores.postgres.index import PostgresIndex

        index = PostgresIndex.open(path, schema=schema or "onlinehash", embed=embedder)
    else:
        index = LiveIndex.open(path, read_only=True, embed=embedder)
    with index, progress_bar():
        hits = index.search_text(text, k, where) if by_codes else index.find_text(text, k, where)
        ids = hits.ids.tolist()
        payloads = index.payloads_of(ids)
    if as_json:
        output.print_json({"text": text, "ids": ids, "distances": hits.distances, "payloads": payloads})
        return
    width = max((len(str(id)) for id in ids), default=2)
    print(f"{'rank':>4}  {'distance':>8}  {'id':<{width}}  text")
    for rank, (id, distance, payload) in enumerate(zip(ids, hits.distances.tolist(), payloads, strict=True), 1):
        said = " ".join(str((payload or {}).get(FIELD, "")).split())
        shown = said if len(said) <= SHOWN else f"{said[: SHOWN - 3]}..."
        print(f"{rank:>4}  {distance:>8.3f}  {id!s:<{width}}  {shown}".rstrip())
