"""The contract, over every learner that the registry knows."""

import inspect
import re
from functools import cache
from typing import Any

import pytest

from tests.contracts import input_contract, numeric_contract, stream_contract, use_contract
from tests.contracts.contract import CONTRACT, EXEMPT, Check
from tests.support import CLOSELY, LEARNERS

THEMES = (input_contract, numeric_contract, stream_contract, use_contract)
CASES = [(check, name) for check in CONTRACT for name in CONTRACT[check] if (name, check.__name__) not in EXEMPT]

#: Checks that take long, be it for compiling another precision, or that are about what all learners share:
#: `make long` makes them on all learners, every other run on those it checks closely.
LONG = {
    "a_long_batch_that_is_refused_late_is_taken_back",
    "a_snapshot_never_changes",
    "a_state_can_be_taken_while_waiting",
    "a_wrong_width_is_refused_and_changes_nothing",
    "another_process_with_other_threads_gives_the_same_bytes",
    "any_split_of_a_stream_gives_the_same_bytes",
    "bad_pair_labels_are_refused_and_change_nothing",
    "bad_parameters_are_refused",
    "bad_single_vectors_are_refused_and_change_nothing",
    "bad_vectors_are_refused_and_change_nothing",
    "bad_weights_are_refused_and_change_nothing",
    "codes_are_refused_before_there_are_functions",
    "copies_go_on_alike",
    "data_frames_carry_their_names",
    "features_given_as_a_parameter_are_never_touched",
    "inputs_are_neither_changed_nor_kept",
    "kept_pairs_are_replayed_in_order",
    "labels_are_required_and_checked",
    "labels_may_be_numbers_or_text",
    "long_batches_are_the_loop_too",
    "mapped_rows_at_the_boundary_get_the_same_bits_in_any_company",
    "pipelines_and_searches_work",
    "precision_matters_only_at_the_boundary",
    "reading_never_writes",
    "rows_at_the_boundary_get_the_same_bits_in_any_company",
    "saving_and_loading_is_as_if_nothing_happened",
    "score_is_the_mean_average_precision",
    "the_layout_in_memory_does_not_matter",
    "the_seed_decides",
    "the_state_does_not_grow",
    "the_version_grows_exactly_when_codes_could_differ",
    "values_too_large_for_the_precision_are_refused",
    "what_is_returned_does_not_depend_on_the_split",
}


@cache
def _takes_more(check: Check) -> bool:
    """Whether `make long` asks more of it."""
    return re.search(r"@given|\b(precisions|learners_at_every_stage|thorough)\(", inspect.getsource(check)) is not None


def _case(check: Check, name: str) -> Any:
    marks = []
    if check.__name__ in LONG and name not in CLOSELY:
        marks = [pytest.mark.long]
    elif _takes_more(check):
        marks = [pytest.mark.thorough]
    return pytest.param(check, name, marks=marks, id=f"{check.__name__}-{name}")


@pytest.mark.parametrize(("check", "name"), [_case(*case) for case in CASES])
def test_contract(check: Check, name: str) -> None:
    check(name)


def test_every_check_runs_on_every_learner_that_is_not_exempt() -> None:
    checks = {check.__name__: kind for check, kind in CONTRACT.items()}
    assert len(CONTRACT) == len(checks) == 65, "a check was lost, or added: then count it here"
    assert {check.__module__ for check in CONTRACT} == {theme.__name__ for theme in THEMES}
    assert set(checks) > LONG
    assert set(LEARNERS) > CLOSELY
    assert len(CASES) == sum(map(len, CONTRACT.values())) - len(EXEMPT)
    for name, cls in LEARNERS.items():
        of_this = sum(case == name for _, case in CASES)
        assert of_this >= (30 if cls.traits.unit == "batch" else 45), name
    for (name, check), reason in EXEMPT.items():
        assert name in checks[check]
        assert len(reason) > 20
