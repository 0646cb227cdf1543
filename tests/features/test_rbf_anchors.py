"""The paper's kernel map against its formula."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from onlinehash import RbfAnchors
from onlinehash.errors import InvalidInput, InvalidParameter, NotReady
from onlinehash.features import same_map
from tests.support import refused

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 7))


def kernel(rows: np.ndarray, anchors: np.ndarray, width: float) -> np.ndarray:
    return np.exp(-((rows[:, None] - anchors[None]) ** 2).sum(axis=2) / (2 * width**2))


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_values() -> None:
    features = RbfAnchors(20, width=2.5).fit(X)
    np.testing.assert_allclose(features.transform(X), kernel(X, X[:20], 2.5), rtol=1e-12)
    np.testing.assert_allclose(features.transform(X), rbf_kernel(X, X[:20], gamma=1 / (2 * 2.5**2)), rtol=1e-12)
    assert features.width_ == 2.5
    assert list(features.get_feature_names_out())[:2] == ["rbfanchors0", "rbfanchors1"]


def test_normalize() -> None:
    features = RbfAnchors(20, width=1.0, normalize=True).fit(5 * X)
    np.testing.assert_allclose(features.transform(3 * X), kernel(unit(X), unit(X[:20]), 1.0), rtol=1e-12)
    assert np.isfinite(features.transform(np.zeros((1, 7)))).all(), "a zero vector has no direction; it stays zero"


def test_the_vector_itself_beside_its_kernel_values() -> None:
    for normalize in (False, True):
        features = RbfAnchors(20, normalize=normalize, linear=True).fit(5 * X)
        rows = unit(X) if normalize else 5 * X
        values = kernel(rows, rows[:20], features.width_)
        found = features.transform(5 * X)
        assert found.shape == (60, 7 + 20) == (60, features.n_outputs)
        linear, scaled = found[:, :7], found[:, 7:]
        np.testing.assert_allclose(
            linear / linear[0, 0], (rows - rows[:20].mean(axis=0)) / (rows[0, 0] - rows[:20, 0].mean())
        )
        np.testing.assert_allclose(scaled / scaled[0, 0], values / values[0, 0], rtol=1e-9)
        assert (linear[:20] ** 2).sum(axis=1).mean() == pytest.approx(1)
        others = np.ma.masked_array(scaled[:20], np.eye(20))
        assert others.var(axis=0).sum() == pytest.approx(1)
        assert list(features.get_feature_names_out())[-1] == "rbfanchors26"


def test_the_width_can_come_from_the_anchors() -> None:
    for normalize in (False, True):
        features = RbfAnchors(20, normalize=normalize).fit(X)
        anchors = unit(X[:20]) if normalize else X[:20]
        distances = np.linalg.norm(anchors[:, None] - anchors[None], axis=2)[np.triu_indices(20, 1)]
        assert features.width_ == pytest.approx(0.5 * np.median(distances), rel=1e-12)


def test_anchors_are_the_first_distinct_points() -> None:
    stream = np.repeat(X[:10], 3, axis=0)
    features = RbfAnchors(8, width=2.0)
    for n, row in enumerate(stream):
        assert features.n_waiting_for == max(0, 8 - len(stream[:n]) // 3 - (n % 3 > 0))
        features.partial_fit(row[None])
    assert np.array_equal(features.anchors_, X[:8])
    assert features.is_ready
    assert features.n_waiting_for == 0


def test_anchors_can_be_given() -> None:
    anchors = X[50:].copy()
    features = RbfAnchors(anchors=anchors, width=2.0).fit(X)
    np.testing.assert_allclose(features.transform(X), kernel(X, X[50:], 2.0), rtol=1e-12)
    anchors[:] = 0
    assert np.array_equal(features.anchors_, X[50:]), "they are copied"
    assert RbfAnchors(anchors=X[50:].tolist()).fit(X).anchors_.shape == (10, 7)


def test_patience_ends() -> None:
    """After ten times as many points as anchors it starts with the distinct ones it has, and says so."""
    features = RbfAnchors(6, width=2.0)
    features.partial_fit(np.tile(X[:3], (19, 1)))
    features.partial_fit(X[:2])
    assert not features.is_ready
    with pytest.warns(UserWarning, match="waited for 60 points and saw 3 distinct"):
        features.partial_fit(X[:1])
    assert np.array_equal(features.anchors_, X[:3])


def test_degenerate_kernels_warn() -> None:
    for width in (1e-3, 1e3):
        with pytest.warns(UserWarning, match="kernel values are degenerate .* use width='auto'"):
            RbfAnchors(20, width=width).fit(X)


def test_the_automatic_width_is_never_degenerate() -> None:
    for scale in (1e-6, 1.0, 1e6):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            values = RbfAnchors(20).fit(scale * X).transform(scale * X[20:])
        assert 0.01 < values.mean() < 0.99


def test_state_and_pickle() -> None:
    for n in (5, 40):
        features = RbfAnchors(20).partial_fit(X[:n])
        twin = RbfAnchors(20)
        twin.set_state(features.get_state())
        unpickled = pickle.loads(pickle.dumps(features))
        for one in (features, twin, unpickled):
            one.partial_fit(X[n:])
        assert same_map(features, twin)
        assert np.array_equal(features.transform(X), twin.transform(X))
        assert np.array_equal(features.transform(X), unpickled.transform(X))
    fresh = RbfAnchors(20)
    assert fresh.get_state() == {}
    features.set_state({})
    assert not features.is_ready


def test_bad_parameters() -> None:
    bad: list[dict[str, Any]] = [
        {"n_anchors": 0},
        {"n_anchors": 2.5},
        {"width": 0},
        {"width": "wide"},
        {"normalize": 1},
    ]
    for params in (*bad, {"anchors": np.ones((2, 3))}, {"anchors": np.full((2, 7), np.nan)}, {"anchors": "some"}):
        features = RbfAnchors(**params)
        error = refused(features.fit, X)
        assert isinstance(error, InvalidParameter if "anchors" not in params else InvalidInput)
        assert vars(features) == vars(RbfAnchors(**params))


def test_bad_input_changes_nothing() -> None:
    fresh = RbfAnchors(20)
    assert isinstance(refused(fresh.transform, X), NotReady)
    with pytest.raises(NotFittedError):
        fresh.transform(X)
    features = RbfAnchors(20).fit(X)
    before = features.transform(X)
    for bad in (X[:, :3], X * np.nan, X[0], "rows", X[:0]):
        for call in (features.transform, features.partial_fit):
            assert isinstance(refused(call, bad), InvalidInput)
        if np.shape(bad) != (60, 3):  # fit may choose another width
            assert isinstance(refused(features.fit, bad), InvalidInput)
    assert np.array_equal(features.transform(X), before)
