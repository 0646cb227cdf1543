"""`Calls`: every call of an index as the requests that it takes and what to make of their answers.

Each is a generator (see `session`), so that it is written once: `RemoteIndex` runs it and waits, `AsyncRemoteIndex`
awaits it. `VectorIndex` documents what the calls do.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash import checks
from onlinehash.arraylike import as_array
from onlinehash.client import answers, arguments
from onlinehash.client.session import Call, Session
from onlinehash.codes import Codes
from onlinehash.codes.layout import planes_per_model
from onlinehash.errors import InvalidInput, NotReady, NotSupported, OnlineHashError, ServiceUnavailable, UnknownId
from onlinehash.index.api import Behind, Counters, Id, Item, Payload, Payloads, Queries, Texts, Vectors, Where
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

T = TypeVar("T")


def look_alike(method: Callable[..., object], call: Callable[..., Call[Any]]) -> None:
    """Give a method that runs a call its name, its parameters and the result in place of the generator."""
    functools.update_wrapper(method, call)
    signature = inspect.signature(call)
    returned = str(signature.return_annotation).removeprefix("Call[").removesuffix("]")
    method.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]


class RemoteVersion(NamedTuple):
    """An encoder that the service keeps: its serial number, how many pairs it was learned from, and its version."""

    serial: int
    n_pairs: int
    version: int


class Begun(NamedTuple):
    """A refresh that was begun: the refreshes and the serial number before it, and the epoch of the service then."""

    before: tuple[int, int]
    epoch: int


class Clicks(NamedTuple):
    """The pairs made from clicks (query or None, item, similar, weight), and what each pair did."""

    pairs: list[tuple[int | str | None, int | str, bool, float]]
    updates: Updates


class Calls:
    """The calls of an index behind a service."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._are_texts: bool | None = None  # whether ids are strings; None until an id was seen

    # ------------------------------------------------------------------------------------------------ items

    def add(self, ids: ArrayLike | None, X: Vectors, payloads: Payloads | None = None) -> Call[NDArray[Any]]:
        rows = arguments.rows(X)
        body: dict[str, Any] = {"vectors": rows, "ids": None if ids is None else arguments.listed(ids)}
        body["payloads"] = arguments.payloads(payloads, len(rows))
        answer = yield from self._session.change("POST", "/v1/items", body, len(rows))
        return (yield from self._as_ids(answer["ids"]))

    def update(self, ids: ArrayLike, X: Vectors | None = None, payloads: Payloads | None = None) -> Call[None]:
        if X is None and payloads is None:
            raise InvalidInput(expected="vectors or payloads to update", got="neither")
        rows = None if X is None else arguments.rows(X)
        body: dict[str, Any] = {"vectors": rows, "ids": arguments.listed(ids)}
        body["payloads"] = arguments.payloads(payloads, len(body["ids"]))
        yield from self._session.change("PATCH", "/v1/items", body, len(body["ids"]))

    def remove(self, ids: ArrayLike) -> Call[None]:
        yield from self._session.change("POST", "/v1/items/remove", {"ids": arguments.listed(ids)})

    def get(self, id: Id) -> Call[Item]:
        (item,) = yield from self._items(arguments.listed([id]))
        return item

    def get_many(self, ids: ArrayLike) -> Call[list[Item]]:
        return (yield from self._items(arguments.listed(ids)))

    def _items(self, ids: list[Id]) -> Call[list[Item]]:
        answer = yield from self._session.ask("/v1/items/get", {"ids": ids, "vectors": True}, len(ids), binary=True)
        return [Item(*item) for item in zip(answer["ids"], answer["vectors"], answer["payloads"], strict=True)]

    def contains(self, id: object) -> Call[bool]:
        """Whether an item has this id."""
        if not isinstance(id, str | int | np.integer):
            return False
        try:
            ids = arguments.listed(id)
        except InvalidInput:  # not a valid id
            return False
        try:
            yield from self._session.ask("/v1/items/get", {"ids": ids, "vectors": False})
        except UnknownId:
            return False
        return True

    def count(self) -> Call[int]:
        """The number of items."""
        answer = yield from self._session.get("/v1/items", limit=1)
        return int(answer["n"])

    def vectors_of(self, ids: ArrayLike) -> Call[NDArray[Any]]:
        names = arguments.listed(ids)
        if not names:
            return (yield from self._no_vectors())
        items = yield from self._items(names)
        return np.array([item.vector for item in items])

    def _no_vectors(self) -> Call[NDArray[Any]]:
        kind = yield from self._vector_kind()
        return np.empty((0, kind.n_features), kind.dtype)

    def payloads_of(self, ids: Sequence[Id]) -> Call[list[Payload | None]]:
        try:
            items = yield from self._items(arguments.listed(list(ids)))
        except (UnknownId, InvalidInput):  # some are gone, or are no ids: one by one
            found = []
            for id in ids:
                found.append((yield from self._payload_of(id)))
            return found
        return [item.payload for item in items]

    def _payload_of(self, id: Id) -> Call[Payload | None]:
        try:
            item = yield from self.get(id)
        except (UnknownId, InvalidInput):
            return None
        return item.payload

    def ids_kind(self) -> Call[str]:
        """`"integers"` or `"strings"`; the service does not say whether integers count the items."""
        none = yield from self._as_ids([])
        return "strings" if none.dtype == object else "integers"

    def _check_ready(self, where: Where | None = None) -> Call[None]:
        yield from self._session.ask("/v1/search", {"ids": [], "k": 0, "where": where})

    def _as_ids(self, ids: ArrayLike) -> Call[NDArray[Any]]:
        """Ids as an index returns them: int64, or str objects. An index never changes from one kind to the other."""
        found = np.array(ids, object)
        first = found.flat[0] if found.size else None
        if first is None and self._are_texts is None:
            answer = yield from self._session.get("/v1/items", limit=1)
            first = answer["ids"][0] if answer["ids"] else None
        if first is not None:
            self._are_texts = isinstance(first, str)
        return found if self._are_texts else found.astype(np.int64)

    # ------------------------------------------------------------------------------------------------ all of it

    def ids(self) -> Call[NDArray[Any]]:
        return (yield from self._at_one_moment(self._all_ids))

    def codes(self) -> Call[Codes]:
        return (yield from self._at_one_moment(self._all_codes))

    def vectors(self) -> Call[NDArray[Any]]:
        return (yield from self._at_one_moment(self._all_vectors))

    def _at_one_moment(self, read: Callable[[], Call[T | None]]) -> Call[T]:
        """The result of several requests; `read` returns None if the index changed between them."""
        for _ in range(ATTEMPTS):
            found = yield from self._session.in_order(read())
            if found is not None:
                return found
        raise ServiceUnavailable(
            f"the index changed {ATTEMPTS} times while it was being read; retry when it changes less often."
        )

    def _all_ids(self) -> Call[NDArray[Any] | None]:
        ids: list[Id] = []
        numbers = set()
        while True:
            answer = yield from self._session.get("/v1/items", offset=len(ids), limit=self._page("ids"))
            ids += answer["ids"]
            numbers.add(answer["n"])
            if len(numbers) > 1:
                return None
            if len(ids) >= answer["n"]:
                return (yield from self._as_ids(ids))

    def _all_codes(self) -> Call[Codes | None]:
        texts: list[str] = []
        versions = set()
        for page in (yield from self._pages("ids")):
            answer = yield from self._session.ask("/v1/codes", {"ids": page})
            texts += answer["codes"]
            versions.add(answer["encoder"])
        if not texts:
            yield from self._check_ready()
        return arguments.codes_of(texts, self.n_bits, self.n_models) if len(versions) <= 1 else None

    def _all_vectors(self) -> Call[NDArray[Any] | None]:
        found: list[NDArray[Any]] = []
        for page in (yield from self._pages("batch")):
            try:
                items = yield from self._items_in_parts(page)
            except UnknownId:  # removed a moment ago
                return None
            found += [item.vector for item in items]
        return np.array(found) if found else (yield from self._no_vectors())

    def _items_in_parts(self, ids: list[Id]) -> Call[list[Item]]:
        """Items in as few requests as the service answers; how large they are is not known before."""
        try:
            return (yield from self._items(ids))
        except UnknownId:
            raise
        except InvalidInput:
            if len(ids) == 1:
                raise
        middle = len(ids) // 2
        first = yield from self._items_in_parts(ids[:middle])
        return first + (yield from self._items_in_parts(ids[middle:]))

    def _pages(self, limit: str) -> Call[list[list[Id]]]:
        found = yield from self.ids()
        ids, size = found.tolist(), self._page(limit)
        return [ids[start : start + size] for start in range(0, len(ids), size)]

    def _page(self, limit: str) -> int:
        return min(PAGE, int(self._session.limits.get(limit, PAGE)))

    def epoch(self) -> Call[int]:
        """The number of the last change that the service shows."""
        return (yield from self._session.epoch())

    def lag(self) -> Call[float]:
        """How many seconds the replica that answers is behind."""
        stats = yield from self._stats()
        return float(stats["lag_seconds"])

    # ------------------------------------------------------------------------------------------------ the model

    @property
    def n_bits(self) -> int:
        """Bits of each model's code."""
        return int(self._session.about["n_bits"])

    @property
    def n_models(self) -> int:
        """Number of models."""
        return int(self._session.about["n_models"])

    def encoder(self) -> Call[Encoder | None]:
        try:
            encoder: Encoder = yield from self._download("encoder")
        except NotReady:
            return None
        return encoder

    def newest(self) -> Call[Encoder]:
        learner: Learner = yield from self._download("learner")
        return learner.snapshot()

    def _download(self, what: str) -> Call[Any]:
        data = yield from self._session.download("/v1/model/download", what=what)
        return files.from_bytes(data, f"the {what} of {self._session.url}")

    def _model(self) -> Call[dict[str, Any]]:
        return (yield from self._session.get("/v1/model"))

    def _vector_kind(self) -> Call[VectorKind]:
        model = yield from self._model()
        return VectorKind(model["n_features"], np.dtype(model["dtype"]))

    # ------------------------------------------------------------------------------------------------ searching

    def search(
        self, queries: Queries, k: int = 10, where: Where | None = None, *, payloads: bool = False
    ) -> Call[Hits]:
        answer = yield from self._search(queries, k, where, payloads)
        return (yield from self._hits(answer))

    def searched(self, queries: Queries, k: int = 10, where: Where | None = None) -> Call[tuple[Hits, Encoder]]:
        return (yield from self._with_encoder(lambda: self._search(queries, k, where), self._hits))

    def find(self, queries: Vectors, k: int = 10, where: Where | None = None, *, payloads: bool = False) -> Call[Hits]:
        answer = yield from self._nearest(queries, k, where, payloads)
        return (yield from self._hits(answer, np.float32))

    def found(self, queries: Vectors, k: int = 10, where: Where | None = None) -> Call[tuple[Hits, Encoder]]:
        return (
            yield from self._with_encoder(
                lambda: self._nearest(queries, k, where), lambda answer: self._hits(answer, np.float32)
            )
        )

    def within(
        self, queries: Queries, radius: int, where: Where | None = None, *, payloads: bool = False
    ) -> Call[Hits | list[Hits]]:
        answer = yield from self._within(queries, radius, where, payloads)
        return (yield from self._hits_or_list(answer))

    def found_within(
        self, queries: Queries, radius: int, where: Where | None = None
    ) -> Call[tuple[Hits | list[Hits], Encoder]]:
        return (yield from self._with_encoder(lambda: self._within(queries, radius, where), self._hits_or_list))

    def _nearest(self, queries: Vectors, k: int, where: Where | None, payloads: bool = False) -> Call[dict[str, Any]]:
        where = arguments.where(where)
        try:
            rows, is_one = to_find(queries, k, arguments.kind_of(queries))
        except OnlineHashError:
            kind = yield from self._vector_kind()
            if not kind.n_features:  # an index without items says so first, as `LiveIndex` does
                yield from self._check_ready(where)
            raise
        asked: dict[str, Any] = {"vector": rows[0]} if is_one else {"vectors": rows}
        asked |= {"k": (yield from self._within_limits(k)), "where": where, "payloads": bool(payloads)}
        return (yield from self._session.ask("/v1/find", asked, len(rows)))

    def _within_limits(self, k: int) -> Call[int]:
        """`k`, or the limit of the service if that is enough for all items."""
        most = int(self._session.limits.get("k", k))
        return most if k > most and (yield from self.count()) <= most else int(k)

    def _search(self, queries: Queries, k: int, where: Where | None, payloads: bool = False) -> Call[dict[str, Any]]:
        where = arguments.where(where)
        asked = yield from self._asked(queries, where, "search", {"k": k})
        options = {"k": (yield from self._within_limits(k)), "where": where, "payloads": bool(payloads)}
        answer = yield from self._matches("/v1/search", asked, options)
        if asked.n == 0:
            nothing = np.empty((0, len(answer["ids"])), object)
            answer |= {"ids": nothing, "distances": nothing}
            answer |= {"payloads": []} if payloads else {}
        return answer

    def _within(
        self, queries: Queries, radius: int, where: Where | None, payloads: bool = False
    ) -> Call[dict[str, Any]]:
        where = arguments.where(where)
        asked = yield from self._asked(queries, where, "within", {"radius": radius})
        farthest = self.n_bits * self.n_models
        options = {"radius": min(int(radius), farthest), "where": where, "payloads": bool(payloads)}
        answer = yield from self._matches("/v1/within", asked, options)
        if asked.n == 0:
            answer = {"ids": [], "distances": [], "encoder": answer["encoder"]}
        return answer | {"one": asked.one}

    def _asked(
        self, queries: Queries, where: Where | None, owner: str, number: dict[str, int]
    ) -> Call[arguments.Asked]:
        """Checked queries; if they are wrong and the index has no codes, NotReady is raised, as `LiveIndex` does."""
        try:
            checks.parameters(owner, number, dict.fromkeys(number, checks.integer(0)))
            return arguments.queries(queries, self.n_bits, self.n_models)
        except OnlineHashError:
            yield from self._check_ready(where)
            raise

    def _matches(self, path: str, asked: arguments.Asked, options: dict[str, Any]) -> Call[dict[str, Any]]:
        """The response to these queries; if there are none, to a code that only checks the options."""
        zeros = "00" * self.n_models * planes_per_model(self.n_bits)
        body: dict[str, Any] = {asked.field: asked.value} if asked.n else {"code": zeros}
        return (yield from self._session.ask(path, body | options, asked.n))

    def _hits(self, answer: dict[str, Any], distance: Any = np.int32) -> Call[Hits]:
        """Hits of one query, or of several with equally many hits."""
        ids = yield from self._as_ids(answer["ids"])
        return Hits(ids, np.array(answer["distances"], distance), payloads=answer.get("payloads"))

    def _hits_or_list(self, answer: dict[str, Any]) -> Call[Hits | list[Hits]]:
        """Hits of one query, or a list with the Hits of each."""
        if answer["one"]:
            return (yield from self._hits(answer))
        names = [name for name in ("ids", "distances", "payloads") if name in answer]
        found = []
        for row in zip(*(answer[name] for name in names), strict=True):
            found.append((yield from self._hits(dict(zip(names, row, strict=True)))))
        return found

    def _with_encoder(
        self, ask: Callable[[], Call[dict[str, Any]]], result: Callable[[dict[str, Any]], Call[T]]
    ) -> Call[tuple[T, Encoder]]:
        """A result with the encoder that it is based on, which takes two requests."""

        def both() -> Call[tuple[T, Encoder] | None]:
            answer = yield from ask()
            encoder = yield from self.encoder()
            if encoder is None or encoder.version != answer["encoder"]:
                return None
            return (yield from result(answer)), encoder

        return (yield from self._at_one_moment(both))

    def rerank(self, queries: Vectors, hits: Hits, k: int | None = None) -> Call[Hits]:
        asked = to_rerank(queries, hits, k, arguments.kind_of(queries))
        if asked.ids.size == 0:
            to_rerank(queries, hits, k, (yield from self._vector_kind()))  # the service takes no empty lists
            nothing = hits.ids[..., :k]
            return Hits(nothing, np.zeros(nothing.shape, np.float32))
        rows = checks.matrix(np.atleast_2d(as_array(queries, "queries")), "queries")
        body: dict[str, Any] = {"vector": rows[0]} if asked.is_one else {"vectors": rows}
        ids = [arguments.listed(row) for row in asked.ids]
        body |= {"ids": ids[0] if asked.is_one else ids, "k": None if k is None else int(k)}
        answer = yield from self._session.ask("/v1/rerank", body, len(rows))
        return (yield from self._hits(answer, np.float32))

    # ------------------------------------------------------------------------------------------------ learning

    def learn_pairs(
        self, A: Vectors, B: Vectors, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Call[Updates]:
        body = arguments.pairs(A, B, similar, sample_weight)
        return self._updates((yield from self._session.change("POST", "/v1/learn", body, len(body["a"]))))

    def learn_pairs_by_id(
        self, ids_a: ArrayLike, ids_b: ArrayLike, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Call[Updates]:
        ids = {"id_a": arguments.listed(ids_a), "id_b": arguments.listed(ids_b)}
        n = len(ids["id_a"])
        if n == 0:
            similar, sample_weight = [], None  # no pairs are refused, whatever is said of them
        labels = arguments.labels_of_pairs(similar, sample_weight, n)
        return self._updates((yield from self._session.change("POST", "/v1/learn", {**ids, **labels}, n)))

    def learn_labelled(self, X: Vectors, y: ArrayLike) -> Call[None]:
        rows = checks.matrix(X)
        body = {"vectors": rows, "y": arguments.labels(y, len(rows))}
        yield from self._session.change("POST", "/v1/learn/labelled", body, len(rows))

    def learn_clicks(
        self,
        query: Id | Vectors,
        shown: ArrayLike,
        clicked: ArrayLike,
        *,
        skip_weight: float = 0.5,
        position_bias: float = 0.0,
    ) -> Call[Clicks]:
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
        answer = yield from self._session.change("POST", "/v1/learn/clicks", body | weights, 1)
        return Clicks([tuple(pair) for pair in answer["pairs"]], self._updates(answer))

    def flush(self) -> Call[None]:
        yield from self._session.change("POST", "/v1/flush", {})

    def _updates(self, answer: dict[str, Any]) -> Updates:
        method: type[Learner] = registry.find(self._session.about["method"])  # it must be installed here, too
        return answers.updates_of(answer, self.n_models * self.n_bits, method._per_model)

    # ------------------------------------------------------------------------------------------------ texts

    def add_texts(
        self, texts: Sequence[str], ids: ArrayLike | None = None, payloads: Payloads | None = None
    ) -> Call[NDArray[Any]]:
        sent = self._texts(texts)
        body: dict[str, Any] = {"texts": sent, "ids": None if ids is None else arguments.listed(ids)}
        if payloads is not None:  # the service adds the texts to them
            body["payloads"] = arguments.payloads(with_texts(payloads, sent), len(sent))
        answer = yield from self._session.change("POST", "/v1/items", body, len(sent))
        return (yield from self._as_ids(answer["ids"]))

    def update_texts(self, ids: ArrayLike, texts: Texts, payloads: Payloads | None = None) -> Call[None]:
        sent = self._texts([texts] if isinstance(texts, str) else texts)
        body: dict[str, Any] = {"texts": sent, "ids": arguments.listed(ids)}
        if payloads is not None:
            body["payloads"] = arguments.payloads(with_texts(payloads, sent), len(sent))
        yield from self._session.change("PATCH", "/v1/items", body, len(sent))

    def find_text(self, texts: Texts, k: int = 10, where: Where | None = None, *, payloads: bool = False) -> Call[Hits]:
        answer = yield from self._ask_texts("/v1/find", texts, k, where, payloads)
        return (yield from self._hits(answer, np.float32))

    def search_text(
        self, texts: Texts, k: int = 10, where: Where | None = None, *, payloads: bool = False
    ) -> Call[Hits]:
        answer = yield from self._ask_texts("/v1/search", texts, k, where, payloads)
        return (yield from self._hits(answer))

    def learn_text(
        self, text: str, ids: ArrayLike, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Call[Updates]:
        names = arguments.listed(ids)
        n = len(names)
        labels = arguments.labels_of_pairs(several(similar, n), several(sample_weight, n), n)
        body = {"text_a": self._texts([text]) * n, "id_b": names} | labels
        return self._updates((yield from self._session.change("POST", "/v1/learn", body, n)))

    def _ask_texts(self, path: str, texts: Texts, k: int, where: Where | None, payloads: bool) -> Call[dict[str, Any]]:
        sent = self._texts([texts] if isinstance(texts, str) else texts)
        checks.parameters("find", {"k": k}, {"k": checks.integer(0)})
        asked: dict[str, Any] = {"text": sent[0]} if isinstance(texts, str) else {"texts": sent}
        asked |= {"where": arguments.where(where), "payloads": bool(payloads), "k": (yield from self._within_limits(k))}
        return (yield from self._session.ask(path, asked, len(sent)))

    def _texts(self, texts: Sequence[str]) -> list[str]:
        if self._session.about.get("embed") is None:
            raise no_embedder()
        return arguments.texts(texts)

    # ------------------------------------------------------------------------------------------------ refreshing

    def refresh(self, wait: bool = True) -> Call[None]:
        yield from self._session.change("POST", "/v1/refresh", {"wait": bool(wait)}, is_long=True)

    def begin_refresh(self) -> Call[Begun]:
        """Begin a refresh, and return at once."""
        stats = yield from self._stats()
        yield from self.refresh(wait=False)
        return Begun(_refreshed(stats), self._session.written)

    def outcome(self, refresh: Begun) -> Call[bool | None]:
        """Whether a refresh has led to new codes; None while it runs. One that was cancelled or failed has not."""
        stats = yield from self._session.in_order(self._stats(), refresh.epoch)  # a replica that has not heard of it
        if _refreshed(stats) != refresh.before:  # would take it for cancelled
            return True
        return None if stats.get("refreshing", True) else False  # services before 0.2 do not tell

    def is_refreshing(self) -> Call[bool]:
        """Whether a refresh runs in the service."""
        stats = yield from self._stats()
        if "refreshing" not in stats:
            raise NotSupported("this service does not say whether a refresh runs; those from 0.2.0 on do.")
        return bool(stats["refreshing"])

    def cancel(self) -> Call[None]:
        yield from self._session.change("POST", "/v1/refresh/cancel", {})

    def roll_back(self, serial: int | None = None) -> Call[None]:
        yield from self._session.change("POST", "/v1/rollback", {"serial": serial})

    def versions(self) -> Call[list[RemoteVersion]]:
        model = yield from self._model()
        return [RemoteVersion(v["serial"], v["n_pairs"], v["version"]) for v in model["versions"]]

    def paused(self) -> Call[bool]:
        model = yield from self._model()
        return bool(model["paused"])

    def behind(self) -> Call[Behind]:
        stats = yield from self._stats()
        return Behind(stats["behind"]["bits"], stats["behind"]["pairs"])

    def serial(self) -> Call[int]:
        stats = yield from self._stats()
        return int(stats["serial"])

    def counters(self) -> Call[Counters]:
        stats = yield from self._stats()
        return Counters(*(int(stats[name]) for name in Counters._fields))

    def _stats(self) -> Call[dict[str, Any]]:
        return (yield from self._session.get("/v1/stats"))

    # ------------------------------------------------------------------------------------------------ who it is

    def described(self, name: str) -> str:
        """The `repr` of an index of this class."""
        about = self._session.about
        return f"{name}({self._session.url!r}, {about['method']}, n_bits={about['n_bits']})"


def _refreshed(stats: dict[str, Any]) -> tuple[int, int]:
    """What changes when a refresh leads to new codes."""
    return int(stats["refreshes"]), int(stats["serial"])
