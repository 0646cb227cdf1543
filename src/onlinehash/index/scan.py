"""The flat scan: every code is looked at, as fast as memory delivers it.

Distances are small integers, so the k nearest are picked by counting. Each query keeps a *bound*: the least distance D
such that k codes at distance D or less have been met. A later code at distance D or more cannot enter (equal distances
are ordered by position, and it comes later). What is below the bound goes into a short list, pruned when it is full.

Codes are taken in chunks that fit the nearest cache, and each chunk meets all queries before the next is fetched. A
query looks at four blocks of a chunk at a time, and notes where one comparison says that something may be below the
bound; it then goes through these places in the order of positions.

Which four blocks are taken together depends on the machine. Four blocks a quarter of the chunk apart are four streams
from memory; four that follow one another, read from the first byte to the last, are one. The answers are the same.
"""

from __future__ import annotations

import platform
from typing import Any, NamedTuple

import numpy as np

from onlinehash.codes.lanes import GROUP, any_below_in_order, any_below_in_streams, distances_below, lowest
from onlinehash.codes.layout import LANES
from onlinehash.numeric.kernels import njit

#: Bytes of codes that meet all queries before the next are fetched; the first chunks are shorter, because without a
#: bound everything in them must be looked at.
CHUNK_BYTES = 32 * 1024
FIRST_BLOCKS = 4 * GROUP


@njit(nogil=True, cache=True)
def _blocks_of_a_chunk(n_planes: int) -> int:
    """Whole groups, so that only the last chunk has blocks that are in none."""
    return max(GROUP, CHUNK_BYTES // (n_planes * LANES) // GROUP * GROUP)


@njit(nogil=True, cache=True)
def _prune(distances: np.ndarray, positions: np.ndarray, length: int, bound: int, at_bound: int) -> int:
    """Keep what is nearer than the bound, and the first few at the bound; the new length."""
    kept = 0
    for i in range(length):
        if distances[i] < bound or (distances[i] == bound and at_bound > 0):
            at_bound -= distances[i] == bound
            distances[kept] = distances[i]
            positions[kept] = positions[i]
            kept += 1
    return kept


@njit(nogil=True, cache=True)
def _sort(
    distances: np.ndarray,
    positions: np.ndarray,
    length: int,
    counts: np.ndarray,
    bound: int,
    k: int,
    out_distances: np.ndarray,
    out_positions: np.ndarray,
) -> None:
    """A list in the order of positions becomes one in the order of (distance, position), cut or filled up to k."""
    total = 0
    for d in range(min(bound, counts.shape[0] - 1) + 1):  # counts become the places where each distance begins
        count = counts[d]
        counts[d] = total
        total += count
    for at in range(total, k):
        out_distances[at] = counts.shape[0]
        out_positions[at] = 0
    for i in range(length):
        d = distances[i]
        if d <= bound:
            at = counts[d]
            counts[d] += 1
            if at < k:
                out_distances[at] = d
                out_positions[at] = positions[i]


class Kernels(NamedTuple):
    """The scan in one of the two orders of reading; they are compiled when they are first called."""

    nearest: Any
    within: Any


def _make_nearest(in_streams: bool) -> Any:
    @njit(nogil=True, cache=True)
    def nearest(
        planes: np.ndarray,
        alive: np.ndarray,
        first_block: int,
        last_block: int,
        n_models: int,
        per_model: int,
        queries: np.ndarray,
        farthest: int,
        k: int,
        room: int,
        out_distances: np.ndarray,
        out_positions: np.ndarray,
    ) -> None:
        """The k nearest of the living codes in some blocks, by (distance, position).

        `queries` are spread over the lanes, `farthest` is the greatest distance there can be, `room` (more than k, or
        all codes) is the length of the lists. Where fewer than k live, the rest is farther than `farthest`.
        """
        n_queries = queries.shape[0]
        distances = np.empty(LANES, np.uint16)
        list_distances = np.empty((n_queries, room), np.uint16)
        list_positions = np.empty((n_queries, room), np.int64)
        lengths = np.zeros(n_queries, np.int64)
        counts = np.zeros((n_queries, farthest + 1), np.int64)  # of listed codes, by distance
        below = np.zeros(n_queries, np.int64)  # listed codes that are nearer than the bound
        bounds = np.full(n_queries, farthest + 1, np.int64)
        longest = _blocks_of_a_chunk(n_models * per_model)
        noted = np.empty(longest // GROUP, np.int64)
        start, chunk = first_block, FIRST_BLOCKS
        while start < last_block:
            chunk = min(2 * chunk, longest)
            stop = min(start + chunk, last_block)
            n_groups = (stop - start) // GROUP
            for q in range(n_queries):
                bound, n_below, length = bounds[q], below[q], lengths[q]
                if bound == 0:
                    continue
                n_noted = 0
                for i in range(n_groups):
                    if in_streams:
                        near = any_below_in_streams(planes, start + i, n_models, per_model, queries[q], bound, n_groups)
                    else:
                        near = any_below_in_order(planes, start + GROUP * i, n_models, per_model, queries[q], bound)
                    if near:
                        noted[n_noted] = i
                        n_noted += 1
                for turn in range(GROUP * n_noted + (stop - start) % GROUP):
                    if turn >= GROUP * n_noted:  # the few blocks that are in no group
                        block = start + GROUP * n_groups + turn - GROUP * n_noted
                    elif in_streams:  # the noted places of the first stream, then those of the second, ...
                        block = start + turn // n_noted * n_groups + noted[turn % n_noted]
                    else:
                        block = start + GROUP * noted[turn // GROUP] + turn % GROUP
                    mask = distances_below(planes, block, n_models, per_model, queries[q], bound, distances)
                    mask &= alive[block]
                    while mask != np.uint64(0):
                        lane = lowest(mask)
                        mask &= mask - np.uint64(1)
                        distance = np.int64(distances[lane])
                        if distance >= bound:
                            continue
                        if length == room:
                            length = _prune(list_distances[q], list_positions[q], length, bound, k - n_below)
                        list_distances[q, length] = distance
                        list_positions[q, length] = block * LANES + lane
                        length += 1
                        counts[q, distance] += 1
                        n_below += 1
                        while n_below >= k:
                            bound -= 1
                            n_below -= counts[q, bound]
                bounds[q], below[q], lengths[q] = bound, n_below, length
            start = stop
        for q in range(n_queries):
            _sort(
                list_distances[q],
                list_positions[q],
                lengths[q],
                counts[q],
                bounds[q],
                k,
                out_distances[q],
                out_positions[q],
            )

    return nearest


def _make_within(in_streams: bool) -> Any:
    @njit(nogil=True, cache=True)
    def within(
        planes: np.ndarray,
        alive: np.ndarray,
        n_models: int,
        per_model: int,
        queries: np.ndarray,
        bound: int,
        resume: np.ndarray,
        out_queries: np.ndarray,
        out_distances: np.ndarray,
        out_positions: np.ndarray,
    ) -> int:
        """All living codes nearer than the bound, by position for each query; how many were written.

        `resume` (chunk's first block, query, block) says where to go on; when its first entry is the number of blocks,
        everything was seen. It stops early when less than a group's room is left, to be called again with more.
        """
        distances = np.empty(LANES, np.uint16)
        n_blocks, n_queries, room = planes.shape[0], queries.shape[0], out_queries.shape[0]
        chunk = _blocks_of_a_chunk(n_models * per_model)
        start, q, block = resume[0], resume[1], resume[2]
        found = 0
        while start < n_blocks:
            stop = min(start + chunk, n_blocks)
            while q < n_queries:
                while block < stop:
                    group = min(GROUP, stop - block)
                    if group < GROUP:
                        near = True
                    elif in_streams:
                        near = any_below_in_streams(planes, block, n_models, per_model, queries[q], bound, 1)
                    else:
                        near = any_below_in_order(planes, block, n_models, per_model, queries[q], bound)
                    if not near:
                        block += GROUP
                        continue
                    if found + group * LANES > room:
                        resume[0], resume[1], resume[2] = start, q, block
                        return found
                    for here in range(block, block + group):
                        mask = distances_below(planes, here, n_models, per_model, queries[q], bound, distances)
                        mask &= alive[here]
                        while mask != np.uint64(0):
                            lane = lowest(mask)
                            mask &= mask - np.uint64(1)
                            out_queries[found] = q
                            out_distances[found] = distances[lane]
                            out_positions[found] = here * LANES + lane
                            found += 1
                    block += group
                q += 1
                block = start
            q = 0
            start = stop
            block = start
        resume[0], resume[1], resume[2] = start, q, block
        return found

    return within


IN_STREAMS, IN_ORDER = (Kernels(_make_nearest(streams), _make_within(streams)) for streams in (True, False))

#: The order for this machine. Four streams are faster on x86-64, where one load of a query's byte then serves four
#: blocks. A Neoverse N1, the one ARM core that was measured (docs/explanation/performance/search.md), reads a single
#: stream faster, and the 32 registers of 16 bytes that all ARM cores have do not hold the sums of four blocks.
kernels = IN_STREAMS if platform.machine().lower() in ("x86_64", "amd64") else IN_ORDER
