"""The vector store for LangChain: its own suite, and what that does not ask for."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest

from onlinehash import LiveIndex
from onlinehash.errors import InvalidInput, UnknownId
from tests.integrations.words import Words
from tests.needs import must_run

if find_spec("langchain_core") is None and not must_run():
    pytest.skip("there is no langchain-core here; `make test` installs it", allow_module_level=True)

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from onlinehash.integrations.langchain import OnlineHashVectorStore

TEXTS = ["how to train a dog", "how to train a neural network", "how to catch a train", "recipes for bread"]
QUERY = "how to train"


class WordEmbeddings(Words, Embeddings):
    """Words, as LangChain takes them."""


@pytest.fixture
def store() -> OnlineHashVectorStore:
    facts = [{"topic": "pets"}, {"topic": "computers"}, {"topic": "travel"}, {"topic": "food", "year": 2020}]
    return OnlineHashVectorStore.from_texts(TEXTS, WordEmbeddings(), facts, ids=list("abcd"))


def test_documents_come_back(store: OnlineHashVectorStore) -> None:
    found = store.similarity_search("recipes for bread", k=1)
    assert found == [Document(id="d", page_content=TEXTS[3], metadata={"topic": "food", "year": 2020})]
    with_score = store.similarity_search_with_score("recipes for bread", k=4)
    assert [distance for _, distance in with_score] == sorted(distance for _, distance in with_score)
    assert store.as_retriever(search_kwargs={"k": 2}).invoke("recipes for bread")[0] == found[0]


def test_filters_are_on_metadata(store: OnlineHashVectorStore) -> None:
    assert [d.id for d in store.similarity_search(QUERY, filter={"topic": ["travel", "food"]})] == ["c", "d"]
    assert [d.id for d in store.similarity_search(QUERY, filter={"year": {">": 2019}})] == ["d"]


def test_diverse_answers(store: OnlineHashVectorStore) -> None:
    """The nearest is first in both; what comes second is the next nearest, or the least like the first."""
    nearest = store.max_marginal_relevance_search(TEXTS[0], k=2, lambda_mult=1.0)
    diverse = store.max_marginal_relevance_search(TEXTS[0], k=2, lambda_mult=0.0)
    assert nearest == store.similarity_search(TEXTS[0], k=2)
    assert [document.id for document in diverse] == ["a", "d"]
    assert OnlineHashVectorStore(WordEmbeddings()).max_marginal_relevance_search("anything") == []


def test_marks_change_the_next_answer(store: OnlineHashVectorStore) -> None:
    before = store.similarity_search(QUERY, k=4)
    last = before[2]
    for _ in range(3):
        store.mark(QUERY, last, similar=True)
        store.mark(QUERY, before[0].id, similar=False)
    after = [document.id for document in store.similarity_search(QUERY, k=4)]
    assert after.index(last.id) < after.index(before[0].id)


def test_marks_of_a_coroutine_are_those_of_a_call(store: OnlineHashVectorStore) -> None:
    twin = OnlineHashVectorStore.from_texts(TEXTS, WordEmbeddings(), ids=list("abcd"))
    mark = (QUERY, "c", True, 0.5)
    assert asyncio.run(store.amark(*mark)).loss == twin.mark(*mark).loss
    assert store.index.learner.n_pairs_seen_ == 1


def test_refused(store: OnlineHashVectorStore) -> None:
    for call, words in (
        (lambda: store.mark(QUERY, Document(page_content="new"), True), "has no id"),
        (lambda: store.similarity_search(QUERY, where={}), "unknown argument where"),
        (lambda: store.add_texts(["a", "b"], ids=["x"]), "expected 2 ids"),
        (lambda: OnlineHashVectorStore(WordEmbeddings(), index=7), "expected an index"),
    ):
        with pytest.raises(InvalidInput, match=words):
            call()
    with pytest.raises(UnknownId, match="no document has id 'nobody'"):
        store.mark(QUERY, "nobody", True)
    assert len(store.index) == 4


def test_of_two_documents_with_one_id_the_second_counts(store: OnlineHashVectorStore) -> None:
    store.add_texts(["first", "second"], ids=["same", "same"])
    assert [document.page_content for document in store.get_by_ids(["same"])] == ["second"]


def test_a_durable_index(tmp_path: Path) -> None:
    with LiveIndex(path=tmp_path / "documents") as index:
        OnlineHashVectorStore(WordEmbeddings(), index).add_texts(TEXTS, ids=list("abcd"))
    with LiveIndex.open(tmp_path / "documents") as index:
        store = OnlineHashVectorStore(WordEmbeddings(), index)
        assert [document.id for document in store.similarity_search(TEXTS[2], k=1)] == ["c"]
        store.delete()
        assert store.similarity_search(TEXTS[2]) == []
