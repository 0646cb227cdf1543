"""The backend on Milvus's embedded engine beside the slow obvious one, and its searches beside a look at all codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from onlinehash import MilvusIndex, errors
from onlinehash.stores.backend import ERA, Backend, Change, Found, Head, Layout
from onlinehash.stores.milvus.backend import MilvusBackend
from onlinehash.stores.milvus.engine import Engine
from tests.stores.codes_of import away, clustered
from tests.stores.congruence import check
from tests.stores.memory_backend import MemoryBackend, Tables

ONE, SEVERAL = Layout(20, 1, "min"), Layout(12, 3, "min")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = Engine(str(tmp_path_factory.mktemp("milvus") / "milvus.db"))
    yield engine
    engine.close()


def filled(engine: Engine, name: str, layout: Layout, codes: np.ndarray) -> MilvusBackend:
    """A backend with items that have nothing but these codes, at epoch 1."""
    MilvusBackend.create(engine, name, layout, Head(0, {}), {})
    backend = MilvusBackend(engine, name)
    with backend.changing() as change:
        change.add_codes(1, np.arange(len(codes)), list(map(str, range(len(codes)))), codes)
        change.put_head(Head(1, {}))
    return backend


def ranking(layout: Layout, codes: np.ndarray, code: np.ndarray) -> list[Found]:
    distances = away(layout, codes, code)
    return [Found(int(distances[i]), int(i), str(i)) for i in np.argsort(distances, kind="stable")]


# ------------------------------------------------------------------ searching


@pytest.mark.parametrize("layout", [ONE, SEVERAL], ids=str)
def test_it_finds_what_a_look_at_all_codes_finds(engine: Engine, layout: Layout) -> None:
    codes = clustered(layout, 600)
    backend = filled(engine, f"found_{layout.n_models}_{layout.fusion}", layout, codes)
    for code in codes[::200] ^ np.uint8(5):
        expected = ranking(layout, codes, code)
        for k in (1, 10, 47, 600, 1000):  # 12 and more are at one distance: ties go on behind the k-th
            assert backend.nearest(code, k, 1) == expected[:k]
        for radius in (0, 3, 6, 100):
            assert backend.within(code, radius, 1) == [one for one in expected if one.distance <= radius]
        assert list(backend._searching.ordered(code, 1)) == expected
    assert backend.nearest(codes[0], 5, 0) == []


# ------------------------------------------------------------------ rows


def pair(engine: Engine, name: str, layout: Layout) -> tuple[MilvusBackend, MemoryBackend]:
    """The same empty index twice."""
    MilvusBackend.create(engine, name, layout, Head(0, {"horizon": ERA}), {})
    tables = Tables(layout, json.dumps(Head(0, {"horizon": ERA})), {})
    return MilvusBackend(engine, name), MemoryBackend(tables, is_atomic=False)


class CutOff(Exception):
    """What leaves a change unfinished."""


def write(rng: np.random.Generator, change: Change, next_place: int) -> int:
    """A random change, but for its head; the same for the same generator."""
    epoch, layout = change.head.epoch + 1, SEVERAL
    target = ERA
    known = rng.permutation(max(1, next_place))[: rng.integers(1, 6)]
    kind = rng.integers(6)
    if kind <= 1 or not next_place:
        places = np.arange(next_place, next_place + rng.integers(1, 9))
        ids = [f"i{place}\n\"'\\é" for place in places]
        payloads = [None if rng.random() < 0.5 else json.dumps({"a": "x" * int(rng.integers(9))}) for _ in places]
        change.add_items(epoch, places, ids, rng.standard_normal((len(places), 3)), payloads)
        change.add_codes(epoch, places, ids, rng.integers(0, 256, (len(places), layout.n_bytes), np.uint8))
        return int(places[-1]) + 1
    if kind == 2:
        change.end_items(epoch, known)
        change.end_codes(epoch, known)
    elif kind == 3:  # as a refresh does
        change.end_codes(target, known)
        codes = rng.integers(0, 256, (len(known), layout.n_bytes), np.uint8)
        change.add_codes(target, known, [str(place) for place in known], codes)
    elif kind == 4 and rng.random() < 0.5:
        change.rewind(epoch - 1)
    else:
        change.purge(epoch - 2)
    return next_place


def read(backend: Backend, epoch: int) -> Any:
    rows = backend.rows(epoch, vectors=True, codes=True)
    some = backend.rows(epoch, np.array([3, 1, 10**6, 1]), codes=True)
    page = backend.rows(epoch, after=2, limit=4)
    code = np.arange(SEVERAL.n_bytes, dtype=np.uint8)
    return (
        [(part.places.tolist(), *part[1:4], part.codes.tolist()) for part in (rows, some, page)],
        backend.places([*rows.ids[::2], "nobody"], epoch).tolist(),
        backend.within(code, 40, epoch),
        list(backend.ranked(code, epoch, {})),
        backend.head(),
    )


def test_changes_cut_off_or_not_leave_what_the_slow_obvious_backend_has(engine: Engine) -> None:
    here, there = pair(engine, "changes", SEVERAL)
    rng = np.random.default_rng(0)
    next_place = 0
    for step in range(30):
        seed, is_cut_off, now = [step], rng.random() < 0.25, next_place
        for backend in (here, there):
            try:
                with backend.changing() as change:
                    after = write(np.random.default_rng(seed), change, now)
                    if is_cut_off:
                        raise CutOff
                    change.put_head(Head(change.head.epoch + 1, {"horizon": ERA, "step": step}))
                    next_place = after
            except CutOff:
                pass
        epoch = here.head().epoch
        assert read(here, epoch) == read(there, epoch), step
        assert read(here, epoch - 1) == read(there, epoch - 1), step
        with here.changing() as change, there.changing() as same:
            assert change.rewound == same.rewound == is_cut_off
        assert read(here, ERA) == read(there, ERA), step


# ------------------------------------------------------------------ who may do what


def test_a_writer_is_refused_after_another_one_wrote(engine: Engine) -> None:
    first, _ = pair(engine, "writers", ONE)
    second = MilvusBackend(engine, "writers")
    with first.changing() as change:
        change.put_head(Head(1, {}))
    with second.changing() as change:  # the first change of its own takes the index over
        change.put_head(Head(2, {}))
    with (
        pytest.raises(errors.StorageError, match=r"another process changes the index in .*open it again"),
        first.changing(),
    ):
        raise AssertionError
    with second.changing() as change:
        change.put_head(Head(3, {"theirs": True}))
    assert first.head() == Head(3, {"theirs": True})


# ------------------------------------------------------------------ the index


@pytest.mark.filterwarnings("ignore::UserWarning")  # a stream of few similar pairs warns, in both
def test_the_same_program_has_the_same_results_as_in_memory(engine: Engine) -> None:
    def make(learner: Any, policy: Any) -> MilvusIndex:
        index = MilvusIndex.create(engine.address, learner, policy, name="the_same")
        index.batch_rows = 3
        return index

    check(make, "MMOH", 0, 20)


def test_a_name_or_an_index_that_is_not_there(engine: Engine) -> None:
    with pytest.raises(errors.InvalidInput, match=r"there is no index named 'nobodys' in .*; create"):
        MilvusBackend(engine, "nobodys")
    with pytest.raises(errors.InvalidInput, match="expected a name of letters, digits and underscores"):
        MilvusBackend(engine, "drop;table")
