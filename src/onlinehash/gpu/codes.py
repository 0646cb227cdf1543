"""`CardCodes`: codes on a card, and the exact search of them.

A strided sample of the codes gives each query a histogram of distances, and from it a bound that keeps somewhat more
than the k nearest; where very many lie at that distance, the bound gets a limit, a position before which there are
enough. One pass over all codes keeps what is within bound and limit: in the order of keys, all of the first ones. The
few keys that are kept are sorted. Where too few or too many were kept, all distances are counted, which gives the right
bound. Where too many codes lie at that very distance, they are tallied chunk by chunk, and only as many chunks are kept
as hold enough.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from onlinehash.errors import InvalidInput
from onlinehash.gpu.card import RECORDING, Card, check_room, refusing
from onlinehash.gpu.shape import GROUP, NO_LIMIT, PICKED, Bounds, Relevant, Shape
from onlinehash.gpu.upload import to_card

if TYPE_CHECKING:
    from onlinehash.gpu.encoding import SignKernels, SignsTwin

#: Groups in the sample, at least; one group in MOST_STEP at least.
SAMPLED, MOST_STEP = 2048, 2048

#: Keys that a query has room for, and bytes of keys for the queries that are searched for together.
ROOM, KEY_BYTES = 1 << 16, 256 << 20

#: Keys kept for one query when all distances were counted; groups of a chunk of positions where there are more.
MOST_KEPT, CHUNK_GROUPS = 1 << 22, 512

#: Blocks of 64 codes that go to the card at once.
UPLOADED_BYTES = 256 << 20

_NO_KEY = np.iinfo(np.uint64).max

#: Codes of the sample at the distance of a bound, at least, that a limit is taken from.
LEAST_TIED = 4

#: Bits of a code, at most: the counters of as many distances fill the shared memory of a block of `count`.
MOST_BITS = 6112

#: Searches whose steps on the card are kept for the next one with as many queries and the same k; queries of such a
#: search at most.
MOST_RECORDINGS, RECORDED_QUERIES = 4, 128


class Runs(Protocol):
    """What `Kernels` and `Twins` have in common."""

    xp: Any
    shape: Shape

    def here(self) -> AbstractContextManager[Any]: ...

    def card(self) -> Card | None: ...

    def signs(self) -> SignKernels | SignsTwin: ...

    def pack(self, planes: Any, blocks: Any | None, first: int, per_model: int, words: Any) -> None: ...

    def count(
        self,
        words: Any,
        alive: Any | None,
        n: int,
        step: int,
        queries: Any,
        counts: Any,
        wanted: int = 0,
        bounds: Any | None = None,
        ended: Any | None = None,
        relevant: Relevant | None = None,
    ) -> None: ...

    def limit(
        self,
        words: Any,
        alive: Any | None,
        n: int,
        step: int,
        queries: Any,
        counts: Any,
        wanted: int,
        spare: int,
        bounds: Bounds,
    ) -> None: ...

    def tally(self, words: Any, alive: Any | None, n: int, per_chunk: int, query: Any, distance: int) -> Any: ...

    def keep(
        self, words: Any, alive: Any | None, n: int, queries: Any, bounds: Bounds, found: Any, keys: Any
    ) -> None: ...

    def pick(self, found: Any, keys: Any, k: int, out: Any, picked: Any) -> None: ...


P = ParamSpec("P")
R = TypeVar("R")


def _on_its_card(
    method: Callable[Concatenate[CardCodes, P], R],
) -> Callable[Concatenate[CardCodes, P], R]:
    """A method that uses the card where the codes lie, whichever the calling thread uses otherwise."""

    @wraps(method)
    def there(self: CardCodes, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.here():
            return method(self, *args, **kwargs)

    return there


class CardCodes:
    """`n` codes on a card, at positions 0, ..., n - 1, of which some may be dead.

    The card is the one that the thread that made them used. Queries are words `(n, shape.row)` of the host; answers are
    keys (distance << 48 | position), ascending.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs, self.shape = runs, runs.shape
        self._xp = runs.xp
        if self.shape.farthest > MOST_BITS:
            raise InvalidInput(
                f"a card counts at most {MOST_BITS:,} bits for a distance, got codes of {self._bits}; use the CPU."
            )
        self._words = self._xp.zeros((0, self.shape.row, GROUP), np.uint32)
        self._alive: Any | None = None
        self._shared = False
        self._recordings: dict[tuple[int, int], _Recording] = {}
        self._asked: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self.n = 0

    @property
    def nbytes(self) -> int:
        """Bytes on the card."""
        return int(self._words.nbytes) + (0 if self._alive is None else int(self._alive.nbytes))

    def here(self) -> AbstractContextManager[Any]:
        """Within it, this thread uses the card of these codes."""
        return self._runs.here()

    # ------------------------------------------------------------------------------------------------ changes

    @_on_its_card
    def reserve(self, n: int) -> None:
        """Room for n codes; refused with the figures where the card has none. Room grows by half while it can."""
        if n > self._room:
            self._take(self._allocated(n, self._room * 3 // 2), keep=True)

    @_on_its_card
    def own(self, n: int) -> None:
        """Before n codes replace all others: room for them where nobody else reads, or a refusal with the figures."""
        if self._shared or n > self._room:
            self._take(self._allocated(n), keep=False)

    @_on_its_card
    def detach(self, n: int) -> None:
        """Before some of n codes change: a copy of all where others read them, or a refusal with the figures."""
        if self._shared:
            self._take(self._allocated(n, self._room), keep=True)

    def check_growth(self, n: int) -> None:
        """Refuse, with the figures, n codes in all that have no room, neither in this array nor in a second one."""
        if n > self._room:
            self.check_copy(n)

    @_on_its_card
    def check_copy(self, n: int) -> None:
        """Refuse, with the figures, what has no room for a second array of n codes."""
        self._check_room(n, f"a change of an index of {n:,} codes of {self._bits}, which makes a copy of them,")

    @_on_its_card
    def check_mask(self) -> None:
        """Refuse, with the figures, what has no room for a second mask of what lives."""
        card = self._runs.card()
        if card is not None:
            check_room(card, self.shape.mask_bytes(self.n), f"a removal from an index of {self.n:,} codes")

    @property
    def _room(self) -> int:
        """Codes that the array can hold."""
        return len(self._words) * GROUP

    def _take(self, words: Any, keep: bool) -> None:
        """Another array in the place of the present one, with its codes or without."""
        if keep:
            words[: len(self._words)] = self._words[: len(words)]
        self._recordings.clear()  # as they read the other array
        self._words, self._shared = words, False
        self._wait()

    def _allocated(self, n: int, wished: int = 0) -> Any:
        """An array for n codes, or for more of them where they are wished and the card has room."""
        card, what, room = self._runs.card(), f"an index of {n:,} codes of {self._bits}", max(n, wished)
        if card is not None and self.shape.needed(room) > card.free:
            room = n
        self._check_room(room, f"{what}, with room for searches,")
        size = (self.shape.n_groups(room), self.shape.row, GROUP)
        return self._with_room(what, lambda: self._xp.zeros(size, np.uint32))

    def _check_room(self, n: int, what: str) -> None:
        card = self._runs.card()
        if card is not None:
            check_room(card, self.shape.needed(n), what)

    def signs(self) -> SignKernels | SignsTwin:
        """What encodes on the same card."""
        return self._runs.signs()

    def refusing(self, what: str) -> AbstractContextManager[None]:
        """Refuse, with the figures, what the card turns out to have no room for."""
        return refusing(self._runs.card, what)

    def _with_room(self, what: str, work: Callable[[], R]) -> R:
        """What some work gives. Where the card has no room for it, recordings make room; where they have none, it is
        refused with the figures."""
        with self.refusing(what):
            try:
                return work()
            except MemoryError:
                with self._lock:
                    if not self._recordings:
                        raise
                    self._recordings.clear()
                return work()

    @property
    def _bits(self) -> str:
        models = f"{self.shape.models} x " if self.shape.models > 1 else ""
        return f"{models}{8 * self.shape.per_model} bits"

    @_on_its_card
    def put(self, planes: np.ndarray, n: int, positions: np.ndarray | None = None) -> None:
        """Codes out of planes of the host that hold n positions: all of them, or those at some positions."""
        if positions is None:
            self.own(n)
        elif (positions < self.n).any():
            self.detach(n)
        self.reserve(n)
        self._recordings.clear()
        blocks = None if positions is None else np.unique(positions // 64)
        size, total = max(1, UPLOADED_BYTES // (planes.shape[1] * 64)), len(planes) if blocks is None else len(blocks)
        with self.refusing(f"an upload of {n:,} codes of {self._bits}"):
            for start in range(0, total, size):
                part = slice(start, start + size)
                chosen = planes[part] if blocks is None else planes[blocks[part]]
                at = None if blocks is None else self._xp.asarray(blocks[part])
                given = to_card(self._xp, np.ascontiguousarray(chosen))
                self._runs.pack(given, at, start, self.shape.per_model, self._words)
            self._wait()
        self.n = n

    @_on_its_card
    def set_alive(self, masks: np.ndarray | None, blocks: np.ndarray | None = None) -> None:
        """Masks of 64 positions each, of all blocks or, where the card has all others, of these; None: all live."""
        self._recordings.clear()
        if masks is None:
            self._alive = None
        elif self._alive is None or blocks is None or len(self._alive) < len(masks):
            self._alive = self.mask(masks)
        else:
            self._patch(self._alive, blocks, masks[blocks])
        self._wait()

    @_on_its_card
    def bury(self, positions: np.ndarray, masks: np.ndarray) -> None:
        """The codes at these positions die; `masks`, of all blocks, say what lived before."""
        blocks, which = np.unique(positions // 64, return_inverse=True)
        left = masks[blocks]
        np.bitwise_and.at(left, which, ~(np.uint64(1) << (positions % 64).astype(np.uint64)))
        self._recordings.clear()
        alive = self._alive if self._alive is not None and len(self._alive) >= len(masks) else self.mask(masks)
        self._patch(alive, blocks, left)
        self._alive = alive
        self._wait()

    def _patch(self, alive: Any, blocks: np.ndarray, masks: np.ndarray) -> None:
        with self.refusing(f"a mask of {self.n:,} codes"):
            alive[self._xp.asarray(blocks)] = self._xp.asarray(masks)

    @_on_its_card
    def mask(self, masks: np.ndarray) -> Any:
        """Masks of 64 positions each, on the card."""
        padded = np.zeros(2 * self.shape.n_groups(64 * len(masks)), np.uint64)
        padded[: len(masks)] = masks
        return self._with_room(f"a mask of {64 * len(masks):,} codes", lambda: self._xp.asarray(padded))

    @_on_its_card
    def fork(self) -> CardCodes:
        """The same codes, to be changed while these stay as they are; of several forks only the last may be changed."""
        twin = copy.copy(self)
        twin._recordings, twin._asked, twin._lock = {}, None, threading.Lock()
        if self._alive is not None:
            twin._alive = self._with_room(f"a fork of {self.n:,} codes", self._alive.copy)
        self._shared = twin._shared = True
        return twin

    # ------------------------------------------------------------------------------------------------ searching

    @_on_its_card
    def nearest(self, queries: np.ndarray, k: int, alive: Any | None = None) -> np.ndarray:
        """The k least keys of each query `(n_queries, k)`; at least k must live. `alive` is a `mask` for this call."""
        alive = self._alive if alive is None else alive
        room = min(max(ROOM, 8 * k), GROUP * self.shape.n_groups(self.n))
        size = max(1, KEY_BYTES // (8 * room))
        what, parts = f"a search for {len(queries):,} queries", []
        for start in range(0, len(queries), size):
            some = queries[start : start + size]
            parts.append(self._with_room(what, partial(self._nearest, some, k, alive, room)))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _nearest(self, queries: np.ndarray, k: int, alive: Any | None, room: int) -> np.ndarray:
        if k > PICKED:
            return self._nearest_exactly(self._xp.asarray(queries), k, alive)
        can_replay = self._xp is not np and alive is self._alive and len(queries) <= RECORDED_QUERIES
        answer = self._replayed(queries, k) if can_replay else None
        if answer is None:
            work = _Work(self._xp, self.shape, len(queries), k, room)
            work.queries[...] = self._xp.asarray(queries)
            self._enqueue(work, alive)
            answer = self._fetched(work.answer)
            if can_replay and self._is_asked_again(len(queries), k):
                self._record(work)
        result = answer[: len(queries) * k].reshape(len(queries), k)
        failed = np.flatnonzero(answer[len(queries) * k :] == 0)
        if len(failed):
            result[failed] = self._nearest_exactly(self._xp.asarray(queries[failed]), k, alive)
        return result

    def _enqueue(self, work: _Work, alive: Any | None) -> None:
        """All that the card does for some queries."""
        step = min(max(1, self.shape.n_groups(self.n) // SAMPLED), MOST_STEP)
        share = work.k / step
        wanted = work.k if step == 1 else math.ceil(share + 3 * math.sqrt(share) + 2)
        # Between k and the room for keys, as far from the one as from the other.
        spare = max(LEAST_TIED, math.ceil(math.sqrt(work.k * work.keys.shape[1]) / step))
        codes, keys = (self._words, alive, self.n), (work.found, work.keys)
        self._runs.count(*codes, step, work.queries, work.counts, wanted, work.bounds.bounds, work.ended)
        self._runs.limit(*codes, step, work.queries, work.counts, wanted, spare, work.bounds)
        self._runs.keep(*codes, work.queries, work.bounds, *keys)
        self._runs.pick(*keys, work.k, work.nearest, work.picked)

    def _is_asked_again(self, n_queries: int, k: int) -> bool:
        """Whether a search is worth recording: one query always is, several are when they come a second time."""
        is_again = n_queries == 1 or self._asked == (n_queries, k)
        self._asked = (n_queries, k)
        return is_again

    def _replayed(self, queries: np.ndarray, k: int) -> np.ndarray | None:
        """The answer by a recording, if there is one."""
        with self._lock:  # as the arrays of a recording are used again
            recording = self._recordings.pop((len(queries), k), None)
            if recording is None:
                return None
            self._recordings[len(queries), k] = recording  # the last one is the one used last
            return recording.replay(queries)

    def _record(self, work: _Work) -> None:
        """Record what the card has just done, for the next search of this kind, as each call to it costs microseconds;
        not where another thread spoils that, as one does that ends after it used cuBLAS."""
        with self._lock:
            try:
                with RECORDING:
                    recording = _Recording(self._xp, work, lambda: self._enqueue(work, self._alive))
            except self._xp.cuda.runtime.CUDARuntimeError:
                return
            while len(self._recordings) >= MOST_RECORDINGS:
                self._recordings.pop(next(iter(self._recordings)))
            self._recordings[work.queries.shape[0], work.k] = recording

    def _nearest_exactly(self, queries: Any, k: int, alive: Any | None) -> np.ndarray:
        """By counting all distances first."""
        sums = np.cumsum(self._counts(queries, alive), axis=1)
        bounds = (sums < k).sum(axis=1)
        rooms, limits = sums[np.arange(len(sums)), bounds], np.full(len(sums), NO_LIMIT)
        for q in np.flatnonzero(rooms > max(MOST_KEPT, 2 * k)):
            below = int(sums[q, bounds[q] - 1]) if bounds[q] else 0
            tallies = self._runs.tally(self._words, alive, self.n, CHUNK_GROUPS, queries[q : q + 1], int(bounds[q]))
            tallied = np.cumsum(self._fetched(tallies).astype(np.int64))
            chunk = int(np.searchsorted(tallied, k - below))
            limits[q], rooms[q] = (chunk + 1) * CHUNK_GROUPS * GROUP, below + int(tallied[chunk])
        answer, size = np.empty((len(sums), k), np.uint64), max(1, KEY_BYTES // (8 * int(rooms.max())))
        for start in range(0, len(sums), size):
            some = slice(start, start + size)
            answer[some] = self._kept(queries[some], bounds[some], limits[some], int(rooms[some].max()), k, alive)
        return answer

    @_on_its_card
    def within(self, queries: np.ndarray, radius: int, alive: Any | None = None) -> list[np.ndarray]:
        """All keys at a distance of at most `radius`, for each query."""
        alive = self._alive if alive is None else alive
        size, what, answers = max(1, KEY_BYTES // (8 * ROOM)), f"a search for {len(queries):,} queries", []
        for start in range(0, len(queries), size):
            some = queries[start : start + size]
            answers += self._with_room(what, partial(self._within, some, radius, alive))
        return answers

    def _within(self, asked: np.ndarray, radius: int, alive: Any | None) -> list[np.ndarray]:
        xp, n_queries = self._xp, len(asked)
        queries = xp.asarray(asked)
        found, keys = xp.zeros(n_queries, np.uint64), xp.zeros((n_queries, ROOM), np.uint64)
        bounds, limits = xp.full(n_queries, radius, np.int32), xp.full(n_queries, NO_LIMIT, np.int64)
        self._runs.keep(self._words, alive, self.n, queries, Bounds(bounds, limits), found, keys)
        numbers = self._fetched(found).astype(np.int64)
        widest = int(numbers[numbers <= ROOM].max(initial=0))
        lists = self._fetched(xp.ascontiguousarray(keys[:, :widest]))
        answers = []
        for q, number in enumerate(numbers):
            if number <= ROOM:
                answers.append(np.sort(lists[q, :number]))
            else:
                total = int(self._counts(queries[q : q + 1], alive)[0, : radius + 1].sum())
                one = slice(q, q + 1)
                answers.append(self._kept(queries[one], bounds[one], limits[one], total, total, alive)[0])
        return answers

    @_on_its_card
    def histograms(self, queries: np.ndarray, masks: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many codes lie at each distance of each query, and how many of them are relevant to it.

        Both are `(n_queries, farthest + 1)`. Masks have a bit for each position, 64 a word; `which` says which of them
        is each query's.
        """
        xp, size = self._xp, (len(queries), self.shape.farthest + 1)
        padded = np.zeros((len(masks), 2 * self.shape.n_groups(self.n)), np.uint64)
        padded[:, : masks.shape[1]] = masks

        def count() -> tuple[np.ndarray, np.ndarray]:
            counts, hits = xp.zeros(size, np.uint64), xp.zeros(size, np.uint64)
            relevant = Relevant(xp.asarray(padded), xp.asarray(which.astype(np.int32)), hits)
            self._runs.count(self._words, self._alive, self.n, 1, xp.asarray(queries), counts, relevant=relevant)
            return self._fetched(counts).astype(np.int64), self._fetched(hits).astype(np.int64)

        return self._with_room(f"the counts of {len(queries):,} queries", count)

    def _counts(self, queries: Any, alive: Any | None) -> np.ndarray:
        counts = self._xp.zeros((len(queries), self.shape.farthest + 1), np.uint64)
        self._runs.count(self._words, alive, self.n, 1, queries, counts)
        return self._fetched(counts).astype(np.int64)

    def _kept(self, queries: Any, bounds: Any, limits: Any, room: int, k: int, alive: Any | None) -> np.ndarray:
        """The k least keys of each query within its bound and limit, of which there are at most `room`, in order."""
        xp, card, size = self._xp, self._runs.card(), len(queries) * room
        if card is not None:  # to sort them takes as much again, and again for what is whose
            check_room(card, 4 * 8 * size, f"an answer of {size:,} items")
        found, keys = xp.zeros(len(queries), np.uint64), xp.full((len(queries), room), _NO_KEY, np.uint64)
        ends = Bounds(xp.asarray(bounds, np.int32), xp.asarray(limits, np.int64))
        self._runs.keep(self._words, alive, self.n, queries, ends, found, keys)
        return self._fetched(xp.ascontiguousarray(xp.sort(keys, axis=1)[:, :k]))

    def _wait(self) -> None:
        """Until the card has done what changes codes, as recordings run beside it."""
        if self._xp is not np:
            self._xp.cuda.get_current_stream().synchronize()

    def _fetched(self, array: Any) -> np.ndarray:
        on_host: np.ndarray = array if self._xp is np else self._xp.asnumpy(array)
        return on_host


class _Work:
    """The arrays of a search for the k nearest of some queries."""

    def __init__(self, xp: Any, shape: Shape, n_queries: int, k: int, room: int) -> None:
        bins, self.k = shape.farthest + 1, k
        self.queries = xp.empty((n_queries, shape.row), np.uint32)
        self.zeros = xp.zeros(n_queries * (bins + 2) + 1, np.uint64)
        self.counts = self.zeros[: n_queries * bins].reshape(n_queries, bins)
        self.found, ended = self.zeros[n_queries * bins : -1].reshape(2, n_queries)
        self.ended, past = ended.view(np.uint32), self.zeros[-1:].view(np.int64)
        bounds, beyond = xp.empty((2, n_queries), np.int32)
        self.bounds = Bounds(bounds, xp.empty(n_queries, np.int64), past, beyond)
        self.keys = xp.empty((n_queries, room), np.uint64)
        self.answer = xp.empty(n_queries * (k + 1), np.uint64)
        self.nearest, self.picked = self.answer[: n_queries * k].reshape(n_queries, k), self.answer[n_queries * k :]


class _Recording:
    """A graph of all steps on the card, from the queries in the memory of the host to the answer there.

    All of them ran before, so that what has to be compiled or loaded is, as that cannot be recorded.
    """

    def __init__(self, xp: Any, work: _Work, enqueue: Callable[[], None]) -> None:
        import cupyx

        self._queries = cupyx.empty_pinned(work.queries.shape, np.uint32)
        self._answer = cupyx.empty_pinned(work.answer.shape, np.uint64)
        self._work, self._stream = work, xp.cuda.Stream(non_blocking=True)
        copy_, runtime = xp.cuda.runtime.memcpyAsync, xp.cuda.runtime
        with self._stream as stream:
            stream.begin_capture()
            sizes = work.queries.nbytes, work.answer.nbytes
            try:
                copy_(
                    work.queries.data.ptr, self._queries.ctypes.data, sizes[0], runtime.memcpyHostToDevice, stream.ptr
                )
                work.zeros.data.memset_async(0, work.zeros.nbytes, stream)
                enqueue()
                copy_(self._answer.ctypes.data, work.answer.data.ptr, sizes[1], runtime.memcpyDeviceToHost, stream.ptr)
            finally:  # a recording that was spoiled has to be ended too
                self._graph = stream.end_capture()

    def replay(self, queries: np.ndarray) -> np.ndarray:
        """The answer to other queries."""
        self._queries[...] = queries
        self._graph.launch(self._stream)
        self._stream.synchronize()
        return np.array(self._answer)
