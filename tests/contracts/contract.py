"""The list of checks that every learner of the registry has to pass.

A check is a function of a learner's name, marked `@contract`. The modules beside this one hold them by theme, and
`test_learners.py` runs them. There is one way out: a line in `EXEMPT` that says why.
"""

from __future__ import annotations

from collections.abc import Callable

Check = Callable[[str], None]
CONTRACT: list[Check] = []

EXEMPT = {
    ("LSH", "far_apart_clusters_are_told_apart"): "it learns nothing: how well it does is left to chance",
    ("LSH", "labels_are_required_and_checked"): "it learns nothing: labels are accepted and ignored",
    ("LSH", "labelled_points_are_pairs"): "it learns nothing: labelled points are just points",
    ("LSH", "the_odd_labelled_point_waits"): "it learns nothing: labelled points are just points",
}


def contract(check: Check) -> Check:
    """Mark a check of the contract."""
    CONTRACT.append(check)
    return check
