"""Saving and loading: learners, encoders, codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from onlinehash import Codes, Encoder, OnlineHashing, RbfAnchors, load, save
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.io import format
from onlinehash.io.files import _pack, _pack_encoder
from onlinehash.learners import registry
from tests.support import (
    as_bytes,
    clusters,
    feed,
    make,
    pairs,
    refused,
    state_bytes,
)

ROWS = pairs(seed=1).A


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "thing.oh"


# ------------------------------------------------------------------ round trips


@pytest.mark.parametrize(
    ("name", "centre"),
    [
        ("OnlineHashing", "running"),
        ("OnlineHashing", "median"),
        ("MultiModelOnlineHashing", "none"),
        (registry.RECOMMENDED, "burn-in"),
        ("HadamardHashing", "running"),
        ("IterativeQuantization", "mean"),
    ],
)
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


def test_a_learner_that_has_seen_nothing(path: Path) -> None:
    save(make("OnlineHashing"), path)
    loaded = load(path)
    assert loaded.get_state() == {}
    assert state_bytes(feed(loaded, [pairs()])) == state_bytes(feed(make("OnlineHashing"), [pairs()]))


def test_parameters(path: Path) -> None:
    for params in (
        {"init": np.random.default_rng(0).standard_normal((5, 8))},
        {"init": "unit", "C": np.float32(0.3), "n_bits": np.int64(8)},
        {"features": RbfAnchors(anchors=pairs().A[:4])},
        {"random_state": 2**70},
        {"random_state": None},
    ):
        learner = feed(make("OnlineHashing", **params), [pairs()])
        save(learner, path)
        loaded = load(path)
        assert loaded.encode(ROWS) == learner.encode(ROWS)
        assert as_bytes(loaded.get_params()) == as_bytes(
            {k: v.item() if isinstance(v, np.generic) else v for k, v in learner.get_params().items()}
        )
        assert state_bytes(feed(loaded, [pairs(seed=2)])) == state_bytes(feed(learner, [pairs(seed=2)]))


def test_a_shared_generator_is_no_part_of_a_file(path: Path) -> None:
    """The seed that was drawn from it is."""
    generator = np.random.default_rng(3)
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


@pytest.mark.parametrize("features", [None, RbfAnchors(7), StandardScaler().fit(ROWS), PCA(2).fit(ROWS)])
def test_an_encoder(features: Any, path: Path) -> None:
    encoder = feed(make("OnlineHashing", features=features), [pairs()]).snapshot()
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
@pytest.mark.parametrize(("n", "columns", "models"), [(5, 12, 3), (0, 7, 1), (200, 4096, 2)])
def test_codes(n: int, columns: int, models: int, mapped: bool, path: Path) -> None:
    codes = Codes.from_bits(np.random.default_rng(0).random((n, columns)) < 0.5, models)
    save(codes, path)
    loaded = load(path, mmap=mapped)
    assert loaded == codes
    assert loaded.checked() == codes
    save(loaded, path)  # also over the file in which it lies
    assert load(path) == loaded == codes


def test_learners_and_encoders_are_copied_out_of_a_mapped_file(path: Path) -> None:
    """So they go on, whatever becomes of it."""
    learner = feed(make("OnlineHashing", features=RbfAnchors(7)), [pairs()])
    save(learner, path)
    loaded = load(path, mmap=True)
    path.write_bytes(bytes(path.stat().st_size))
    save(learner.snapshot(), path)
    encoder = load(path, mmap=True)
    path.write_bytes(bytes(path.stat().st_size))
    assert encoder.encode(ROWS) == loaded.encode(ROWS) == learner.encode(ROWS)
    assert state_bytes(feed(loaded, [pairs(seed=2)])) == state_bytes(feed(learner, [pairs(seed=2)]))


def test_nothing_else_can_be_saved(path: Path) -> None:
    for thing in (3, None, np.ones(3), RbfAnchors(3), LogisticRegression()):
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


def test_a_well_formed_file_with_a_strange_content_is_refused(path: Path) -> None:
    pipeline, pca = "sklearn.pipeline:Pipeline", "sklearn.decomposition._pca:PCA"
    contents: list[tuple[str, Any]] = [
        ("shelf", {}),
        ("learner", []),
        ("learner", learner_content(**{"class": "OfflineHashing"})),
        ("learner", learner_content(params={"n_bits": 8, "n_wings": 2})),
        ("learner", learner_content(params={"n_bits": -1})),
        ("learner", learner_content(state={"n_features": 5})),
        ("codes", {}),
        ("codes", codes_content(planes=np.full((1, 1, 64), 255, np.uint8))),
        ("codes", codes_content(n=65)),
        ("codes", codes_content(n=10**30)),
        ("codes", codes_content(n_bits=2**40)),
        ("encoder", encoder_content(n_models=0)),
        ("encoder", encoder_content(n_features=2**40)),
        ("learner", sklearn_features("os:system", {"command": "true"}, {})),
        ("learner", sklearn_features("subprocess:Popen", {"args": "true"}, {})),
        ("learner", sklearn_features("sklearn.utils:check_array", {"array": [[1]]}, {})),
        ("learner", sklearn_features("sklearn.linear_model._logistic:LogisticRegression", {}, {})),
        ("learner", sklearn_features(pipeline, {"steps": [], "memory": "pickles"}, {})),
        ("learner", sklearn_features(pipeline, {"steps": []}, {"__dict__": {"memory": "pickles"}})),
        ("learner", sklearn_features(pca, {}, {"__class__": "mine"})),
        ("learner", sklearn_features(pca, {}, {"transform": "mine"})),
    ]
    for kind, content in contents:
        format.write(path, kind, content)
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


def test_a_pipeline_with_a_cache_of_pickles_is_refused_before_it_is_saved(path: Path) -> None:
    pipeline = Pipeline([("scale", StandardScaler())], memory="folder")
    learner = feed(make("OnlineHashing", features=pipeline), [])
    refused(save, learner, path)
    assert not path.exists()


def test_no_file(path: Path) -> None:
    assert isinstance(refused(load, path), InvalidInput)
