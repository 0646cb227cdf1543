"""The kernels of `kernels.cu`, compiled for a shape of codes and launched with grids that fill the card."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np

from onlinehash.gpu.card import THREADS, Card, describe, load_cupy, source
from onlinehash.gpu.encoding import SignKernels
from onlinehash.gpu.shape import Bounds, Relevant, Shape

#: Threads of the block that sorts a query's list.
SORTING_THREADS = 1024
WARPS = THREADS // 32

#: Registers for the words of codes and queries in `many`, and the most sixteens of queries that it takes together.
WORD_REGISTERS, MOST_TILES = 96, 8

#: Up to so many queries bits are counted one pair at a time, which reads codes as fast as memory delivers them; of
#: codes of one word up to so many.
FEW_QUERIES, FEW_SHORT_QUERIES = 2, 4


class Kernels:
    """The kernels for one shape of codes. Arrays are CuPy's; what each kernel does is said in `kernels.cu`."""

    def __init__(self, shape: Shape) -> None:
        self.xp: Any = load_cupy()
        self.shape = shape
        device = self.xp.cuda.Device()
        self._device, self._processors = device.id, device.attributes["MultiProcessorCount"]
        self.most_tiles = most_tiles(shape)
        self._functions: dict[tuple[str, int, int], tuple[Any, int]] = {}

    def here(self) -> AbstractContextManager[Any]:
        """Within it, this thread uses the card that these kernels were made on."""
        device: AbstractContextManager[Any] = self.xp.cuda.Device(self._device)
        return device

    def card(self) -> Card:
        """The card as it is now."""
        return describe(self.xp)

    def signs(self) -> SignKernels:
        """The kernels that encode."""
        return SignKernels()

    def pack(self, planes: Any, blocks: Any | None, first: int, per_model: int, words: Any) -> None:
        """Blocks of 64 codes, in the planes of `codes.layout`, become blocks `blocks`, or `first`, first + 1, ..."""
        arguments = (planes, pointer(blocks), np.int64(first), np.int64(len(planes)), np.int32(per_model), words)
        self._launch("pack", -(-len(planes) * self.shape.row * 64 // THREADS), 1, THREADS, arguments)

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
    ) -> None:
        """counts[query, distance] += the living codes in every step-th group; bounds and hits where asked."""
        looked_at = -(-self.shape.n_groups(n) // step)
        parts = -(-looked_at // WARPS)
        for start in range(0, len(queries), 65535):  # the most that a grid has in its second direction
            rows = slice(start, start + 65535)
            self._launch(
                "count",
                parts,
                len(queries[rows]),
                THREADS,
                (
                    words,
                    pointer(alive),
                    np.int64(n),
                    np.int64(self.shape.n_groups(n)),
                    np.int64(step),
                    queries[rows],
                    counts[rows],
                    np.uint64(wanted),
                    pointer(None if bounds is None else bounds[rows]),
                    pointer(None if ended is None else ended[rows]),
                    pointer(None if relevant is None else relevant.masks),
                    pointer(None if relevant is None else relevant.which[rows]),
                    np.int64(0 if relevant is None else relevant.masks.shape[1]),
                    pointer(None if relevant is None else relevant.hits[rows]),
                ),
            )

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
    ) -> None:
        """Limits, and what goes with them, for bounds that `count` made."""
        codes = (words, pointer(alive), np.int64(n), np.int64(self.shape.n_groups(n)), np.int64(step))
        asked = (queries, counts, np.uint64(wanted), np.uint64(spare), *bounds)
        self._launch("limit", len(queries), 0, THREADS, (*codes, *asked))

    def tally(self, words: Any, alive: Any | None, n: int, per_chunk: int, query: Any, distance: int) -> Any:
        """How many living codes of each chunk of groups lie at this distance of the query."""
        n_groups = self.shape.n_groups(n)
        tallies = self.xp.empty(-(-n_groups // per_chunk), np.uint32)
        arguments = (words, pointer(alive), np.int64(n), np.int64(n_groups), np.int32(per_chunk), query)
        self._launch("tally", len(tallies), 0, THREADS, (*arguments, np.int32(distance), tallies))
        return tallies

    def keep(self, words: Any, alive: Any | None, n: int, queries: Any, bounds: Bounds, found: Any, keys: Any) -> None:
        """found[query] and keys[query] of what is within each query's bound and limit, in any order."""
        few = FEW_QUERIES if self.shape.row > 1 else FEW_SHORT_QUERIES
        if len(queries) > few and self.most_tiles:
            self.keep_many(words, alive, n, queries, bounds, found, keys)
        else:
            self.keep_few(words, alive, n, queries, bounds, found, keys)

    def keep_few(
        self, words: Any, alive: Any | None, n: int, queries: Any, bounds: Bounds, found: Any, keys: Any
    ) -> None:
        """By counting bits pair by pair."""
        n_groups, room = self.shape.n_groups(n), keys.shape[1]
        start = 0
        while start < len(queries):
            size = min(4, 1 << (len(queries) - start).bit_length() - 1)
            rows = slice(start, start + size)
            codes = (words, pointer(alive), np.int64(n), np.int64(n_groups))
            asked = (queries[rows], bounds.bounds[rows], bounds.limits[rows], found[rows], keys[rows], np.uint64(room))
            self._launch(f"few_{size}", -(-n_groups // (WARPS * _ahead(self.shape))), 0, THREADS, (*codes, *asked))
            start += size

    def keep_many(
        self, words: Any, alive: Any | None, n: int, queries: Any, bounds: Bounds, found: Any, keys: Any
    ) -> None:
        """By tensor cores, up to 128 queries in each pass over the codes."""
        n_groups, room, sixteens = self.shape.n_groups(n), keys.shape[1], -(-len(queries) // 16)
        passes = -(-sixteens // self.most_tiles)
        tiles = -(-sixteens // passes)
        codes = (words, pointer(alive), np.int64(n), np.int64(n_groups))
        asked = (queries, np.int32(len(queries)), bounds.bounds, bounds.limits, found, keys, np.uint64(room))
        ends = (pointer(bounds.past), pointer(bounds.beyond))
        sides = 1 if bounds.past is None else 2
        self._launch("many", -(-n_groups // WARPS), passes, THREADS, (*codes, *asked, *ends), tiles, sides)

    def pick(self, found: Any, keys: Any, k: int, out: Any, picked: Any) -> None:
        """out[query] = the k least keys of each query, in order, where picked[query] is not 0."""
        arguments = (found, keys, np.uint64(keys.shape[1]), np.int32(k), out, picked)
        self._launch("pick", len(found), 0, SORTING_THREADS, arguments)

    def _launch(
        self,
        name: str,
        parts: int,
        turns: int,
        threads: int,
        arguments: tuple[Any, ...],
        tiles: int = 0,
        sides: int = 1,
    ) -> None:
        """A grid of (parts, turns, sides), with no more parts than the card holds at a time, as its blocks go round; a
        kernel with 0 turns wants all its parts."""
        found = self._functions.get((name, threads, tiles))
        if found is None:
            function = _module(self._device, self.shape, tiles).get_function(name)
            occupancy = self.xp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
            found = function, self._processors * occupancy(function.kernel.ptr, threads, 0)
            self._functions[name, threads, tiles] = found
        function, held = found
        grid = (min(parts, held), turns, sides) if turns else (parts,)
        function(grid, (threads,), arguments)


def most_tiles(shape: Shape) -> int:
    """Sixteens of queries that `many` takes at a time; 0 where codes are too long for the registers."""
    products = shape.models * (1 if shape.words <= 2 else -(-shape.words // 4))
    quarters = {1: 4, 2: 2}.get(products, 1)
    return max(0, min(MOST_TILES, (WORD_REGISTERS - 4 * quarters * products) // (4 * products + 4)))


def _ahead(shape: Shape) -> int:
    """Groups that a warp of `few` reads before it looks at them: four words of a code, where it is shorter."""
    return max(1, 4 // shape.row)


def options(shape: Shape, tiles: int = 0) -> tuple[str, ...]:
    """What the compiler is told of a shape and, for `many`, of how many sixteens of queries there are."""
    values = {"WORDS": shape.words, "MODELS": shape.models, "AHEAD": _ahead(shape)} | (
        {"TILES": tiles} if tiles else {}
    )
    return ("-std=c++17", *(f"-D{name}={value}" for name, value in values.items()))


@cache
def _module(device: int, shape: Shape, tiles: int) -> Any:
    """The kernels compiled for a shape; CuPy keeps what it compiled on the disk."""
    return load_cupy().RawModule(code=source("kernels.cu"), options=options(shape, tiles))


def pointer(array: Any | None) -> Any:
    """An array as an argument of a kernel; null where there is none."""
    return np.uint64(0) if array is None else array
