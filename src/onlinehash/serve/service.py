"""`Service`: an index shared by many clients: searches at any time, changes one at a time.

Reads go straight to the index. Changes and learning go through one `Writer`; they are counted, sent as events, and
reported to observers (a quality monitor, a comparison of methods).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from onlinehash.errors import InvalidInput, NotSupported
from onlinehash.index.api import Behind, Capability, VectorIndex
from onlinehash.learners.taught import pairs_at_a_time
from onlinehash.serve import logs
from onlinehash.serve.changes import Changes
from onlinehash.serve.comparison import METHODS, MethodComparison
from onlinehash.serve.embedding import EmbeddingQueue
from onlinehash.serve.epoch_watch import EpochWatch
from onlinehash.serve.errors import Busy, DeadlineExceeded
from onlinehash.serve.events import Events
from onlinehash.serve.learner_watch import LearnerWatch
from onlinehash.serve.pictures import Pictures
from onlinehash.serve.quality import QualityMonitor
from onlinehash.serve.reads import Reads
from onlinehash.serve.refreshes import Refreshes
from onlinehash.serve.settings import Limits
from onlinehash.serve.simulated_teacher import SimulatedTeacher
from onlinehash.serve.writer import Writer

#: Attempts of a reader to find items that its writer may have added a moment ago.
TRIES = 3
#: A reader that is further behind its writer, in seconds, is not ready.
MOST_LAG = 5.0
#: Seconds between two looks of a reader at the disk, and at most between two that fail.
FOLLOW_EVERY, LONGEST_PAUSE = 0.1, 2.0
#: Seconds that statistics wait at most for a look at a learner that other processes teach.
LOOK_SECONDS = 0.25
#: Threads for reads of single items, which may take a question to a database.
FETCHING = 4
#: Seconds that the parser of large bodies rests between two of them, at most, and how many may wait for it.
LONGEST_REST, MOST_PARSING = 0.1, 256

T = TypeVar("T")


class Service:
    """An index with its writer, events, statistics and observers."""

    def __init__(
        self,
        index: VectorIndex,
        *,
        limits: Limits | None = None,
        label: str | None = None,
        pictures: Pictures | None = None,
        read_only: bool = False,
        demo: bool = False,
    ) -> None:
        for needed in (Capability.LEARNER, *((Capability.RELOAD,) if read_only else ())):
            if not index.supports(needed):
                raise NotSupported(
                    f"a {'read-only ' if read_only else ''}service needs an index that supports {needed.value}, "
                    f"and {type(index).__name__} does not."
                )
        self.index, self.limits = index, limits or Limits()
        self.label, self.pictures, self.read_only, self.demo = label, pictures, read_only, demo
        self.events, self.writer, self.reads = Events(self.limits), Writer(self.limits), Reads(self.limits)
        self.changes = Changes(index, self.writer)
        self.refreshes = Refreshes(index, self.writer, self.changes.disk)
        self.quality: QualityMonitor | None = None
        self.comparison: MethodComparison | None = None
        self.teacher: SimulatedTeacher | None = None
        self.embedding = None if index.embedder is None else EmbeddingQueue(index.embedder, self.limits)
        self.searches = 0
        self.searches_per_second, self._searches_counted = 0.0, 0
        self._started = time.monotonic()
        self._follower = Follower(index) if read_only else None
        self.epochs = EpochWatch(index, self.hurry)
        self._learner_watch = (
            LearnerWatch(index, lambda: len(self.changed_bits())) if index.has_shared_learner else None
        )
        learner = index.learner
        self._method, self._shape = type(learner).__name__, learner.shape_of_codes[:2]
        self._chunk = pairs_at_a_time(learner)
        self._announced = (0, 0)  # refreshes and serial number in the last `refreshed` event
        self._hears_of_others = index.supports(Capability.RELOAD)  # of changes by other processes, without a question
        self._counts = (self.n_pairs, index.n_changed) if self._hears_of_others else (0, 0)  # as of the last events
        self._waiting = ThreadPoolExecutor(1, "onlinehash-waiting")
        self._fetching = ThreadPoolExecutor(FETCHING, "onlinehash-fetch")
        self._parsing, self._n_parsing = ThreadPoolExecutor(1, "onlinehash-parsing"), 0

    # ------------------------------------------------------------------------------------------------ observers

    def measure_quality(self, X: ArrayLike, y: ArrayLike) -> QualityMonitor:
        """Measure the search continuously on held-out queries and their labels."""
        self.quality = QualityMonitor(self.index, self.label, self.events, X, y)
        self.changes.observers.append(self.quality)
        return self.quality

    def compare_methods(self, names: Iterable[str] = METHODS) -> MethodComparison:
        """Run other methods on the same items and pairs; call `measure_quality` first to compare their quality too."""
        self.comparison = MethodComparison(self.index, names, self.quality)
        self.changes.observers.append(self.comparison)
        return self.comparison

    def simulate_teacher(
        self, ids: ArrayLike, y: ArrayLike, seed: int = 0, pairs_per_second: float = 20.0
    ) -> SimulatedTeacher:
        """Teach pairs of items by their labels, once the teacher is resumed."""
        self.teacher = SimulatedTeacher(self.index, self.changes, self.events, ids, y, seed, pairs_per_second)
        return self.teacher

    # ------------------------------------------------------------------------------------------------ start and stop

    def start(self) -> None:
        """Start everything that runs in the background."""
        for observer in self.changes.observers:
            observer.start()
        if self.teacher is not None:
            self.teacher.start()
        for follower in (self._follower, self._learner_watch):
            if follower is not None:
                follower.start()

    def stop(self) -> None:
        """Begin to stop: end reads, disconnect listeners, refuse changes. Called in the event loop."""
        self.reads.stop()
        self.events.close()
        self.writer.retire()

    def close(self) -> None:
        """Finish the accepted changes for which there is time, then close the index."""
        self.reads.close()
        if self.embedding is not None:
            self.embedding.close()
        if self.teacher is not None:
            self.teacher.stop()  # before the writer, to which it submits
        for follower in (self._follower, self._learner_watch):
            if follower is not None:
                follower.stop()
        self.writer.close()
        for observer in self.changes.observers:
            observer.stop()
        self.index.close()
        for pool in (self._waiting, self._fetching, self._parsing):
            pool.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------------------------------------------ reading

    def read(self, find: Callable[[], T]) -> T:
        """Call `find`. A reader that lacks recent changes to these items reloads and tries again."""
        for _ in range(TRIES - 1 if self.read_only else 0):
            try:
                return find()
            except InvalidInput:
                self.index.reload()
        return find()

    async def parsed(self, parse: Callable[[], T]) -> T:
        """Parse a large body in a thread; one at a time, because a parser keeps other threads from running.

        The next one waits as long as this one took, so that a client who sends such bodies all the time leaves half of
        the time to others, who need the interpreter several times for each answer. One that has waited for too long is
        not parsed, as its client may have left.
        """
        if self._n_parsing >= MOST_PARSING:
            raise Busy(f"too many large bodies wait to be parsed ({self._n_parsing}); retry after 1 s.")
        took, arrived, seconds = 0.0, time.perf_counter(), self.limits.request_seconds

        def timed() -> T:
            nonlocal took
            begin = time.perf_counter()
            if begin - arrived > seconds:
                raise DeadlineExceeded(f"the body waited longer than {seconds:g} s to be parsed; retry.")
            try:
                return parse()
            finally:
                took = time.perf_counter() - begin

        found = asyncio.get_running_loop().run_in_executor(self._parsing, timed)
        self._parsing.submit(lambda: time.sleep(min(took, LONGEST_REST)))
        self._n_parsing += 1
        try:
            return await found
        finally:
            self._n_parsing -= 1

    async def waited(self, find: Callable[[], T]) -> T:
        """Call `find`, which may wait for a running change, in a thread that searches do not use."""
        return await asyncio.get_running_loop().run_in_executor(self._waiting, find)

    async def fetched(self, find: Callable[[], T]) -> T:
        """Call `find`, which may ask a database, in a thread that nothing else needs while the database is silent."""
        return await asyncio.get_running_loop().run_in_executor(self._fetching, find)

    # ------------------------------------------------------------------------------------------------ events

    def send_events(self) -> None:
        """Send events for what happened since the last call; a task calls this ten times a second."""
        recent = self.changes.activity.take()
        has_learned, has_items = recent.n_learned > 0, recent.items_changed
        if self._hears_of_others:
            known, self._counts = self._counts, (self.index.taught.n_pairs, self.index.n_changed)
            has_learned, has_items = (
                has_learned or known[0] != self._counts[0],
                has_items or known[1] != self._counts[1],
            )
        if has_learned:
            taught = self.index.taught
            counts = {"n_pairs": taught.n_pairs, "ranking_pairs": taught.n_ranking}
            self.events.send("learned", recent.event() | counts)
        if has_items:
            self.events.send("items", {"n": len(self.index)})
        state = (self.index.refreshes, self.index.serial)
        if state != self._announced:
            self._announced = state
            for observer in self.changes.observers:
                observer.refreshed()
            self.events.send("refreshed", self.codes())

    def count_searches(self, seconds: float) -> None:
        """Update the search rate, `seconds` after the last update."""
        self.searches_per_second = round((self.searches - self._searches_counted) / seconds, 1)
        self._searches_counted = self.searches

    # ------------------------------------------------------------------------------------------------ statistics

    # What is called in the event loop asks for `index.taught`, never for `index.learner`: where other processes teach
    # the learner, too, that may ask the database, or wait for a thread that does.

    @property
    def n_pairs(self) -> int:
        """Pairs that the learner has seen."""
        return self.index.taught.n_pairs

    @property
    def n_features(self) -> int:
        """The width of vectors; 0 before the first."""
        return self.index.taught.n_features

    @property
    def has_text_ids(self) -> bool:
        """Whether ids are strings; False while there are none."""
        return self.index.ids_kind == "strings"

    @property
    def lag(self) -> float:
        """Seconds since this process had everything that others had written."""
        return self.index.lag if self._follower is None else self._follower.lag

    def hurry(self) -> None:
        """Have a reader look at once at what its writer has written."""
        if self._follower is not None:
            self._follower.wake()

    def changed_bits(self) -> np.ndarray:
        """The hash functions in which the codes are behind the learner; none while there are no codes."""
        with contextlib.suppress(ValueError):  # a learner that still waits has no encoder to compare
            if self.index.encoder is not None:
                return self.index.newest.changed_bits(self.index.encoder)
        return np.empty(0, np.int64)

    def behind(self) -> Behind:
        """How far the codes are behind the learner; may wait for a running change."""
        return Behind(len(self.changed_bits()), self.index.pairs_behind)

    @property
    def pairs_behind(self) -> int:
        """Pairs learned since the codes were computed, as far as it is known without waiting."""
        return self.index.pairs_behind if self._learner_watch is None else self._learner_watch.behind.pairs

    def codes(self) -> dict[str, object]:
        """Which encoder the codes are of, and what refreshes have done so far."""
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

    async def stats(self) -> dict[str, object]:
        """All statistics; if the database is silent, those that depend on it are the last known ones."""
        if self._learner_watch is None:
            return await self.waited(lambda: self._stats(self.behind()))
        await self._learner_watch.looked(LOOK_SECONDS)
        return self._stats(self._learner_watch.behind)

    def _stats(self, behind: Behind) -> dict[str, object]:
        index = self.index
        is_refreshing = self.refreshes.is_running  # before its outcome: one that ends in between was not cancelled
        seconds, (n_learned, n_updated) = time.monotonic() - self._started, self.changes.activity.totals
        return self.codes() | {
            "n": len(index),
            "behind": {"bits": behind.bits, "pairs": behind.pairs},
            "bits_skipped": index.bits_skipped,
            "refreshing": is_refreshing,
            "queue": {"length": len(self.writer), "limit": self.limits.queue},
            "searches": self.searches,
            "searches_per_second": self.searches_per_second,
            "learned": n_learned,
            "waiting": index.taught.n_waiting,
            "updated": n_updated,
            "uptime": round(seconds, 3),
            "measured": None if self.quality is None else self.quality.latest,
            "read_only": self.read_only,
            "lag_seconds": round(self.lag, 3),
        }

    def model(self) -> dict[str, object]:
        """The learner, its parameters, and the encoders that are kept."""
        index, learner = self.index, self.index.learner
        versions = [{"serial": v.serial, "n_pairs": v.n_pairs, "version": v.version} for v in index.versions]
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

    def about(self) -> dict[str, object]:
        """What is served, for the page or a new client."""
        n_bits, n_models = self._shape
        return {
            "name": "onlinehash",
            "n": len(self.index),
            "method": self._method,
            "n_bits": n_bits,
            "n_models": n_models,
            "chunk": self._chunk,
            "n_features": self.n_features,
            "pictures": None if self.pictures is None else self.pictures.about(),
            "embed": None if self.index.embedder is None else self.index.embedder.name,
            "label": self.label,
            "demo": self.demo,
            "teacher": self.teacher is not None,
            "compare": [] if self.comparison is None else list(self.comparison.names),
            "read_only": self.read_only,
            "receipts": self.index.supports(Capability.RECEIPTS),  # so any replica knows the key of a change
            "limits": dataclasses.asdict(self.limits),
        }

    def readiness(self) -> tuple[str, int]:
        """A status word and the HTTP status."""
        if self.writer.closing:
            return "stopping", 503
        if self.lag > MOST_LAG:
            return "behind", 503
        if self.changes.disk.is_failing:
            return "storage failing", 503
        return "ready", 200


class Follower:
    """Keeps a reader's index up to date with its writer, in a thread of its own."""

    def __init__(self, index: VectorIndex) -> None:
        self._index = index
        self._stop, self._woken = threading.Event(), threading.Event()
        self._known: float | None = None  # when the last reload began
        self._thread = threading.Thread(target=self._run, name="onlinehash-follower", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._known = time.monotonic()
        self._thread.start()

    @property
    def lag(self) -> float:
        """Seconds since this process had everything that the writer had written; grows during a reload."""
        return 0.0 if self._known is None else time.monotonic() - self._known

    def stop(self) -> None:
        """Stop following."""
        self._stop.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Look now."""
        self._woken.set()

    def _run(self) -> None:
        pause = 0.0  # that grows while reloading fails; it is not tried sooner then, whoever asks for a look
        told = ""  # the last reason; a new one is told, too
        while not self._stop.is_set():
            if pause:
                self._stop.wait(pause)
            else:
                self._woken.wait(FOLLOW_EVERY)
            self._woken.clear()
            begun = time.monotonic()
            try:
                self._index.reload()
            except Exception as error:
                if not pause or str(error) != told:
                    told = str(error)
                    reason = {"fields": {"reason": told}}
                    logs.service.exception("reloading the index failed, and is tried again", extra=reason)
                pause = min(2 * (pause or FOLLOW_EVERY), LONGEST_PAUSE)
            else:
                if pause:
                    logs.service.info("reloading the index works again")
                self._known, pause = begun, 0.0


def _plain(value: object) -> object:
    """A parameter as a JSON value."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "get_params"):
        return {"class": type(value).__name__} | {k: _plain(v) for k, v in value.get_params(deep=False).items()}
    return repr(value)
