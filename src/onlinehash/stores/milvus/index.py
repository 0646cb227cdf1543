"""`MilvusIndex`: a live index whose items are in Milvus."""

from __future__ import annotations

from typing import Self

from onlinehash.embed.embedder import Model
from onlinehash.index.api import Policy
from onlinehash.learners.base import Learner
from onlinehash.live.index import learner_for
from onlinehash.stores import creation
from onlinehash.stores.backend import Layout
from onlinehash.stores.index import StoreIndex
from onlinehash.stores.milvus.backend import MilvusBackend
from onlinehash.stores.milvus.engine import Engine


class MilvusIndex(StoreIndex):
    """An index of vectors whose codes follow a learner, in collections of Milvus.

    It has the methods of `LiveIndex`. Any number of processes may search it; one at a time may change it, as Milvus has
    no locks: who finds that another one has changed it since its own last change is refused. Begin with `create`, go on
    with `open`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import MilvusIndex
    >>> X = np.random.default_rng(0).standard_normal((20, 8))
    >>> with MilvusIndex.create("items.db", n_bits=64) as index:  # a file, or the address of a server
    ...     _ = index.add(range(20), X)
    >>> with MilvusIndex.open("items.db") as index:
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
        name: str = "onlinehash",
        token: str | None = None,
        background: bool = False,
        embed: Model | str | None = None,
    ) -> Self:
        """A new index.

        address : the path of a file that ends in .db, in which this process runs an engine of its own, or
            `http://host:port` of a cluster.
        learner : a learner, which may have learned already; the index has a copy of its own. None: the recommended.
        n_bits : in place of a learner: the length of a code, where None is 64.
        embed : what makes vectors of texts, as in `LiveIndex`.
        name : what the names of its collections begin with.
        token : `user:password` or a key, for a cluster that asks for one.
        """
        cls._check_options(refresh, background)
        learner = learner_for(learner, n_bits)
        head, blobs = creation.first(learner, refresh)
        engine = Engine(address, token)
        try:
            MilvusBackend.create(engine, name, Layout(*learner.shape_of_codes), head, blobs)
            return cls(MilvusBackend(engine, name), refresh, background=background, embed=embed)
        except BaseException:
            engine.close()
            raise

    @classmethod
    def open(
        cls,
        address: str,
        refresh: Policy | None = None,
        *,
        name: str = "onlinehash",
        token: str | None = None,
        background: bool = False,
        embed: Model | str | None = None,
    ) -> Self:
        """An index that was created before."""
        engine = Engine(address, token)
        try:
            return cls(MilvusBackend(engine, name), refresh, background=background, embed=embed)
        except BaseException:
            engine.close()
            raise
