import numpy as np
import pytest

from onlinehash import evaluate


def test_a_block_says_which_labels_are_equal():
    truth = evaluate.same_label([3, 1, 2], [1, 2, 1, 3])
    assert (truth.n_queries, truth.n_base) == (3, 4)
    expected = [[False, False, False, True], [True, False, True, False], [False, True, False, False]]
    np.testing.assert_array_equal(truth.block(slice(0, 3)), expected)
    np.testing.assert_array_equal(truth.block(slice(1, 2)), expected[1:2])


def test_labels_may_be_text():
    truth = evaluate.same_label(["cat", "dog"], np.array(["dog", "dog", "cow"]))
    np.testing.assert_array_equal(truth.block(slice(0, 2)), [[False] * 3, [True, True, False]])


@pytest.mark.parametrize(("n_base", "as_text"), [(1, False), (64, True), (150, False)])
def test_bits_say_what_booleans_say(n_base, as_text):
    rng = np.random.default_rng(n_base)
    y_query, y_base = rng.integers(4, size=9), rng.integers(5, size=n_base)
    if as_text:
        y_query, y_base = y_query.astype(str), y_base.astype(str)
    truth = evaluate.same_label(y_query, y_base)
    plain = evaluate.Truth(9, n_base, truth.block)
    for rows in (slice(0, 9), slice(2, 5)):
        for masks, which in (truth.masks(rows), plain.masks(rows)):
            words = masks[which]
            assert words.shape == (len(range(9)[rows]), -(-n_base // 64))
            bits = words[:, np.arange(n_base) // 64] >> (np.arange(n_base) % 64).astype(np.uint64) & np.uint64(1)
            np.testing.assert_array_equal(bits.astype(bool), truth.block(rows))
            assert np.bitwise_count(words).sum() == truth.block(rows).sum()  # nothing after the last item


def test_large_whole_numbers_are_told_apart():
    """As float64 they would be equal."""
    truth = evaluate.same_label(np.array([2**60], np.uint64), np.array([2**60, 2**60 + 1], np.int64))
    masks, which = truth.masks(slice(0, 1))
    assert masks[which].tolist() == [[1]]
