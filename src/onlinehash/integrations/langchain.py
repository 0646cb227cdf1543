"""LangChain: a vector store whose searches improve with every mark."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from onlinehash.errors import InvalidInput, MissingExtra
from onlinehash.index.api import VectorIndex
from onlinehash.integrations.collection import Collection, Found
from onlinehash.learners.update import Update

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.runnables import run_in_executor
    from langchain_core.vectorstores import VectorStore
    from langchain_core.vectorstores.utils import maximal_marginal_relevance
except ImportError:
    raise MissingExtra("the LangChain vector store", "langchain-core", "langchain") from None

Filter = Mapping[str, Any]


class OnlineHashVectorStore(VectorStore):
    """Documents in any index of onlinehash, found by their embeddings, in the order that marks have taught.

    An item's payload is `{"text": ..., "metadata": {...}}`, and its id a string. Where a search takes a `filter`, it is
    a dict of metadata fields and conditions, as `where` in docs/how-to/filter.md, such as
    `{"year": {">": 2020}, "kind": ["report", "memo"]}`.

    Parameters
    ----------
    embedding : Embeddings
        Turns documents and queries into vectors.
    index : VectorIndex, optional
        `LiveIndex(path="documents")`, `PostgresIndex.open(...)`, `connect(url)`, ...; by default one in memory.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> from onlinehash.integrations.langchain import OnlineHashVectorStore
    >>> store = OnlineHashVectorStore(DeterministicFakeEmbedding(size=16))
    >>> store.add_texts(["a cat", "a dog"], ids=["1", "2"])
    ['1', '2']
    >>> answer = store.similarity_search("a dog", k=1)[0]
    >>> answer.page_content
    'a dog'
    >>> update = store.mark("a dog", answer, similar=True)
    """

    def __init__(self, embedding: Embeddings, index: VectorIndex | None = None) -> None:
        self._embedding, self._documents = embedding, Collection(index)

    @property
    def index(self) -> VectorIndex:
        """The index that holds the documents."""
        return self._documents.index

    @property
    def embeddings(self) -> Embeddings:
        """What turns texts into vectors."""
        return self._embedding

    # ------------------------------------------------------------------------------------------------ documents

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        index: VectorIndex | None = None,
        **kwargs: Any,
    ) -> OnlineHashVectorStore:
        """Make a store and add texts to it; see `add_texts`."""
        _refuse(kwargs)
        store = cls(embedding, index)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Embed texts and add them; one whose id is known takes the place of the other.

        Parameters
        ----------
        texts : iterable of str
        metadatas : list of dict, optional
            A JSON object for each text.
        ids : list of str or None, optional
            Where there is none, a random one is made.

        Returns
        -------
        list of str
            The ids.
        """
        _refuse(kwargs)
        listed = list(texts)
        names = [id or str(uuid.uuid4()) for id in ids or [None] * len(listed)]
        facts = metadatas or [{} for _ in listed]
        for what, given in (("ids", names), ("metadatas", facts)):
            if len(given) != len(listed):
                raise InvalidInput(expected=f"{len(listed)} {what}, one for each text", got=f"{len(given)}")
        if listed:
            payloads = [{"text": text, "metadata": fact} for text, fact in zip(listed, facts, strict=True)]
            self._documents.put(names, self._embedding.embed_documents(listed), payloads)
        return names

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Remove documents by their ids, or all of them; ids that are not there are no mistake."""
        _refuse(kwargs)
        self._documents.remove(self.index.ids.tolist() if ids is None else ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Those of some documents that are there, in the order of the ids."""
        return [_document(id, payload) for id, payload in self._documents.get(ids)]

    # ------------------------------------------------------------------------------------------------ searching

    def similarity_search(
        self, query: str, k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Find the documents that are nearest to a text."""
        _refuse(kwargs)
        return self.similarity_search_by_vector(self._embedding.embed_query(query), k, filter=filter)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Find the documents that are nearest to a vector."""
        _refuse(kwargs)
        return [_document(found.id, found.payload) for found in self._find(embedding, k, filter)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Find documents with their distances: the smaller, the nearer. They order one answer only."""
        _refuse(kwargs)
        found = self._find(self._embedding.embed_query(query), k, filter)
        return [(_document(one.id, one.payload), one.distance) for one in found]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Find documents that are near to a text and different from each other."""
        _refuse(kwargs)
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter=filter)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Choose k of the `fetch_k` nearest; `lambda_mult` is 1 for the nearest, 0 for the most different."""
        _refuse(kwargs)
        found = self._find(embedding, fetch_k, filter)
        if not found:
            return []
        vectors = self.index.vectors_of([one.id for one in found])
        chosen = maximal_marginal_relevance(np.asarray(embedding), list(vectors), lambda_mult, k)
        return [_document(found[row].id, found[row].payload) for row in chosen]

    def _find(self, vector: Any, k: int, filter: Filter | None) -> list[Found]:
        where = None if filter is None else {f"metadata.{field}": condition for field, condition in filter.items()}
        return self._documents.find(vector, k, where)

    # ------------------------------------------------------------------------------------------------ feedback

    def mark(self, query: str, document: Document | str, similar: bool, weight: float = 1.0) -> Update:
        """Say that a document is a good answer to a query, or that it is not. It counts from the next search on.

        Parameters
        ----------
        query : str
        document : Document or str
            A document that a search returned, or the id of one.
        similar : bool
        weight : float, default=1.0
            How much the mark counts; a click is worth less than a judgement.

        Returns
        -------
        Update
            What the learner made of the pair.
        """
        id = document.id if isinstance(document, Document) else document
        return self._documents.mark(self._embedding.embed_query(query), id, similar, weight)

    async def amark(self, query: str, document: Document | str, similar: bool, weight: float = 1.0) -> Update:
        """Mark as `mark` does, without blocking the event loop."""
        return await run_in_executor(None, self.mark, query, document, similar, weight)


def _document(id: str, payload: dict[str, Any]) -> Document:
    return Document(page_content=payload["text"], metadata=payload["metadata"], id=id)


def _refuse(unknown: dict[str, Any]) -> None:
    """Every argument has an effect or is refused."""
    if unknown:
        raise InvalidInput(f"unknown argument {', '.join(unknown)}.")
