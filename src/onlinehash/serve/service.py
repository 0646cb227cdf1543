"""`Service`: a live index as many clients use it at once: searches at any moment, changes one after the other.

Reading goes straight to the index. Changes and learning go through one `Writer`; what they did is counted, told to
those who listen and passed on to companions (a monitor, rivals, a teacher).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np

from onlinehash.errors import InvalidInput
from onlinehash.learners.update import Updates
from onlinehash.live.index import LiveIndex
from onlinehash.serve.errors import KeyReused
from onlinehash.serve.follower import Follower
from onlinehash.serve.hub import Hub
from onlinehash.serve.settings import Limits
from onlinehash.serve.writer import Writer

if TYPE_CHECKING:
    from onlinehash.serve.monitor import Monitor
    from onlinehash.serve.pictures import Pictures
    from onlinehash.serve.rivals import Rivals
    from onlinehash.serve.teacher import Teacher

#: A reader that is further behind its writer, in seconds, is not ready.
MOST_LAG = 5.0

#: How often a reader looks for what its writer changes meanwhile.
TRIES = 3

T = TypeVar("T")

#: Losses that one `learned` event tells, the last ones.
MOST_LOSSES = 200


class Companion(Protocol):
    """Hears of every change in the writer's thread, after it was made; none of this may take long or raise."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def added(self, ids: np.ndarray, X: np.ndarray) -> None: ...

    def updated(self, ids: list[Any], X: np.ndarray | None) -> None: ...

    def removed(self, ids: list[Any]) -> None: ...

    def learned(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weight: np.ndarray | None) -> None: ...

    def refreshed(self) -> None: ...


class Request(NamedTuple):
    """What a retry of a change is known by: the client's key, and a digest of what it asked."""

    key: str
    digest: str


class Done(NamedTuple):
    """The outcome of a change; was it that of an earlier request with the same key?"""

    outcome: Any
    replayed: bool = False


class Service:
    """A live index, what it counts, and who accompanies it."""

    def __init__(
        self,
        index: LiveIndex,
        *,
        limits: Limits | None = None,
        label: str | None = None,
        pictures: Pictures | None = None,
        read_only: bool = False,
        demo: bool = False,
    ) -> None:
        self.index, self.limits = index, limits or Limits()
        self.label, self.pictures, self.read_only, self.demo = label, pictures, read_only, demo
        self.hub, self.writer = Hub(self.limits.events), Writer(self.limits)
        self.monitor: Monitor | None = None
        self.rivals: Rivals | None = None
        self.teacher: Teacher | None = None
        self.started = time.monotonic()
        self.searches = self.n_learned = self.n_updated = 0
        self.searches_per_second, self._searches_counted = 0.0, 0
        self.follower = Follower(self) if read_only else None
        self._untold, self._noting = _Untold(), threading.Lock()
        self._waiting = ThreadPoolExecutor(1, "onlinehash-waiting")

    @property
    def companions(self) -> list[Companion]:
        """All there are."""
        found: list[Companion | None] = [self.monitor, self.rivals, self.teacher]
        return [companion for companion in found if companion is not None]

    def start(self) -> None:
        """Let everything run that runs beside the requests."""
        for companion in self.companions:
            companion.start()
        if self.follower is not None:
            self.follower.start()

    def close(self) -> None:
        """Finish what was accepted, then let go of the index."""
        if self.teacher is not None:
            self.teacher.stop()  # first: it still teaches
        if self.follower is not None:
            self.follower.stop()
        self.writer.close()
        for companion in self.companions:
            companion.stop()
        self.index.close()
        self._waiting.shutdown(wait=False)

    # ------------------------------------------------------------------------------------------------ reading

    def read(self, find: Callable[[], T]) -> T:
        """What this finds. A reader that lacks what its writer has just done to these very items catches up first."""
        for _ in range(TRIES - 1 if self.read_only else 0):
            try:
                return find()
            except InvalidInput:
                self.index.reload()
        return find()

    async def waited(self, find: Callable[[], T]) -> T:
        """What this finds that may have to wait for a change under way: in one thread, that searches do not need."""
        return await asyncio.get_running_loop().run_in_executor(self._waiting, find)

    # ------------------------------------------------------------------------------------------------ changes

    def change(
        self, work: Callable[[LiveIndex], Any], request: Request | None = None, n_bytes: int = 0
    ) -> Future[Done]:
        """Let the writer do this, once for each key."""

        def run() -> Done:
            if request is None:
                return Done(work(self.index))
            receipt = self.index.receipt(request.key)
            if receipt is None:
                with self.index.once(request.key, request.digest):
                    return Done(work(self.index))
            if receipt.digest != request.digest:
                raise KeyReused(
                    f"expected a new Idempotency-Key for a new request, got {request.key!r}, which belongs to another "
                    "one; use a key for one request and its retries."
                )
            return Done(receipt.outcome, replayed=True)

        return self.writer.submit(run, n_bytes)

    def add(
        self, ids: Any, X: Any, payloads: Any = None, request: Request | None = None, n_bytes: int = 0
    ) -> Future[Done]:
        """New items; the outcome are their ids."""

        def work(index: LiveIndex) -> Any:
            names = index.add(ids, X, payloads)
            self._note_items()
            self._pass_on("added", names, X)
            return names

        return self.change(work, request, n_bytes)

    def update(self, ids: Any, X: Any, payloads: Any, request: Request | None = None, n_bytes: int = 0) -> Future[Done]:
        """Other vectors or payloads."""

        def work(index: LiveIndex) -> None:
            index.update(ids, X, payloads)
            self._note_items()
            self._pass_on("updated", ids, X)

        return self.change(work, request, n_bytes)

    def remove(self, ids: Any, request: Request | None = None, n_bytes: int = 0) -> Future[Done]:
        """Items go."""

        def work(index: LiveIndex) -> None:
            index.remove(ids)
            self._note_items()
            self._pass_on("removed", ids)

        return self.change(work, request, n_bytes)

    def learn(
        self,
        A: Any,
        B: Any,
        similar: Any,
        weight: Any = None,
        request: Request | None = None,
        n_bytes: int = 0,
    ) -> Future[Done]:
        """Pairs of vectors; the outcome are the Updates."""

        def work(index: LiveIndex) -> Updates:
            return self._taught(index, A, B, similar, weight)

        return self.change(work, request, n_bytes)

    def learn_by_id(
        self,
        ids_a: Any,
        ids_b: Any,
        similar: Any,
        weight: Any = None,
        request: Request | None = None,
        n_bytes: int = 0,
    ) -> Future[Done]:
        """Pairs of items; the outcome are the Updates."""

        def work(index: LiveIndex) -> Updates:
            updates = index.learn_pairs_by_id(ids_a, ids_b, similar, weight)
            self._note(updates)
            if self.rivals is not None:
                self._pass_on("learned", index.vectors_of(ids_a), index.vectors_of(ids_b), similar, weight)
            return updates

        return self.change(work, request, n_bytes)

    def learn_with_items(
        self,
        vector: np.ndarray,
        ids: Any,
        similar: Any,
        weight: Any = None,
        request: Request | None = None,
        n_bytes: int = 0,
    ) -> Future[Done]:
        """Pairs of one vector and items, as these are when it is their turn; the outcome are the Updates."""

        def work(index: LiveIndex) -> Updates:
            B = index.vectors_of(ids)
            A = np.repeat(vector[None], len(B), axis=0)
            return self._taught(index, A, B, similar, weight)

        return self.change(work, request, n_bytes)

    def _taught(self, index: LiveIndex, A: Any, B: Any, similar: Any, weight: Any) -> Updates:
        updates = index.learn_pairs(A, B, similar, weight)
        self._note(updates)
        self._pass_on("learned", A, B, similar, weight)
        return updates

    def _pass_on(self, what: str, *arguments: Any) -> None:
        for companion in self.companions:
            getattr(companion, what)(*arguments)

    # ------------------------------------------------------------------------------------------------ news

    def _note_items(self) -> None:
        with self._noting:
            self._untold.items = True

    def _note(self, updates: Updates) -> None:
        changed = updates.changed()
        self.n_learned += len(updates)
        self.n_updated += int(changed.sum())
        with self._noting:
            self._untold.note(updates, changed)

    def tell_news(self) -> None:
        """Tell listeners what happened since the last time; a task calls this ten times a second."""
        with self._noting:
            news, self._untold = self._untold, _Untold(self._untold.refreshes, self._untold.serial)
        if news.count:
            self.hub.tell("learned", news.learned() | {"n_pairs": self.n_pairs})
        if news.items:
            self.hub.tell("items", {"n": len(self.index)})
        state = (self.index.refreshes, self.index.serial)
        if state != (news.refreshes, news.serial):
            self._untold.refreshes, self._untold.serial = state
            self._pass_on("refreshed")
            self.hub.tell("refreshed", self.refreshed())

    def count_searches(self, seconds: float) -> None:
        """So many seconds have passed since the last count."""
        self.searches_per_second = round((self.searches - self._searches_counted) / seconds, 1)
        self._searches_counted = self.searches

    # ------------------------------------------------------------------------------------------------ facts

    @property
    def n_pairs(self) -> int:
        """Pairs that the learner has seen."""
        return int(getattr(self.index.learner, "n_pairs_seen_", 0))

    def refreshed(self) -> dict[str, Any]:
        """What the last refresh left behind."""
        index = self.index
        encoder = index.encoder
        return {
            "serial": index.serial,
            "encoder": None if encoder is None else encoder.version,
            "refreshes": index.refreshes,
            "bits_rehashed": index.bits_rehashed,
            "bits_flipped": index.bits_flipped,
            "n_pairs": self.n_pairs,
        }

    def stats(self) -> dict[str, Any]:
        """Everything that is counted."""
        index = self.index
        seconds = time.monotonic() - self.started
        return self.refreshed() | {
            "n": len(index),
            "behind": {"bits": len(self.changed_bits()), "pairs": index.pairs_behind},
            "bits_skipped": index.bits_skipped,
            "queue": {"length": len(self.writer), "limit": self.limits.queue},
            "searches": self.searches,
            "searches_per_second": self.searches_per_second,
            "learned": self.n_learned,
            "updated": self.n_updated,
            "uptime": round(seconds, 3),
            "measured": None if self.monitor is None else self.monitor.latest,
            "read_only": self.read_only,
            "lag_seconds": round(self.lag, 3),
        }

    def model(self) -> dict[str, Any]:
        """The learner, its parameters, and the encoders that are kept."""
        index, learner = self.index, self.index.learner
        versions = [{"serial": v.serial, "n_pairs": v.n_pairs, "version": v.encoder.version} for v in index.versions]
        n_bits, n_models, fusion = learner.shape_of_codes
        return {
            "method": type(learner).__name__,
            "parameters": {name: _plain(value) for name, value in learner.get_params(deep=False).items()},
            "n_bits": n_bits,
            "n_models": n_models,
            "n_features": self.n_features,
            "dtype": str(getattr(learner, "dtype_", np.dtype(np.float32))),
            "fusion": fusion,
            "version": getattr(learner, "version_", None),
            "serial": index.serial,
            "versions": versions,
            "n_pairs": self.n_pairs,
            "policy": repr(index.policy),
            "paused": index.paused,
        }

    def about(self) -> dict[str, Any]:
        """What is served, for a page or a client that has just come."""
        n_bits, n_models, _ = self.index.learner.shape_of_codes
        return {
            "name": "onlinehash",
            "n": len(self.index),
            "method": type(self.index.learner).__name__,
            "n_bits": n_bits,
            "n_models": n_models,
            "n_features": self.n_features,
            "pictures": None if self.pictures is None else self.pictures.about(),
            "label": self.label,
            "demo": self.demo,
            "teacher": self.teacher is not None,
            "compare": [] if self.rivals is None else list(self.rivals.names),
            "read_only": self.read_only,
            "limits": dataclasses.asdict(self.limits),
        }

    @property
    def lag(self) -> float:
        """Seconds since a reader last knew all that its writer had written."""
        return 0.0 if self.follower is None else self.follower.lag

    def readiness(self) -> tuple[str, int]:
        """A word, and the status to answer with."""
        if self.writer.closing:
            return "stopping", 503
        if self.lag > MOST_LAG:
            return "behind", 503
        return "ready", 200

    @property
    def n_features(self) -> int:
        """The width of vectors; 0 before the first."""
        return int(getattr(self.index.learner, "n_features_in_", 0))

    @property
    def has_text_ids(self) -> bool:
        """Are ids strings here? While there are none, they are not."""
        return self.index.ids_kind == "strings"

    def changed_bits(self) -> np.ndarray:
        """The hash functions in which the codes are behind the learner; none while there are no codes."""
        with contextlib.suppress(ValueError):  # a learner that still waits has none to compare
            if self.index.encoder is not None:
                return self.index.newest.changed_bits(self.index.encoder)
        return np.empty(0, np.int64)


class _Untold:
    """What was learned and changed since listeners were told; written by the writer, read by one task."""

    def __init__(self, refreshes: int = 0, serial: int = 0) -> None:
        self.refreshes, self.serial, self.items = refreshes, serial, False
        self.count, self.updated = 0, 0
        self.losses: list[float] = []
        self.bits: Counter[int] = Counter()

    def note(self, updates: Updates, changed: np.ndarray) -> None:
        self.count += len(updates)
        self.updated += int(changed.sum())
        self.losses = (self.losses + updates.loss[-MOST_LOSSES:].tolist())[-MOST_LOSSES:]
        for t in np.flatnonzero(changed)[-MOST_LOSSES:]:
            self.bits.update(updates.bits(t).tolist())

    def learned(self) -> dict[str, Any]:
        bits = {str(bit): times for bit, times in sorted(self.bits.items())}
        return {"losses": self.losses, "updated": self.updated, "count": self.count, "bits": bits}


def _plain(value: Any) -> Any:
    """A parameter as JSON has it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "get_params"):
        return {"class": type(value).__name__} | {k: _plain(v) for k, v in value.get_params(deep=False).items()}
    return repr(value)
