"""`Lexical`: vectors of the words in a text, without a model to download and without training.

A text becomes a weighted set of its words, pairs of neighbouring words and pieces of words, and each of these is hashed
to a signed place of the vector (Weinberger, Dasgupta, Langford, Smola, Attenberg: *Feature hashing for large scale
multitask learning*, ICML 2009). Inner products of such vectors are those of the sets, up to noise of about one over the
square root of their length.

Word frequencies are not learned, so that a text has the same vector for ever. A word's length stands for them: in most
languages frequent words are short (Zipf's law of abbreviation), so short ones count less, and those that hold English
sentences together count least.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import TypeAlias
from unicodedata import normalize

import numpy as np

from onlinehash import checks

#: Runs of letters or digits; `parse_int` and `parseInt` are two words each, and an `ABCMeta` is one.
_WORDS = re.compile(r"[^\W\d_]+|\d+")
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])")

#: Scripts that write words without spaces between them: Thai, Lao, Burmese, Khmer, kana, Chinese characters. And marks
#: within words: accents on letters that have no form with them, and the scripts of India.
UNSPACED = "\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff\\u3400-\\u9fff\\U00020000-\\U0003ffff"
MARKS = "\\u0300-\\u036f\\u0900-\\u0dff"
_ANY_WORDS = re.compile(rf"[{UNSPACED}]+|(?:[^\W\d_{UNSPACED}]|[{MARKS}])+|\d+")
_IS_UNSPACED = re.compile(f"[{UNSPACED}]").match

#: The version that new indexes get; an index goes on with the one that made its vectors.
NEWEST = 2

#: Letters of a word that counts in full; and what all pieces of a word, and two neighbouring words, count beside it.
LONG, PIECES, PAIRS = 6, 1.0, 0.3
#: Letters of a piece of a word.
PIECE = 4
#: Letters of what is remembered; a long one takes much memory and does not come again.
LONGEST_KEPT = 40

#: The words that English sentences are held together by, which say little of what they are about, and what they count.
_FREQUENT = """
a about after all also an and any are as at be been but by can could did do does for from had has have he her his how i
if in into is it its may me more most my no not of on only or other our out over she should so some such than that the
their them then there these they this those to too up us was we were what when where which while who why will with would
you your
"""
FREQUENT = frozenset(_FREQUENT.split())
LEAST = 0.1

Token: TypeAlias = str | tuple[str, str]


class Lexical:
    """Vectors of unit length, in which texts are near that share words, parts of words or phrases.

    It knows no synonyms: `car` is as far from `automobile` as from `banana`. Marks teach an index what it does not
    know. It is deterministic: a text always has the same vector, on every machine and in every release.

    Parameters
    ----------
    n_features : int, default=512
        Length of a vector. Longer ones confuse fewer words with one another.
    version : int, default=2
        Texts of ASCII have the same vectors in both. The second takes different ways to write a letter for one (NFKC),
        and characters, alone or with their neighbour, for words where a script has no spaces between these.

    Examples
    --------
    >>> X = Lexical().encode(["Read a file", "reading of files", "A warm day"])
    >>> X.shape
    (3, 512)
    >>> bool(X[0] @ X[1] > X[0] @ X[2])
    True
    """

    def __init__(self, n_features: int = 512, version: int = NEWEST) -> None:
        rules = {"n_features": checks.integer(16, 65_536), "version": checks.integer(1, NEWEST)}
        checks.parameters("Lexical", {"n_features": n_features, "version": version}, rules)
        self.n_features, self.version = int(n_features), int(version)

    @property
    def name(self) -> str:
        """What an index keeps."""
        kind = "lexical" if self.version == 1 else f"lexical@{self.version}"
        return kind if self.n_features == 512 else f"{kind}:{self.n_features}"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """One vector a text: float32 of shape (n, n_features). A text without any word has a vector of zeros."""
        from scipy.sparse import csr_array  # which takes a while to import, as the next does
        from sklearn.feature_extraction import FeatureHasher

        found: dict[Token, int] = {}  # all tokens of these texts, by which they are hashed only once
        places, counts, ends = list[int](), list[int](), [0]
        for text in texts:
            for token, n in _tokens(text, self.version):
                places.append(found.setdefault(token, len(found)))
                counts.append(n)
            ends.append(len(places))
        if not found:
            return np.zeros((len(texts), self.n_features), np.float32)
        hasher = FeatureHasher(self.n_features, input_type="pair", dtype=np.float64)
        hashed = csr_array(hasher.transform(map(_features, found)))
        often = 1 + np.log(np.array(counts, np.float64))  # what comes again counts less each time
        X = (csr_array((often, places, ends), shape=(len(texts), len(found))) @ hashed).toarray()
        lengths = np.sqrt((X * X).sum(axis=1, keepdims=True))
        unit: np.ndarray = np.divide(X, lengths, out=np.zeros_like(X), where=lengths > 0)
        return unit.astype(np.float32)

    def __repr__(self) -> str:
        said = [] if self.n_features == 512 else [str(self.n_features)]
        said += [] if self.version == NEWEST else [f"version={self.version}"]
        return f"Lexical({', '.join(said)})"


def _tokens(text: str, version: int) -> Iterator[tuple[Token, int]]:
    """The words of a text and the pairs of neighbours among them, and how often it has each."""
    if version == 1 or text.isascii():
        words = _WORDS.findall(_HUMPS.sub(" ", text).casefold())
    else:
        folded = normalize("NFKC", _HUMPS.sub(" ", normalize("NFKC", text)).casefold())
        words = list(chain.from_iterable(map(_split, _ANY_WORDS.findall(folded))))
    return chain(Counter(words).items(), Counter(pairwise(words)).items())


def _split(word: str) -> list[str]:
    """The word itself or, of a script without spaces, two characters at a time, and Chinese characters alone too."""
    if len(word) < 2 or not _IS_UNSPACED(word):
        return [word]
    alone = [letter for letter in word if letter >= "\u3400"]
    return [*alone, *(word[at : at + 2] for at in range(len(word) - 1))]


def _features(token: Token) -> list[tuple[str, float]]:
    """What is hashed of a token; kept for those that are short, as words are, so that this takes little memory."""
    n = len(token) if isinstance(token, str) else len(token[0]) + len(token[1])
    return _kept_features(token) if n <= LONGEST_KEPT else _made_features(token)


@lru_cache(maxsize=1 << 16)
def _kept_features(token: Token) -> list[tuple[str, float]]:
    return _made_features(token)


def _made_features(token: Token) -> list[tuple[str, float]]:
    """A pair of words, or a word and its pieces, which other forms of it have too."""
    if isinstance(token, tuple):
        return [(" ".join(token), PAIRS * math.sqrt(_weight(token[0]) * _weight(token[1])))]
    weight = _weight(token)
    marked = f"<{token}>"
    pieces = [marked[at : at + PIECE] for at in range(len(marked) - PIECE + 1)] if len(token) >= PIECE else []
    return [(token, weight), *((piece, PIECES * weight / math.sqrt(len(pieces))) for piece in pieces)]


def _weight(word: str) -> float:
    """What a word counts; a character of a script without spaces may be a word of its own."""
    if word in FREQUENT:
        return LEAST
    n = len(word) if word.isascii() else 2 * len(word)
    return min(n / LONG, 1.0)
