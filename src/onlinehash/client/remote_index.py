"""`RemoteIndex`: the index of a service, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash import checks
from onlinehash.arraylike import as_array
from onlinehash.client import answers, arguments
from onlinehash.client.connection import Connection
from onlinehash.codes import Codes
from onlinehash.codes.layout import planes_per_model
from onlinehash.errors import InvalidInput, NotReady, OnlineHashError, ServiceUnavailable, UnknownId
from onlinehash.index.api import (
    Behind,
    Counters,
    Id,
    Item,
    Payload,
    Payloads,
    VectorIndex,
    Vectors,
    Where,
)
from onlinehash.index.hits import Hits
from onlinehash.io import files
from onlinehash.learners import registry
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.update import Updates
from onlinehash.live.queries import VectorKind, to_find, to_rerank
from onlinehash.live.texts import no_embedder, several, with_texts

#: Attempts at a call of several requests, if others change the index between them.
ATTEMPTS = 8
#: Ids, codes or vectors per request, unless the limits of the service are lower.
PAGE = 10_000
#: Seconds between two checks whether a refresh has ended.
LOOK_EVERY = 0.05

T = TypeVar("T")


class RemoteVersion(NamedTuple):
    """An encoder that the service keeps: its serial number, how many pairs it was learned from, and its version."""

    serial: int
    n_pairs: int
    version: int


class Clicks(NamedTuple):
    """The pairs made from clicks (query or None, item, similar, weight), and what each pair did."""

    pairs: list[tuple[int | str | None, int | str, bool, float]]
    updates: Updates


class RemoteRefresh:
    """A refresh that runs in the service."""

    def __init__(self, index: RemoteIndex, before: tuple[int, int], longest: float) -> None:
        self._index, self._before, self._longest = index, before, longest
        self._cancelled = False

    @property
    def done(self) -> bool:
        """Whether it has ended, one way or another."""
        return self._cancelled or self._finished

    @property
    def _finished(self) -> bool:
        return self._index._refreshed_so_far() != self._before

    def cancel(self) -> None:
        """Stop it as if it had never begun."""
        self._index.cancel()
        self._cancelled = True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; True if the new codes are there, False if it was cancelled or is still running.

        Without a timeout it waits as long as any other call of the connection.
        """
        end = time.monotonic() + (self._longest if timeout is None else min(timeout, self._longest))
        while not (finished := self._finished) and not self._cancelled and time.monotonic() < end:
            time.sleep(LOOK_EVERY)
        return finished


class RemoteIndex(VectorIndex):
    """The index of a service; `onlinehash.connect` returns it.

    Methods, results and errors are those of `LiveIndex`. What cannot be sent is refused here, everything else by the
    service. Any number of threads may use it. It has no optional capabilities: backups, receipts, positions, the
    learner and its policy belong to the service.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._are_texts: bool | None = None  # whether ids are strings; None until an id was seen

    # ------------------------------------------------------------------------------------------------ items

    def add(self, ids: ArrayLike | None, X: Vectors, payloads: Payloads | None = None) -> NDArray[Any]:
        rows = arguments.rows(X)
        body: dict[str, Any] = {"vectors": rows, "ids": None if ids is None else arguments.listed(ids)}
        body["payloads"] = arguments.payloads(payloads, len(rows))
        return self._as_ids(self._connection.change("POST", "/v1/items", body, len(rows))["ids"])

    def update(self, ids: ArrayLike, X: Vectors | None = None, payloads: Payloads | None = None) -> None:
        if X is None and payloads is None:
            raise InvalidInput(expected="vectors or payloads to update", got="neither")
        rows = None if X is None else arguments.rows(X)
        body: dict[str, Any] = {"vectors": rows, "ids": arguments.listed(ids)}
        body["payloads"] = arguments.payloads(payloads, len(body["ids"]))
        self._connection.change("PATCH", "/v1/items", body, len(body["ids"]))

    def remove(self, ids: ArrayLike) -> None:
        self._connection.change("POST", "/v1/items/remove", {"ids": arguments.listed(ids)})

    def get(self, id: Id) -> Item:
        return self._items(arguments.listed([id]))[0]

    def get_many(self, ids: ArrayLike) -> list[Item]:
        return self._items(arguments.listed(ids))

    def _items(self, ids: list[Id]) -> list[Item]:
        answer = self._connection.ask("/v1/items/get", {"ids": ids, "vectors": True}, len(ids), binary=True)
        return [Item(*item) for item in zip(answer["ids"], answer["vectors"], answer["payloads"], strict=True)]

    def __contains__(self, id: object) -> bool:
        if not isinstance(id, str | int | np.integer):
            return False
        try:
            ids = arguments.listed(id)
        except InvalidInput:  # not a valid id
            return False
        try:
            self._connection.ask("/v1/items/get", {"ids": ids, "vectors": False})
        except UnknownId:
            return False
        return True

    def __len__(self) -> int:
        return int(self._connection.get("/v1/items", limit=1)["n"])

    @property
    def ids(self) -> np.ndarray:
        return self._at_one_moment(self._all_ids)

    @property
    def codes(self) -> Codes:
        return self._at_one_moment(self._all_codes)

    @property
    def vectors(self) -> np.ndarray:
        return self._at_one_moment(self._all_vectors)

    @property
    def encoder(self) -> Encoder | None:
        try:
            encoder: Encoder = self._download("encoder")
        except NotReady:
            return None
        return encoder

    @property
    def newest(self) -> Encoder:
        learner: Learner = self._download("learner")
        return learner.snapshot()

    @property
    def n_bits(self) -> int:
        return int(self._connection.about["n_bits"])

    @property
    def n_models(self) -> int:
        return int(self._connection.about["n_models"])

    @property
    def _model(self) -> dict[str, Any]:
        model: dict[str, Any] = self._connection.get("/v1/model")
        return model

    def _download(self, what: str) -> Any:
        data = self._connection.download("/v1/model/download", what=what)
        return files.from_bytes(data, f"the {what} of {self._connection.url}")

    def vectors_of(self, ids: ArrayLike) -> NDArray[Any]:
        names = arguments.listed(ids)
        if not names:
            return self._no_vectors()
        return np.array([item.vector for item in self._items(names)])

    def _no_vectors(self) -> np.ndarray:
        kind = self._vector_kind
        return np.empty((0, kind.n_features), kind.dtype)

    def payloads_of(self, ids: Sequence[Id]) -> list[Payload | None]:
        try:
            return [item.payload for item in self._items(arguments.listed(list(ids)))]
        except (UnknownId, InvalidInput):  # some are gone, or are no ids: one by one
            return [self._payload_of(id) for id in ids]

    def _payload_of(self, id: Id) -> Payload | None:
        try:
            return self.get(id).payload
        except (UnknownId, InvalidInput):
            return None

    @property
    def ids_kind(self) -> str:
        """`"integers"` or `"strings"`; the service does not say whether integers count the items."""
        return "strings" if self._as_ids([]).dtype == object else "integers"

    def _check_ready(self, where: Where | None = None) -> None:
        self._connection.ask("/v1/search", {"ids": [], "k": 0, "where": where})

    def _as_ids(self, ids: ArrayLike) -> NDArray[Any]:
        """Ids as an index returns them: int64, or str objects. An index never changes from one kind to the other."""
        found = np.array(ids, object)
        if found.size:
            self._are_texts = isinstance(found.flat[0], str)
        elif self._are_texts is None:
            first = self._connection.get("/v1/items", limit=1)["ids"]
            if first:
                self._as_ids(first)
        return found if self._are_texts else found.astype(np.int64)

    def _at_one_moment(self, read: Callable[[], T | None]) -> T:
        """The result of several requests; `read` returns None if the index changed between them."""
        for _ in range(ATTEMPTS):
            found = read()
            if found is not None:
                return found
        raise ServiceUnavailable(
            f"the index changed {ATTEMPTS} times while it was being read; retry when it changes less often."
        )

    def _all_ids(self) -> np.ndarray | None:
        ids: list[Id] = []
        numbers = set()
        while True:
            answer = self._connection.get("/v1/items", offset=len(ids), limit=self._page("ids"))
            ids += answer["ids"]
            numbers.add(answer["n"])
            if len(numbers) > 1:
                return None
            if len(ids) >= answer["n"]:
                return self._as_ids(ids)

    def _all_codes(self) -> Codes | None:
        texts: list[str] = []
        versions = set()
        for page in self._pages("ids"):
            answer = self._connection.ask("/v1/codes", {"ids": page})
            texts += answer["codes"]
            versions.add(answer["encoder"])
        if not texts:
            self._check_ready()
        return arguments.codes_of(texts, self.n_bits, self.n_models) if len(versions) <= 1 else None

    def _all_vectors(self) -> np.ndarray | None:
        try:
            found = [item.vector for page in self._pages("batch") for item in self._items(page)]
        except UnknownId:  # removed a moment ago
            return None
        return np.array(found) if found else self._no_vectors()

    def _pages(self, limit: str) -> Iterator[list[Id]]:
        ids, size = self.ids.tolist(), self._page(limit)
        return (ids[start : start + size] for start in range(0, len(ids), size))

    def _page(self, limit: str) -> int:
        return min(PAGE, int(self._connection.limits.get(limit, PAGE)))

    # ------------------------------------------------------------------------------------------------ searching

    def search(self, queries: Any, k: int = 10, where: Any = None, *, payloads: bool = False) -> Hits:
        return self._hits(self._search(queries, k, where, payloads))

    def searched(self, queries: Any, k: int = 10, where: Any = None) -> tuple[Hits, Encoder]:
        return self._with_encoder(lambda: self._search(queries, k, where), self._hits)

    def find(self, queries: Any, k: int = 10, where: Any = None, *, payloads: bool = False) -> Hits:
        return self._hits(self._nearest(queries, k, where, payloads), np.float32)

    def found(self, queries: Any, k: int = 10, where: Any = None) -> tuple[Hits, Encoder]:
        return self._with_encoder(
            lambda: self._nearest(queries, k, where), lambda answer: self._hits(answer, np.float32)
        )

    def within(self, queries: Any, radius: int, where: Any = None, *, payloads: bool = False) -> Any:
        return self._hits_or_list(self._within(queries, radius, where, payloads))

    def found_within(self, queries: Any, radius: int, where: Any = None) -> tuple[Any, Encoder]:
        return self._with_encoder(lambda: self._within(queries, radius, where), self._hits_or_list)

    def _nearest(self, queries: Any, k: int, where: Any, payloads: bool = False) -> dict[str, Any]:
        where = arguments.where(where)
        try:
            rows, is_one = to_find(queries, k, arguments.kind_of(queries))
        except OnlineHashError:
            if not self._vector_kind.n_features:  # an index without items says so first, as `LiveIndex` does
                self._check_ready(where)
            raise
        asked: dict[str, Any] = {"vector": rows[0]} if is_one else {"vectors": rows}
        options = {"k": self._within_limits(k), "where": where, "payloads": bool(payloads)}
        answer: dict[str, Any] = self._connection.ask("/v1/find", asked | options, len(rows))
        return answer

    @property
    def _vector_kind(self) -> VectorKind:
        model = self._model
        return VectorKind(model["n_features"], np.dtype(model["dtype"]))

    def _within_limits(self, k: int) -> int:
        """`k`, or the limit of the service if that is enough for all items."""
        most = int(self._connection.limits.get("k", k))
        return most if k > most and len(self) <= most else int(k)

    def _search(self, queries: Any, k: int, where: Any, payloads: bool = False) -> dict[str, Any]:
        def checked() -> arguments.Asked:
            checks.parameters("search", {"k": k}, {"k": checks.integer(0)})
            return arguments.queries(queries, self.n_bits, self.n_models)

        where = arguments.where(where)
        asked = self._unless_not_ready(checked, where)
        options = {"k": self._within_limits(k), "where": where, "payloads": bool(payloads)}
        answer = self._find("/v1/search", asked, options)
        if asked.n == 0:
            nothing = np.empty((0, len(answer["ids"])), object)
            answer |= {"ids": nothing, "distances": nothing}
            answer |= {"payloads": []} if payloads else {}
        return answer

    def _within(self, queries: Any, radius: int, where: Any, payloads: bool = False) -> dict[str, Any]:
        def checked() -> arguments.Asked:
            checks.parameters("within", {"radius": radius}, {"radius": checks.integer(0)})
            return arguments.queries(queries, self.n_bits, self.n_models)

        where = arguments.where(where)
        asked = self._unless_not_ready(checked, where)
        farthest = self.n_bits * self.n_models
        options = {"radius": min(int(radius), farthest), "where": where, "payloads": bool(payloads)}
        answer = self._find("/v1/within", asked, options)
        if asked.n == 0:
            answer = {"ids": [], "distances": [], "encoder": answer["encoder"]}
        return answer | {"one": asked.one}

    def _find(self, path: str, asked: arguments.Asked, options: dict[str, Any]) -> dict[str, Any]:
        """The response to these queries; if there are none, to a code that only checks the options."""
        body = {asked.field: asked.value} if asked.n else {"code": self._zeros}
        found: dict[str, Any] = self._connection.ask(path, body | options, asked.n)
        return found

    def _hits(self, answer: dict[str, Any], distance: Any = np.int32) -> Hits:
        """Hits of one query, or of several with equally many hits."""
        return Hits(
            self._as_ids(answer["ids"]), np.array(answer["distances"], distance), payloads=answer.get("payloads")
        )

    def _hits_or_list(self, answer: dict[str, Any]) -> Any:
        """Hits of one query, or a list with the Hits of each."""
        if answer["one"]:
            return self._hits(answer)
        names = [name for name in ("ids", "distances", "payloads") if name in answer]
        rows = zip(*(answer[name] for name in names), strict=True)
        return [self._hits(dict(zip(names, row, strict=True))) for row in rows]

    def _unless_not_ready(self, checked: Callable[[], T], where: Any = None) -> T:
        """Check arguments; if they are wrong and the index has no codes, raise NotReady, as `LiveIndex` does."""
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
        """A result with the encoder that it is based on, which takes two requests."""

        def both() -> tuple[T, Encoder] | None:
            answer, encoder = ask(), self.encoder
            return (result(answer), encoder) if encoder is not None and encoder.version == answer["encoder"] else None

        return self._at_one_moment(both)

    def rerank(self, queries: Vectors, hits: Hits, k: int | None = None) -> Hits:
        asked = to_rerank(queries, hits, k, arguments.kind_of(queries))
        if asked.ids.size == 0:
            to_rerank(queries, hits, k, self._vector_kind)  # checked here, as the service takes no empty lists
            nothing = hits.ids[..., :k]
            return Hits(nothing, np.zeros(nothing.shape, np.float32))
        rows = checks.matrix(np.atleast_2d(as_array(queries, "queries")), "queries")
        body: dict[str, Any] = {"vector": rows[0]} if asked.is_one else {"vectors": rows}
        ids = [arguments.listed(row) for row in asked.ids]
        body["ids"] = ids[0] if asked.is_one else ids
        answer = self._connection.ask("/v1/rerank", body | {"k": None if k is None else int(k)}, len(rows))
        return self._hits(answer, np.float32)

    # ------------------------------------------------------------------------------------------------ learning

    def learn_pairs(
        self, A: Vectors, B: Vectors, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Updates:
        body = arguments.pairs(A, B, similar, sample_weight)
        return self._updates(self._connection.change("POST", "/v1/learn", body, len(body["a"])))

    def learn_pairs_by_id(
        self, ids_a: ArrayLike, ids_b: ArrayLike, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Updates:
        ids = {"id_a": arguments.listed(ids_a), "id_b": arguments.listed(ids_b)}
        n = len(ids["id_a"])
        if n == 0:
            similar, sample_weight = [], None  # no pairs are refused, whatever is said of them
        labels = arguments.labels_of_pairs(similar, sample_weight, n)
        return self._updates(self._connection.change("POST", "/v1/learn", {**ids, **labels}, n))

    def learn_labelled(self, X: Vectors, y: ArrayLike) -> None:
        rows = checks.matrix(X)
        body = {"vectors": rows, "y": arguments.labels(y, len(rows))}
        self._connection.change("POST", "/v1/learn/labelled", body, len(rows))

    def learn_clicks(
        self,
        query: Id | Vectors,
        shown: ArrayLike,
        clicked: ArrayLike,
        *,
        skip_weight: float = 0.5,
        position_bias: float = 0.0,
    ) -> Clicks:
        """Teach what a person clicked among the items shown for a query, which is an item's id or a vector.

        Items that were clicked are similar to it. Those shown above a click and not clicked are not, with
        `skip_weight`. docs/reference/http.md has the rule.
        """
        body: dict[str, Any] = {"shown": arguments.listed(shown), "clicked": arguments.listed(clicked)}
        if isinstance(query, str | int | np.integer):
            body["query"] = arguments.listed(query)[0]
        else:
            body["vector"] = arguments.rows(query, "query")[0]
        weights = {"skip_weight": skip_weight, "position_bias": position_bias}
        checks.parameters("learn_clicks", weights, dict.fromkeys(weights, checks.real(0)))
        answer = self._connection.change("POST", "/v1/learn/clicks", body | weights, 1)
        return Clicks([tuple(pair) for pair in answer["pairs"]], self._updates(answer))

    def flush(self) -> None:
        self._connection.change("POST", "/v1/flush", {})

    # ------------------------------------------------------------------------------------------------ texts

    def add_texts(self, texts: Any, ids: Any = None, payloads: Any = None) -> np.ndarray:
        sent = self._texts(texts)
        body: dict[str, Any] = {"texts": sent, "ids": None if ids is None else arguments.listed(ids)}
        if payloads is not None:  # the service adds the texts to them
            body["payloads"] = arguments.payloads(with_texts(payloads, sent), len(sent))
        return self._as_ids(self._connection.change("POST", "/v1/items", body, len(sent))["ids"])

    def update_texts(self, ids: Any, texts: Any, payloads: Any = None) -> None:
        sent = self._texts([texts] if isinstance(texts, str) else texts)
        body: dict[str, Any] = {"texts": sent, "ids": arguments.listed(ids)}
        if payloads is not None:
            body["payloads"] = arguments.payloads(with_texts(payloads, sent), len(sent))
        self._connection.change("PATCH", "/v1/items", body, len(sent))

    def find_text(self, texts: Any, k: int = 10, where: Any = None, *, payloads: bool = False) -> Hits:
        return self._hits(self._ask_texts("/v1/find", texts, k, where, payloads), np.float32)

    def search_text(self, texts: Any, k: int = 10, where: Any = None, *, payloads: bool = False) -> Hits:
        return self._hits(self._ask_texts("/v1/search", texts, k, where, payloads))

    def learn_text(self, text: Any, ids: Any, similar: Any, sample_weight: Any = None) -> Updates:
        names = arguments.listed(ids)
        n = len(names)
        labels = arguments.labels_of_pairs(several(similar, n), several(sample_weight, n), n)
        body = {"text_a": self._texts([text]) * n, "id_b": names} | labels
        return self._updates(self._connection.change("POST", "/v1/learn", body, n))

    def _ask_texts(self, path: str, texts: Any, k: int, where: Any, payloads: bool) -> dict[str, Any]:
        sent = self._texts([texts] if isinstance(texts, str) else texts)
        checks.parameters("find", {"k": k}, {"k": checks.integer(0)})
        asked: dict[str, Any] = {"text": sent[0]} if isinstance(texts, str) else {"texts": sent}
        asked |= {"k": self._within_limits(k), "where": arguments.where(where), "payloads": bool(payloads)}
        answer: dict[str, Any] = self._connection.ask(path, asked, len(sent))
        return answer

    def _texts(self, texts: Any) -> list[str]:
        if self._connection.about.get("embed") is None:
            raise no_embedder()
        return arguments.texts(texts)

    def _updates(self, answer: dict[str, Any]) -> Updates:
        return answers.updates_of(answer, self.n_models * self.n_bits, self._method._per_model)

    @property
    def _method(self) -> type[Learner]:
        """The learner's class, which must be installed here, too."""
        return registry.find(self._connection.about["method"])

    # ------------------------------------------------------------------------------------------------ refreshing

    def refresh(self, wait: bool = True) -> RemoteRefresh | None:
        before = None if wait else self._refreshed_so_far()
        self._connection.change("POST", "/v1/refresh", {"wait": bool(wait)})
        return None if before is None else RemoteRefresh(self, before, self._connection.timeout)

    def _refreshed_so_far(self) -> tuple[int, int]:
        stats = self._stats
        return int(stats["refreshes"]), int(stats["serial"])

    def cancel(self) -> None:
        self._connection.change("POST", "/v1/refresh/cancel", {})

    def roll_back(self, serial: int | None = None) -> None:
        self._connection.change("POST", "/v1/rollback", {"serial": serial})

    @property
    def versions(self) -> list[RemoteVersion]:
        return [RemoteVersion(v["serial"], v["n_pairs"], v["version"]) for v in self._model["versions"]]

    @property
    def _stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = self._connection.get("/v1/stats")
        return stats

    @property
    def behind(self) -> Behind:
        behind = self._stats["behind"]
        return Behind(behind["bits"], behind["pairs"])

    @property
    def serial(self) -> int:
        return int(self._stats["serial"])

    @property
    def paused(self) -> bool:
        return bool(self._model["paused"])

    @property
    def counters(self) -> Counters:
        stats = self._stats
        return Counters(*(int(stats[name]) for name in Counters._fields))

    # ------------------------------------------------------------------------------------------------ the connection

    def close(self) -> None:
        self._connection.close()

    def __repr__(self) -> str:
        about = self._connection.about
        return f"RemoteIndex({self._connection.url!r}, {about['method']}, n_bits={about['n_bits']})"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("cannot copy or pickle a RemoteIndex: connect again where it is needed.")
