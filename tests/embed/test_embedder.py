"""Embedders: whatever turns texts into vectors, recognised by what it makes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest

from onlinehash import LiveIndex
from onlinehash.embed import Embedding, Lexical, embedder, load
from onlinehash.errors import InvalidInput, MissingExtra


class Letters:
    """A small model: how often a text has each letter."""

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [[text.count(letter) for letter in "aeiou"] for text in texts]


def letters(texts: list[str]) -> Any:
    return Letters().encode(texts)


def test_objects_with_encode_and_functions() -> None:
    for model in (Letters(), letters, Letters().encode, Embedding(Letters())):
        embedding = embedder.of(model)
        assert embedding.encode(["banana", "a"]).tolist() == [[3, 0, 0, 0, 0], [1, 0, 0, 0, 0]]
        assert embedding.encode([]).shape == (0, 5)
        assert embedding.encode(np.array(["banana"])).dtype == np.float32
        assert embedding.n_features == 5
    for other in (3, Letters, "letters", None):
        with pytest.raises(InvalidInput, match="expected an embedder"):
            Embedding(other)


def test_what_is_no_list_of_texts() -> None:
    for texts in ("banana", None, 7, b"banana", ["banana", 1], ["banana", b"banana"]):
        with pytest.raises(InvalidInput):
            Embedding(Letters()).encode(texts)


def test_a_text_that_is_missing() -> None:
    index = LiveIndex(n_bits=8, embed=Letters())
    for texts in (
        ["banana", None],
        pyarrow.chunked_array([["banana"], [None]]),
        pandas.Series(["banana", None]),
        pandas.Series(["banana", None], dtype="string"),
    ):
        with pytest.raises(InvalidInput, match="text 1 is missing"):
            index.add_texts(texts)


def test_an_embedder_that_fails_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(texts: list[str]) -> Any:
        raise RuntimeError("out of memory\nand more")

    with pytest.raises(embedder.EmbedderFailed, match=r"^the embedder 'mine' failed: RuntimeError: out of memory\.$"):
        Embedding(fail, "mine").encode(["a"])
    (tmp_path / "failing.py").write_text("class Model:\n    def __init__(self): raise OSError('no model file')\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidInput, match="'failing:Model' cannot be made: OSError: no model file"):
        load("failing:Model")
    with pytest.raises(InvalidInput, match="'broken:f' cannot be imported: ZeroDivisionError"):
        load("broken:f")


class Tensor:
    """As PyTorch's are that have a gradient."""

    device = SimpleNamespace(type="cpu")

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows

    def detach(self) -> np.ndarray:
        return self._rows

    def __array__(self, *_: Any) -> np.ndarray:
        raise RuntimeError("call detach first")


def test_an_embedder_may_give_tensors() -> None:
    assert Embedding(lambda texts: Tensor(np.ones((len(texts), 3)))).encode(["a"]).tolist() == [[1, 1, 1]]


def test_models_that_do_not_give_vectors() -> None:
    for model in (
        lambda texts: [1, 2],
        lambda texts: np.zeros((len(texts) + 1, 4)),
        lambda texts: np.full((len(texts), 4), np.nan),
        lambda texts: [["a", "b"]] * len(texts),
        lambda texts: np.zeros((len(texts), len(texts))),
    ):
        with pytest.raises(InvalidInput):
            Embedding(model).encode(["a", "b"])


def test_the_fingerprint_tells_models_apart_and_bears_rounding() -> None:
    facts = Embedding(Lexical(64)).facts

    def rounded(texts: list[str]) -> Any:
        return Lexical(64).encode(texts).astype(np.float16)

    Embedding(rounded).check_made(facts, "it")
    for other in (
        Lexical(65),
        lambda texts: -Lexical(64).encode(texts),
        lambda texts: Lexical(64).encode(texts)[:, ::-1],
    ):
        with pytest.raises(InvalidInput, match="it holds vectors of the embedder 'lexical@2:64'"):
            Embedding(other).check_made(facts, "it")


def test_loading_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load("lexical:64").encode(["a"]).shape == (1, 64)
    assert load("lexical").name == "lexical@2"
    assert load("lexical@1:64").name == "lexical:64"
    (tmp_path / "our_models.py").write_text(
        "class Small:\n    def encode(self, texts):\n        return [[len(text)] for text in texts]\n"
        "def lengths(texts):\n    return [[len(text)] for text in texts]\nsmall = Small()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("our_models:lengths", "our_models:Small", "our_models:small", "our_models:small.encode"):
        found = load(name)
        assert (found.name, found.encode(["four"]).tolist()) == (name, [[4]])
    for name in ("our_models:other", "no_such_module:f", "lexical:many", "something", ":", "lexical:99999999999"):
        with pytest.raises(InvalidInput):
            load(name)


def test_sentence_transformers_has_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=r"\.\[embed\]"):
        load("sentence-transformers:some-model")


def test_models_that_give_one_vector_after_the_other_by_embed() -> None:
    """As fastembed's do."""

    class Streaming:
        def embed(self, documents: list[str]) -> Iterator[np.ndarray]:
            return (np.array([len(text), 1.0]) for text in documents)

    assert Embedding(Streaming()).encode(["a", "four"]).tolist() == [[1, 1], [4, 1]]


def test_an_index_goes_on_with_the_version_that_made_its_vectors(tmp_path: Path) -> None:
    texts = ["Die Straße", "ｆｕｌｌ width", "最寄りの駅"]
    with LiveIndex(n_bits=8, path=tmp_path / "old", embed=Lexical(64, version=1)) as index:
        index.add_texts(texts)
    for embed in (None, "lexical:64", Lexical(64)):
        with LiveIndex.open(tmp_path / "old", embed=embed) as index:
            assert index.embedder is not None
            assert index.embedder.name == "lexical:64"
            assert np.array_equal(index.embedder.encode(texts), index.vectors)
    with pytest.raises(InvalidInput, match="holds vectors of the embedder 'lexical:64'"):
        LiveIndex.open(tmp_path / "old", embed="lexical:32")
