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
from sklearn.preprocessing import Normalizer, StandardScaler

from onlinehash import OnlineHashing, load, save
from onlinehash.errors import InvalidInput
from onlinehash.features import make_map
from onlinehash.features.maps import WARM_UP
from tests.support import as_bytes, feed, pairs, refused, refused_without_a_trace

STREAM = pairs(n=200, d=5)
POINTS = np.stack([STREAM.A, STREAM.B], axis=1).reshape(-1, 5)
ROWS = pairs(n=30, d=5, seed=1).A

PIPELINE = make_pipeline(StandardScaler(), PCA(3, random_state=0))


def learner(features: Any) -> OnlineHashing:
    return OnlineHashing(8, features=features, random_state=0, burn_in=50)


@pytest.mark.parametrize("transformer", [Nystroem(n_components=8, random_state=0), PIPELINE], ids=["Nystroem", "PCA"])
def test_a_fitted_transformer_is_used_as_it_is(transformer: Any) -> None:
    fitted = clone(transformer).fit(POINTS)
    features = make_map(fitted)
    assert features.is_ready
    expected = np.asarray(fitted.transform(ROWS))
    np.testing.assert_allclose(features.map_rows(ROWS), expected, rtol=1e-9, atol=1e-12)
    direct = feed(learner(fitted), [STREAM])
    W = direct.projection_
    assert np.array_equal(direct.transform(ROWS), (features.map_rows(ROWS) - direct.mean_) @ W >= 0)


def test_an_unfitted_transformer_is_fitted_on_the_first_points() -> None:
    waited = feed(learner(PIPELINE), [STREAM])
    given = feed(learner(clone(PIPELINE).fit(POINTS[:WARM_UP])), [STREAM])
    assert np.array_equal(waited.projection_, given.projection_)
    assert waited.encode(ROWS) == given.encode(ROWS)
    assert as_bytes(PIPELINE) == as_bytes(clone(PIPELINE)), "the parameter itself is not fitted"


@pytest.mark.parametrize("cut", [120, 180], ids=["while it waits", "after that"])
def test_saving_and_loading(cut: int, tmp_path: Path) -> None:
    never_stopped = feed(learner(PIPELINE), [STREAM.part(slice(0, cut))])
    save(never_stopped, tmp_path / "model.oh")
    loaded = load(tmp_path / "model.oh")
    for one in (never_stopped, loaded):
        feed(one, [STREAM.part(slice(cut, None))])
    assert np.array_equal(loaded.projection_, never_stopped.projection_)
    assert loaded.encode(ROWS) == never_stopped.encode(ROWS)
    assert len(loaded.snapshot().changed_bits(never_stopped.snapshot())) == 0
    save(loaded.snapshot(), tmp_path / "encoder.oh")
    assert load(tmp_path / "encoder.oh").encode(ROWS) == never_stopped.encode(ROWS)


def test_a_stateless_transformer_needs_no_points() -> None:
    assert make_map(Normalizer()).is_ready
    feed(learner(Normalizer()), [STREAM]).encode(ROWS)


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


def test_an_encoder_refuses_a_map_of_another_width() -> None:
    """As a file may hold one: nothing says how many features a transformer makes before it has made some."""
    A, B = np.random.default_rng(0).standard_normal((2, 100, 8))
    learner = OnlineHashing(8, features=PCA(3).fit(A), random_state=0).partial_fit_pairs(A, B, A[:, 0] * B[:, 0] > 0)
    encoder = learner.snapshot()
    encoder.feature_map.transformer = PCA(5).fit(A)
    assert "5 features" in str(refused(encoder.encode, A))
