"""`codes`: writes the codes of an index for another store, all of them or what changed since an earlier export."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onlinehash import checks
from onlinehash.errors import InvalidInput, InvalidParameter
from onlinehash.export.changes import Changes, Contents
from onlinehash.export.record import Record
from onlinehash.index.api import VectorIndex
from onlinehash.index.base import Index

if TYPE_CHECKING:
    from pymilvus import MilvusClient
    from qdrant_client import QdrantClient

#: The kinds of stores, and the module of each.
TARGETS = {
    "duckdb": "duckdb",
    "elasticsearch": "elasticsearch",
    "lancedb": "lancedb",
    "milvus": "milvus",
    "opensearch": "opensearch",
    "parquet": "parquet",
    "pgvector": "pgvector",
    "qdrant": "qdrant",
    "sqlite-vec": "sqlite_vec",
    "vespa": "vespa",
}

#: What all of them take as the name of a table, an index or a collection.
NAME = re.compile("[a-z][a-z0-9_]{0,62}")


class Written(NamedTuple):
    """How many items were written, and how many removed.

    Examples
    --------
    >>> from onlinehash import LiveIndex, export
    >>> index = LiveIndex(n_bits=16)
    >>> _ = index.add(["a", "b"], [[1.0, 2.0], [2.0, 0.5]])
    >>> written = export.codes(index, "codes.parquet", to="parquet")
    >>> written.items, written.removed
    (2, 0)
    """

    items: int
    removed: int


def codes(
    index: VectorIndex | Index,
    target: str | os.PathLike[str] | QdrantClient | MilvusClient,
    to: str,
    *,
    name: str = "items",
    since: str | os.PathLike[str] | None = None,
    show_progress: Callable[[int], None] = lambda n: None,
) -> Written:
    """Write the ids, codes and payloads of an index for another store.

    Parameters
    ----------
    index : VectorIndex or Index
        Any index: `LiveIndex`, `PostgresIndex`, ..., `FlatIndex`, `MultiIndex`.
    target : path, str or client
        A file (parquet, duckdb, sqlite-vec), a folder (lancedb; elasticsearch, opensearch and vespa, for which it is
        new), the address of a database `postgresql://...` (pgvector), for qdrant a client, an address such as
        `http://localhost:6333` (its key is taken from the environment variable QDRANT_API_KEY), or the folder of its
        local mode, and for milvus a client, an address such as `http://localhost:19530` (its token is taken from
        MILVUS_TOKEN), or a file of Milvus Lite, which ends in `.db`.
    to : str
        The kind of store, one of `export.TARGETS`.
    name : str, default="items"
        The table, collection or document type.
    since : path, optional
        The record of earlier exports. Only what is different from it is written, and it is brought up to date
        afterwards. Where there is no such file yet, everything is written. It is no version number.
    show_progress : function, optional
        Called with the number of items written so far.

    Returns
    -------
    Written
        How many items were written and removed.

    Raises
    ------
    InvalidInput
        If the target cannot be written, or has such a table already.
    MissingExtra
        If the store's library is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import LiveIndex, export
    >>> index = LiveIndex(n_bits=16)
    >>> _ = index.add(["a", "b", "c"], np.random.default_rng(0).normal(size=(3, 4)))
    >>> export.codes(index, "codes.parquet", to="parquet", since="exported.oh")
    Written(items=3, removed=0)
    >>> index.remove("a")
    >>> export.codes(index, "changes.parquet", to="parquet", since="exported.oh")
    Written(items=0, removed=1)
    """
    if not isinstance(to, str) or to not in TARGETS:
        raise InvalidParameter(f"codes cannot be exported to {checks.shown(to)}; choose one of {', '.join(TARGETS)}.")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidInput(
            expected="a name of lower-case letters, digits and _ that starts with a letter", got=checks.shown(name)
        )
    if isinstance(target, str | os.PathLike):
        target = _checked(os.fspath(target))
    elif to not in ("milvus", "qdrant"):
        raise InvalidInput(expected="a path to write to", got=checks.shown(target))
    if since is not None:
        since = _checked_record(since)
    contents = Contents.of(index)
    changes = Changes(contents, show_progress=show_progress)
    if len(contents.codes) == 0 and (since is None or not since.exists()):
        raise InvalidInput("the index has no items to export.")
    if since is not None:
        record = Record.of(contents)
        if since.exists():
            changed = Record.load(since).difference(record)
            changes = Changes(contents, *changed, os.fspath(since), show_progress)
    importlib.import_module(f"onlinehash.export.{TARGETS[to]}").write(changes, target, name)
    if since is not None:
        record.save(since)
    return Written(changes.n_items, len(changes.removed))


def _checked_record(since: object) -> Path:
    """The path of a record, before anything is written. A number is meant as a version, which tells nothing here."""
    is_number = isinstance(since, int) or (isinstance(since, str) and since.isdecimal() and not Path(since).exists())
    if is_number or not isinstance(since, str | os.PathLike):
        raise InvalidInput(
            expected="the file that records earlier exports",
            got=checks.shown(since),
            hint="name one such as exported.oh, which the first export makes",
        )
    return Path(_checked(os.fspath(since)))


def _checked(target: str) -> str:
    """A path that can be created, or an address."""
    folder = Path(target).absolute().parent
    if "://" not in target and not folder.is_dir():
        raise InvalidInput(f"cannot write {target}: the folder {folder} does not exist; create it first.")
    return target
