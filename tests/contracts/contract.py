"""The list of checks that every learner of the registry has to pass.

A check is a function of a learner's name, marked `@contract`, or `@contract_of(...)` where it is about learners of one
kind only. The modules beside this one hold them by theme, and `test_learners.py` runs them. There is one other way out:
a line in `EXEMPT` that says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support import LEARNERS, centrings

Check = Callable[[str], None]
CONTRACT: dict[Check, list[str]] = {}

#: Of functions that are sums of trees; tests/features/test_boosted_trees.py has checks of its own.
TREES = "its bits are signs of trees' scores, which have no projection of the features, no mean and no boundary"

EXEMPT: dict[tuple[str, str], str] = {
    ("FastSupervisedHashing", "rows_at_the_boundary_get_the_same_bits_in_any_company"): TREES,
    ("FastSupervisedHashing", "the_boundary_itself_is_positive"): TREES,
    ("FastSupervisedHashing", "the_mean_itself_is_positive"): TREES,
    ("FastSupervisedHashing", "bits_are_signs_of_centred_projections"): TREES,
    ("FastSupervisedHashing", "bits_behind_a_map_are_signs_of_centred_kernel_values"): TREES,
    ("FastSupervisedHashing", "fit_starts_a_waiting_map"): TREES,
    ("FastSupervisedHashing", "precision_matters_only_at_the_boundary"): TREES,
}


def contract(check: Check) -> Check:
    """Mark a check that is about every learner."""
    return contract_of(lambda cls: True)(check)


def contract_of(kind: Callable[[Any], bool]) -> Callable[[Check], Check]:
    """Mark a check that is about learners of one kind."""

    def mark(check: Check) -> Check:
        CONTRACT[check] = [name for name, cls in LEARNERS.items() if kind(cls)]
        return check

    return mark


def streaming(cls: Any) -> bool:
    """It learns while a stream passes."""
    return cls.traits.unit != "batch"


def from_pairs(cls: Any) -> bool:
    """It learns from pairs."""
    return cls.traits.learns_from == "pairs"


def from_labels(cls: Any) -> bool:
    """It learns from labels, as they are."""
    return cls.traits.learns_from == "labels"


def takes_pairs(cls: Any) -> bool:
    """It takes pairs, be it only as points."""
    return streaming(cls) and not from_labels(cls)


def supervised(cls: Any) -> bool:
    """It learns from somebody's word."""
    return cls.traits.learns_from != "nothing"


def batch(cls: Any) -> bool:
    """It learns from all points at once."""
    return cls.traits.unit == "batch"


def taught(cls: Any) -> bool:
    """Only somebody's word changes its functions; points without it do not, once the mean is frozen."""
    return streaming(cls) and (supervised(cls) or cls.__name__ == "LSH")


def chooses_centring(cls: Any) -> bool:
    """Its users choose how features are centred; the others keep a mean of their own."""
    return len(centrings(cls.__name__)) > 1


def several_labels(cls: Any) -> bool:
    """Its points may have several labels."""
    return cls.traits.several_labels
