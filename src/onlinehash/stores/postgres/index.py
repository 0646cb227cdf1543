"""`PostgresIndex`: a live index whose items are in PostgreSQL, for any number of processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from onlinehash.embed.embedder import Model
from onlinehash.errors import NotSupported
from onlinehash.index.api import Policy
from onlinehash.learners.base import Learner
from onlinehash.live.index import learner_for
from onlinehash.stores.creation import first, layout_of
from onlinehash.stores.index import StoreIndex
from onlinehash.stores.postgres import creation
from onlinehash.stores.postgres.backend import PostgresBackend


class PostgresIndex(StoreIndex):
    """An index of vectors whose codes follow a learner, in the tables of a schema of PostgreSQL.

    It has the methods of `LiveIndex`. Any number of processes, on any machines, may search and change it at the same
    time; changes wait for each other. Begin with `create`, go on with `open`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import PostgresIndex
    >>> X = np.random.default_rng(0).standard_normal((20, 8))
    >>> address = "postgresql://postgres:secret@127.0.0.1:5432/postgres"
    >>> with PostgresIndex.create(address, n_bits=64, schema="shop") as index:
    ...     _ = index.add(range(20), X)
    >>> with PostgresIndex.open(address, schema="shop") as index:  # in any process
    ...     print(len(index), index.find(X[3], k=1).ids)
    20 [3]
    """

    @classmethod
    def create(
        cls,
        address: str,
        learner: Learner | None = None,
        refresh: Policy | None = None,
        *,
        n_bits: int | None = None,
        schema: str = "onlinehash",
        shards: Sequence[str] = (),
        role: str | None = None,
        search: str = "multi",
        background: bool = False,
        embed: Model | str | None = None,
        follow: bool = False,
    ) -> Self:
        """A new index in a schema that is not there yet, or is empty; whoever connects owns its tables.

        address : what PostgreSQL's own programs take: `postgresql://user@host:port/database`, or `host=... user=...`.
        learner : a learner, which may have learned already; the index has a copy of its own. None: the recommended.
        n_bits : in place of a learner: the length of a code, where None is 64.
        embed : what makes vectors of texts, as in `LiveIndex`.
        shards : addresses of servers that hold the rows, each a part of them; none, and the first server does.
        role : one that is there already and may then open, search and change the index, but not its tables.
        follow : keep ids and codes in memory and search there, as in `open`.
        search : `multi` (tables of parts of codes), `scan` (all codes), or with pgvector `pgvector` (all codes), `hnsw`
            or `ivfflat` (which may miss some of the nearest).
        """
        cls._check_options(refresh, background)
        learner = learner_for(learner, n_bits)
        head, blobs = first(learner, refresh)
        creation.create(address, schema, layout_of(learner), head, blobs, search=search, shards=shards, role=role)
        return cls.open(address, refresh, schema=schema, background=background, embed=embed, follow=follow)

    @classmethod
    def open(
        cls,
        address: str,
        refresh: Policy | None = None,
        *,
        schema: str = "onlinehash",
        search: str | None = None,
        background: bool = False,
        embed: Model | str | None = None,
        follow: bool = False,
    ) -> Self:
        """The index in a schema; `search` may be another mode that is exact.

        With `follow`, ids and codes are kept in memory, in step with the database, and searched there, at the speed of
        an index in one process. Only vectors, for `find`, and payloads of what is found come from the database.
        """
        backend = PostgresBackend(address, schema, search)
        return cls(backend, refresh, background=background, embed=embed, follow=follow)

    def backup(self, path: str | Path) -> None:
        raise NotSupported("PostgreSQL makes its own backups: use pg_dump, or copies of the servers with their log.")
