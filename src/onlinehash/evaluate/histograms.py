"""Two counts for each query and distance: how many items lie there, and how many of them are relevant.

All that a ranking by Hamming distance can say about codes is in them, and they are small whatever the base, so nobody
sorts and nobody keeps the distances. Codes are taken in chunks that fit the cache; each meets all queries of a block.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes, fused_distances
from onlinehash.codes.hamming import check_same_width, fused_planes
from onlinehash.codes.lanes import distances_below, lowest, spread
from onlinehash.codes.layout import LANES
from onlinehash.errors import InvalidInput
from onlinehash.evaluate.truth import Truth
from onlinehash.gpu.card import check_device
from onlinehash.gpu.codes import CardCodes, Runs
from onlinehash.gpu.kernels import Kernels
from onlinehash.gpu.shape import Shape
from onlinehash.index import threads
from onlinehash.numeric.kernels import njit

#: Bytes that relevance, counts and, for the stored order, rankings may take for a block of queries.
BLOCK_BYTES = 2**25

#: The same where a card counts, which is asked less often the more it is asked.
CARD_BYTES = 2**30

#: Bytes of codes that meet all queries of a block before the next are fetched.
CHUNK_BYTES = 256 * 1024

#: Counters of one distance, taken in turn: an addition need not wait for the one before to reach memory.
TURNS = 4


class Histograms:
    """Queries, a base and a truth that fit together, and the counts for blocks of the queries."""

    def __init__(
        self, queries: Codes, base: Codes, truth: Truth, fusion: str, n_jobs: int, device: str | None = None
    ) -> None:
        check_same_width(queries, base)
        if len(queries) == 0 or len(base) == 0:
            raise InvalidInput(expected="at least one query and one code in the base", got=f"{queries!r} and {base!r}")
        checks.same_length("the truth", truth.n_queries, len(queries), "X_query")
        checks.same_length("the truth", truth.n_base, len(base), "X_base")
        checks.parameters(
            "evaluate", {"n_jobs": n_jobs}, {"n_jobs": checks.either(checks.integer(1), checks.integer(-1, -1))}
        )
        self.queries, self.base, self.truth, self.fusion, self.n_jobs = queries, base, truth, fusion, n_jobs
        self.n_models, self.per_model = fused_planes(base, fusion)
        self.n_distances = 1 + (base.n_bits if fusion == "min" else base.n_columns)
        self._card = None
        if check_device(device):
            self._card = CardCodes(self._make_runs(Shape(self.n_models, self.per_model)))
            self._card.put(base.planes, len(base))

    def _make_runs(self, shape: Shape) -> Runs:
        return Kernels(shape)

    def blocks(self, with_order: bool = False) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray | None]]:
        """Slices of queries, `items` and `hits` `(queries, distances)`, and, where it is wished, the stored order.

        The latter says what is relevant in the base sorted by distance, ties as they come in the base, uint8
        `(queries, n_base)`.
        """
        bits = 1 if self.truth.packed else 9  # an item's relevance, as booleans first where they have to be packed
        item_bytes = 4 + bits / 8 if with_order else bits / 8
        room = BLOCK_BYTES if self._card is None else CARD_BYTES
        size = max(1, int(room / (len(self.base) * item_bytes + 8 * (TURNS + 2) * self.n_distances)))
        n_masks = self.truth.n_masks
        if self._card is not None and not with_order and n_masks and n_masks * len(self.base) < 8 * CARD_BYTES:
            size = len(self.queries)  # all masks fit at once, and each is made only once
        for start in range(0, len(self.queries), size):
            rows = slice(start, min(start + size, len(self.queries)))
            masks, which = self.truth.masks(rows)
            queries = self.queries[rows]
            order = self._order(queries, masks, which) if with_order else None
            yield rows, *self._counts(queries, masks, which), order

    def _counts(self, codes: Codes, masks: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._card is not None:
            items, hits = self._card.histograms(self._card.shape.words_of(codes.rows()), masks, which)
            return items[:, : self.n_distances], hits[:, : self.n_distances]  # words are longer than codes
        queries = spread(codes.rows())
        items = np.zeros((len(queries), TURNS, self.n_distances), np.int64)
        hits = np.zeros((len(queries), self.n_distances), np.int64)
        chunk = max(1, CHUNK_BYTES // (self.base.n_planes * LANES))

        def count(rows: slice) -> None:
            planes, n = self.base.planes, len(self.base)
            _count(
                planes,
                n,
                self.n_models,
                self.per_model,
                chunk,
                queries[rows],
                masks,
                which[rows],
                items[rows],
                hits[rows],
            )

        threads.share(count, len(queries), self.n_jobs)
        return items.sum(axis=1), hits

    def _order(self, queries: Codes, masks: np.ndarray, which: np.ndarray) -> np.ndarray:
        distances = fused_distances(queries, self.base, self.fusion)
        order = np.empty(distances.shape, np.uint8)
        _sort_relevance(distances, self.n_distances, masks, which, order)
        return order


@njit(nogil=True, cache=True)
def _count(
    planes: np.ndarray,
    n: int,
    n_models: int,
    per_model: int,
    chunk: int,
    queries: np.ndarray,
    masks: np.ndarray,
    which: np.ndarray,
    items: np.ndarray,
    hits: np.ndarray,
) -> None:
    """Adds to items[q, turn, distance] and hits[q, distance]."""
    distances = np.empty(LANES, np.uint16)
    whole = n // LANES
    for start in range(0, planes.shape[0], chunk):
        for q in range(queries.shape[0]):
            counts, relevant, found = items[q], masks[which[q]], hits[q]
            for block in range(start, min(start + chunk, planes.shape[0])):
                distances_below(planes, block, n_models, per_model, queries[q], 0, distances)
                if block < whole:
                    for lane in range(0, LANES, TURNS):
                        for turn in range(TURNS):
                            counts[turn, distances[lane + turn]] += 1
                else:
                    for lane in range(n - block * LANES):
                        counts[0, distances[lane]] += 1
                mask = relevant[block]
                while mask != np.uint64(0):
                    found[distances[lowest(mask)]] += 1
                    mask &= mask - np.uint64(1)


@njit(nogil=True, cache=True)
def _sort_relevance(
    distances: np.ndarray, n_distances: int, masks: np.ndarray, which: np.ndarray, out: np.ndarray
) -> None:
    """What is relevant, sorted by distance and within it as stored: a sort by counting."""
    for q in range(distances.shape[0]):
        places = np.zeros(n_distances + 1, np.int64)
        for j in range(distances.shape[1]):
            places[distances[q, j] + 1] += 1
        for c in range(n_distances):
            places[c + 1] += places[c]
        for j in range(distances.shape[1]):
            out[q, places[distances[q, j]]] = (masks[which[q], j // LANES] >> np.uint64(j % LANES)) & np.uint64(1)
            places[distances[q, j]] += 1
