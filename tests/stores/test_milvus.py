"""The backend on Milvus's embedded engine beside the slow obvious one, and its searches beside a look at all codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import LSH, MilvusIndex, OnlineHashing, errors
from onlinehash.learners import registry
from onlinehash.stores.backend import ERA, FOREVER, Backend, Change, Found, Head, Layout
from onlinehash.stores.milvus import engine as engines
from onlinehash.stores.milvus import search
from onlinehash.stores.milvus.backend import MilvusBackend
from onlinehash.stores.milvus.engine import Engine
from tests.servers import free_port
from tests.stores.codes_of import away, clustered
from tests.stores.memory_backend import MemoryBackend, Tables
from tests.support import thorough

pytestmark = pytest.mark.long

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


@pytest.mark.thorough
@pytest.mark.parametrize("layout", [ONE, SEVERAL, Layout(20, 3, "sum")], ids=str)
def test_it_finds_what_a_look_at_all_codes_finds(engine: Engine, layout: Layout) -> None:
    codes = clustered(layout, 600)
    backend = filled(engine, f"found_{layout.n_models}_{layout.fusion}", layout, codes)
    for code in codes[:: 600 // thorough(3, 20)] ^ np.uint8(5):
        expected = ranking(layout, codes, code)
        for k in (1, 10, 47, 600, 1000):  # 12 and more are at one distance: ties go on behind the k-th
            assert backend.nearest(code, k, 1) == expected[:k]
        for radius in (0, 3, 6, 100):
            assert backend.within(code, radius, 1) == [one for one in expected if one.distance <= radius]
        assert list(backend._searching.ordered(code, 1)) == expected
    assert backend.nearest(codes[0], 5, 0) == []


def test_more_equals_than_a_search_brings_come_in_the_order_of_insertion(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST", 50)  # as if Milvus gave no more
    codes = np.zeros((400, 3), np.uint8)
    codes[::7, 0] = 1
    backend = filled(engine, "ties", ONE, codes)
    for code in (np.zeros(3, np.uint8), np.array([1, 0, 0], np.uint8), np.array([255, 0, 0], np.uint8)):
        expected = ranking(ONE, codes, code)
        for k in (1, 18, 49, 50, 51, 399, 500):
            assert backend.nearest(code, k, 1) == expected[:k]
        assert backend.within(code, 8, 1) == expected


def test_more_items_than_milvus_gives_at_once(engine: Engine) -> None:
    codes = np.zeros((engines.MOST + 200, 3), np.uint8)  # all of them equals, but for a few
    codes[::100, 2] = 16
    backend = filled(engine, "many", ONE, codes)
    expected = ranking(ONE, codes, codes[1])
    assert backend.nearest(codes[1], 10, 1) == expected[:10]
    assert backend.nearest(codes[0], 200, 1) == ranking(ONE, codes, codes[0])[:200]
    assert backend.within(codes[1], 24, 1) == expected


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


@pytest.mark.thorough
def test_changes_cut_off_or_not_leave_what_the_slow_obvious_backend_has(engine: Engine) -> None:
    here, there = pair(engine, "changes", SEVERAL)
    rng = np.random.default_rng(0)
    next_place = 0
    for step in range(thorough(30, 90)):
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


def test_blobs_of_any_size_come_back_until_the_head_that_drops_them(engine: Engine) -> None:
    blobs = {"learner/0": bytes(range(256)) * 1000, "empty": b"", "event/1": b"x"}
    MilvusBackend.create(engine, "blobs", ONE, Head(0, {"text": "é" * 100_000}), blobs)
    backend = MilvusBackend(engine, "blobs")
    assert backend.blobs([*blobs, "nothing"]) == blobs
    assert backend.head() == Head(0, {"text": "é" * 100_000})  # which takes several rows
    with backend.changing() as change:  # and no head is put
        change.put_blob("learner/1", b"one")
        change.drop_blobs(["learner/0", "event/1"])
    assert backend.blobs(list(blobs)) == blobs
    with backend.changing() as change:
        change.put_blob("learner/1", b"two")
        change.drop_blobs(["learner/0", "event/1", "never there"])
        change.put_head(Head(1, {}))
    assert backend.blobs([*blobs, "learner/1"]) == {"empty": b"", "learner/1": b"two"}
    assert len(engine.query("blobs_records", 'name == "head"', ["key"])) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_come_back_bit_for_bit(engine: Engine, dtype: Any) -> None:
    odd = np.array([[0.1, -0.0, np.nextafter(1, 2), np.finfo(dtype).tiny / 4, np.finfo(dtype).max]], dtype)
    backend, _ = pair(engine, f"bits_{np.dtype(dtype)}", ONE)
    with backend.changing() as change:
        change.add_items(1, np.array([0]), ["a"], odd, ["{" + '"a":"' + "x" * 65_528 + '"}'])
        change.put_head(Head(1, {}))
    rows = backend.rows(1, vectors=True)
    assert rows.vectors == [odd.tobytes()]
    assert len(rows.payloads[0] or "") == 65_536  # the most that a payload may have


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


def test_of_two_that_begin_at_the_same_time_one_at_most_goes_on(engine: Engine) -> None:
    first, _ = pair(engine, "race", ONE)
    second = MilvusBackend(engine, "race")
    code = np.zeros((1, 3), np.uint8)
    with first.changing() as change, second.changing() as other:
        change.add_codes(1, np.array([0]), ["a"], code)
        with pytest.raises(errors.StorageError, match="another process changes the index"):
            other.add_codes(1, np.array([0]), ["b"], code)
        change.put_head(Head(1, {}))
    assert first.nearest(code[0], 5, 1) == [Found(0, 0, "a")]


def test_one_that_was_overtaken_does_not_put_its_head(engine: Engine) -> None:
    first, _ = pair(engine, "overtaken", ONE)
    with first.changing() as change:
        change.add_codes(1, np.array([0]), ["a"], np.zeros((1, 3), np.uint8))
        with MilvusBackend(engine, "overtaken").changing() as other:
            other.put_head(Head(1, {"theirs": True}))
        with pytest.raises(errors.StorageError, match="another process changes the index"):
            change.put_head(Head(1, {}))
    assert first.head() == Head(1, {"theirs": True})
    assert engine.query("overtaken_codes", f"died == {FOREVER}", ["key"]) == []


def test_what_another_one_finished_just_now_is_not_undone(engine: Engine) -> None:
    """Who finds a mark cannot know whether its writer has died, or is about to put its head."""
    first, _ = pair(engine, "finished", ONE)
    second = MilvusBackend(engine, "finished")
    code = np.zeros((1, 3), np.uint8)
    with first.changing() as change:
        change.add_codes(1, np.array([0]), ["a"], code)
        marked = second._standing()
        change.put_head(Head(1, {}))
    second._standing = lambda: marked  # type: ignore[method-assign]
    with pytest.raises(errors.StorageError, match="another process changes the index"), second.changing():
        raise AssertionError
    assert first.nearest(code[0], 5, 1) == [Found(0, 0, "a")]
    assert first.head() == Head(1, {})


def test_a_page_is_full_though_rows_are_there_twice(engine: Engine) -> None:
    """As they are while another one ends them."""
    backend, _ = pair(engine, "twice", ONE)
    with backend.changing() as change:
        change.add_items(1, np.arange(6), list("abcdef"), np.zeros((6, 2)), [None] * 6)
        change.put_head(Head(1, {}))
    twice = engine.query("twice_items", "place in [0, 1, 4]", ["place", "born", "id", "hash", "payload", "vector"])
    backend._items.add([{**row, "died": 2} for row in twice], 100)
    assert backend.rows(1, limit=3).ids == list("abc")
    assert backend.rows(1, after=2, limit=3).ids == list("def")
    assert backend.rows(1, after=2, limit=9).ids == list("def")
    assert backend.rows(1).ids == list("abcdef")


def test_what_does_not_fit_is_refused_before_anything_is_written(engine: Engine) -> None:
    backend, _ = pair(engine, "fits", ONE)
    before = engine.query("fits_records", "part >= 0", ["key"])
    with backend.changing() as change:
        with pytest.raises(errors.InvalidInput, match="at most 65535 bytes in Milvus, got one of 65536"):
            change.add_items(1, np.array([0]), ["é" * 32_768], np.zeros((1, 2)), [None])
        with pytest.raises(errors.InvalidInput, match="at most 6143 numbers of type float64 in Milvus, got 6144"):
            change.add_items(1, np.array([0]), ["a"], np.zeros((1, 6144)), [None])
    assert engine.query("fits_records", "part >= 0", ["key"]) == before


# ------------------------------------------------------------------ addresses


_ANOTHER = """
import sys, onlinehash
try:
    onlinehash.MilvusIndex.open(sys.argv[1], name="mine")
except onlinehash.errors.ServiceUnavailable as error:
    print(error, flush=True)
sys.stdin.readline()
with onlinehash.MilvusIndex.open(sys.argv[1], name="mine") as index:
    print(index.search(index.vectors[:3], k=5).ids.tolist(), index.payloads_of([7]))
"""


def test_a_file_is_open_in_one_process_at_a_time(tmp_path: Path) -> None:
    address = str(tmp_path / "items.db")
    X = np.random.default_rng(0).standard_normal((30, 4))
    command = [sys.executable, "-c", _ANOTHER, address]
    with MilvusIndex.create(address, LSH(n_bits=16, random_state=0).fit(X), name="mine") as index:
        index.add(None, X, [{"n": i} for i in range(30)])
        hits = index.search(X[:3], k=5)
        with pytest.raises(errors.InvalidInput, match=r"already has an index named 'mine'; open it"):
            MilvusIndex.create(address, LSH(n_bits=16), name="mine")
        another = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert another.stdout is not None
        refusal = another.stdout.readline()
    told, _ = another.communicate("\n", timeout=120)
    assert "got no engine for it; close it in the process that has it open." in refusal
    assert told == f"{hits.ids.tolist()} [{{'n': 7}}]\n"


@pytest.mark.parametrize("address", ["items.sqlite", "milvus:19530", 5, None, "http://"])
def test_an_address_is_a_file_or_a_url(address: Any) -> None:
    with pytest.raises(errors.InvalidInput, match=r"expected a file that ends in \.db or http://host:port"):
        MilvusIndex.open(address)


def test_a_cluster_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_PATIENCE_TO_CONNECT", 1.0)
    address = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(errors.ServiceUnavailable, match=f"Milvus at {address} failed: "):
        MilvusIndex.create(address.replace("//", "//user:secret@"), OnlineHashing(n_bits=8))


@pytest.mark.parametrize("file", ["no/such/folder.db", "bad name!.db", "x" * 40 + ".db"])
def test_a_file_that_cannot_be(tmp_path: Path, file: str) -> None:
    with pytest.raises(errors.InvalidInput, match="expected a file in a folder that is there"):
        MilvusIndex.open(str(tmp_path / file))


def test_a_name_or_an_index_that_is_not_there(engine: Engine) -> None:
    with pytest.raises(errors.InvalidInput, match=r"there is no index named 'nobodys' in .*; create"):
        MilvusBackend(engine, "nobodys")
    with pytest.raises(errors.InvalidInput, match="expected a name of letters, digits and underscores"):
        MilvusBackend(engine, "drop;table")


@pytest.mark.parametrize("module", ["pymilvus", "milvus_lite"])
def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(errors.MissingExtra, match=r"pip install '\.\[milvus\]'"):
        MilvusIndex.open(str(tmp_path / "items.db"))


def test_without_a_learner_it_has_the_recommended_one(tmp_path: Path) -> None:
    address = str(tmp_path / "default.db")
    with pytest.raises(errors.InvalidInput, match="give a learner or n_bits, not both"):
        MilvusIndex.create(address, LSH(16), n_bits=16)
    with MilvusIndex.create(address, n_bits=16) as index:
        assert (type(index.learner).__name__, index.n_bits) == (registry.RECOMMENDED, 16)
