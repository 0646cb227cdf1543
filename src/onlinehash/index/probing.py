"""Multi-index hashing: exact search by look-ups in the tables of `substrings`.

M. Norouzi, A. Punjani, D. J. Fleet: Fast Exact Search in Hamming Space With Multi-Index Hashing. TPAMI 36(6), 2014.

A *step* looks up all buckets of one table at one distance from the query's substring. However the steps are spread over
the tables (each table taking distance 0 first, then 1, ...), after t of them every item within a distance of t - 1 has
been met. The paper goes round the tables in turn; here each step takes the table whose next distance looks cheapest
for this query, because real codes fill their buckets very unevenly.

The search is over when the k-th nearest item met so far lies within the distance that is covered: then all ties are
known too, and the first inserted win. It *gives up* when it looks dearer than a scan of all codes.

Items are met once for each table, and counted by the first step that meets them, which the distances between substrings
tell; there is no list of visited items.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onlinehash.codes.lanes import distances_below, lowest
from onlinehash.codes.layout import LANES
from onlinehash.codes.words import TOGETHER, bits_at, popcount, prefetch, words_below
from onlinehash.index import costs
from onlinehash.index.costs import BINOMIALS, COMPARE, HOPE, LOOK_UP, TAKEN, TRIAL
from onlinehash.index.masks import Masks
from onlinehash.index.substrings import LONGEST, Tables, word_of, word_start
from onlinehash.numeric.kernels import njit

#: Look-ups that are under way in memory at the same time.
AHEAD = 32

GAVE_UP = -1

#: As k: all within the distance.
ALL = 1 << 40

_POSITION_BITS = 40
_NEVER = 1 << 30


class Fresh(NamedTuple):
    """Items that are not in the tables: the blocks they are in, and which lanes of these they are."""

    planes: np.ndarray
    blocks: np.ndarray
    lanes: np.ndarray
    settled: np.ndarray  # of every block, the lanes whose items are alive and as the tables have them


class Haystack(NamedTuple):
    """Where a model is searched. `fresh` items are compared under the fusion of all models, `per_model` planes each."""

    tables: Tables
    masks: Masks
    fresh: Fresh
    n_models: int
    per_model: int
    n_bits: int


def distances_of(keys: np.ndarray) -> np.ndarray:
    """A key is a distance above the 40 bits of a position, so that keys are ordered as hits are."""
    return keys >> _POSITION_BITS


def positions_of(keys: np.ndarray) -> np.ndarray:
    """The positions of keys."""
    return keys & ((1 << _POSITION_BITS) - 1)


@njit(nogil=True, cache=True)
def search(
    haystack: Haystack,
    queries: np.ndarray,
    spread_queries: np.ndarray,
    k: int,
    farthest: np.ndarray,
    scan_cost: float,
    room: int,
    keys: np.ndarray,
    n_found: np.ndarray,
    work: np.ndarray,
) -> int:
    """The k nearest of each query within the distance `farthest[q]`, in order, query after query in `keys`.

    `n_found` gets their numbers, or GAVE_UP. A list has `room` for more than k; with k = ALL, who finds more gives up.
    Returns how many queries were answered before `keys` was full.
    """
    n_queries: int = queries.shape[0]
    used = 0
    for q in range(n_queries):
        if used + room > keys.shape[0]:
            return q
        list_ = keys[used : used + room]
        found = _search(haystack, queries, q, spread_queries[q], k, farthest[q], scan_cost, list_, work[q])
        n_found[q] = found
        used += max(found, 0)
    return n_queries


@njit(nogil=True, cache=True)
def _search(
    haystack: Haystack,
    queries: np.ndarray,
    q: int,
    spread_query: np.ndarray,
    k: int,
    farthest: int,
    scan_cost: float,
    keys: np.ndarray,
    work: np.ndarray,
) -> int:
    """One query: the k nearest as sorted keys; `work` counts look-ups and comparisons."""
    # Taken out of their tuples here, because Numba would count references each time in the loops.
    tables, masks, fresh, n_models, per_model, n_bits = haystack
    starts, widths, rows = tables.starts, tables.widths, tables.rows
    planes, settled = fresh.planes, fresh.settled
    m = starts.shape[0]
    n_items = tables.positions.shape[1]  # which a damaged file cannot exceed
    counts = np.zeros(farthest + 1, np.int64)  # of items met, by distance
    limit = farthest  # how near an item must be to matter
    n_near = 0  # items met within the limit
    found = 0  # keys in the list
    worst: Any = np.int64(farthest + 1) << _POSITION_BITS  # keys from here on do not matter

    distances = np.empty(LANES, np.uint16)
    for i in range(fresh.blocks.shape[0]):
        block = fresh.blocks[i]
        near = distances_below(planes, block, n_models, per_model, spread_query, limit + 1, distances)
        near &= fresh.lanes[i]
        while near != np.uint64(0):
            lane = lowest(near)
            near &= near - np.uint64(1)
            key = np.int64(distances[lane]) << _POSITION_BITS | (block * LANES + lane)
            if key < worst:
                found, n_near, limit, worst = _take(key, keys, found, counts, n_near, limit, worst, k)
                if found == GAVE_UP:
                    return GAVE_UP

    substrings = np.empty(m, np.int64)
    words = np.empty(m, np.uint64)
    levels = np.zeros(m, np.int64)  # the next distance of each table
    prices = np.empty(m, np.float64)  # what a bucket of it cost at its last distance
    step_of = np.full((m, LONGEST + 1), _NEVER)  # which step took distance s in table j
    for j in range(m):
        substrings[j] = np.int64(bits_at(queries, q, starts[j], widths[j]))
        words[j] = word_of(queries, q, word_start(starts[j] + widths[j], n_bits), n_bits)
        bucket = substrings[j]
        size = np.int64(tables.offsets[j, bucket + 1]) - np.int64(tables.offsets[j, bucket])
        prices[j] = LOOK_UP + COMPARE * size
    follow = costs.to_follow(m, rows.shape[0])
    to_take, trial, hope = TAKEN * k, TRIAL * scan_cost, HOPE
    if k == ALL:  # a radius is what it is, and everything in it is taken
        to_take, trial, hope = 0, 0.0, 0
    n_taken, spent = 0, 0.0
    step = 0
    while step <= limit:
        table = costs.cheapest(widths, levels, prices)
        if table < 0:
            break  # everything was met
        level = levels[table]
        n_masks = BINOMIALS[widths[table], level]
        steps_left = limit + 1 - step - hope
        if level >= masks.ends.shape[0] - 1 or (
            spent + n_masks * prices[table] > trial
            and spent + to_take * follow + costs.of_steps(steps_left, widths, levels, prices, scan_cost) > scan_cost
        ):
            return GAVE_UP
        step_of[table, level] = step
        patterns = masks.patterns[masks.ends[level] : masks.ends[level] + n_masks]
        substring, word = substrings[table], words[table]
        offsets, positions, table_words = tables.offsets[table], tables.positions[table], tables.words[table]
        compared, followed, taken = 0, 0, 0
        for first in range(0, n_masks, AHEAD):
            last = min(first + AHEAD, n_masks)
            for i in range(last, min(last + AHEAD, n_masks)):
                prefetch(offsets, substring ^ np.int64(patterns[i]))
            for i in range(first, last):
                prefetch(table_words, np.int64(offsets[substring ^ np.int64(patterns[i])]))
            for i in range(first, last):
                bucket = substring ^ np.int64(patterns[i])
                begin, end = np.int64(offsets[bucket]), min(np.int64(offsets[bucket + 1]), n_items)
                compared += max(end - begin, 0)
                from_here = 0  # taken from this bucket within the limit: of k such, later ones lose every tie
                for at in range(begin, end, TOGETHER):
                    bound = limit + 1 - (from_here >= k)
                    if bound == 0:
                        break
                    near = words_below(table_words, at, word, bound)
                    if near == np.uint64(0):
                        continue
                    if end - at < TOGETHER:
                        near &= (np.uint64(1) << np.uint64(end - at)) - np.uint64(1)
                    while near != np.uint64(0):
                        item = at + lowest(near)
                        near &= near - np.uint64(1)
                        followed += 1
                        position = np.int64(positions[item])
                        if position >= n_items:
                            continue
                        distance = _distance(rows, position, queries, q, table_words[item])
                        key = distance << _POSITION_BITS | position
                        if (
                            key < worst
                            and settled[position // LANES] >> np.uint64(position % LANES) & np.uint64(1)
                            and _is_new(starts, widths, rows, substrings, table_words[item], position, step_of, step)
                        ):
                            old_limit = limit
                            found, n_near, limit, worst = _take(key, keys, found, counts, n_near, limit, worst, k)
                            if found == GAVE_UP:
                                return GAVE_UP
                            taken += 1
                            from_here = from_here + 1 if limit == old_limit else 0
        work[0] += n_masks
        work[1] += compared
        n_taken += taken
        cost = LOOK_UP * n_masks + COMPARE * compared + follow * (followed - taken)
        prices[table] = cost / n_masks
        spent += cost + follow * min(taken, max(n_taken - to_take, 0))
        levels[table] += 1
        step += 1
    keys[:found].sort()
    return min(found, k)


@njit(nogil=True, cache=True, inline="always")
def _take(
    key: Any, keys: np.ndarray, found: int, counts: np.ndarray, n_near: int, limit: int, worst: Any, k: int
) -> tuple[int, int, int, Any]:
    """List a key that is below the worst; the new `found` (or GAVE_UP for want of room), `n_near`, `limit`, `worst`."""
    if found == keys.shape[0]:
        if k >= found:
            return GAVE_UP, n_near, limit, worst
        keys.sort()
        found, worst = k, keys[k - 1]
        if key >= worst:
            return found, n_near, limit, worst
    keys[found] = key
    counts[key >> _POSITION_BITS] += 1
    n_near += 1
    while n_near - counts[limit] >= k:  # k items are nearer than the limit
        n_near -= counts[limit]
        limit -= 1
        worst = min(worst, (limit + 1) << _POSITION_BITS)
    return found + 1, n_near, limit, worst


@njit(nogil=True, cache=True, inline="always")
def _distance(rows: np.ndarray, position: Any, queries: np.ndarray, q: int, word: Any) -> Any:
    """The distance of a query to an item, whose word is all of its code if there are no rows."""
    if rows.shape[0] == 0:
        distance = popcount(word ^ queries[q, 0])
    else:
        distance = np.int64(0)
        for w in range(queries.shape[1]):
            distance += popcount(rows[position, w] ^ queries[q, w])
    return distance


@njit(nogil=True, cache=True, inline="always")
def _is_new(
    starts: np.ndarray,
    widths: np.ndarray,
    rows: np.ndarray,
    substrings: np.ndarray,
    word: Any,
    position: Any,
    step_of: np.ndarray,
    step: int,
) -> bool:
    """Whether no earlier step met the item."""
    for j in range(substrings.shape[0]):
        if rows.shape[0] == 0:
            kept = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - widths[j])
            substring = (word >> np.uint64(starts[j])) & kept
        else:
            substring = bits_at(rows, position, starts[j], widths[j])
        if step_of[j, popcount(substring ^ np.uint64(substrings[j]))] < step:
            return False
    return True
