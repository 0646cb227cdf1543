"""LlamaIndex: a vector store whose searches improve with every mark."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from onlinehash.errors import InvalidInput, MissingExtra
from onlinehash.index.api import Payload, VectorIndex
from onlinehash.integrations.collection import Collection
from onlinehash.learners.update import Update

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import (
        build_metadata_filter_fn,
        metadata_dict_to_node,
        node_to_metadata_dict,
    )
except ImportError:
    raise MissingExtra("the LlamaIndex vector store", "llama-index-core", "llama-index") from None


class OnlineHashVectorStore(BasePydanticVectorStore):
    """Nodes in any index of onlinehash, found by their embeddings, in the order that marks have taught.

    Metadata filters of every kind are taken; they ask Python about each distinct metadata, so an index behind HTTP,
    which cannot, refuses them.

    Parameters
    ----------
    index : VectorIndex, optional
        `LiveIndex(path="nodes")`, `PostgresIndex.open(...)`, ...; by default one in memory.
    embed_model : BaseEmbedding, optional
        Embeds the queries of marks that are given as text.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> from llama_index.core.vector_stores.types import VectorStoreQuery
    >>> from onlinehash.integrations.llama_index import OnlineHashVectorStore
    >>> store = OnlineHashVectorStore()
    >>> vectors = {"a cat": [1.0, 0.0], "a dog": [0.0, 1.0]}
    >>> store.add([TextNode(id_=text, text=text, embedding=vector) for text, vector in vectors.items()])
    ['a cat', 'a dog']
    >>> store.query(VectorStoreQuery(query_embedding=[0.1, 1.0], similarity_top_k=1)).ids
    ['a dog']
    >>> update = store.mark([0.1, 1.0], "a cat", similar=True)
    """

    stores_text: bool = True
    _documents: Collection = PrivateAttr()
    _embed_model: BaseEmbedding | None = PrivateAttr()

    def __init__(self, index: VectorIndex | None = None, embed_model: BaseEmbedding | None = None) -> None:
        super().__init__(stores_text=True)
        self._documents, self._embed_model = Collection(index), embed_model

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex knows this class."""
        return "OnlineHashVectorStore"

    @property
    def client(self) -> VectorIndex:
        """The index that holds the nodes."""
        return self._documents.index

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add nodes that have embeddings; one whose id is known takes the place of the other."""
        if nodes:
            vectors = [node.get_embedding() for node in nodes]
            self._documents.put([node.node_id for node in nodes], vectors, [_payload(node) for node in nodes])
        return [node.node_id for node in nodes]

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """The nodes of some ids, or all, that filters admit."""
        found = self._documents.all() if node_ids is None else self._documents.get(node_ids)
        return [_node(payload) for _, payload in found if _admits(filters, payload["metadata"])]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Remove all nodes of a document."""
        self._documents.remove([id for id, payload in self._documents.all() if payload["document"] == ref_doc_id])

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Remove the nodes of some ids, or all, that filters admit."""
        self._documents.remove([node.node_id for node in self.get_nodes(node_ids, filters)])

    def clear(self) -> None:
        """Remove all nodes."""
        self._documents.remove(self.client.ids.tolist())

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Find the nodes nearest to an embedding; similarities order one answer only."""
        if query.mode != VectorStoreQueryMode.DEFAULT or query.query_embedding is None:
            raise InvalidInput(expected="a query by embedding, in the mode 'default'", got=f"mode {query.mode.value!r}")
        where: dict[str, Any] = {}
        if query.filters is not None:
            where["metadata"] = lambda metadata: _admits(query.filters, metadata)
        if query.doc_ids:
            where["document"] = query.doc_ids
        if query.node_ids:
            where["id"] = query.node_ids
        found = self._documents.find(query.query_embedding, query.similarity_top_k, where or None)
        return VectorStoreQueryResult(
            nodes=[_node(one.payload) for one in found],
            similarities=[1.0 - one.distance for one in found],
            ids=[one.id for one in found],
        )

    def mark(
        self, query: str | Sequence[float], document: BaseNode | NodeWithScore | str, similar: bool, weight: float = 1.0
    ) -> Update:
        """Say that a node is a good answer to a query, or that it is not. It counts from the next search on.

        Parameters
        ----------
        query : str or sequence of float
            A text, which `embed_model` embeds, or its embedding.
        document : BaseNode, NodeWithScore or str
            A node that a search returned, or the id of one.
        similar : bool
        weight : float, default=1.0
            How much the mark counts; a click is worth less than a judgement.

        Returns
        -------
        Update
            What the learner made of the pair.
        """
        if isinstance(query, str):
            if self._embed_model is None:
                raise InvalidInput("a query given as text needs an embed_model; pass one, or the query's embedding.")
            query = self._embed_model.get_query_embedding(query)
        return self._documents.mark(query, document if isinstance(document, str) else document.node_id, similar, weight)

    async def amark(
        self, query: str | Sequence[float], document: BaseNode | NodeWithScore | str, similar: bool, weight: float = 1.0
    ) -> Update:
        """Mark as `mark` does, without blocking the event loop."""
        return await asyncio.to_thread(self.mark, query, document, similar, weight)


def _payload(node: BaseNode) -> Payload:
    facts = node_to_metadata_dict(node, remove_text=True, flat_metadata=False)
    return {
        "id": node.node_id,
        "document": node.ref_doc_id,
        "text": node.get_content(metadata_mode=MetadataMode.NONE),
        "metadata": node.metadata,
        "node": facts,
    }


def _node(payload: Payload) -> BaseNode:
    return metadata_dict_to_node(payload["node"], text=payload["text"])


def _admits(filters: MetadataFilters | None, metadata: dict[str, Any]) -> bool:
    return filters is None or bool(build_metadata_filter_fn(lambda _: metadata, filters)(""))
