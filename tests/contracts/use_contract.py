"""What people do with a learner: codes, retrieval, scikit-learn's tools."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onlinehash import Codes, RbfAnchors
from onlinehash.learners import registry
from onlinehash.learners.base import Learner
from tests.contracts.contract import contract, contract_of, supervised
from tests.support import LEARNERS, clusters, feed, make, pairs


@contract
def it_is_a_learner_with_traits(name: str) -> None:
    cls = LEARNERS[name]
    assert issubclass(cls, Learner)
    assert cls.__name__ == name
    assert registry.find(name) is cls
    assert cls.traits.learns_from in ("pairs", "labels", "nothing")
    assert cls.traits.unit in ("pair", "point", "chunk", "batch")


@contract
def every_parameter_is_documented(name: str) -> None:
    text = LEARNERS[name].__doc__ + Learner.__doc__
    for parameter in make(name).get_params():
        assert f"{parameter}" in text.replace(",", " ").split(), parameter


@contract
def transform_is_for_people_and_encode_for_machines(name: str) -> None:
    learner = feed(make(name), [pairs()])
    X = pairs(seed=1).A
    encoder, bits, codes = learner.snapshot(), learner.transform(X), learner.encode(X)
    assert bits.dtype == bool
    assert bits.shape == (len(X), encoder.n_columns)
    assert encoder.n_columns == encoder.n_models * 8
    assert isinstance(codes, Codes)
    assert (codes.n_bits, codes.n_models, len(codes)) == (8, encoder.n_models, len(X))
    assert np.array_equal(codes.bits(), bits)
    assert np.array_equal(encoder.transform(X), bits)
    assert encoder.encode(X) == codes
    assert (encoder.n_bits, encoder.version, encoder.method) == (8, learner.version_, name)
    assert len(learner.get_feature_names_out()) == encoder.n_columns


@contract
def bits_are_signs_of_centred_projections(name: str) -> None:
    """bit = [w.(x - mean) >= 0], by the learned attributes that everybody can see."""
    learner = feed(make(name), [pairs()])
    X = pairs(seed=1).A
    W = learner.projection_.reshape(-1, 5, 8)
    expected = np.concatenate([(X - learner.mean_) @ w >= 0 for w in W], axis=1)
    assert np.array_equal(learner.transform(X), expected)


@contract
def bits_behind_a_map_are_signs_of_centred_kernel_values(name: str) -> None:
    stream = pairs()
    learner = feed(make(name, features=RbfAnchors(9, width=2.0)), [stream])
    anchors = np.stack([stream.A, stream.B], axis=1).reshape(-1, 5)[:9]
    X = pairs(seed=1).A
    Z = np.exp(-((X[:, None] - anchors[None]) ** 2).sum(axis=2) / (2 * 2.0**2))
    W = learner.projection_.reshape(-1, 9, 8)
    expected = np.concatenate([(Z - learner.mean_) @ w >= 0 for w in W], axis=1)
    assert np.array_equal(learner.transform(X), expected)


@contract_of(supervised)
def far_apart_clusters_are_told_apart(name: str) -> None:
    X, y = clusters(1500)
    X_new, y_new = clusters(300, seed=9)
    for features in (None, RbfAnchors(50)):
        learner = make(name, n_bits=16, burn_in=2000, features=features).fit(X, y)
        assert learner.score(X_new, y_new) > 0.95


@contract
def score_is_the_mean_average_precision(name: str) -> None:
    """Against the definition, on distances with ties: the mean over many random orders."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:60], y[:60]
    learner = make(name, n_bits=12).fit(X, y)
    codes = learner.encode(X)
    bits, asked = (of.bits().reshape(60, codes.n_models, 12) for of in (codes, learner.encode_queries(X)))
    distances = (asked[:, None] != bits[None]).sum(axis=3).min(axis=2)
    rng = np.random.default_rng(0)
    precisions = []
    for q in range(60):
        others = np.delete(np.arange(60), q)
        order = others[np.argsort(distances[q, others] + rng.random((200, 59)), axis=1)]
        hits = y[order] == y[q]
        precisions.append(np.mean((np.cumsum(hits, axis=1) / np.arange(1, 60))[hits]))
    assert abs(learner.score(X, y) - np.mean(precisions)) < 0.003


@contract
def pipelines_and_searches_work(name: str) -> None:
    X, y = clusters(200)
    pipeline = make_pipeline(StandardScaler(), make(name), KNeighborsClassifier(3, metric="hamming"))
    assert pipeline.fit(X, y).score(X, y) > 0.9
    search = GridSearchCV(make(name), {"n_bits": [2, 8], "features": [None, RbfAnchors(10)]}, cv=2)
    search.fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.encode(X).n_bits == search.best_params_["n_bits"]
    as_step = make_pipeline(RbfAnchors(20), make(name)).fit(X, y)
    assert as_step.transform(X).dtype == bool


@contract
def data_frames_carry_their_names(name: str) -> None:
    import pandas as pd

    X, y = clusters(60, d=3)
    frame = pd.DataFrame(X, columns=["red", "green", "blue"])
    learner = make(name).fit(frame, y)
    assert list(learner.feature_names_in_) == ["red", "green", "blue"]
    assert learner.encode(frame) == make(name).fit(X, y).encode(X)
    twin = make(name)
    twin.set_state(learner.get_state())
    assert list(twin.feature_names_in_) == ["red", "green", "blue"]
