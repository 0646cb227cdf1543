import numpy as np
import pytest

from onlinehash import evaluate
from onlinehash.errors import InvalidInput


def test_a_block_says_which_labels_are_equal():
    truth = evaluate.same_label([3, 1, 2], [1, 2, 1, 3])
    assert (truth.n_queries, truth.n_base) == (3, 4)
    expected = [[False, False, False, True], [True, False, True, False], [False, True, False, False]]
    np.testing.assert_array_equal(truth.block(slice(0, 3)), expected)
    np.testing.assert_array_equal(truth.block(slice(1, 2)), expected[1:2])


def test_labels_may_be_text():
    truth = evaluate.same_label(["cat", "dog"], np.array(["dog", "dog", "cow"]))
    np.testing.assert_array_equal(truth.block(slice(0, 2)), [[False] * 3, [True, True, False]])


def test_numbers_compare_as_numbers():
    assert evaluate.same_label([3], [3.0]).block(slice(0, 1)).all()


@pytest.mark.parametrize(
    ("query", "base", "message"),
    [
        ([1, 2], ["1", "2"], "one kind"),
        ([], [1], "at least one label for y_query"),
        ([1], 7, "at least one label for y_base"),
        ([1.0, np.nan], [1.0], "NaN"),
        ([[1, 2]], [1], "vector of labels"),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(query, base, message):
    with pytest.raises(InvalidInput, match=message):
        evaluate.same_label(query, base)
