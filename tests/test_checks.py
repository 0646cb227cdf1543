"""The gate for input: what passes, what comes out, and what is said to the rest."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from onlinehash import OnlineHashing, checks
from onlinehash.errors import InvalidInput, InvalidParameter
from tests.support import refused


class TestVectors:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (np.float16, np.float32),
            (np.float32, np.float32),
            (np.float64, np.float64),
            (np.int8, np.float64),
            (object, np.float64),
        ],
    )
    def test_precision(self, given: Any, expected: Any) -> None:
        out = checks.vectors(np.ones((2, 3)).astype(given))
        assert out.dtype == expected
        assert np.array_equal(out, np.ones((2, 3)))

    def test_rows_come_out_in_one_piece(self) -> None:
        X = np.asarray(np.arange(6.0).reshape(2, 3), order="F")
        out = checks.vectors(X[:, ::-1])
        assert out.flags.c_contiguous
        assert np.array_equal(out, X[:, ::-1])

    def test_good_rows_are_not_copied(self) -> None:
        X = np.ones((2, 3))
        assert checks.vectors(X) is X

    @pytest.mark.parametrize(
        ("bad", "words"),
        [
            ([[1, np.nan]], "contains NaN in row 0"),
            ([[1, 2], [1, np.inf]], r"contains infinity \(inf\) in row 1"),
            (np.full((1, 2), 1e25, np.float32), "squares overflow float32"),
            ([1, 2], r"Expected 2D array, got 1D array .*reshape\(1, -1\)"),
            (np.zeros((0, 2)), "0 sample"),
            ([[1], [1, 2]], "unequal length"),
            ([["a", "b"]], "got text; embed it"),
            (np.ones((1, 2), complex), "Complex data not supported"),
            (scipy.sparse.eye(3), r"sparse input; call X.toarray\(\)"),
        ],
    )
    def test_refused(self, bad: Any, words: str) -> None:
        error = refused(checks.vectors, bad)
        assert isinstance(error, InvalidInput)
        with pytest.raises(ValueError, match=words):
            checks.vectors(bad)


class TestRow:
    @pytest.mark.parametrize("x", [[1, 2, 3], np.ones((1, 3), np.float32)])
    def test_one_vector(self, x: Any) -> None:
        assert checks.row(x, "a").shape == (1, 3)

    @pytest.mark.parametrize("x", [3, [[1], [2]], None, "a"])
    def test_refused(self, x: Any) -> None:
        refused(checks.row, x, "a")


class TestSimilarities:
    @pytest.mark.parametrize(
        "similar",
        [
            [True, False],
            [1, -1],
            np.array([1.0, -1.0], np.float32),
        ],
    )
    def test_become_signs(self, similar: Any) -> None:
        out = checks.similarities(similar, 2)
        assert out.dtype == np.int8
        assert out.tolist() == [1, -1]

    @pytest.mark.parametrize(
        "similar",
        [[0, -1], [1, 2], [1, np.nan], ["yes", "no"], [1], None],
    )
    def test_refused(self, similar: Any) -> None:
        refused(checks.similarities, similar, 2)

    @pytest.mark.parametrize("similar", [[1, 0, 1], np.array([1, 0, 1], np.uint8)])
    def test_a_click_is_1_and_none_is_0(self, similar: Any) -> None:
        assert checks.similarities(similar, 3).tolist() == [1, -1, 1]


class TestWeights:
    def test_default_is_one(self) -> None:
        assert checks.weights(None, 3).tolist() == [1, 1, 1]

    def test_values(self) -> None:
        assert checks.weights([0, 2.5], 2).tolist() == [0, 2.5]
        assert checks.weights(3, 1).tolist() == [3]

    @pytest.mark.parametrize("weight", [[1, -1], [1, np.nan], [1], ["a", "b"]])
    def test_refused(self, weight: Any) -> None:
        refused(checks.weights, weight, 2)


class TestLabels:
    @pytest.mark.parametrize("y", [[0, 1], ["a", "b"], [[0], [1]]])
    def test_pass(self, y: Any) -> None:
        assert len(checks.labels(y, 2)) == 2

    def test_objects(self) -> None:
        assert checks.labels(np.array(["a", 1], object), 2).tolist() == ["a", "1"]
        assert checks.labels(np.array([2, 1], object), 2).tolist() == [2, 1]

    @pytest.mark.parametrize("y", [[1], [[1, 2], [3, 4]], [1, np.nan], [None, object()], 3])
    def test_refused(self, y: Any) -> None:
        refused(checks.labels, y, 2)


class TestRules:
    @pytest.mark.parametrize(
        ("rule", "good", "bad"),
        [
            (checks.integer(1), [1, 7, np.int32(3)], [0, 1.0, True, "1", None, np.float64(2)]),
            (checks.integer(0, 3), [0, 3], [-1, 4]),
            (checks.real(0), [0, 0.0, 1e9, np.float32(1), Fraction(1, 2)], [-1e-9, np.nan, np.inf, "0", None, True]),
            (checks.real(0, above=True), [1e-300], [0]),
            (checks.real(0, 1), [0, 1, 0.5], [1.1, -0.1]),
            (checks.one_of("a", None), ["a", None], ["b", "A", 0, np.zeros(2), ["a"]]),
            (checks.one_of(True, False), [True, False], [None, "yes", 0, 1]),
            (checks.either(checks.one_of("auto"), checks.real(0)), ["auto", 3], ["other", -1]),
        ],
    )
    def test_values(self, rule: checks.Rule, good: list[Any], bad: list[Any]) -> None:
        text, test = rule
        assert isinstance(text, str)
        assert all(test(value) for value in good)
        assert not any(test(value) for value in bad)

    def test_the_first_that_breaks_its_rule_is_named(self) -> None:
        rules = {"n": checks.integer(1), "C": checks.real(0)}
        checks.parameters("Thing", {"n": 1, "C": 2, "other": None}, rules)
        error = refused(checks.parameters, "Thing", {"n": 0, "C": -1}, rules)
        assert isinstance(error, InvalidParameter)
        assert str(error) == "Thing expects n to be an integer of at least 1, got 0."


def test_a_warning_points_at_the_line_that_called() -> None:
    learner = OnlineHashing(8, similar_radius=4)
    with pytest.warns(UserWarning, match="similar_radius=4") as caught:
        learner.learn_pair([1.0, 2], [2.0, 1], True)
    assert caught[0].filename == __file__
