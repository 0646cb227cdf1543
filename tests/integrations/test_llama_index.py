"""The vector store for LlamaIndex, by itself and under its own index and retriever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.needs import optional

optional("llama_index")

from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from onlinehash import LiveIndex
from onlinehash.errors import InvalidInput, UnknownId
from onlinehash.integrations.llama_index import OnlineHashVectorStore
from tests.integrations.words import Words

TEXTS = ["how to train a dog", "how to train a neural network", "how to catch a train", "recipes for bread"]
QUERY = "how to train"


class WordEmbedding(BaseEmbedding):
    """Words, as LlamaIndex takes them."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return Words().embed_query(text)

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def nodes() -> list[TextNode]:
    return [
        TextNode(
            id_=id,
            text=text,
            metadata={"number": number, "parity": "odd" if number % 2 else "even"},
            embedding=Words().embed_query(text),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"document {number // 2}")},
        )
        for number, (id, text) in enumerate(zip("abcd", TEXTS, strict=True))
    ]


@pytest.fixture
def store() -> OnlineHashVectorStore:
    store = OnlineHashVectorStore(embed_model=WordEmbedding())
    assert store.add(nodes()) == list("abcd")
    return store


def found(store: OnlineHashVectorStore, text: str, **options: Any) -> list[str]:
    query = VectorStoreQuery(query_embedding=Words().embed_query(text), similarity_top_k=4, **options)
    return store.query(query).ids


def test_nodes_come_back(store: OnlineHashVectorStore) -> None:
    answer = store.query(VectorStoreQuery(query_embedding=Words().embed_query(TEXTS[3]), similarity_top_k=2))
    best = nodes()[3]
    assert answer.nodes[0].dict() == best.model_copy(update={"embedding": None}).dict()
    assert answer.similarities == sorted(answer.similarities, reverse=True)
    assert [node.node_id for node in store.get_nodes(["d", "nobody", "a"])] == ["d", "a"]
    assert OnlineHashVectorStore().query(VectorStoreQuery(query_embedding=[1.0, 2.0])).ids == []


def test_filters(store: OnlineHashVectorStore) -> None:
    number, odd = (
        MetadataFilter(key="number", operator=FilterOperator.GTE, value=2),
        MetadataFilter(key="parity", operator=FilterOperator.EQ, value="odd"),
    )
    both = MetadataFilters(filters=[number, odd])
    either = MetadataFilters(filters=[number, odd], condition=FilterCondition.OR)
    assert found(store, QUERY, filters=both) == ["d"]
    assert set(found(store, QUERY, filters=either)) == {"b", "c", "d"}
    assert set(found(store, QUERY, doc_ids=["document 0"])) == {"a", "b"}
    assert found(store, QUERY, node_ids=["c"]) == ["c"]
    assert {node.node_id for node in store.get_nodes(filters=either)} == {"b", "c", "d"}


def test_removing(store: OnlineHashVectorStore) -> None:
    store.delete("document 0")
    assert sorted(store.client) == ["c", "d"]
    store.delete_nodes(["c", "nobody"])
    assert sorted(store.client) == ["d"]
    store.clear()
    assert len(store.client) == 0


def test_marks_change_the_next_answer(store: OnlineHashVectorStore) -> None:
    before = found(store, QUERY)
    for _ in range(3):
        store.mark(QUERY, before[2], similar=True)
        asyncio.run(store.amark(Words().embed_query(QUERY), store.get_nodes([before[0]])[0], similar=False))
    after = found(store, QUERY)
    assert after.index(before[2]) < after.index(before[0])


def test_under_an_index_of_llama_index(tmp_path: Path) -> None:
    with LiveIndex(path=tmp_path / "nodes") as index:
        store = OnlineHashVectorStore(index, WordEmbedding())
        context = StorageContext.from_defaults(vector_store=store)
        plain = [node.model_copy(update={"embedding": None}) for node in nodes()]
        engine = VectorStoreIndex(plain, storage_context=context, embed_model=WordEmbedding())
        answer = engine.as_retriever(similarity_top_k=1).retrieve(TEXTS[1])
        assert [result.node.text for result in answer] == [TEXTS[1]]
        store.mark(TEXTS[1], answer[0], similar=True)
        again = VectorStoreIndex.from_vector_store(store, embed_model=WordEmbedding())
        assert again.as_retriever(similarity_top_k=1).retrieve(TEXTS[2])[0].node_id == "c"


def test_refused(store: OnlineHashVectorStore) -> None:
    with pytest.raises(InvalidInput, match="mode 'mmr'"):
        store.query(VectorStoreQuery(query_embedding=[0.0] * 32, mode=VectorStoreQueryMode.MMR))
    with pytest.raises(InvalidInput, match="needs an embed_model"):
        OnlineHashVectorStore().mark(QUERY, "a", True)
    with pytest.raises(UnknownId, match="no document has id 'nobody'"):
        store.mark(QUERY, "nobody", True)
