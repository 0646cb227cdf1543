"""Codes on a card: every kernel beside its twin in NumPy, and the search beside brute force.

Without a card the twins run in the place of the kernels, so that all around the kernels is tested anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash.errors import InvalidInput, OnlineHashError
from onlinehash.gpu import codes as gpu_codes
from onlinehash.gpu.card import Card, fetch, load_cupy
from onlinehash.gpu.codes import CardCodes
from onlinehash.gpu.kernels import Kernels
from onlinehash.gpu.shape import GROUP, NO_LIMIT, POSITION_BITS, Bounds, Shape
from onlinehash.gpu.twins import Twins

#: (models, bytes of each): 24 to 512 bits, and several models; the last is too long for tensor cores.
SHAPES = [(1, 3), (1, 8), (1, 64), (3, 2), (3, 64)]


def has_card() -> bool:
    try:
        load_cupy()
    except OnlineHashError:
        return False
    return True


needs_card = pytest.mark.skipif(
    not has_card(), reason="there is no CUDA card with CuPy here; where there is one, `pip install -e '.[gpu]'` helps"
)
RUNS = [pytest.param(Twins, id="twins"), pytest.param(Kernels, id="card", marks=needs_card)]


class FakeCard:
    """In the place of what there really is: a card with so many bytes free."""

    free = 10**11

    def card(self) -> Card:
        return Card("full card", 10**12, self.free, 1)


def on_fake_card(runs: Any) -> Any:
    return type("OnFakeCard", (FakeCard, runs), {})


def make_rows(kind: str, n: int, shape: Shape, rng: np.random.Generator) -> np.ndarray:
    """Codes as rows of bytes."""
    width = shape.models * shape.per_model
    if kind == "equal":
        return np.tile(rng.integers(0, 256, width, np.uint8), (n, 1))
    if kind == "ties":  # few bits set: few distances
        return (rng.random((n, width)) < 0.2).astype(np.uint8)
    if kind == "clusters":  # one after the other, so that a sample sees some and misses some
        centres = rng.integers(0, 256, (5, width), np.uint8)
        noise = np.uint8(1) << rng.integers(0, 8, (n, width), np.uint8)
        return centres[np.sort(rng.integers(0, 5, n))] ^ np.where(rng.random((n, width)) < 0.3, noise, 0).astype(
            np.uint8
        )
    return rng.integers(0, 256, (n, width), np.uint8)


def planes_of(rows: np.ndarray) -> np.ndarray:
    """The layout of `codes.layout`, without its kernels."""
    padded = np.zeros((-(-len(rows) // 64) * 64, rows.shape[1]), np.uint8)
    padded[: len(rows)] = rows
    return np.ascontiguousarray(padded.reshape(-1, 64, rows.shape[1]).swapaxes(1, 2))


def masks_of(living: np.ndarray) -> np.ndarray:
    padded = np.zeros(-(-len(living) // 64) * 64, np.bool_)
    padded[: len(living)] = living
    return np.packbits(padded, bitorder="little").view(np.uint64)


def all_keys(rows: np.ndarray, query: np.ndarray, shape: Shape, living: np.ndarray) -> np.ndarray:
    """The keys of all that live, in order: brute force."""
    bits = np.bitwise_count(rows ^ query).astype(np.int64).reshape(len(rows), shape.models, shape.per_model)
    distances = bits.sum(axis=2).min(axis=1).astype(np.uint64)
    keys = distances << np.uint64(POSITION_BITS) | np.arange(len(rows), dtype=np.uint64)
    return np.sort(keys[living])


def card_codes(runs: Any, shape: Shape, rows: np.ndarray) -> CardCodes:
    card = CardCodes(runs(shape))
    card.put(planes_of(rows), len(rows))
    return card


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which a few thousand codes take every path."""
    monkeypatch.setattr(gpu_codes, "SAMPLED", 8)
    monkeypatch.setattr(gpu_codes, "ROOM", 512)
    monkeypatch.setattr(gpu_codes, "MOST_KEPT", 700)
    monkeypatch.setattr(gpu_codes, "CHUNK_GROUPS", 2)
    monkeypatch.setattr(gpu_codes, "UPLOADED_BYTES", 50_000)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize(("models", "per_model"), SHAPES)
def test_search_equals_brute_force(runs: Any, models: int, per_model: int) -> None:
    rng, shape = np.random.default_rng([models, per_model]), Shape(models, per_model)
    for kind in ("clusters", "ties"):
        rows = make_rows(kind, 5003, shape, rng)
        queries = np.concatenate([rows[[17, 4000]], make_rows(kind, 31, shape, rng)])
        card, living = card_codes(runs, shape, rows), np.ones(len(rows), np.bool_)
        words = shape.words_of(queries)
        expected = [all_keys(rows, query, shape, living) for query in queries]
        for n_queries, k in ((1, 10), (5, 10), (33, 10), (2, 900), (1, len(rows))):
            got = card.nearest(words[:n_queries], k)
            for q in range(n_queries):
                np.testing.assert_array_equal(got[q], expected[q][:k])
        for n_queries, radius in ((1, 3), (33, per_model), (1, 8 * per_model)):
            for q, keys in enumerate(card.within(words[:n_queries], radius)):
                inside = expected[q][expected[q] >> np.uint64(POSITION_BITS) <= radius]
                np.testing.assert_array_equal(keys, inside)


@needs_card
@pytest.mark.parametrize(("models", "per_model"), [(1, 8), (1, 64), (3, 2)])
def test_batches_equal_brute_force(models: int, per_model: int) -> None:
    """As many queries as tensor cores take in a pass over the codes, and in several."""
    rng, shape = np.random.default_rng(2), Shape(models, per_model)
    rows, queries = (make_rows("ties", size, shape, rng) for size in (5003, 300))
    card, words, living = card_codes(Kernels, shape, rows), shape.words_of(queries), np.ones(len(rows), np.bool_)
    expected = [all_keys(rows, query, shape, living) for query in queries]
    for n_queries in (64, 100, 128, 129, 300):
        for _ in range(2):  # the second search is recorded
            got = card.nearest(words[:n_queries], 10)
            np.testing.assert_array_equal(got, [keys[:10] for keys in expected[:n_queries]])
        for q, keys in enumerate(card.within(words[:n_queries], per_model)):
            np.testing.assert_array_equal(keys, expected[q][expected[q] >> np.uint64(POSITION_BITS) <= per_model])


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize(("models", "per_model"), [(1, 8), (3, 2)])
@pytest.mark.parametrize("share", [0.9, 0.02])
def test_dead_codes_and_masks(runs: Any, models: int, per_model: int, share: float) -> None:
    rng, shape, kind = np.random.default_rng(5), Shape(models, per_model), "clusters"
    rows = make_rows(kind, 3000, shape, rng)
    queries = make_rows(kind, 33, shape, rng)
    card, living = card_codes(runs, shape, rows), rng.random(len(rows)) < share
    card.set_alive(masks_of(living))
    chosen = living & (rng.random(len(rows)) < 0.5)
    k = min(10, int(chosen.sum()))
    for mask, alive in ((None, living), (card.mask(masks_of(chosen)), chosen)):
        for n_queries in (1, 33):
            got = card.nearest(shape.words_of(queries[:n_queries]), k, mask)
            near = card.within(shape.words_of(queries[:n_queries]), 2 * per_model, mask)
            for q in range(n_queries):
                expected = all_keys(rows, queries[q], shape, alive)
                np.testing.assert_array_equal(got[q], expected[:k])
                inside = expected[expected >> np.uint64(POSITION_BITS) <= 2 * per_model]
                np.testing.assert_array_equal(near[q], inside)


@pytest.mark.parametrize("runs", RUNS)
def test_changes_and_forks(runs: Any) -> None:
    rng, shape = np.random.default_rng(3), Shape(1, 8)
    rows = make_rows("uniform", 1000, shape, rng)
    card, query = card_codes(runs, shape, rows), make_rows("uniform", 1, shape, rng)
    fork = card.fork()
    grown = np.concatenate([rows, make_rows("uniform", 300, shape, rng)])
    grown[[3, 999]] = query[0]
    fork.put(planes_of(grown), len(grown), np.array([3, *range(999, 1300)]))
    for one, codes in ((card, rows), (fork, grown)):
        living = np.ones(len(codes), np.bool_)
        got = one.nearest(shape.words_of(query), 20)[0]
        np.testing.assert_array_equal(got, all_keys(codes, query[0], shape, living)[:20])
        relevant = rng.random((3, len(codes))) < 0.1
        counts, hits = one.histograms(shape.words_of(query), np.stack([masks_of(r) for r in relevant]), np.array([1]))
        distances = np.bitwise_count(codes ^ query[0]).sum(axis=1, dtype=np.intp)
        np.testing.assert_array_equal(counts[0], np.bincount(distances, minlength=counts.shape[1]))
        np.testing.assert_array_equal(hits[0], np.bincount(distances[relevant[1]], minlength=counts.shape[1]))


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize(("n", "changed"), [(100, 99), (129, 128)])
def test_an_update_of_a_fork_leaves_what_others_read(runs: Any, n: int, changed: int) -> None:
    """The last block too, which may hold few codes."""
    rng, shape = np.random.default_rng(4), Shape(1, 8)
    rows, query = make_rows("uniform", n, shape, rng), make_rows("uniform", 1, shape, rng)
    card, living = card_codes(runs, shape, rows), np.ones(n, np.bool_)
    fork, other = card.fork(), rows.copy()
    other[changed] = query[0]
    fork.put(planes_of(other), n, np.array([changed]))
    for one, codes in ((card, rows), (fork, other)):
        got = one.nearest(shape.words_of(query), n)[0]
        np.testing.assert_array_equal(got, all_keys(codes, query[0], shape, living))


@pytest.mark.parametrize("runs", RUNS)
def test_what_a_full_card_refuses_changes_nothing(runs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, shape = np.random.default_rng(6), Shape(1, 8)
    rows, query = make_rows("uniform", 300, shape, rng), make_rows("uniform", 1, shape, rng)
    card = card_codes(on_fake_card(runs), shape, rows)
    fork = card.fork()
    monkeypatch.setattr(FakeCard, "free", 10**8)
    grown = np.concatenate([rows, make_rows("uniform", 200, shape, rng)])
    appended = np.arange(300, 384)  # for which the array has room
    fork.put(planes_of(grown[:384]), 384, appended)
    refused = [(grown[:384], np.array([299])), (grown[:384], None), (grown, np.arange(384, 500))]
    for codes, positions in refused:
        with pytest.raises(InvalidInput, match=r"^an index of \d+ codes of 64 bits, .* of this full card are free; "):
            fork.put(planes_of(codes), len(codes), positions)
        for one, held in ((card, rows), (fork, grown[:384])):
            got = one.nearest(shape.words_of(query), len(held))[0]
            np.testing.assert_array_equal(got, all_keys(held, query[0], shape, np.ones(len(held), np.bool_)))


def test_codes_too_long_for_the_counters_of_a_block_are_refused() -> None:
    assert CardCodes(Twins(Shape(1, 764))).n == 0
    with pytest.raises(InvalidInput, match=r"^a card counts at most 6,112 bits for a distance, got codes of 6120 bits"):
        CardCodes(Twins(Shape(1, 765)))


def on(xp: Any, given: Any) -> Any:
    """Arrays on a card."""
    if isinstance(given, Bounds):
        return Bounds(*(on(xp, array) for array in given))
    return xp.asarray(given) if isinstance(given, np.ndarray) else given


def bounds_of(bounds: np.ndarray, limits: np.ndarray, is_split: bool) -> Bounds:
    """With what `limit` says of limits, or without."""
    if not is_split:
        return Bounds(bounds, limits)
    is_limited = limits != NO_LIMIT
    last = -(-limits[is_limited].max() // GROUP) * GROUP
    return Bounds(bounds, limits, np.array([last]), (bounds - is_limited).astype(np.int32))


@needs_card
@pytest.mark.parametrize("kind", ["clusters", "equal"])
@pytest.mark.parametrize(("models", "per_model"), SHAPES)
def test_the_kernels_that_bound_equal_their_twins(models: int, per_model: int, kind: str) -> None:
    """Counts, bounds and limits, where few and where many are at the distance of a bound."""
    rng, shape = np.random.default_rng(11), Shape(models, per_model)
    kernels, twins, n, n_queries = Kernels(shape), Twins(shape), 20_011, 9
    xp, rows = kernels.xp, make_rows(kind, n, shape, rng)
    card = card_codes(Kernels, shape, rows)
    words, alive = card._words.get(), np.zeros(2 * shape.n_groups(n), np.uint64)
    alive[: -(-n // 64)] = masks_of(rng.random(n) < 0.8)
    queries, limited = shape.words_of(rows[rng.integers(0, n, n_queries)]), 0
    for step, wanted, spare in ((1, 40, 60), (3, 2, 4), (3, 40, 1), (7, 3, 9), (1, 10**6, 4)):
        results = []
        for runs, own, mask, host in ((twins, words, alive, np), (kernels, card._words, xp.asarray(alive), xp)):
            codes, asked = (own, mask, n, step), host.asarray(queries)
            counts, ended = host.zeros((n_queries, shape.farthest + 1), np.uint64), host.zeros(n_queries, np.uint32)
            narrow, wide = host.zeros((2, n_queries), np.int32), host.zeros(n_queries + 1, np.int64)
            bounds = Bounds(narrow[0], wide[1:], wide[:1], narrow[1])
            runs.count(*codes, asked, counts, wanted, bounds.bounds, ended)
            runs.limit(*codes, asked, counts, wanted, spare, bounds)
            results.append([fetch(array) for array in (counts, *bounds)])
        for ours, theirs in zip(*results, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        limited += np.count_nonzero(results[0][2] != NO_LIMIT)
    assert limited or kind in ("clusters", "ties")


@needs_card
@pytest.mark.parametrize(("models", "per_model"), SHAPES)
def test_each_kernel_equals_its_twin(models: int, per_model: int) -> None:
    """All of what a kernel writes, on the same arrays."""
    rng, shape = np.random.default_rng(9), Shape(models, per_model)
    kernels, twins = Kernels(shape), Twins(shape)
    xp, n, n_queries = kernels.xp, 3001, 37
    rows = make_rows("clusters", n, shape, rng)
    planes, n_groups = planes_of(rows), shape.n_groups(n)
    words = np.zeros((n_groups, shape.row, GROUP), np.uint32)
    on_card = xp.zeros_like(xp.asarray(words))
    blocks = rng.permutation(len(planes))
    twins.pack(planes[blocks], blocks, 0, per_model, words)
    kernels.pack(xp.asarray(planes[blocks]), xp.asarray(blocks), 0, per_model, on_card)
    np.testing.assert_array_equal(on_card.get(), words)
    alive = np.zeros(2 * n_groups, np.uint64)
    alive[: len(planes)] = masks_of(rng.random(n) < 0.8)
    queries = shape.words_of(make_rows("clusters", n_queries, shape, rng))

    def both(name: str, *arguments: Any) -> list[list[np.ndarray]]:
        """Call both with copies of the arrays; what they hold afterwards."""
        host = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        card = [on(xp, a) for a in arguments]
        result = getattr(twins, name)(words, alive, n, *host)
        on_the_card = getattr(kernels, name)(on_card, xp.asarray(alive), n, *card)
        fetched = [a.get() if hasattr(a, "get") else a for a in card]
        if result is not None:
            host, fetched = [*host, result], [*fetched, on_the_card.get()]
        return [host, fetched]

    counts, bounds = np.zeros((n_queries, shape.farthest + 1), np.uint64), np.zeros(n_queries, np.int32)
    twins.count(words, alive, n, 1, queries, counts, 40, bounds)
    host, card = both("tally", 2, queries[:1], int(bounds[0]))
    np.testing.assert_array_equal(card[-1], host[-1])
    limits = rng.integers(0, n, n_queries)
    limits[::5] = NO_LIMIT
    for name in ("keep_few", "keep_many"):
        if name == "keep_many" and not kernels.most_tiles:
            continue
        arrays = (np.zeros(n_queries, np.uint64), np.full((n_queries, n), 2**64 - 1, np.uint64))
        for is_split in (False, True):
            host, card = both(name, queries, bounds_of(bounds, limits, is_split), *arrays)
            np.testing.assert_array_equal(card[2], host[2])
            np.testing.assert_array_equal(np.sort(card[3], axis=1), np.sort(host[3], axis=1))
    # Lists of few distances: more lie at that of the k-th than are sorted at once. One has more than there is room for.
    distances, positions = rng.integers(0, 4, (4, 9000)), np.argsort(rng.random((4, 9000)), axis=1) << 25
    tied = (distances << POSITION_BITS | positions).astype(np.uint64)
    for found, keys in ((host[2], host[3]), (np.array([9000, 8999, 5, 9001], np.uint64), tied)):
        for k in (1, 10, 300, 2048, 2049):
            out, picked = np.zeros((len(found), k), np.uint64), np.full(len(found), 9, np.uint64)
            card_out, card_picked = xp.asarray(out), xp.asarray(picked)
            twins.pick(found, keys, k, out, picked)
            kernels.pick(xp.asarray(found), xp.asarray(keys), k, card_out, card_picked)
            np.testing.assert_array_equal(card_picked.get(), picked)
            np.testing.assert_array_equal(card_out.get(), out)
