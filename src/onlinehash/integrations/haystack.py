"""Haystack: a document store whose searches improve with every mark, and its retriever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from onlinehash.errors import InvalidInput, MissingExtra
from onlinehash.index.api import Payload, VectorIndex
from onlinehash.integrations.collection import Collection
from onlinehash.learners.update import Update
from onlinehash.live.index import LiveIndex

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy
    from haystack.utils.filters import document_matches_filter
except ImportError:
    raise MissingExtra("the Haystack document store", "haystack-ai", "haystack") from None


class OnlineHashDocumentStore:
    """Documents in an index of onlinehash, found by their embeddings, in the order that marks have taught.

    Documents must have embeddings: run a document embedder before the writer. Filters of every kind are taken; they ask
    Python about each document, so an index behind HTTP, which cannot, refuses them. A pipeline's file is read by
    `Pipeline.load(file, allowed_modules=["onlinehash.integrations.haystack"])` where Haystack wants to be told.

    Parameters
    ----------
    path : str, optional
        The folder of a `LiveIndex`, created if it does not exist; by default documents are kept in memory.
    n_bits : int, optional
        The length of a code of a new index.
    index : VectorIndex, optional
        Any other index, such as `PostgresIndex.open(...)`, in place of a path. Such a store cannot be written into a
        pipeline's file.

    Examples
    --------
    >>> from haystack import Document
    >>> from onlinehash.integrations.haystack import OnlineHashDocumentStore
    >>> store = OnlineHashDocumentStore()
    >>> vectors = {"a cat": [1.0, 0.0], "a dog": [0.0, 1.0]}
    >>> store.write_documents([Document(content=text, embedding=vector) for text, vector in vectors.items()])
    2
    >>> answer = store.search([0.1, 1.0], top_k=1)[0]
    >>> answer.content
    'a dog'
    >>> update = store.mark([0.1, 1.0], answer, similar=True)
    """

    def __init__(self, path: str | None = None, n_bits: int | None = None, index: VectorIndex | None = None) -> None:
        if index is not None and (path is not None or n_bits is not None):
            raise InvalidInput(expected="an index, or a path and n_bits", got="both")
        self._parameters = {"path": path, "n_bits": n_bits}
        self._is_given = index is not None
        self._documents = Collection(LiveIndex(path=path, n_bits=n_bits) if index is None else index)

    @property
    def index(self) -> VectorIndex:
        """The index that holds the documents."""
        return self._documents.index

    def to_dict(self) -> dict[str, Any]:
        """The store's parameters, for a pipeline's file."""
        if self._is_given:
            raise InvalidInput("a store over a given index cannot be written to a file; give a path instead.")
        written: dict[str, Any] = default_to_dict(self, **self._parameters)
        return written

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> OnlineHashDocumentStore:
        """A store with the parameters of `to_dict`."""
        store: OnlineHashDocumentStore = default_from_dict(cls, data)
        return store

    def count_documents(self) -> int:
        """How many documents there are."""
        return len(self.index)

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Add documents, and return how many were written; without a policy, a known id is an error."""
        if not isinstance(documents, list) or not all(isinstance(document, Document) for document in documents):
            raise ValueError("expected a list of documents.")
        missing = next((document for document in documents if document.embedding is None), None)
        if missing is not None:
            raise InvalidInput(f"document {missing.id!r} has no embedding; run a document embedder before the writer.")
        known = [document.id for document in documents if document.id in self.index]
        if policy in (DuplicatePolicy.NONE, DuplicatePolicy.FAIL) and known:
            raise DuplicateDocumentError(f"a document with id {known[0]!r} already exists.")
        if policy == DuplicatePolicy.SKIP:
            documents = [document for document in documents if document.id not in known]
        if documents:
            ids, vectors = [document.id for document in documents], [document.embedding for document in documents]
            self._documents.put(ids, vectors, [_payload(document) for document in documents])
        return len(documents)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Remove documents; ids that are not there are no mistake."""
        self._documents.remove(document_ids)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """All documents that filters admit, with their embeddings."""
        found = [_document(payload) for _, payload in self._documents.all()]
        found = [document for document in found if not filters or document_matches_filter(filters, document)]
        vectors = self.index.vectors_of([document.id for document in found]) if found else ()
        return [replace(document, embedding=vector.tolist()) for document, vector in zip(found, vectors, strict=True)]

    def search(
        self, query_embedding: Sequence[float], top_k: int = 10, filters: dict[str, Any] | None = None
    ) -> list[Document]:
        """Find the nearest documents; their scores order one answer only."""

        def admits(value: dict[str, Any]) -> bool:
            return bool(document_matches_filter(filters or {}, Document.from_dict(value)))

        found = self._documents.find(query_embedding, top_k, {"document": admits} if filters else None)
        return [replace(_document(one.payload), score=1.0 - one.distance) for one in found]

    def mark(self, query: Sequence[float], document: Document | str, similar: bool, weight: float = 1.0) -> Update:
        """Say that a document is a good answer to a query, or that it is not. It counts from the next search on.

        Parameters
        ----------
        query : sequence of float
            The query's embedding.
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
        return self._documents.mark(query, document if isinstance(document, str) else document.id, similar, weight)


@component
class OnlineHashEmbeddingRetriever:
    """Retrieves documents of an `OnlineHashDocumentStore` by the embedding of a query.

    Parameters
    ----------
    document_store : OnlineHashDocumentStore
    filters : dict, optional
        Filters of Haystack that apply unless `run` is given others.
    top_k : int, default=10
    """

    def __init__(
        self, document_store: OnlineHashDocumentStore, filters: dict[str, Any] | None = None, top_k: int = 10
    ) -> None:
        self.document_store, self.filters, self.top_k = document_store, filters, top_k

    def to_dict(self) -> dict[str, Any]:
        """The retriever's parameters, for a pipeline's file."""
        store = self.document_store.to_dict()
        written: dict[str, Any] = default_to_dict(self, document_store=store, filters=self.filters, top_k=self.top_k)
        return written

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> OnlineHashEmbeddingRetriever:
        """A retriever with the parameters of `to_dict`."""
        given = dict(data["init_parameters"])
        given["document_store"] = OnlineHashDocumentStore.from_dict(given["document_store"])
        retriever: OnlineHashEmbeddingRetriever = default_from_dict(cls, {**data, "init_parameters": given})
        return retriever

    @component.output_types(documents=list[Document])
    def run(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Find the nearest documents."""
        found = self.document_store.search(query_embedding, top_k or self.top_k, filters or self.filters)
        return {"documents": found}


def _payload(document: Document) -> Payload:
    facts = document.to_dict(flatten=False)
    return {"text": document.content, "document": {key: value for key, value in facts.items() if key != "embedding"}}


def _document(payload: Payload) -> Document:
    return Document.from_dict(payload["document"])
