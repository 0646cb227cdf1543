"""`MethodComparison`: other methods with the same items and the same pairs, for comparison."""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from onlinehash.errors import NotReady, UnknownId
from onlinehash.index.api import Id, VectorIndex
from onlinehash.learners import registry
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.live import policies as refresh
from onlinehash.live.index import LiveIndex
from onlinehash.serve.observers import BackgroundObserver
from onlinehash.serve.quality import QualityMonitor
from onlinehash.serve.sample import hashes

#: Items that each method holds, and bytes of changes that may wait for them; beyond that, they are loaded again.
MOST_ITEMS = 50_000
MOST_BYTES = 64 << 20

#: Items that are loaded at a time.
AT_ONCE = 1_000
#: The methods that are compared: one without feedback, the recommended one, and the paper's two.
NO_FEEDBACK = "IterativeQuantization"
METHODS = (NO_FEEDBACK, registry.RECOMMENDED, "OnlineHashing", "MultiModelOnlineHashing")

#: Items that a batch method is fitted to, at most; as many as the recommended learner starts from.
MOST_FITTED = 2_000

#: The share of the time that ranking by the exact cosine may take.
SHARE = 0.05

#: Parameters that a method takes from the served learner, if it has them.
COMMON = ("n_bits", "features", "centre", "burn_in", "C", "similar_radius", "dissimilar_ratio")


class PendingChange(NamedTuple):
    """A change that the other methods have not made yet."""

    make: Callable[[], None]
    n_bytes: int
    n_pairs: int = 0


@dataclass
class Method:
    """A method with its index, and the mAP of its codes, once it was measured."""

    name: str
    index: VectorIndex
    measured: tuple[tuple[Encoder | None, int], float | None] | None = None


class Exact(TypedDict):
    """The vectors themselves, ranked by their exact cosine: bits per vector, and mAP."""

    bits: int
    map: float


class MethodComparison(BackgroundObserver):
    """Other methods beside the served one, in memory, with the same bits, features and seed.

    index : the served index.
    names : the methods.
    quality : measures the mAP of each method; None for no mAP.

    The methods follow in a thread of their own, with a short delay, and are refreshed when the served index is. A
    method of several models has this many bits in each. The served method itself is queried in the served index. The
    others do not know what was learned before the service was started. Of more than 50,000 items they hold a sample, so
    they find fewer hits. A batch method, which gets no feedback, is fitted to the first items, and again whenever their
    number has doubled.
    """

    def __init__(self, index: VectorIndex, names: Iterable[str], quality: QualityMonitor | None) -> None:
        super().__init__()
        self._served, self._quality = index, quality
        self._all = [
            Method(kind.__name__, index if type(index.learner) is kind else _beside(index.learner, kind))
            for kind in map(registry.find, names)
        ]
        others = (method.index for method in self._all if method.index is not index)
        self._others = sorted(others, key=_is_batch)  # the first always holds all items
        self._n_fitted = 0
        self._exact: Exact | None = None
        self._exact_of, self._exact_due = -1, 0.0
        self._waiting: deque[PendingChange] = deque()
        self._n_bytes = 0
        self._wants_refresh = False
        self._highest = np.uint64(2**64 - 1)  # of the hashes of the ids in the sample
        self._n_changes = 0
        #: Pairs that were skipped because they came too fast.
        self.n_lost = 0

    @property
    def names(self) -> list[str]:
        """The methods, in the order in which they are compared."""
        return [method.name for method in self._all]

    def start(self) -> None:
        """Start with the items of the served index."""
        self._submit(self._load)
        super().start()

    # ------------------------------------------------------------------------------------------------ comparing

    def compare(self, vector: ArrayLike, k: int) -> list[dict[str, object]]:
        """What each method finds, its bits per item, the pairs it has learned, and its mAP if it is known.

        `n` is the number of items it searched.
        """
        return [self._found(method, vector, k) for method in self._all]

    def _found(self, method: Method, vector: ArrayLike, k: int) -> dict[str, object]:
        index = method.index
        try:
            ids, distances = index.search(vector, k)
        except NotReady:  # it has no items yet, or too few for its feature map
            ids = distances = np.empty(0, np.int64)
        return {
            "name": method.name,
            "bits": index.n_bits * index.n_models,
            "ids": ids.tolist(),
            "distances": distances.tolist(),
            "learns": index.learner.traits.learns_from != "nothing",
            "n_pairs": int(getattr(index.learner, "n_pairs_seen_", 0)),
            "map": self._map_of(method),
            "n": len(index),
        }

    def _map_of(self, method: Method) -> float | None:
        if self._quality is None:
            return None
        if method.index is self._served:
            return None if self._quality.latest is None else self._quality.latest["map"]
        now = method.index.encoder, self._n_changes
        if method.measured is None or method.measured[0] != now:
            found = self._quality.measure(method.index)
            method.measured = now, None if found is None else found[0]
        return method.measured[1]

    def exact(self) -> Exact | None:
        """The mAP of the vectors themselves by their exact cosine, and the bits of one: what codes are compared with.

        None if no queries are held out. While items change, it may be a moment old.
        """
        if self._quality is None or not self._others:
            return None
        start = time.monotonic()
        if self._exact_of != self._n_changes and start >= self._exact_due:
            index, changes = self._others[0], self._n_changes
            found = self._quality.measure_exact(index)
            bits = 0 if found is None else 8 * index.vectors_of(index.ids[:1]).nbytes
            self._exact, self._exact_of = None if found is None else {"bits": bits, "map": found}, changes
            self._exact_due = time.monotonic() + (time.monotonic() - start) * (1 / SHARE - 1)
        return self._exact

    # ------------------------------------------------------------------------------------------------ changes

    def added(self, ids: ArrayLike, X: ArrayLike) -> None:
        """Add the items to the other methods."""
        self._submit(lambda: self._take(ids, X), X)

    def updated(self, ids: ArrayLike, X: ArrayLike | None) -> None:
        """Update vectors; payloads are ignored."""
        if X is not None:
            self._submit(lambda: self._take(ids, X), X)

    def removed(self, ids: ArrayLike) -> None:
        """Remove the items from the other methods."""
        self._submit(lambda: self._drop(np.atleast_1d(np.asarray(ids, object)).tolist()))

    def learned(self, A: ArrayLike, B: ArrayLike, similar: ArrayLike, weight: ArrayLike | None) -> None:
        """Teach the other methods the same pairs, in the same order."""

        def learn() -> None:
            for index in filter(lambda index: not _is_batch(index), self._others):
                index.learn_pairs(np.atleast_2d(A), np.atleast_2d(B), similar, weight)

        self._submit(learn, A, B, n_pairs=len(np.atleast_2d(A)))

    def refreshed(self) -> None:
        """Refresh the other methods once they have learned what the served one has."""
        with self._changed:
            self._wants_refresh = True
        self._wake()

    def _submit(self, make: Callable[[], None], *arrays: ArrayLike, n_pairs: int = 0) -> None:
        n_bytes = sum(np.asarray(array).nbytes for array in arrays)
        with self._changed:
            if self._n_bytes + n_bytes > MOST_BYTES:
                self.n_lost += sum(waiting.n_pairs for waiting in self._waiting) + n_pairs
                self._waiting.clear()
                make, n_bytes, n_pairs, self._n_bytes = self._load, 0, 0, 0
            self._waiting.append(PendingChange(make, n_bytes, n_pairs))
            self._n_bytes += n_bytes
        self._wake()

    def _work(self) -> float:
        """Make one change or, after all of them, refresh."""
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
        """Load the items of the served index, or a sample of them."""
        served = self._served
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
                except UnknownId:  # removed meanwhile
                    some = [id for id in some if id in served]
        self._refresh()
        self._fit()

    def _take(self, ids: ArrayLike, X: ArrayLike) -> None:
        self._put(ids, X)
        self._fit()

    def _put(self, ids: ArrayLike, X: ArrayLike) -> None:
        """Add new items, and update known ones."""
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

    def _drop(self, ids: list[Id]) -> None:
        for index in self._others:
            index.remove([id for id in ids if id in index])
        self._n_changes += 1

    def _fit(self) -> None:
        """Fit batch methods to the items, if their number has doubled since the last time."""
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
    """Whether it has hash functions, or will have them once it gets items."""
    return not _is_batch(index) or hasattr(index.learner, "n_features_in_")


def _bound(ids: np.ndarray) -> np.uint64:
    """The highest hash in a sample of `MOST_ITEMS` of these ids."""
    bound: np.uint64 = np.partition(hashes(ids), MOST_ITEMS - 1)[MOST_ITEMS - 1]
    return bound


def _beside(served: Learner, kind: type[Learner]) -> LiveIndex:
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
