"""The document store for Haystack: Haystack's own suites, its retriever in a pipeline, and marks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.needs import optional

optional("haystack")

from haystack import Document, Pipeline
from haystack.document_stores.types import DuplicatePolicy
from haystack.testing.document_store import (
    CountDocumentsTest,
    DeleteDocumentsTest,
    FilterDocumentsTest,
    WriteDocumentsTest,
)

from onlinehash import LiveIndex
from onlinehash.errors import InvalidInput, UnknownId
from onlinehash.integrations import haystack
from onlinehash.integrations.haystack import OnlineHashDocumentStore, OnlineHashEmbeddingRetriever
from tests.integrations.words import Words

TEXTS = ["how to train a dog", "how to train a neural network", "how to catch a train", "recipes for bread"]
QUERY = Words().embed_query("how to train")


class Embedding(OnlineHashDocumentStore):
    """Gives an embedding to the suite's documents that have none, as a pipeline would before it writes them."""

    def write_documents(self, documents: Any, policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        if isinstance(documents, list) and all(isinstance(document, Document) for document in documents):
            documents = [replace(document, embedding=document.embedding or [1.0] * 768) for document in documents]
        return super().write_documents(documents, policy)


class TestSuite(CountDocumentsTest, WriteDocumentsTest, DeleteDocumentsTest, FilterDocumentsTest):
    @pytest.fixture
    def document_store(self) -> Embedding:
        return Embedding()

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        assert [replace(document, embedding=None) for document in received] == [
            replace(document, embedding=None) for document in expected
        ]

    def test_write_documents(self, document_store: Embedding) -> None:
        """What happens without a policy is for each store to say."""
        documents = [Document(content="one"), Document(content="two")]
        assert document_store.write_documents(documents) == 2
        self.assert_documents_are_equal(document_store.filter_documents(), documents)
        with pytest.raises(Exception, match="already exists"):
            document_store.write_documents(documents[:1])


@pytest.fixture
def store() -> OnlineHashDocumentStore:
    store = OnlineHashDocumentStore()
    store.write_documents(documents())
    return store


def documents() -> list[Document]:
    return [
        Document(id=id, content=text, embedding=Words().embed_query(text), meta={"length": len(text)})
        for id, text in zip("abcd", TEXTS, strict=True)
    ]


def test_embeddings_come_back(store: OnlineHashDocumentStore) -> None:
    assert store.filter_documents() == documents()
    best = store.search(Words().embed_query(TEXTS[3]), top_k=1)[0]
    assert (best.id, best.content, best.meta) == ("d", TEXTS[3], {"length": 17})
    assert OnlineHashDocumentStore().search(QUERY) == []


def test_filters_in_a_search(store: OnlineHashDocumentStore) -> None:
    short = {"field": "meta.length", "operator": "<", "value": 20}
    other = {"field": "content", "operator": "==", "value": TEXTS[1]}
    assert {found.id for found in store.search(QUERY, filters=short)} == {"a", "d"}
    either = {"operator": "OR", "conditions": [short, other]}
    assert {found.id for found in store.search(QUERY, filters=either)} == {"a", "b", "d"}


def test_marks_change_the_next_answer(store: OnlineHashDocumentStore) -> None:
    before = store.search(QUERY)
    for _ in range(3):
        store.mark(QUERY, before[2], similar=True)
        store.mark(QUERY, before[0].id, similar=False)
    after = [found.id for found in store.search(QUERY)]
    assert after.index(before[2].id) < after.index(before[0].id)


def test_a_pipeline_and_its_file(tmp_path: Path) -> None:
    store = OnlineHashDocumentStore(str(tmp_path / "documents"), n_bits=32)
    store.write_documents(documents())
    pipeline = Pipeline()
    pipeline.add_component("retriever", OnlineHashEmbeddingRetriever(store, top_k=2))
    asked = {"retriever": {"query_embedding": Words().embed_query(TEXTS[1])}}
    answer = pipeline.run(asked)["retriever"]["documents"]
    assert answer[0].id == "b"
    text = pipeline.dumps()
    store.index.close()
    again = Pipeline.loads(text, allowed_modules=[haystack.__name__])
    assert again.run(asked)["retriever"]["documents"] == answer
    again.get_component("retriever").document_store.index.close()


def test_refused(store: OnlineHashDocumentStore) -> None:
    with pytest.raises(InvalidInput, match="has no embedding; run a document embedder"):
        store.write_documents([Document(content="no vector")])
    with pytest.raises(UnknownId, match="no document has id 'nobody'"):
        store.mark(QUERY, "nobody", True)
    with pytest.raises(InvalidInput, match="got both"):
        OnlineHashDocumentStore("documents", index=LiveIndex())
    with pytest.raises(InvalidInput, match="cannot be written to a file"):
        OnlineHashDocumentStore(index=LiveIndex()).to_dict()
    assert store.count_documents() == 4
