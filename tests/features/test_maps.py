"""scikit-learn's transformers as feature maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, PolynomialFeatures, StandardScaler

from onlinehash import OnlineHashing, RbfAnchors, load, save
from onlinehash.errors import InvalidInput, InvalidParameter
from onlinehash.features import make_map, same_map
from onlinehash.features.maps import WARM_UP, TransformerMap
from tests.support import as_bytes, feed, mostly_long, pairs, refused, refused_without_a_trace, state_bytes

STREAM = pairs(n=200, d=5)
POINTS = np.stack([STREAM.A, STREAM.B], axis=1).reshape(-1, 5)
ROWS = pairs(n=30, d=5, seed=1).A

TRANSFORMERS = [
    StandardScaler(),
    PCA(3, random_state=0),
    Nystroem(n_components=8, random_state=0),
    PolynomialFeatures(2),
    make_pipeline(StandardScaler(), PCA(3, random_state=0)),
]
MOSTLY_LONG = mostly_long(TRANSFORMERS, TRANSFORMERS[-1:])  # a pipeline has two of the others in it
names = [type(transformer).__name__ for transformer in TRANSFORMERS]


def learner(features: Any) -> OnlineHashing:
    return OnlineHashing(8, features=features, random_state=0, burn_in=50)


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=names)
def test_a_fitted_transformer_is_used_as_it_is(transformer: Any) -> None:
    fitted = clone(transformer).fit(POINTS)
    features = make_map(fitted)
    assert features.is_ready
    expected = np.asarray(fitted.transform(ROWS))
    np.testing.assert_allclose(features.map_rows(ROWS), expected, rtol=1e-9, atol=1e-12)
    direct = feed(learner(fitted), [STREAM])
    W = direct.projection_
    assert np.array_equal(direct.transform(ROWS), (features.map_rows(ROWS) - direct.mean_) @ W >= 0)


@pytest.mark.parametrize("transformer", MOSTLY_LONG, ids=names)
def test_an_unfitted_transformer_is_fitted_on_the_first_points(transformer: Any) -> None:
    waited = feed(learner(transformer), [STREAM])
    given = feed(learner(clone(transformer).fit(POINTS[:WARM_UP])), [STREAM])
    assert np.array_equal(waited.projection_, given.projection_)
    assert waited.encode(ROWS) == given.encode(ROWS)
    assert as_bytes(transformer) == as_bytes(clone(transformer)), "the parameter itself is not fitted"


#: While a map waits for points, shortly before it is fitted, after that; and one that never waits.
STAGES = [(False, 1), (False, 120), (False, 180), (True, 120)]


@pytest.mark.parametrize("transformer", MOSTLY_LONG, ids=names)
@pytest.mark.parametrize("fitted_and_cut", mostly_long(STAGES, {(False, 120), (True, 120)}), ids=str)
def test_saving_and_loading(transformer: Any, fitted_and_cut: tuple[bool, int], tmp_path: Path) -> None:
    fitted, cut = fitted_and_cut
    features = clone(transformer).fit(POINTS) if fitted else transformer
    never_stopped = feed(learner(features), [STREAM.part(slice(0, cut))])
    save(never_stopped, tmp_path / "model.oh")
    loaded = load(tmp_path / "model.oh")
    for one in (never_stopped, loaded):
        feed(one, [STREAM.part(slice(cut, None))])
    assert np.array_equal(loaded.projection_, never_stopped.projection_)
    assert loaded.encode(ROWS) == never_stopped.encode(ROWS)
    assert len(loaded.snapshot().changed_bits(never_stopped.snapshot())) == 0
    save(loaded.snapshot(), tmp_path / "encoder.oh")
    assert load(tmp_path / "encoder.oh").encode(ROWS) == never_stopped.encode(ROWS)


def test_flush_fits_on_what_is_there() -> None:
    early = feed(learner(PCA(3, random_state=0)), [STREAM.part(slice(0, 20))])
    assert not early.is_ready
    early.flush()
    given = feed(learner(PCA(3, random_state=0).fit(POINTS[:40])), [STREAM.part(slice(0, 20))])
    assert early.encode(ROWS) == given.encode(ROWS)


def test_a_row_does_not_depend_on_its_company() -> None:
    features = make_map(PCA(3).fit(POINTS))
    whole = features.map_rows(POINTS)
    assert all(np.array_equal(features.map_rows(POINTS[n : n + 1])[0], whole[n]) for n in range(len(POINTS)))


def test_a_stateless_transformer_needs_no_points() -> None:
    assert make_map(Normalizer()).is_ready
    feed(learner(Normalizer()), [STREAM]).encode(ROWS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_precision_is_the_streams(dtype: Any) -> None:
    fitted = feed(learner(StandardScaler().fit(POINTS)), [pairs(dtype=dtype)])
    assert fitted.snapshot().weights.dtype == dtype


def test_a_transformer_fitted_on_a_data_frame_takes_arrays_too() -> None:
    frame = pd.DataFrame(POINTS, columns=list("abcde"))
    fitted = StandardScaler().fit(frame)
    named = feed(learner(fitted), [STREAM])
    plain = feed(learner(StandardScaler().fit(POINTS)), [STREAM])
    assert named.encode(ROWS) == plain.encode(ROWS)
    assert list(fitted.feature_names_in_) == list("abcde"), "the parameter itself is not touched"


def test_a_transformer_of_another_width_is_refused() -> None:
    wrong = learner(StandardScaler().fit(POINTS[:, :3]))
    assert isinstance(refused_without_a_trace(wrong, wrong.observe, POINTS), InvalidInput)


def test_a_transformer_that_cannot_be_fitted_says_so() -> None:
    """More components than features: scikit-learn's message, in one of our errors."""
    hopeless = learner(PCA(50))
    hopeless.observe(POINTS[: WARM_UP - 1])
    for _ in range(2):
        error = refused_without_a_trace(hopeless, hopeless.observe, POINTS[:1])
        assert isinstance(error, InvalidParameter)
        assert "n_components=50" in str(error)


def test_what_is_no_transformer_is_refused() -> None:
    for features in (3, "pca", PCA, object(), {}):
        assert isinstance(refused(make_map, features), InvalidParameter)


def test_a_transformer_of_ones_own_works_but_cannot_be_saved(tmp_path: Path) -> None:
    class Half(TransformerMixin, BaseEstimator):
        def fit(self, X: Any, y: Any = None) -> Any:
            self.n_features_in_ = X.shape[1]
            return self

        def transform(self, X: Any) -> Any:
            return X / 2

    halved = feed(learner(Half().fit(POINTS)), [STREAM])
    halved.encode(ROWS)
    assert isinstance(refused(save, halved, tmp_path / "model.oh"), InvalidInput)
    assert list(tmp_path.iterdir()) == []


def test_maps_are_compared_by_what_they_do() -> None:
    one = make_map(PCA(3).fit(POINTS))
    assert same_map(one, make_map(PCA(3).fit(POINTS)))
    assert not same_map(one, make_map(PCA(3).fit(POINTS[1:])))
    assert not same_map(one, make_map(StandardScaler().fit(POINTS)))
    assert not same_map(one, RbfAnchors(3).fit(POINTS))
    assert isinstance(one, TransformerMap)


def test_the_state_does_not_grow_with_the_stream() -> None:
    sizes = []
    model = learner(StandardScaler())
    for _ in range(3):
        feed(model, [STREAM])
        sizes.append(len(state_bytes(model)))
    assert sizes[0] == sizes[1] == sizes[2]


def test_an_encoder_refuses_a_map_of_another_width() -> None:
    """As a file may hold one: nothing says how many features a transformer makes before it has made some."""
    A, B = np.random.default_rng(0).standard_normal((2, 100, 8))
    learner = OnlineHashing(8, features=PCA(3).fit(A), random_state=0).partial_fit_pairs(A, B, A[:, 0] * B[:, 0] > 0)
    encoder = learner.snapshot()
    encoder.feature_map.transformer = PCA(5).fit(A)
    assert "5 features" in str(refused(encoder.encode, A))
