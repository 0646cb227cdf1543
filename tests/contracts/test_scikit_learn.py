"""scikit-learn's own checks, over every learner that the registry knows and over the feature map."""

from __future__ import annotations

import unittest
from collections import Counter
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from onlinehash import RbfAnchors
from tests.support import CLOSELY, LEARNERS, make

ESTIMATORS = [*map(make, LEARNERS), RbfAnchors(5)]

#: Checks of what is each learner's own; the others are about what all share, so that a few learners do.
OF_EACH = {"check_estimators_pickle", "check_fit_idempotent", "check_methods_subset_invariance"}

#: Vectors are NumPy arrays; scikit-learn tries others only if SCIPY_ARRAY_API is set.
MAY_STEP_ASIDE = {"check_array_api_input"}


def name_of(check: Any) -> str:
    return getattr(check, "func", check).__name__


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_scikit_learn(estimator: Any) -> None:
    ran: Counter[str] = Counter()
    has_all = type(estimator).__name__ in CLOSELY | {"RbfAnchors"}
    for of, check in estimator_checks_generator(estimator):
        if has_all or name_of(check) in OF_EACH:
            try:
                check(of)
                ran[name_of(check)] += 1
            except unittest.SkipTest as reason:
                if name_of(check) not in MAY_STEP_ASIDE:
                    pytest.fail(f"{name_of(check)} did not run: {reason}")
    assert set(ran) >= OF_EACH
    assert not has_all or ran.total() >= 45, "tags could switch most of the checks off"
