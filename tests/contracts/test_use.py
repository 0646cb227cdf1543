"""What people do with a learner: codes, retrieval, scikit-learn's tools, the same again in another process."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onlinehash import Codes, RbfAnchors
from tests.contracts.contract import EVERY, FEW, SUPERVISED, each
from tests.support import LEARNERS, clusters, feed, make, pairs, state_bytes


@each(EVERY)
def test_bits_are_signs_of_centred_projections(name: str) -> None:
    """bit = [w.(z - mean) >= 0], by the learned attributes that everybody can see; codes are these bits, packed."""
    stream, X = pairs(), pairs(seed=1).A
    anchors = np.stack([stream.A, stream.B], axis=1).reshape(-1, 5)[:9]
    values = np.exp(-((X[:, None] - anchors[None]) ** 2).sum(axis=2) / (2 * 2.0**2))
    for features, Z in ((None, X), (RbfAnchors(9, width=2.0), values)):
        learner = feed(make(name, features=features), [stream])
        encoder, bits, codes = learner.snapshot(), learner.transform(X), learner.encode(X)
        assert bits.dtype == bool
        assert bits.shape == (len(X), encoder.n_columns)
        assert encoder.n_columns == encoder.n_models * 8
        assert (codes.n_bits, codes.n_models, len(codes)) == (8, encoder.n_models, len(X))
        assert codes == encoder.encode(X) == Codes.from_bits(bits, encoder.n_models)
        assert (encoder.n_bits, encoder.version, encoder.method) == (8, learner.version_, name)
        assert len(learner.get_feature_names_out()) == encoder.n_columns
        if name != "FastSupervisedHashing":  # whose bits are signs of trees' scores
            W = learner.projection_.reshape(-1, Z.shape[1], 8)
            assert np.array_equal(bits, np.concatenate([(Z - learner.mean_) @ w >= 0 for w in W], axis=1))


@each(SUPERVISED)
def test_far_apart_clusters_are_told_apart(name: str) -> None:
    (X, y), (X_new, y_new) = clusters(1500), clusters(300, seed=9)
    assert make(name, n_bits=16, burn_in=2000).fit(X, y).score(X_new, y_new) > 0.95


@each(["OnlineHashing", "MultiModelOnlineHashing", "ProjectedCodesHashing"])
def test_score_is_the_mean_average_precision(name: str) -> None:
    """Against the definition, on distances with ties: the mean over many random orders."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:60], y[:60]
    learner = make(name, n_bits=12).fit(X, y)
    codes = learner.encode(X)
    bits, asked = (of.bits().reshape(60, codes.n_models, 12) for of in (codes, learner.encode_queries(X)))
    distances = (asked[:, None] != bits[None]).sum(axis=3).min(axis=2)
    rng = np.random.default_rng(0)
    found = []
    for q in range(60):
        others = np.delete(np.arange(60), q)
        order = others[np.argsort(distances[q, others] + rng.random((200, 59)), axis=1)]
        hits = y[order] == y[q]
        found.append(np.mean((np.cumsum(hits, axis=1) / np.arange(1, 60))[hits]))
    assert abs(learner.score(X, y) - np.mean(found)) < 0.003


@each(FEW)
def test_pipelines_and_searches_work(name: str) -> None:
    X, y = clusters(200)
    pipeline = make_pipeline(StandardScaler(), make(name), KNeighborsClassifier(3, metric="hamming"))
    assert pipeline.fit(X, y).score(X, y) > 0.9
    search = GridSearchCV(make(name), {"n_bits": [2, 8], "features": [None, RbfAnchors(10)]}, cv=2)
    search.fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.encode(X).n_bits == search.best_params_["n_bits"]


@each(FEW)
def test_data_frames_carry_their_names(name: str) -> None:
    pd = pytest.importorskip("pandas")
    X, y = clusters(60, d=3)
    frame = pd.DataFrame(X, columns=["red", "green", "blue"])
    learner, twin = make(name).fit(frame, y), make(name)
    assert list(learner.feature_names_in_) == ["red", "green", "blue"]
    assert learner.encode(frame) == make(name).fit(X, y).encode(X)
    twin.set_state(learner.get_state())
    assert list(twin.feature_names_in_) == ["red", "green", "blue"]


# ------------------------------------------------------------------ randomness


@each(FEW)
def test_the_seed_decides(name: str) -> None:
    def after(seed: Any) -> bytes:
        return state_bytes(feed(make(name, random_state=seed), [pairs(n=30)]))

    assert after(1) == after(np.int64(1)) != after(2)
    assert after(None) != after(None)
    assert after(np.random.default_rng(3)) == after(np.random.default_rng(3))
    generator = np.random.default_rng(3)
    assert after(generator) != after(generator), "each learner draws its own seed from a shared generator"


def digests() -> dict[str, str]:
    """What learners become of a fixed stream: run in another process too."""
    stream = [pairs(n=50, d=33)]
    return {name: hashlib.sha256(state_bytes(feed(make(name, n_bits=16), stream))).hexdigest() for name in LEARNERS}


def test_another_process_with_other_threads_gives_the_same_bytes() -> None:
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    threads = "1" if os.environ.get("OPENBLAS_NUM_THREADS") == "2" else "2"
    script = "from tests.contracts.test_use import digests; import json; print(json.dumps(digests()))"
    run = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **dict.fromkeys(names, threads), "PYTHONHASHSEED": threads},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert json.loads(run.stdout) == digests()
    assert np.array_equal(np.random.get_state()[1], before), "the global generator is not moved"  # noqa: NPY002
