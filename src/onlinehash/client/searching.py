"""Searching a remote index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from onlinehash import checks
from onlinehash.client import arguments
from onlinehash.client.items import Items
from onlinehash.codes.layout import planes_per_model
from onlinehash.errors import NotReady, OnlineHashError
from onlinehash.index.hits import Hits
from onlinehash.learners.encoder import Encoder

T = TypeVar("T")


class Searching(Items):
    """The questions."""

    def search(self, queries: Any, k: int, where: Any = None) -> Hits:
        """The k nearest items of each query by Hamming distance, fewer where there are not as many.

        Queries are vectors, one or several, or codes. `where` filters by payload; it cannot hold Python functions.
        """
        return self._hits(self._search(queries, k, where))

    def searched(self, queries: Any, k: int, where: Any = None) -> tuple[Hits, Encoder]:
        """What `search` finds, and the encoder of the codes that it searched."""
        return self._with_encoder(lambda: self._search(queries, k, where), self._hits)

    def within(self, queries: Any, radius: int, where: Any = None) -> Any:
        """All items at a distance of at most `radius`: Hits for one query, a list of Hits for several."""
        return self._hits_or_list(self._within(queries, radius, where))

    def found_within(self, queries: Any, radius: int, where: Any = None) -> tuple[Any, Encoder]:
        """What `within` finds, and the encoder of the codes that it searched."""
        return self._with_encoder(lambda: self._within(queries, radius, where), self._hits_or_list)

    def _search(self, queries: Any, k: int, where: Any) -> dict[str, Any]:
        def checked() -> arguments.Asked:
            checks.parameters("search", {"k": k}, {"k": checks.integer(0)})
            return arguments.queries(queries, self.n_bits, self.n_models)

        where = arguments.where(where)
        asked = self._unless_not_ready(checked, where)
        most = self._connection.limits.get("k", k)
        if k > most and len(self) <= most:
            k = most  # which finds all, and is within the limits
        answer = self._find("/v1/search", asked, {"k": int(k), "where": where})
        if asked.n == 0:
            nothing = np.empty((0, len(answer["ids"])), object)
            answer |= {"ids": nothing, "distances": nothing}
        return answer

    def _within(self, queries: Any, radius: int, where: Any) -> dict[str, Any]:
        def checked() -> arguments.Asked:
            checks.parameters("within", {"radius": radius}, {"radius": checks.integer(0)})
            return arguments.queries(queries, self.n_bits, self.n_models)

        where = arguments.where(where)
        asked = self._unless_not_ready(checked, where)
        farthest = self.n_bits * self.n_models
        answer = self._find("/v1/within", asked, {"radius": min(int(radius), farthest), "where": where})
        if asked.n == 0:
            answer |= {"ids": [], "distances": []}
        return answer | {"one": asked.one}

    def _find(self, path: str, asked: arguments.Asked, options: dict[str, Any]) -> dict[str, Any]:
        """The answer for these queries; where there are none, for a code that only serves to be refused or not."""
        body = {asked.field: asked.value} if asked.n else {"code": self._zeros}
        try:
            found: dict[str, Any] = self._connection.ask(path, body | options, asked.n)
        except NotReady:
            self._check_ready(options["where"])  # which tells what the index waits for
            raise
        return found

    def _hits(self, answer: dict[str, Any], distance: Any = np.int32) -> Hits:
        """Hits of one query, or of several that found as many each."""
        return Hits(self._as_ids(answer["ids"]), np.array(answer["distances"], distance))

    def _hits_or_list(self, answer: dict[str, Any]) -> Any:
        """Hits of one query, or a list of Hits of several, which found as many as there are."""
        if answer["one"]:
            return self._hits(answer)
        rows = zip(answer["ids"], answer["distances"], strict=True)
        return [self._hits({"ids": ids, "distances": distances}) for ids, distances in rows]

    def _unless_not_ready(self, checked: Callable[[], T], where: Any = None) -> T:
        """Checked arguments; an index that has no codes yet says so before it looks at them."""
        try:
            return checked()
        except OnlineHashError:
            self._check_ready(where)
            raise

    @property
    def _zeros(self) -> str:
        return "00" * self.n_models * planes_per_model(self.n_bits)

    def _with_encoder(
        self, ask: Callable[[], dict[str, Any]], result: Callable[[dict[str, Any]], T]
    ) -> tuple[T, Encoder]:
        """A result with the encoder that it rests on, which takes two requests."""

        def both() -> tuple[T, Encoder] | None:
            answer, encoder = ask(), self.encoder
            return (result(answer), encoder) if encoder is not None and encoder.version == answer["encoder"] else None

        return self._at_one_moment(both)

    def rerank(self, queries: Any, hits: Hits, k: int | None = None) -> Hits:
        """The same hits in the order of the Euclidean distance of query and stored vector, and these distances.

        Where vectors are equally far the order of the hits stays. `k` keeps so many of them.
        """
        model = self._model
        rehearsed = arguments.Rehearsal(model["n_features"], model["dtype"]).rerank(queries, hits, k)
        ids = np.asarray(hits.ids)
        if ids.size == 0:
            return rehearsed
        one = np.ndim(queries) == 1
        rows = checks.matrix(np.atleast_2d(np.asarray(queries)), "queries")
        body: dict[str, Any] = {"vector": rows[0]} if one else {"vectors": rows}
        body["ids"] = arguments.listed(ids) if one else [arguments.listed(row) for row in ids]
        answer = self._connection.ask("/v1/rerank", body | {"k": None if k is None else int(k)}, len(rows))
        return self._hits(answer, np.float64)
