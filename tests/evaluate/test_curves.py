"""Precision against recall, beside a slow reference and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash import evaluate
from tests.evaluate.codes_as_vectors import distances_by_hand, identity, random_codes
from tests.reference import ranking as reference

LEVELS = [0.0, 0.25, 0.5, 0.7, 1.0]


@given(st.integers(0, 2**32), st.sampled_from([(5, 1, "min"), (3, 2, "min"), (2, 2, "sum")]))
def test_it_is_the_mean_curve_of_the_reference(seed, shape):
    n_bits, n_models, fusion = shape
    rng = np.random.default_rng(seed)
    Q, B = random_codes(rng, 5, n_bits * n_models), random_codes(rng, 30, n_bits * n_models)
    y_query, y_base = rng.integers(4, size=5), rng.integers(3, size=30)
    y_base[0] = y_query[0]
    truth = evaluate.same_label(y_query, y_base)
    found = evaluate.precision_recall(identity(n_bits, n_models, fusion), Q, B, truth, levels=LEVELS)
    distances, relevant = distances_by_hand(Q, B, n_models, fusion), y_query[:, None] == y_base
    recall, precision, interpolated = reference.precision_recall(distances, relevant, len(found.radius), LEVELS)
    np.testing.assert_allclose(found.recall, recall)
    np.testing.assert_allclose(found.precision, precision)
    np.testing.assert_allclose(found.interpolated, interpolated)
    assert len(found.radius) == 1 + (n_bits if fusion == "min" else n_bits * n_models)
    assert found.n_queries == relevant.any(axis=1).sum()


def test_by_hand():
    """At distances 1, 1, 2 from the first query: relevant, not, relevant; the second has its one item at distance 0."""
    base = np.array([[1.0, -1], [-1, 1], [-1, -1]])
    truth = evaluate.Truth(2, 3, lambda rows: np.array([[True, False, True], [False, False, True]])[rows])
    found = evaluate.precision_recall(identity(2), np.array([[1.0, 1], [-1, -1]]), base, truth, levels=[0.5, 1])
    assert found.radius.tolist() == [0, 1, 2]
    assert found.recall == pytest.approx([0.5, 0.75, 1])
    assert found.precision == pytest.approx([0.5, (1 / 2 + 1 / 3) / 2, (2 / 3 + 1 / 3) / 2])
    assert found.interpolated == pytest.approx([(2 / 3 + 1) / 2] * 2)
    skipped = evaluate.precision_recall(identity(2), np.array([[1.0, 1], [-1, -1]]), base, truth, empty_ball="skip")
    assert skipped.precision[0] == 1
    assert skipped.at(0.55) == pytest.approx((2 / 3 + 1) / 2)
