"""scikit-learn's own checks, over every learner that the registry knows and over the feature map."""

from __future__ import annotations

import unittest
from collections import Counter
from typing import Any

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from onlinehash import RbfAnchors
from tests.support import CLOSELY, LEARNERS, make

ESTIMATORS = [*map(make, LEARNERS), RbfAnchors(5)]

#: Checks that may step aside, and why; any other that does fails.
EXEMPT = {
    "check_array_api_input": "vectors are NumPy arrays; scikit-learn tries others only if SCIPY_ARRAY_API is set",
}


def name_of(check: Any) -> str:
    return getattr(check, "func", check).__name__


def generated() -> list[tuple[Any, Any]]:
    return [pair for estimator in ESTIMATORS for pair in estimator_checks_generator(estimator)]


#: Checks of what is each learner's own; the others are about what all share, so that a few learners do for every run.
OF_EACH = {
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
}


def case(estimator: Any, check: Any) -> Any:
    name = type(estimator).__name__
    long = name_of(check) not in OF_EACH and name in set(LEARNERS) - CLOSELY
    return pytest.param(estimator, check, marks=[pytest.mark.long] if long else [], id=f"{name}-{name_of(check)}")


@pytest.mark.parametrize(("estimator", "check"), [case(*pair) for pair in generated()])
def test_scikit_learn(estimator: Any, check: Any) -> None:
    try:
        check(estimator)
    except unittest.SkipTest as reason:
        if name_of(check) not in EXEMPT:
            pytest.fail(f"{name_of(check)} did not run: {reason}")


def test_scikit_learn_has_a_full_set_of_checks_for_each() -> None:
    """Tags could switch most of the checks off; their number says that they have not."""
    checks = [(type(estimator).__name__, name_of(check)) for estimator, check in generated()]
    per_estimator = Counter(name for name, _ in checks)
    assert set(per_estimator) == {*LEARNERS, "RbfAnchors"}
    assert min(per_estimator.values()) >= 45
    names = {check for _, check in checks}
    assert set(EXEMPT) <= {*dir(estimator_checks)}  # not every version of scikit-learn hands it out
    for needed in (
        "check_fit_idempotent",
        "check_estimators_nan_inf",
        "check_estimators_pickle",
        "check_methods_subset_invariance",
        "check_methods_sample_order_invariance",
        "check_n_features_in_after_fitting",
        "check_parameters_default_constructible",
        "check_pipeline_consistency",
        "check_readonly_memmap_input",
        "check_transformer_general",
    ):
        assert needed in names
