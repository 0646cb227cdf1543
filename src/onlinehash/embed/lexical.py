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

import os
import re
from collections.abc import Sequence
from itertools import chain
from unicodedata import normalize

import numpy as np

from onlinehash import checks
from onlinehash.numeric.threads import cpu_count

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

#: The words that English sentences are held together by, which say little of what they are about, and what they count.
_FREQUENT = """
a about after all also an and any are as at be been but by can could did do does for from had has have he her his how i
if in into is it its may me more most my no not of on only or other our out over she should so some such than that the
their them then there these they this those to too up us was we were what when where which while who why will with would
you your
"""
FREQUENT = frozenset(_FREQUENT.split())
LEAST = 0.1

_PACKED = np.array(sorted(int.from_bytes(word.encode(), "little") for word in FREQUENT), np.uint64)
#: Of the hash tables of the kernels; vectors do not depend on them.
_SECRETS = np.frombuffer(os.urandom(16), np.uint64)


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
    >>> from onlinehash.embed import Lexical
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
    def calls_at_once(self) -> int:
        """How many threads may call it; more than there are cores would only take turns."""
        return cpu_count()

    @property
    def name(self) -> str:
        """What an index keeps."""
        kind = "lexical" if self.version == 1 else f"lexical@{self.version}"
        return kind if self.n_features == 512 else f"{kind}:{self.n_features}"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """One vector a text: float32 of shape (n, n_features). A text without any word has a vector of zeros."""
        from onlinehash.embed import lexical_kernels  # compiled ones, which take a while to load

        words, stops = _words_of(texts, self.version)
        often = 1 + np.log(np.arange(1, _most_words(stops) + 1, dtype=np.float64))  # what comes again counts less
        weights = lexical_kernels.Weights(
            LONG, LEAST, PIECES, PAIRS, PIECE, _PACKED, np.concatenate([np.zeros(1), often])
        )
        X = np.empty((len(texts), self.n_features), np.float32)
        lexical_kernels.embed(words, stops, weights, _SECRETS, X)
        return X

    def __repr__(self) -> str:
        said = [] if self.n_features == 512 else [str(self.n_features)]
        said += [] if self.version == NEWEST else [f"version={self.version}"]
        return f"Lexical({', '.join(said)})"


def _words_of(texts: Sequence[str], version: int) -> tuple[np.ndarray, np.ndarray]:
    """The words of texts as UTF-8, a space between two of a text, and where each text stops."""
    plain = [text for text in texts if text.isascii()]
    words, stops = _words_of_ascii(plain)
    if len(plain) == len(texts):
        return words, stops
    of_plain = iter(np.split(words, stops[:-1]))
    parts = [
        next(of_plain) if text.isascii() else np.frombuffer(" ".join(_words(text, version)).encode(), np.uint8)
        for text in texts
    ]
    return np.concatenate(parts), np.cumsum([len(part) for part in parts], dtype=np.int64)


def _words_of_ascii(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The same by one call of a kernel: after each, a thread that needs the interpreter waits for all others."""
    from onlinehash.embed.lexical_kernels import split_ascii

    raw = np.frombuffer("".join(texts).encode(), np.uint8)
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    words, stops = np.empty(2 * len(raw), np.uint8), np.zeros_like(ends)
    split_ascii(raw, ends, words, stops)
    return words[: stops[-1] if len(stops) else 0], stops


def _most_words(stops: np.ndarray) -> int:
    """As many words as the longest of these texts can have."""
    return int(np.diff(stops, prepend=0).max(initial=0) + 1) // 2


def _words(text: str, version: int) -> list[str]:
    """The words of a text that has other characters than those of ASCII."""
    if version == 1:
        return _WORDS.findall(_HUMPS.sub(" ", text).casefold())
    folded = normalize("NFKC", _HUMPS.sub(" ", normalize("NFKC", text)).casefold())
    return list(chain.from_iterable(map(_split, _ANY_WORDS.findall(folded))))


def _split(word: str) -> list[str]:
    """The word itself or, of a script without spaces, two characters at a time, and Chinese characters alone too."""
    if len(word) < 2 or not _IS_UNSPACED(word):
        return [word]
    alone = [letter for letter in word if letter >= "\u3400"]
    return [*alone, *(word[at : at + 2] for at in range(len(word) - 1))]
