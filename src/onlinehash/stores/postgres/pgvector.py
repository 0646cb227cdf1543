"""What the extension pgvector adds: its own Hamming distance, and indexes that may miss some of the nearest.

An index gives items of one group in the order of distance and stops when enough of them count at the epoch (iterative
scans, pgvector 0.8 and later). At the last distance those that it meets first win, not those that were there first.
"""

from __future__ import annotations

from onlinehash.stores.backend import Layout
from onlinehash.stores.postgres.rows import counts

#: Modes whose answers may lack some of the nearest.
APPROXIMATE = ("hnsw", "ivfflat")
#: How many items or lists an index looks at, at least: more find more of the nearest, and take longer.
EF_SEARCH, PROBES = 200, 20
#: The most that pgvector takes.
_MOST_EF = 1000
#: Lists of an index: it is made before there are items, so their number cannot follow that of the items. More of them
#: would take more memory to make than a server allows unless it is told otherwise.
LISTS = 500


def index_statements(schema: str, layout: Layout, mode: str) -> list[str]:
    """The indexes of a mode, on the server that holds the rows; none for exact ones.

    An `ivfflat` index learns its lists from the rows that are there when it is made: REINDEX it after the first load.
    """
    if mode not in APPROXIMATE:
        return []
    lists = f" WITH (lists = {LISTS})" if mode == "ivfflat" else ""
    return [
        f'CREATE INDEX codes_code{group}_{mode} ON "{schema}".codes USING {mode} (code{group} bit_hamming_ops){lists}'
        for group in range(len(layout.groups))
    ]


def settings(mode: str, k: int = 1) -> dict[str, str]:
    """What a search of an approximate mode sets for its transaction, or for all of them."""
    if mode == "hnsw":
        ef = max(EF_SEARCH, min(2 * k, _MOST_EF))
        return {"hnsw.ef_search": str(ef), "hnsw.iterative_scan": "strict_order", "enable_seqscan": "off"}
    return {"ivfflat.probes": str(PROBES), "ivfflat.iterative_scan": "relaxed_order", "enable_seqscan": "off"}


def nearest_statement(tables: list[str], layout: Layout) -> str:
    """The k nearest of each table by each group, and of these the k nearest.

    The parameters are for each table and group: its bits, the epoch twice, its bits again, k; and at last k.
    """
    parts = " UNION ALL ".join(
        f'(SELECT (code{group} <~> %s::"bit")::integer AS distance, place, id FROM {table} '
        f'WHERE {counts()} ORDER BY code{group} <~> %s::"bit" LIMIT %s)'
        for table in tables
        for group in range(len(layout.groups))
    )
    return f"SELECT min(distance), place, id FROM ({parts}) AS met GROUP BY place, id ORDER BY 1, 2 LIMIT %s"
