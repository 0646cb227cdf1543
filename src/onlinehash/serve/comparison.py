"""`Rivals`: other methods with the same items and the same pairs, for comparison."""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onlinehash.errors import NotReady, UnknownId
from onlinehash.index.api import VectorIndex
from onlinehash.learners import registry
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.live import policies as refresh
from onlinehash.live.index import LiveIndex
from onlinehash.serve.observers import Background
from onlinehash.serve.sample import hashes

if TYPE_CHECKING:
    from onlinehash.serve.service import Service

#: Items that rivals hold, and what may wait for them in bytes: beyond that they begin anew with the items there are.
MOST_ITEMS = 50_000
MOST_BYTES = 64 << 20

AT_ONCE = 1_000
#: Methods beside the served one: without feedback, the recommended, the paper's two.
NO_FEEDBACK = "IterativeQuantization"
METHODS = (NO_FEEDBACK, registry.RECOMMENDED, "OnlineHashing", "MultiModelOnlineHashing")

#: Items that a batch method is fitted to, at most; as many as the recommended learner begins from.
MOST_FITTED = 2_000

#: The share of the time that ranking floats may take.
SHARE = 0.05

#: What a rival has in common with the served learner, where it has such a parameter.
COMMON = ("n_bits", "features", "centre", "burn_in", "C", "similar_radius", "dissimilar_ratio")


class Waiting(NamedTuple):
    """A change that the rivals have not made yet."""

    make: Callable[[], None]
    n_bytes: int
    n_pairs: int = 0


@dataclass
class Rival:
    """A method with its index, and the mAP of its codes, once somebody asked for it."""

    name: str
    index: VectorIndex
    measured: tuple[tuple[Encoder | None, int], float | None] | None = None


class Rivals(Background):
    """Other methods beside the served one, in memory, with the same bits, features and seed.

    They follow in a thread of their own, with a short delay, and refresh when the served index does. A method of
    several models has this many bits in each. The served method itself is queried in the served index. Rivals do not
    know what was learned before the service was started. Of more than 50,000 items they hold a sample, so they find
    fewer hits. A batch method, which gets no feedback, is fitted to the first items, and again whenever their number
    has doubled.
    """

    def __init__(self, service: Service, names: Iterable[str] = METHODS) -> None:
        super().__init__()
        self._service = service
        served = service.index.learner
        self._all = [
            Rival(kind.__name__, service.index if type(served) is kind else _beside(served, kind))
            for kind in map(registry.find, names)
        ]
        others = (rival.index for rival in self._all if rival.index is not service.index)
        self._others = sorted(others, key=_is_batch)  # the first has all items at any time
        self._n_fitted = 0
        self._exact: dict[str, Any] | None = None
        self._exact_of, self._exact_due = -1, 0.0
        self._waiting: deque[Waiting] = deque()
        self._n_bytes = 0
        self._wants_refresh = False
        self._highest = np.uint64(2**64 - 1)  # of the hashes of the ids in the sample
        self._n_changes = 0
        #: Pairs that came too fast for them.
        self.n_lost = 0

    @property
    def names(self) -> list[str]:
        """The methods, in the order in which they are compared."""
        return [rival.name for rival in self._all]

    def start(self) -> None:
        """Begin with the items there are."""
        self._note(self._load)
        super().start()

    # ------------------------------------------------------------------------------------------------ comparing

    def compare(self, vector: Any, k: int) -> list[dict[str, Any]]:
        """What each method finds, how many bits an item takes with it, what it learned, and its mAP where it is known.

        `n` is the number of items it searched among.
        """
        return [self._found(rival, vector, k) for rival in self._all]

    def _found(self, rival: Rival, vector: Any, k: int) -> dict[str, Any]:
        index = rival.index
        try:
            ids, distances = index.search(vector, k)
        except NotReady:  # it has no items yet, or too few for its feature map
            ids = distances = np.empty(0, np.int64)
        return {
            "name": rival.name,
            "bits": index.n_bits * index.n_models,
            "ids": ids.tolist(),
            "distances": distances.tolist(),
            "learns": index.learner.traits.learns_from != "nothing",
            "n_pairs": int(getattr(index.learner, "n_pairs_seen_", 0)),
            "map": self._map_of(rival),
            "n": len(index),
        }

    def _map_of(self, rival: Rival) -> float | None:
        monitor = self._service.monitor
        if monitor is None:
            return None
        if rival.index is self._service.index:
            return None if monitor.latest is None else monitor.latest["map"]
        now = rival.index.encoder, self._n_changes
        if rival.measured is None or rival.measured[0] != now:
            found = monitor.measure(rival.index)
            rival.measured = now, None if found is None else found[0]
        return rival.measured[1]

    def exact(self) -> dict[str, Any] | None:
        """The float reference: the mAP of the vectors themselves by their exact cosine, and the bits that one takes.

        None where no queries are held out. While items change it may be of a moment ago.
        """
        monitor = self._service.monitor
        if monitor is None or not self._others:
            return None
        start = time.monotonic()
        if self._exact_of != self._n_changes and start >= self._exact_due:
            index, changes = self._others[0], self._n_changes
            found = monitor.measure_exact(index)
            bits = 0 if found is None else 8 * index.vectors_of(index.ids[:1]).nbytes
            self._exact, self._exact_of = None if found is None else {"bits": bits, "map": found}, changes
            self._exact_due = time.monotonic() + (time.monotonic() - start) * (1 / SHARE - 1)
        return self._exact

    # ------------------------------------------------------------------------------------------------ following

    def added(self, ids: Any, X: Any) -> None:
        """Add the items to the rivals."""
        self._note(lambda: self._take(ids, X), X)

    def updated(self, ids: Any, X: Any) -> None:
        """Update vectors; payloads are ignored."""
        if X is not None:
            self._note(lambda: self._take(ids, X), X)

    def removed(self, ids: Any) -> None:
        """Remove the items from the rivals."""
        self._note(lambda: self._drop(ids))

    def learned(self, A: Any, B: Any, similar: Any, weight: Any) -> None:
        """Teach the rivals the same pairs, in the same order."""

        def learn() -> None:
            for index in filter(lambda index: not _is_batch(index), self._others):
                index.learn_pairs(np.atleast_2d(A), np.atleast_2d(B), similar, weight)

        self._note(learn, A, B, n_pairs=len(np.atleast_2d(A)))

    def refreshed(self) -> None:
        """Refresh the rivals once they have learned everything learned so far."""
        with self._changed:
            self._wants_refresh = True
        self._wake()

    def _note(self, make: Callable[[], None], *arrays: Any, n_pairs: int = 0) -> None:
        n_bytes = sum(np.asarray(array).nbytes for array in arrays)
        with self._changed:
            if self._n_bytes + n_bytes > MOST_BYTES:
                self.n_lost += sum(waiting.n_pairs for waiting in self._waiting) + n_pairs
                self._waiting.clear()
                make, n_bytes, n_pairs, self._n_bytes = self._load, 0, 0, 0
            self._waiting.append(Waiting(make, n_bytes, n_pairs))
            self._n_bytes += n_bytes
        self._wake()

    def _work(self) -> float:
        """One change, or the refresh after all of them."""
        with self._changed:
            if self._waiting:
                make, n_bytes, _ = self._waiting.popleft()
                self._n_bytes -= n_bytes
                self._due = True
            else:
                make = self._refresh if self._wants_refresh else lambda: None
                self._wants_refresh = False
        make()
        return 0.0

    def _refresh(self) -> None:
        for index in self._others:
            if index.encoder is not None:
                index.refresh()

    def _load(self) -> None:
        """Hold what the service holds, or a sample of it."""
        served = self._service.index
        ids = served.ids
        if len(ids) > MOST_ITEMS:
            self._highest = _bound(ids)
            ids = ids[hashes(ids) <= self._highest]
        here = set(ids.tolist())
        self._drop([id for index in self._others[:1] for id in index if id not in here])
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE].tolist()
            while some:
                try:
                    self._put(some, served.vectors_of(some))
                    break
                except UnknownId:  # removed since
                    some = [id for id in some if id in served]
        self._refresh()
        self._fit()

    def _take(self, ids: Any, X: Any) -> None:
        self._put(ids, X)
        self._fit()

    def _put(self, ids: Any, X: Any) -> None:
        """New items, or other vectors for known ones."""
        names, rows = np.atleast_1d(np.asarray(ids)), np.atleast_2d(np.asarray(X))
        names = names if names.dtype.kind == "i" else names.astype(object)
        chosen = np.flatnonzero(hashes(names) <= self._highest)
        for index in filter(_takes_items, self._others):
            known = np.array([id in index for id in names[chosen].tolist()], np.bool_)
            if known.any():
                index.update(names[chosen[known]], rows[chosen[known]])
            if not known.all():
                index.add(names[chosen[~known]], rows[chosen[~known]])
        self._n_changes += 1
        if self._others and len(self._others[0]) > 1.2 * MOST_ITEMS:  # the sample has grown with the index
            held = self._others[0].ids
            self._highest = _bound(held)
            self._drop(held[hashes(held) > self._highest].tolist())

    def _drop(self, ids: list[Any]) -> None:
        for index in self._others:
            index.remove([id for id in ids if id in index])
        self._n_changes += 1

    def _fit(self) -> None:
        """Let batch methods begin from the items there are, where these have doubled."""
        batch = [index for index in self._others[1:] if _is_batch(index)]
        if not batch or self._others[0].encoder is None:
            return
        every = self._others[0]
        n = min(len(every), MOST_FITTED)
        if n < max(2 * self._n_fitted, 1) and not self._n_fitted < n == MOST_FITTED:
            return
        self._n_fitted = n
        for index in batch:
            index.learner.fit(every.vectors_of(every.ids[:n]))
            missing = [id for id in every if id not in index]
            if missing:
                index.add(missing, every.vectors_of(missing))
            index.refresh()


def _is_batch(index: VectorIndex) -> bool:
    return index.learner.traits.unit == "batch"


def _takes_items(index: VectorIndex) -> bool:
    """Has it hash functions to make codes by, or will it have them by taking items?"""
    return not _is_batch(index) or hasattr(index.learner, "n_features_in_")


def _bound(ids: np.ndarray) -> np.uint64:
    """The highest hash in a sample of so many of these ids."""
    bound: np.uint64 = np.partition(hashes(ids), MOST_ITEMS - 1)[MOST_ITEMS - 1]
    return bound


def _beside(served: Learner, kind: Any) -> LiveIndex:
    """An index for a method with the parameters that it shares with the served one."""
    from sklearn.base import clone

    has = inspect.signature(kind).parameters
    given = {name: value for name, value in served.get_params(deep=False).items() if name in COMMON and name in has}
    if given.get("features") is not None:
        given["features"] = clone(given["features"])
    seed = getattr(served, "random_state", None)
    if "random_state" in has:
        given["random_state"] = seed if isinstance(seed, int) else 0
    return LiveIndex(kind(**given), refresh=refresh.by_hand())
