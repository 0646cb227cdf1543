"""Saving and loading: learners, encoders, codes; and the files of every format so far, kept for ever."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from onlinehash import Codes, Encoder, OnlineHashing, RbfAnchors, load, save
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.index import threads as index_threads
from onlinehash.io import format
from onlinehash.io.files import _pack, _pack_encoder
from onlinehash.numeric import threads
from tests.support import (
    CLOSELY,
    LEARNERS,
    as_bytes,
    centrings,
    clusters,
    feed,
    make,
    mostly_long,
    pairs,
    refused,
    state_bytes,
    thorough,
)

ROWS = pairs(seed=1).A
KEPT = Path(__file__).parent / "files"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "thing.oh"


# ------------------------------------------------------------------ round trips


@pytest.mark.parametrize(("name", "centre"), [(name, centre) for name in LEARNERS for centre in centrings(name)])
def test_a_learner(name: str, centre: str, path: Path) -> None:
    learner = feed(make(name, centre=centre, features=RbfAnchors(7, width=2.0)), [pairs()])
    save(learner, path)
    loaded = load(path)
    assert type(loaded) is type(learner)
    assert as_bytes(loaded.get_params()) == as_bytes(learner.get_params())
    assert state_bytes(loaded) == state_bytes(learner)
    assert loaded.encode(ROWS) == learner.encode(ROWS)
    assert loaded.version_ == learner.version_
    assert len(loaded.snapshot().changed_bits(learner.snapshot())) == 0


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_that_has_seen_nothing(name: str, path: Path) -> None:
    save(make(name), path)
    loaded = load(path)
    assert loaded.get_state() == {}
    assert state_bytes(feed(loaded, [pairs()])) == state_bytes(feed(make(name), [pairs()]))


@pytest.mark.parametrize(
    "params",
    [
        {"init": np.random.default_rng(0).standard_normal((5, 8))},
        {"init": np.random.default_rng(0).standard_normal((5, 8)).tolist()},
        {"init": "unit", "C": np.float32(0.3), "n_bits": np.int64(8)},
        {"features": RbfAnchors(anchors=pairs().A[:4])},
        {"random_state": 2**70},
        {"random_state": None},
        {"similar_share": 0.3},
    ],
)
def test_parameters(params: dict[str, Any], path: Path) -> None:
    learner = feed(make("OnlineHashing", **params), [pairs()])
    save(learner, path)
    loaded = load(path)
    assert loaded.encode(ROWS) == learner.encode(ROWS)
    assert as_bytes(loaded.get_params()) == as_bytes(
        {k: v.item() if isinstance(v, np.generic) else v for k, v in learner.get_params().items()}
    )
    assert state_bytes(feed(loaded, [pairs(seed=2)])) == state_bytes(feed(learner, [pairs(seed=2)]))


@pytest.mark.parametrize("generator", [np.random.default_rng(3), np.random.RandomState(3)])
def test_a_shared_generator_is_no_part_of_a_file(generator: Any, path: Path) -> None:
    """The seed that was drawn from it is."""
    learner = feed(make("OnlineHashing", random_state=generator), [pairs()])
    save(learner, path)
    loaded = load(path)
    assert isinstance(loaded.random_state, int)
    assert state_bytes(feed(loaded, [pairs(seed=2)])) == state_bytes(feed(learner, [pairs(seed=2)]))
    assert learner.random_state is generator
    X, y = clusters(20)
    assert state_bytes(loaded.fit(X, y)) == state_bytes(load(path).fit(X, y)), "and one can begin anew from it"


def test_a_shared_generator_before_the_first_draw_cannot_be_saved(path: Path) -> None:
    refused(save, make("OnlineHashing", random_state=np.random.default_rng(0)), path)


def test_an_odd_labelled_point_and_the_reservoir(path: Path) -> None:
    X, y = clusters(41)
    never_stopped = make("OnlineHashing", similar_share=0.5).partial_fit(X[:21], y[:21])
    save(never_stopped, path)
    assert state_bytes(load(path).partial_fit(X[21:], y[21:])) == state_bytes(never_stopped.partial_fit(X[21:], y[21:]))


@pytest.mark.parametrize("features", [None, RbfAnchors(7), StandardScaler().fit(ROWS), PCA(2).fit(ROWS)])
@pytest.mark.parametrize("name", mostly_long(LEARNERS, CLOSELY))
def test_an_encoder(name: str, features: Any, path: Path) -> None:
    encoder = feed(make(name, features=features), [pairs()]).snapshot()
    save(encoder, path)
    loaded = load(path)
    assert isinstance(loaded, Encoder)
    assert loaded.encode(ROWS) == encoder.encode(ROWS)
    assert len(loaded.changed_bits(encoder)) == 0
    for field in ("n_bits", "n_models", "n_columns", "n_features", "fusion", "version", "method"):
        assert getattr(loaded, field) == getattr(encoder, field)
    assert repr(loaded) == repr(encoder)
    assert not loaded.weights.flags.writeable


@pytest.mark.parametrize("mapped", [False, True], ids=["read", "mapped"])
@pytest.mark.parametrize(("n", "columns", "models"), [(5, 12, 3), (0, 7, 1), (3, 64, 1), (64, 13, 1), (200, 4096, 2)])
def test_codes(n: int, columns: int, models: int, mapped: bool, path: Path) -> None:
    codes = Codes.from_bits(np.random.default_rng(0).random((n, columns)) < 0.5, models)
    save(codes, path)
    loaded = load(path, mmap=mapped)
    assert loaded == codes
    assert loaded.checked() == codes
    save(loaded, path)  # also over the file in which it lies
    assert load(path) == loaded == codes


def test_mapped_codes_stay_in_the_file(path: Path) -> None:
    """They lie at cache lines, and of their padding only the last block's is looked at."""
    save(Codes.from_bits(np.zeros((200, 12), bool)), path)
    mapped, read = load(path, mmap=True).planes, load(path).planes
    assert mapped.ctypes.data % 64 == 0
    with open(path, "r+b") as file:
        file.seek(-mapped.nbytes, 2)
        file.write(b"\x01")
    assert (mapped[0, 0, 0], read[0, 0, 0]) == (1, 0)
    assert "checksum" in str(refused(load, path))


def test_a_set_bit_of_padding_is_found(path: Path) -> None:
    """Anywhere in codes that are read; in mapped ones in the last block."""
    for block, row in ((0, 3), (3, 3), (3, 10)):
        planes = np.zeros((4, 2, 64), np.uint8)
        planes[block, 1, row] = 16 if row < 8 else 1
        format.write(path, "codes", {"planes": planes, "n": 200, "n_bits": 12, "n_models": 1})
        assert isinstance(refused(load, path), FormatError)
        if block == 3:
            assert isinstance(refused(load, path, True), FormatError)
        else:
            assert len(load(path, mmap=True)) == 200


@pytest.mark.parametrize("features", [None, RbfAnchors(7), RbfAnchors(anchors=ROWS[:4]), PCA(2).fit(ROWS)])
@pytest.mark.parametrize("name", mostly_long(LEARNERS, CLOSELY))
def test_learners_and_encoders_are_copied_out_of_a_mapped_file(name: str, features: Any, path: Path) -> None:
    """So they go on, whatever becomes of it."""
    learner = feed(make(name, features=features), [pairs()])
    save(learner, path)
    loaded = load(path, mmap=True)
    path.write_bytes(bytes(path.stat().st_size))
    save(learner.snapshot(), path)
    encoder = load(path, mmap=True)
    path.write_bytes(bytes(path.stat().st_size))
    assert encoder.encode(ROWS) == loaded.encode(ROWS) == learner.encode(ROWS)
    assert state_bytes(feed(loaded, [pairs(seed=2)])) == state_bytes(feed(learner, [pairs(seed=2)]))


@pytest.mark.parametrize("thing", [3, None, "learner", np.ones(3), RbfAnchors(3), LogisticRegression()])
def test_nothing_else_can_be_saved(thing: Any, path: Path) -> None:
    assert isinstance(refused(save, thing, path), InvalidInput)
    assert not path.exists()


def test_features_with_code_inside_cannot_be_saved(path: Path) -> None:
    learner = feed(make("OnlineHashing", features=FunctionTransformer(np.sqrt).fit(ROWS)), [])
    assert isinstance(refused(save, learner, path), InvalidInput)


# ------------------------------------------------------------------ files that are not what they claim


def learner_content(**changes: Any) -> dict[str, Any]:
    learner = feed(make("OnlineHashing"), [pairs()])
    content = {
        "class": "OnlineHashing",
        "params": {key: _pack(value) for key, value in learner.get_params(deep=False).items()},
        "state": learner.get_state(),
    }
    return content | changes


def codes_content(**changes: Any) -> dict[str, Any]:
    return {"planes": np.zeros((1, 1, 64), np.uint8), "n": 2, "n_bits": 8, "n_models": 1} | changes


def encoder_content(**changes: Any) -> dict[str, Any]:
    return _pack_encoder(feed(make("OnlineHashing"), [pairs()]).snapshot()) | changes


def sklearn_features(name: str, params: Any, learned: Any) -> dict[str, Any]:
    params = {"features": {"$sklearn": name, "params": params, "learned": learned}}
    return {"class": "OnlineHashing", "params": params, "state": {}}


PCA_FILE = sklearn_features("sklearn.decomposition._pca:PCA", {"n_components": 2}, {})


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("index", {}),
        ("shelf", {}),
        ("", {}),
        ("learner", {}),
        ("learner", []),
        ("learner", partial(learner_content, **{"class": "OfflineHashing"})),
        ("learner", partial(learner_content, **{"class": 3})),
        ("learner", partial(learner_content, params={"n_bits": 8, "n_wings": 2})),
        ("learner", partial(learner_content, params={"n_bits": -1})),
        ("learner", partial(learner_content, params=None)),
        ("learner", partial(learner_content, state={"n_features": 5})),
        ("learner", partial(learner_content, state=[1, 2])),
        ("encoder", {"weights": 3}),
        ("codes", {"packed": np.ones((2, 1)), "n_bits": 8, "n_models": 1}),
        ("codes", {"packed": np.ones((2, 9), np.uint8), "n_bits": 8, "n_models": 1}),
        ("codes", {"packed": np.full((2, 1), 255, np.uint8), "n_bits": 4, "n_models": 1}),
        ("codes", {"packed": [[1], [2]], "n_bits": 8, "n_models": 1}),
        ("codes", {"packed": np.ones((2, 1), np.uint8), "n_bits": 8.0, "n_models": 1}),
        ("codes", codes_content(planes=np.zeros((1, 2, 64), np.uint8))),
        ("codes", codes_content(planes=np.zeros((1, 1, 64), np.int8))),
        ("codes", codes_content(planes="planes")),
        ("codes", codes_content(planes=np.full((1, 1, 64), 255, np.uint8))),
        ("codes", codes_content(n=65)),
        ("codes", codes_content(n=2.0)),
        ("codes", codes_content(n=True)),
        ("codes", codes_content(n=-5, planes=np.zeros((0, 1, 64), np.uint8))),
        ("codes", codes_content(n=10**30)),
        ("codes", codes_content(n_bits=0)),
        ("codes", codes_content(n_bits="8")),
        ("codes", codes_content(n_bits=2**40)),
        ("codes", codes_content(n_models=None)),
        ("codes", {}),
        ("encoder", partial(encoder_content, n_models=0)),
        ("encoder", partial(encoder_content, n_features="5")),
        ("encoder", partial(encoder_content, n_features=2**40)),
        ("encoder", partial(encoder_content, weights=np.array(1.0))),
        ("learner", sklearn_features("os:system", {"command": "true"}, {})),
        ("learner", sklearn_features("subprocess:Popen", {"args": "true"}, {})),
        ("learner", sklearn_features("sklearn.nothing:PCA", {}, {})),
        ("learner", sklearn_features("sklearn.decomposition._pca:Nothing", {}, {})),
        ("learner", sklearn_features("sklearn.utils:check_array", {"array": [[1]]}, {})),
        ("learner", sklearn_features("sklearn.linear_model._logistic:LogisticRegression", {}, {})),
        ("learner", sklearn_features("sklearn.decomposition._pca:PCA", {"n_wings": 2}, {})),
        ("learner", sklearn_features("sklearn.pipeline:Pipeline", {"steps": [], "memory": "pickles"}, {})),
        ("learner", sklearn_features("sklearn.pipeline:Pipeline", {"steps": []}, {"memory": "pickles"})),
        (
            "learner",
            sklearn_features("sklearn.pipeline:Pipeline", {"steps": []}, {"__dict__": {"memory": "pickles"}}),
        ),
        ("learner", sklearn_features("sklearn.decomposition._pca:PCA", {}, {"__class__": "mine"})),
        ("learner", sklearn_features("sklearn.decomposition._pca:PCA", {}, {"transform": "mine"})),
        ("learner", sklearn_features("sklearn.decomposition._pca:PCA", {}, {"get_params": "mine"})),
        ("learner", sklearn_features(3, {}, {})),
    ],
)
def test_a_well_formed_file_with_a_strange_content_is_refused(kind: str, content: Any, path: Path) -> None:
    format.write(path, kind, content() if callable(content) else content)  # a learner's is made here, not on collection
    for mapped in (False, True):
        error = refused(load, path, mapped)
        assert isinstance(error, FormatError)
        assert str(path) in str(error)


def test_what_those_files_are_made_from_can_be_loaded(path: Path) -> None:
    """So that each of them is refused for its strange part."""
    for content in (learner_content(), PCA_FILE):
        format.write(path, "learner", content)
        assert isinstance(load(path), OnlineHashing)
    for kind, content, cls in (("codes", codes_content(), Codes), ("encoder", encoder_content(), Encoder)):
        format.write(path, kind, content)
        assert isinstance(load(path), cls)


@pytest.fixture
def one_of_many_cpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine has more CPUs than this process may use."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {5}, raising=False)
    threads.cpu_count.cache_clear()
    yield
    threads.cpu_count.cache_clear()


@pytest.mark.usefixtures("one_of_many_cpus")
def test_a_file_starts_no_more_processes_than_there_are_cores(path: Path) -> None:
    union = FeatureUnion([("scale", StandardScaler())], n_jobs=1_000_000)
    learner = OnlineHashing(8, features=union, random_state=0)
    save(learner, path)
    assert load(path).features.n_jobs == 1


@pytest.mark.usefixtures("one_of_many_cpus")
def test_all_threads_are_those_that_this_process_may_use() -> None:
    assert index_threads.number(-1) == 1
    assert index_threads.number(3) == 3


def test_a_pipeline_with_a_cache_of_pickles_is_refused_before_it_is_saved(path: Path) -> None:
    pipeline = Pipeline([("scale", StandardScaler())], memory="folder")
    learner = feed(make("OnlineHashing", features=pipeline), [])
    refused(save, learner, path)
    assert not path.exists()


def test_a_state_cannot_ask_for_much_memory() -> None:
    """Hash functions are drawn only for as many inputs as there is a mean for."""
    state = feed(make("OnlineHashing"), [pairs()]).get_state()
    state["n_features"] = 2_000_000
    state["pairing"]["points"] = np.zeros((0, 2_000_000))
    tracemalloc.start()
    try:
        assert isinstance(refused(make("OnlineHashing").set_state, state), FormatError)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


def test_no_file(path: Path) -> None:
    assert isinstance(refused(load, path), InvalidInput)


# ------------------------------------------------------------------ kept files


@pytest.mark.parametrize("mapped", [False, True], ids=["read", "mapped"])
@pytest.mark.parametrize("version", ["v1"])
def test_kept_files(version: str, mapped: bool) -> None:
    """Loaded by today's code, each gives the codes it gave then, and goes on to where it went then."""
    folder = KEPT / version
    rows, A, B = (np.load(folder / f"{name}.npy") for name in ("rows", "A", "B"))
    similar = np.load(folder / "similar.npy")
    facts = json.loads((folder / "facts.json").read_text())
    assert (
        {path.stem for path in folder.glob("*.oh")}
        == set(facts)
        == {
            "codes",
            "encoder",
            "kernel_waiting",
            "lsh",
            "mmoh",
            "oh",
            "oh_labels",
        }
    )
    for name, fact in facts.items():
        thing = load(folder / f"{name}.oh", mmap=mapped)
        if name == "codes":
            assert np.array_equal(thing.to_faiss(), np.load(folder / "codes.npy"))
            continue
        if fact["ready"]:
            assert np.array_equal(thing.encode(rows).to_faiss(), np.load(folder / f"{name}.npy")), name
        if name == "encoder":
            continue
        assert type(thing).__name__ == fact["class"]
        assert thing.version_ == fact["version"]
        updates = thing.learn_pairs(A, B, similar)
        thing.partial_fit(A, similar)
        assert updates.loss.tolist() == fact["losses"], name
        assert thing.version_ == fact["version_after"], name
        assert np.array_equal(thing.encode(rows).to_faiss(), np.load(folder / f"{name}_after.npy")), name


@pytest.mark.thorough
def test_a_kept_file_of_every_method() -> None:
    """It loads, encodes as it did when it was written, and goes on learning (in float32, which is compiled for it)."""
    rows = np.load(KEPT / "v1" / "rows.npy").astype(np.float32)
    names = {path.stem for path in (KEPT / "v1" / "methods").glob("*.oh")}
    assert names | {"OnlineHashing", "MultiModelOnlineHashing", "LSH"} == set(LEARNERS)
    for name in names:
        learner = load(KEPT / "v1" / "methods" / f"{name}.oh")
        assert type(learner).__name__ == name
        assert np.array_equal(learner.transform(rows), np.load(KEPT / "v1" / "methods" / f"{name}.npy")), name
        if name in CLOSELY or thorough(False, True):
            feed(learner, [pairs(n=9, d=rows.shape[1], seed=2, dtype=np.float32)]).flush()
