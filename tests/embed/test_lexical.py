"""`Lexical`: texts that share words are near, and a text always has the same vector."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from onlinehash.embed import Lexical, lexical
from onlinehash.errors import InvalidParameter

TEXTS = [
    "Open a file and read its lines.",
    "Reading lines from opened files",
    "parse_int and parseInt are two words",
    "Die Straße ist gesperrt",
    "駅はどこですか",
    "the the the of of and a",
    "",
    "?!",
]


def test_the_example_of_its_docstring() -> None:
    assert doctest.testmod(lexical).failed == 0


def test_vectors_have_unit_length_or_none() -> None:
    X = Lexical().encode(TEXTS)
    assert X.shape == (len(TEXTS), 512)
    assert X.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), [1] * 6 + [0] * 2, atol=1e-6)


def test_a_vector_does_not_depend_on_what_is_encoded_with_it() -> None:
    together = Lexical(64).encode(TEXTS)
    for text, row in zip(TEXTS, together, strict=True):
        assert np.array_equal(Lexical(64).encode([text])[0], row)
    assert Lexical(64).encode([]).shape == (0, 64)


def test_vectors_stay_the_same_for_ever() -> None:
    """An index must go on with what an earlier release made."""
    expected = [-0.190394, 0, -0.117318, 0.433022, -0.035662, 0, 0, 0.203475]
    expected += [0.203475, -0.433022, -0.171578, -0.171578, 0.501654, -0.041179, 0.158497, -0.391844]
    np.testing.assert_allclose(Lexical(16).encode(TEXTS[:1])[0], expected, atol=1e-5)


def near(a: str, b: str) -> float:
    X = Lexical().encode([a, b])
    return float(X[0] @ X[1])


@pytest.mark.parametrize(
    ("text", "nearer", "farther"),
    [
        ("open a file", "Opening of files", "a warm day"),
        ("compression of archives", "compressed archive", "the weather of today"),
        ("parse_int", "parseInt", "parakeet"),
        ("the colour of the sky", "sky colours", "the end of the day"),
        ("mispelled words", "misspelled words", "other things"),
    ],
)
def test_what_is_near(text: str, nearer: str, farther: str) -> None:
    assert near(text, nearer) > near(text, farther) + 0.15


def test_short_words_count_little() -> None:
    assert near("the cat in the house", "the dog in the garden") < 0.5


def test_its_length_is_a_parameter() -> None:
    assert Lexical(100).encode(["a text"]).shape == (1, 100)
    assert (Lexical().name, Lexical(100).name, repr(Lexical(100))) == ("lexical@2", "lexical@2:100", "Lexical(100)")
    with pytest.raises(InvalidParameter, match="n_features"):
        Lexical(0)


def test_long_words_are_not_remembered() -> None:
    before = lexical._kept_features.cache_info().currsize
    lexical.Lexical(64).encode(["a" * 50_000, f"{'b' * 30} {'c' * 30}"])
    assert lexical._kept_features.cache_info().currsize <= before + 2


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("ＦＵＬＬ width", "full width"),
        ("ﬁle", "file"),
        ("cafe\u0301", "café"),
        ("ﾊﾟｿｺﾝ", "パソコン"),
        ("STRASSE", "Straße"),
    ],
)
def test_ways_to_write_the_same_text(text: str, same: str) -> None:
    assert np.array_equal(*Lexical().encode([text, same]))


@pytest.mark.parametrize(
    ("text", "nearer", "farther"),
    [
        ("最寄りの駅はどこですか", "最寄り駅への道", "今日も暑い"),
        ("如何打开文件", "打开一个文件", "今天天气很好"),
        ("สถานีรถไฟอยู่ที่ไหน", "รถไฟไปเชียงใหม่", "วันนี้อากาศร้อน"),
        ("हिन्दी भाषा की किताब", "हिन्दी किताबें", "आज मौसम गर्म है"),
    ],
)
def test_scripts_without_spaces_and_with_marks(text: str, nearer: str, farther: str) -> None:
    assert near(text, nearer) > near(text, farther) + 0.05


def test_what_is_ascii_has_the_same_vectors_in_both_versions() -> None:
    ascii_texts = [text for text in TEXTS if text.isascii()]
    assert np.array_equal(Lexical().encode(ascii_texts), Lexical(version=1).encode(ascii_texts))
    assert repr(Lexical(version=1)) == "Lexical(version=1)"
