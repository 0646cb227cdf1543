"""`Lexical`: texts that share words are near, and a text always has the same vector."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from sklearn.feature_extraction import FeatureHasher

from onlinehash.embed import Lexical, lexical

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


def test_what_is_near() -> None:
    for text, nearer, farther in (
        ("open a file", "Opening of files", "a warm day"),
        ("parse_int", "parseInt", "parakeet"),
        ("mispelled words", "misspelled words", "other things"),
        ("最寄りの駅はどこですか", "最寄り駅への道", "今日も暑い"),
        ("สถานีรถไฟอยู่ที่ไหน", "รถไฟไปเชียงใหม่", "วันนี้อากาศร้อน"),
    ):
        assert near(text, nearer) > near(text, farther) + 0.05, text


def test_ways_to_write_the_same_text() -> None:
    for text, same in (("ＦＵＬＬ width", "full width"), ("ﬁle", "file"), ("cafe\u0301", "café"), ("ﾊﾟｿｺﾝ", "パソコン")):
        assert np.array_equal(*Lexical().encode([text, same])), text


def features(word: str) -> list[tuple[str, float]]:
    """A word and its pieces, and what they count, as the docstrings of the module say."""
    n = len(word) if word.isascii() else 2 * len(word)
    weight = lexical.LEAST if word in lexical.FREQUENT else min(n / lexical.LONG, 1.0)
    pieces = [f"<{word}>"[at : at + 4] for at in range(len(word) - 1)] if len(word) >= 4 else []
    return [(word, weight), *((piece, weight / math.sqrt(len(pieces))) for piece in pieces)]


def reference(text: str, n_features: int, version: int) -> np.ndarray:
    """The vector of a text by scikit-learn's hashing, a token at a time."""
    if version == 1 or text.isascii():
        words = re.findall(r"[^\W\d_]+|\d+", re.sub("(?<=[a-z])(?=[A-Z])", " ", text).casefold())
    else:
        words = lexical._words(text, version)
    tokens = [(features(word), n) for word, n in Counter(words).items()]
    for (a, b), n in Counter(pairwise(words)).items():
        tokens.append(([(f"{a} {b}", lexical.PAIRS * math.sqrt(features(a)[0][1] * features(b)[0][1]))], n))
    x = np.zeros(n_features)
    if tokens:
        hashed = FeatureHasher(n_features, input_type="pair", dtype=np.float64).transform(
            [token for token, _ in tokens]
        )
        for row, (_, n) in zip(hashed.toarray(), tokens, strict=True):
            x += (1 + np.log(float(n))) * row
    return (x / (np.sqrt((x * x).sum()) or 1)).astype(np.float32)


@pytest.mark.parametrize(("n_features", "version"), [(100, 1), (512, 2)])
def test_the_kernel_makes_what_a_plain_hasher_makes(n_features: int, version: int) -> None:
    rng = random.Random(n_features)
    letters = "abcdeXYZ019_- .,éßﬁİſ駅はสก\u0301\u0939\u093f١٢²🙂ﾊﾟＡ\n<>"
    texts = ["".join(rng.choices(letters, k=rng.randrange(80))) for _ in range(100)]
    texts += ["".join(rng.choices("aB1 ", k=rng.randrange(80))) for _ in range(50)]
    texts += [*TEXTS, "again and again " * 40, "w" * 3000, "é" * 999, "\ud800 half", "a\x00b", str(np.__doc__)]
    expected = [reference(text, n_features, version) for text in texts]
    np.testing.assert_allclose(Lexical(n_features, version).encode(texts), expected, rtol=0, atol=1e-6)


def test_what_is_ascii_has_the_same_vectors_in_both_versions() -> None:
    ascii_texts = [text for text in TEXTS if text.isascii()]
    assert np.array_equal(Lexical().encode(ascii_texts), Lexical(version=1).encode(ascii_texts))
    assert repr(Lexical(version=1)) == "Lexical(version=1)"
