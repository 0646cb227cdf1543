"""Texts in an index: added, found and learned with its embedder, which must stay the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing, refresh
from onlinehash.embed import Embedding, Lexical
from onlinehash.errors import InvalidInput, NotSupported, UnknownId
from onlinehash.index.api import VectorIndex
from onlinehash.stores.index import StoreIndex
from tests.embed.test_embedder import Letters
from tests.stores.memory_backend import MemoryBackend, Tables

TEXTS = ["open a file", "close a window", "read the lines of a file", "a warm day", "write a letter"]


def live(**options: Any) -> LiveIndex:
    return LiveIndex(OnlineHashing(n_bits=16, random_state=0), **{"embed": "lexical:64"} | options)


def in_a_store(**options: Any) -> StoreIndex:
    tables = Tables.create(OnlineHashing(n_bits=16, random_state=0), refresh.by_hand())
    return StoreIndex(MemoryBackend(tables), **{"embed": "lexical:64"} | options)


@pytest.mark.parametrize("make", [live, in_a_store])
def test_texts_are_vectors_made_by_the_embedder(make: Any) -> None:
    index: VectorIndex = make()
    with index:
        assert index.add_texts(TEXTS[:3]).tolist() == [0, 1, 2]
        assert index.add_texts(TEXTS[3:], [7, 8], [{"kind": "weather"}, None]).tolist() == [7, 8]
        X = Lexical(64).encode(TEXTS)
        assert np.array_equal(index.vectors, X)
        assert [index.get(id).payload for id in (0, 7, 8)] == [
            {"text": TEXTS[0]},
            {"text": TEXTS[3], "kind": "weather"},
            {"text": TEXTS[4]},
        ]
        query = Lexical(64).encode(["lines"])[0]
        for found, expected in [
            (index.find_text("lines", 3), index.find(query, 3)),
            (index.find_text(["lines"], 3, where={"kind": "weather"}), index.find(query[None], 3, {"kind": "weather"})),
            (index.search_text("lines", 3), index.search(query, 3)),
        ]:
            assert found.ids.tolist() == expected.ids.tolist()
            assert found.distances.tolist() == expected.distances.tolist()


def test_what_a_text_teaches_counts_at_once_and_is_what_pairs_teach() -> None:
    with live() as index, live() as other:
        for one in (index, other):
            one.add_texts(TEXTS)
        vector = Lexical(64).encode(["stationery"])
        assert index.find_text("stationery", 1).ids.tolist() != [4]
        updates = index.learn_text("stationery", [4, 0], [True, False], [1.0, 0.5])
        assert len(updates) == 2
        other.learn_pairs(np.repeat(vector, 2, axis=0), other.vectors_of([4, 0]), [True, False], [1.0, 0.5])
        assert index.find_text("stationery", 5).ids.tolist() == other.find(vector[0], 5).ids.tolist()
        assert index.find_text("stationery", 1).ids.tolist() == [4]
        assert len(index.learn_text("stationery", 4, True)) == 1  # one item, one label
        assert len(index.learn_text("stationery", [0, 1], False)) == 2  # one label for all
        with pytest.raises(UnknownId):
            index.learn_text("stationery", [99], True)


# ------------------------------------------------------------------ the same embedder


def test_a_lexical_index_opens_by_itself(tmp_path: Path) -> None:
    with live(path=tmp_path / "items") as index:
        index.add_texts(TEXTS)
        expected = index.find_text("file", 2).ids.tolist()
    for read_only in (False, True):
        with LiveIndex.open(tmp_path / "items", read_only=read_only) as index:
            assert index.embedder is not None
            assert index.embedder.name == "lexical@2:64"
            assert index.find_text("file", 2).ids.tolist() == expected
    with live(path=tmp_path / "items", embed=None) as index:
        index.backup(tmp_path / "copy")
    with LiveIndex.open(tmp_path / "copy") as index:
        assert index.find_text("file", 2).ids.tolist() == expected


def test_other_embedders_must_be_given_again_and_be_the_same(tmp_path: Path) -> None:
    with live(path=tmp_path / "items", embed=Letters()) as index:
        index.add_texts(TEXTS)
    with LiveIndex.open(tmp_path / "items") as index:  # which runs no code that a folder names
        assert index.embedder is None
        assert index.embedded_by == ("tests.embed.test_embedder:Letters", 5)
        with pytest.raises(NotSupported, match=r"come from the embedder .*--embed tests.embed.test_embedder:Letters,"):
            index.find_text("open a file")
        index.learn_pair_by_id(0, 1, True)
        index.refresh()  # and what is known of the embedder stays
    for other in ("lexical:64", Lexical(5 * 16), lambda texts: [[1, 2, 3, 4, len(text)] for text in texts]):
        with pytest.raises(InvalidInput, match=r"items holds vectors of the embedder .*Letters"):
            LiveIndex.open(tmp_path / "items", embed=other)
    with LiveIndex.open(tmp_path / "items", embed=Embedding(Letters(), "another name")) as index:
        assert index.find_text("open a file", 1).ids.tolist() == [0]
