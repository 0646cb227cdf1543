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

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from onlinehash.codes.lanes import distances_below, lowest
from onlinehash.codes.layout import LANES
from onlinehash.codes.words import TOGETHER, bits_at, popcount, prefetch, words_below
from onlinehash.index.substrings import LONGEST, Tables, word_of, word_start

#: Costs in nanoseconds, of which only the ratios count: to look up a bucket, to compare an item in it; and, for one
#: that may be near, to ask each table whether it was met before, and to fetch its row if its word is not all of it.
LOOK_UP, COMPARE, ASK, FETCH = 20.0, 1.0, 30.0, 150.0

#: About so many times k items are followed and taken on the way to the k nearest.
TAKEN = 4

#: The share of a scan's cost that a search within a radius may spend on what it takes, and what it may take anyway.
TAKING, LEAST_ROOM = 0.25, 64

#: A byte of all codes in a scan for one query, or for each of many.
SCAN_ONE, SCAN_MANY = 0.06, 0.0125

#: The share of a scan's cost that may be spent before it is known what the search will cost, and how much nearer than
#: after that trial the k-th nearest will turn out to be.
TRIAL, HOPE = 0.05, 2

#: Look-ups that are under way in memory at the same time.
AHEAD = 32

#: Substrings of the greatest distance that is looked up are at most so many.
MOST_MASKS = 1 << 16

GAVE_UP = -1

_POSITION_BITS = 40
_NEVER = 1 << 30
_ALL = 1 << 40
_BINOMIALS = np.array([[math.comb(width, s) for s in range(LONGEST + 2)] for width in range(LONGEST + 1)])


class Masks(NamedTuple):
    """All patterns of differing bits in a substring: those of s bits are `patterns[ends[s]:ends[s + 1]]`, ascending.

    Ascending patterns of a shorter substring are the first of a longer one's, so all tables can share them.
    """

    patterns: np.ndarray
    ends: np.ndarray


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


def masks_for(width: int) -> Masks:
    """Masks for substrings of at most `width` bits."""
    patterns = [_patterns(width, s) for s in range(width + 1) if math.comb(width, min(s, width // 2)) <= MOST_MASKS]
    masks = Masks(np.concatenate(patterns), np.cumsum([0, *map(len, patterns)]))
    for array in masks:
        array.flags.writeable = False
    return masks


def distances_of(keys: np.ndarray) -> np.ndarray:
    """A key is a distance above the 40 bits of a position, so that keys are ordered as hits are."""
    return keys >> _POSITION_BITS


def positions_of(keys: np.ndarray) -> np.ndarray:
    """The positions of keys."""
    return keys & ((1 << _POSITION_BITS) - 1)


@njit(cache=True)
def _patterns(width: int, s: int) -> np.ndarray:
    """All numbers below 2^width with s set bits, ascending."""
    n = 1
    for i in range(s):
        n = n * (width - i) // (i + 1)
    out = np.empty(n, np.uint32)
    value = np.int64((1 << s) - 1)
    for i in range(n):
        out[i] = value
        if value:
            low = value & -value  # the next number with as many set bits: the lowest run of ones moves up by one
            up = value + low
            value = up | ((value ^ up) // low >> 2)
    return out


def room_within(tables: Tables, scan_cost: float) -> int:
    """How many items may be taken before a scan would be cheaper."""
    return max(LEAST_ROOM, int(TAKING * scan_cost / _cost_to_follow(len(tables.starts), len(tables.rows))))


def gives_up_at_once(tables: Tables, k: int, scan_cost: float) -> bool:
    """Would a scan be cheaper than to take as many items as k asks for?"""
    return TAKEN * k * _cost_to_follow(len(tables.starts), len(tables.rows)) > TRIAL * scan_cost


@njit(nogil=True, cache=True)
def _cost_to_follow(n_tables: int, n_rows: int) -> float:
    return ASK * n_tables + (FETCH if n_rows else 0.0)


@njit(nogil=True, cache=True)
def nearest(
    haystack: Haystack,
    queries: np.ndarray,
    spread_queries: np.ndarray,
    k: int,
    farthest: np.ndarray,
    scan_cost: float,
    scratch: np.ndarray,
    keys: np.ndarray,
    work: np.ndarray,
) -> np.ndarray:
    """The k nearest of each query within the distance `farthest[q]`, in order, into `keys`; their numbers, or GAVE_UP.

    `scratch` is a list with room for more than k.
    """
    n_found = np.empty(queries.shape[0], np.int64)
    for q in range(queries.shape[0]):
        found = _search(
            haystack,
            queries,
            q,
            spread_queries[q],
            k,
            farthest[q],
            scan_cost,
            scratch,
            work[q],
        )
        for i in range(found):
            keys[q, i] = scratch[i]
        n_found[q] = found
    return n_found


@njit(nogil=True, cache=True)
def within(
    haystack: Haystack,
    queries: np.ndarray,
    spread_queries: np.ndarray,
    radius: int,
    scan_cost: float,
    room: int,
    keys: np.ndarray,
    n_found: np.ndarray,
    work: np.ndarray,
) -> int:
    """All items within the radius, in order, query after query in `keys`; `n_found` has their numbers, or GAVE_UP.

    A query that finds more than `room` gives up. Returns how many queries `keys` had room for.
    """
    used = 0
    for q in range(queries.shape[0]):
        if used + room > keys.shape[0]:
            return q
        found = _search(
            haystack,
            queries,
            q,
            spread_queries[q],
            _ALL,
            radius,
            scan_cost,
            keys[used : used + room],
            work[q],
        )
        n_found[q] = found
        used += max(found, 0)
    return queries.shape[0]


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
    follow = _cost_to_follow(m, rows.shape[0])
    to_take = 0.0 if k == _ALL else TAKEN * k * follow
    spent = 0.0
    step = 0
    while step <= limit:
        table = _cheapest(widths, levels, prices)
        level = levels[table]
        if level > widths[table]:
            break  # there is nothing that was not met
        n_masks = _BINOMIALS[widths[table], level]
        steps_left = limit + 1 - step - HOPE
        if level >= masks.ends.shape[0] - 1 or (
            spent + n_masks * prices[table] > TRIAL * scan_cost
            and spent + to_take + _cost_of_steps(steps_left, widths, levels, prices, scan_cost) > scan_cost
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
                for at in range(begin, end, TOGETHER):
                    near = words_below(table_words, at, word, limit + 1)
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
                            found, n_near, limit, worst = _take(key, keys, found, counts, n_near, limit, worst, k)
                            if found == GAVE_UP:
                                return GAVE_UP
                            taken += 1
        work[0] += n_masks
        work[1] += compared
        cost = LOOK_UP * n_masks + COMPARE * compared + follow * (followed - taken)
        prices[table] = cost / n_masks
        spent += cost + (follow * taken if k == _ALL else 0.0)  # of the k nearest it is in `to_take`
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
    """Did no earlier step meet the item?"""
    for j in range(substrings.shape[0]):
        if rows.shape[0] == 0:
            kept = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - widths[j])
            substring = (word >> np.uint64(starts[j])) & kept
        else:
            substring = bits_at(rows, position, starts[j], widths[j])
        if step_of[j, popcount(substring ^ np.uint64(substrings[j]))] < step:
            return False
    return True


@njit(nogil=True, cache=True)
def _cheapest(widths: np.ndarray, levels: np.ndarray, prices: np.ndarray) -> int:
    """The table whose next distance costs the least, if its buckets cost what they did at its last one."""
    table, least = 0, np.inf
    for j in range(widths.shape[0]):
        if levels[j] <= widths[j]:
            cost = _BINOMIALS[widths[j], levels[j]] * prices[j]
            if cost < least:
                table, least = j, cost
    return table


@njit(nogil=True, cache=True)
def _cost_of_steps(n: int, widths: np.ndarray, levels: np.ndarray, prices: np.ndarray, enough: float) -> float:
    """What the next n steps would cost, or more than enough."""
    levels = levels.copy()
    total = 0.0
    for _ in range(n):
        table = _cheapest(widths, levels, prices)
        total += _BINOMIALS[widths[table], levels[table]] * prices[table]
        levels[table] += 1
        if total > enough:
            break
    return total
