"""`VectorIndex`: the contract of every index whose codes follow a learner.

`LiveIndex` (memory or a folder), `PostgresIndex`, `MilvusIndex` and `RemoteIndex` (HTTP) implement it. Services,
consumers and the command line know nothing else. Every public method is declared and documented here, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash import checks
from onlinehash.arraylike import VectorLike
from onlinehash.codes import Codes
from onlinehash.embed.embedder import Embedding, Maker
from onlinehash.errors import NotSupported
from onlinehash.index.hits import Hits
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.taught import Taught
from onlinehash.learners.update import Update, Updates
from onlinehash.types import Id as Id
from onlinehash.types import IdArray, Json
from onlinehash.types import Payload as Payload
from onlinehash.types import Payloads as Payloads

if TYPE_CHECKING:
    from onlinehash.index.base import Index

Texts: TypeAlias = str | Sequence[str]
Vectors: TypeAlias = VectorLike
Queries: TypeAlias = VectorLike | Codes
Where: TypeAlias = Mapping[str, Any]


class Capability(StrEnum):
    """What an index may or may not be able to do; `index.supports(capability)` tells."""

    BACKUP = "backup"  #: `backup` writes a copy to a folder.
    GROUP_COMMIT = "group_commit"  #: `group_commit`: several changes in one transaction.
    LEARNER = "learner"  #: `learner`, `policy` and what policies look at are objects of this process.
    POSITIONS = "positions"  #: `positions`, `reached`, `put_position`: how far sources were read.
    RECEIPTS = "receipts"  #: `once`, `receipt`: a change that is tried again is made once.
    RELOAD = "reload"  #: `reload` follows the process that writes the same index.
    VIEW = "view"  #: `view`: ids, codes and encoder of one moment, in memory.


class Item(NamedTuple):
    """One item of an index."""

    id: Id
    vector: np.ndarray
    payload: Payload | None


class Version(NamedTuple):
    """An encoder that the index has or had: its serial number, and the pairs it was learned from."""

    serial: int
    n_pairs: int
    encoder: Encoder

    @property
    def version(self) -> int:
        """The version number of the encoder."""
        return self.encoder.version


class VersionInfo(Protocol):
    """What is known of a `Version` wherever it is kept."""

    @property
    def serial(self) -> int:
        """Its serial number."""

    @property
    def n_pairs(self) -> int:
        """The pairs it was learned from."""

    @property
    def version(self) -> int:
        """The version number of its encoder."""


class Behind(NamedTuple):
    """How far the codes are behind the learner: hash functions that differ, and pairs learned since."""

    bits: int
    pairs: int


class Counters(NamedTuple):
    """Totals over all refreshes, in bits of items."""

    refreshes: int = 0
    bits_rehashed: int = 0
    bits_skipped: int = 0
    bits_flipped: int = 0


class Receipt(NamedTuple):
    """A digest of what was asked for, and the outcome: the ids of `add`, the `Updates` of learning, or None."""

    digest: str
    outcome: Any


class RefreshJob(Protocol):
    """A refresh that runs in the background."""

    @property
    def done(self) -> bool:
        """Whether it has ended: finished, failed or cancelled."""

    def cancel(self) -> None:
        """Stop it; the index stays as it was."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end. True if the new codes are there, False if it was cancelled or is still running."""


class Watched(Protocol):
    """What a policy may look at: a live index, as far as it concerns policies."""

    def __len__(self) -> int: ...

    def clock(self) -> float:
        """Seconds on a clock that never goes back."""

    @property
    def learner(self) -> Learner: ...

    @property
    def encoder(self) -> Encoder:
        """The encoder that made the stored codes."""

    @property
    def newest(self) -> Encoder:
        """The learner's current hash functions; this copies them."""

    @property
    def behind(self) -> Behind:
        """How many columns changed since the encoder, and pairs learned since; as expensive as `newest`."""

    @property
    def pairs_behind(self) -> int:
        """Pairs learned since the encoder; cheap."""

    @property
    def sample(self) -> np.ndarray:
        """Some of the stored vectors, drawn at random."""

    @property
    def bits_at_once(self) -> int:
        """How many bits a refresh can recompute without a noticeable delay, wherever the items are stored."""

    @property
    def recent_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Some of the learned pairs, drawn at random: A, B, similar."""


class Policy(Protocol):
    """Says when an index is refreshed.

    It is asked after calls through which the learner may have changed, one at a time, and only while the learner's
    version is not that of the stored codes.
    """

    def due(self, index: Watched) -> bool:
        """Whether to refresh the codes now."""


class VectorIndex(ABC):
    """Items with vectors, ids and payloads, searched by codes that follow a learner.

    After every call, `codes` are what `encoder` makes of `vectors`, and queries are encoded with `encoder`. Learning
    changes neither; a refresh replaces both in one step, when the policy says so or `refresh` is called. Searches see
    the state before a change or the state after it, never one in between. A refused call changes nothing.

    The examples of its methods go on with this index.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import LiveIndex, OnlineHashing, refresh
    >>> X = np.random.default_rng(0).normal(size=(6, 4))
    >>> index = LiveIndex(OnlineHashing(n_bits=16, random_state=0), refresh=refresh.by_hand())
    >>> index.add(["a", "b", "c", "d"], X[:4], [{"red": True}, {"red": True}, None, None])
    array(['a', 'b', 'c', 'd'], dtype=object)
    """

    #: When to refresh, and whether such refreshes run in the background; with the capability `learner`.
    policy: Policy
    background: bool

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this index can do beyond the methods that all of them have."""
        return frozenset()

    def supports(self, capability: Capability | str) -> bool:
        """Whether this index has a capability.

        Parameters
        ----------
        capability : Capability or str
            One of `"backup"`, `"group_commit"`, `"learner"`, `"positions"`, `"receipts"`, `"reload"`, `"view"`.

        Returns
        -------
        bool

        Examples
        --------
        >>> index.supports("backup")
        True
        """
        return capability in self.capabilities

    def _unsupported(self, capability: Capability) -> NotSupported:
        return NotSupported(f"{type(self).__name__} does not support {capability.value}.")

    # ------------------------------------------------------------------------------------------------ items

    @abstractmethod
    def add(self, ids: ArrayLike | None, X: Vectors, payloads: Payloads | None = None) -> IdArray:
        """Add new items. The learner observes their vectors.

        Parameters
        ----------
        ids : int, str, sequence of either, or None
            Integers or strings, one kind in an index. None continues counting from the largest integer so far.
        X : array-like of shape (n, n_features), or (n_features,) for one item
        payloads : list of dict or None, optional
            A JSON object, or None, for each item.

        Returns
        -------
        ndarray of shape (n,)
            The ids, int64 or str objects.

        Raises
        ------
        InvalidInput
            If an id is in use already, or vectors, ids or payloads are not valid.

        Examples
        --------
        >>> index.add(["e", "f"], X[4:])
        array(['e', 'f'], dtype=object)
        """

    @abstractmethod
    def update(self, ids: ArrayLike, X: Vectors | None = None, payloads: Payloads | None = None) -> None:
        """Replace vectors or payloads, or both, of known items, which keep their place in the order of insertion.

        Parameters
        ----------
        ids : int, str, or sequence of either
        X : array-like of shape (n, n_features), optional
        payloads : list of dict or None, optional

        Raises
        ------
        UnknownId
            If no item has one of the ids.
        InvalidInput
            If neither vectors nor payloads are given, or they are not valid.

        Examples
        --------
        >>> index.update("a", payloads={"red": False})
        >>> index.get("a").payload
        {'red': False}
        """

    @abstractmethod
    def remove(self, ids: ArrayLike) -> None:
        """Remove known items.

        Parameters
        ----------
        ids : int, str, or sequence of either

        Raises
        ------
        UnknownId
            If no item has one of the ids.

        Examples
        --------
        >>> index.remove(["a", "c"])
        >>> list(index)
        ['b', 'd']
        """

    @abstractmethod
    def get(self, id: Id) -> Item:
        """Return one item.

        Parameters
        ----------
        id : int or str
            The id of an item.

        Returns
        -------
        Item
            With `id`, `vector` and `payload` (None if it has none).

        Raises
        ------
        UnknownId
            If no item has this id.

        Examples
        --------
        >>> index.get("b").payload
        {'red': True}
        """

    @abstractmethod
    def get_many(self, ids: ArrayLike) -> list[Item]:
        """Return several items as of one moment; an id may be given more than once.

        Parameters
        ----------
        ids : array-like of int or str
            The ids of items.

        Returns
        -------
        list of Item

        Raises
        ------
        UnknownId
            If no item has one of the ids.

        Examples
        --------
        >>> [item.payload for item in index.get_many(["c", "b", "b"])]
        [None, {'red': True}, {'red': True}]
        """

    @abstractmethod
    def vectors_of(self, ids: ArrayLike) -> NDArray[np.floating]:
        """Return the vectors of several items, one a row; an id may be given more than once.

        Parameters
        ----------
        ids : array-like of int or str
            The ids of items.

        Returns
        -------
        ndarray of shape (n, n_features)

        Raises
        ------
        UnknownId
            If no item has one of the ids.

        Examples
        --------
        >>> index.vectors_of(["b", "b"]).shape
        (2, 4)
        """

    @abstractmethod
    def payloads_of(self, ids: Sequence[Id]) -> list[Payload | None]:
        """Return the payloads of several items, None also for those that are gone, as may be after a search.

        Parameters
        ----------
        ids : sequence of int or str
            Ids, of which some may be nobody's.

        Returns
        -------
        list of dict or None

        Examples
        --------
        >>> index.payloads_of(["a", "nobody"])
        [{'red': True}, None]
        """

    @abstractmethod
    def __contains__(self, id: object) -> bool: ...

    @abstractmethod
    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Id]:
        """Iterate over the ids, in the order of insertion, as they are now."""
        return iter(self.ids.tolist())

    @property
    @abstractmethod
    def ids(self) -> IdArray:
        """The items' ids, in the order of insertion."""

    @property
    @abstractmethod
    def ids_kind(self) -> str:
        """`"range"` (counted in the order of insertion), `"integers"` or `"strings"`."""

    @property
    @abstractmethod
    def vectors(self) -> NDArray[np.floating]:
        """The items' vectors, in the order of insertion; all of them, copied into memory."""

    @property
    @abstractmethod
    def codes(self) -> Codes:
        """The items' codes, in the order of insertion: what `encoder` makes of `vectors`."""

    @property
    @abstractmethod
    def encoder(self) -> Encoder | None:
        """The hash functions that made the codes; None until the learner has its first."""

    @property
    @abstractmethod
    def n_bits(self) -> int:
        """Bits of each model's code."""

    @property
    @abstractmethod
    def n_models(self) -> int:
        """Number of models, each of which gives an item a code."""

    # ------------------------------------------------------------------------------------------------ searching

    def find(self, queries: Vectors, k: int = 10, where: Where | None = None, *, payloads: bool = False) -> Hits:
        """Find the k nearest items of each query: candidates by their codes, in the order that pairs have taught.

        This is the search to use where vectors are kept. Codes give 256 candidates or as many as it takes, and the
        vectors of these are compared: at first by the cosine, then by a metric that learns from every pair at
        once, so that a pair counts from the next call on (`onlinehash.learners.pair_metric`). `search` goes by codes
        alone.

        Parameters
        ----------
        queries : array-like of shape (n_features,) or (n, n_features)
        k : int, default=10
            Fewer are found where there are not as many items. Up to ten results are the first of ten; for a larger k
            more candidates may be compared, and better ones found.
        where : dict, optional
            A filter on payloads, as in `search`.
        payloads : bool, default=False
            Whether to return the payloads of the items too, as in `search`.

        Returns
        -------
        Hits
            `ids` and `distances` of shape (k,) for one query, (n, k) for several, the nearest first. Distances
            order one answer; do not compare them between answers.

        Raises
        ------
        NotReady
            If there are no codes yet.
        InvalidInput
            If queries, k or the filter are not valid.

        Examples
        --------
        >>> index.find(X[1], k=1).ids
        array(['b'], dtype=object)
        >>> index.find(X[:2], k=3, where={"red": True}).ids.shape
        (2, 2)
        """
        hits, _ = self.found(queries, k, where)
        return self._with_payloads(hits) if payloads else hits

    @abstractmethod
    def found(self, queries: Vectors, k: int = 10, where: Where | None = None) -> tuple[Hits, Encoder]:
        """Find as `find` does, and also return the encoder of the codes that gave the candidates.

        Parameters
        ----------
        queries, k, where
            As in `find`.

        Returns
        -------
        tuple of Hits and Encoder

        Raises
        ------
        NotReady, InvalidInput
            As in `find`.

        Examples
        --------
        >>> hits, encoder = index.found(X[1], k=1)
        >>> encoder.n_bits
        16
        """

    def search(self, queries: Queries, k: int = 10, where: Where | None = None, *, payloads: bool = False) -> Hits:
        """Find the k nearest items of each query by Hamming distance.

        Parameters
        ----------
        queries : array-like of shape (n_features,) or (n, n_features), or Codes
        k : int, default=10
            Fewer are found where there are not as many items.
        where : dict, optional
            A filter on payloads, such as `{"colour": "red", "price": {"<": 5}}`; docs/how-to/filter.md
            lists all conditions.
        payloads : bool, default=False
            Whether to return the payloads of the items too. That of an item which is removed meanwhile is None.

        Returns
        -------
        Hits
            `ids` and `distances` of shape (k,) for one query, (n, k) for several, in the order of (distance,
            insertion), and `payloads` as lists if they were asked for.

        Raises
        ------
        NotReady
            If there are no codes yet.
        InvalidInput
            If queries, k or the filter are not valid.

        Examples
        --------
        >>> index.search(X[1], k=1).ids
        array(['b'], dtype=object)
        >>> index.search(X[:2], k=3, where={"red": True}).ids.shape
        (2, 2)
        >>> index.search(X[1], k=1, payloads=True).payloads
        [{'red': True}]
        """
        hits, _ = self.searched(queries, k, where)
        return self._with_payloads(hits) if payloads else hits

    def _with_payloads(self, hits: Hits) -> Hits:
        found = self.payloads_of(hits.ids.ravel().tolist())
        if hits.ids.ndim == 1:
            return replace(hits, payloads=found)
        n, k = hits.ids.shape
        return replace(hits, payloads=[found[row * k : (row + 1) * k] for row in range(n)])

    def within(
        self, queries: Queries, radius: int, where: Where | None = None, *, payloads: bool = False
    ) -> Hits | list[Hits]:
        """Find all items at a Hamming distance of at most `radius`.

        Parameters
        ----------
        queries : array-like of shape (n_features,) or (n, n_features), or Codes
        radius : int
        where : dict, optional
            A filter on payloads, as in `search`.
        payloads : bool, default=False
            Whether to return the payloads of the items too, as in `search`.

        Returns
        -------
        Hits or list of Hits
            One `Hits` for one query, a list of them for several.

        Raises
        ------
        NotReady
            If there are no codes yet.
        InvalidInput
            If queries, radius or the filter are not valid.

        Examples
        --------
        >>> index.within(X[1], radius=0).ids
        array(['b'], dtype=object)
        """
        hits, _ = self.found_within(queries, radius, where)
        if not payloads:
            return hits
        return self._with_payloads(hits) if isinstance(hits, Hits) else [self._with_payloads(one) for one in hits]

    @abstractmethod
    def searched(self, queries: Queries, k: int = 10, where: Where | None = None) -> tuple[Hits, Encoder]:
        """Search as `search` does, and also return the encoder of the codes that were searched.

        Parameters
        ----------
        queries, k, where
            As in `search`.

        Returns
        -------
        tuple of Hits and Encoder

        Raises
        ------
        NotReady, InvalidInput
            As in `search`.

        Examples
        --------
        >>> hits, encoder = index.searched(X[1], k=1)
        >>> encoder.n_bits
        16
        """

    @abstractmethod
    def found_within(
        self, queries: Queries, radius: int, where: Where | None = None
    ) -> tuple[Hits | list[Hits], Encoder]:
        """Search as `within` does, and also return the encoder of the codes that were searched.

        Parameters
        ----------
        queries, radius, where
            As in `within`.

        Returns
        -------
        tuple of (Hits or list of Hits) and Encoder

        Raises
        ------
        NotReady, InvalidInput
            As in `within`.

        Examples
        --------
        >>> hits, encoder = index.found_within(X[1], radius=0)
        >>> hits.distances
        array([0], dtype=int32)
        """

    @abstractmethod
    def rerank(self, queries: Vectors, hits: Hits, k: int | None = None) -> Hits:
        """Sort hits as `find` would: by their vectors, in the order that pairs have taught.

        Where distances are equal, the order of the hits stays.

        Parameters
        ----------
        queries : array-like
            The vectors that were searched for.
        hits : Hits
            What `search` found for them.
        k : int, optional
            How many of them to keep; all by default.

        Returns
        -------
        Hits
            With the distances of `find`, and without payloads.

        Raises
        ------
        InvalidInput
            If the hits are not those of these queries.
        UnknownId
            If an item was removed since.

        Examples
        --------
        >>> index.rerank(X[1], index.search(X[1], k=4), k=1).ids
        array(['b'], dtype=object)
        """

    # ------------------------------------------------------------------------------------------------ learning

    def learn_pair(self, a: Vectors, b: Vectors, similar: bool | int, sample_weight: float = 1.0) -> Update:
        """Teach the learner one pair of vectors.

        Parameters
        ----------
        a, b : array-like of shape (n_features,)
        similar : bool, or 1 or -1, or 1 or 0
        sample_weight : float, default=1.0

        Returns
        -------
        Update
            The loss of the pair, the step, and the bits whose hash function changed.

        Raises
        ------
        InvalidInput
            If vectors, label or weight are not valid, or the method does not learn from pairs.

        Examples
        --------
        >>> index.learn_pair(X[0], X[1], similar=True).pending
        0
        """
        return self.learn_pairs(checks.row(a, "a"), checks.row(b, "b"), similar, sample_weight)[0]

    def learn_pair_by_id(self, id_a: Id, id_b: Id, similar: bool | int, sample_weight: float = 1.0) -> Update:
        """Teach the learner a pair of items; see `learn_pair`.

        Parameters
        ----------
        id_a, id_b : int or str
            The ids of two items.
        similar, sample_weight
            As in `learn_pair`.

        Returns
        -------
        Update

        Raises
        ------
        UnknownId
            If no item has one of the ids.
        InvalidInput
            As in `learn_pair`.

        Examples
        --------
        >>> index.learn_pair_by_id("a", "b", similar=True).pending
        0
        """
        return self.learn_pairs_by_id([id_a], [id_b], similar, sample_weight)[0]

    @abstractmethod
    def learn_pairs(
        self, A: Vectors, B: Vectors, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Updates:
        """Teach the learner many pairs, row t of A with row t of B. The policy is asked once, after the last.

        Parameters
        ----------
        A, B : array-like of shape (n, n_features)
        similar : array-like of n bools, of 1 and -1, or of 1 and 0
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        Updates
            What each pair did, as arrays.

        Raises
        ------
        InvalidInput
            As in `learn_pair`.

        Examples
        --------
        >>> len(index.learn_pairs(X[:2], X[2:4], [True, False]))
        2
        """

    @abstractmethod
    def learn_pairs_by_id(
        self, ids_a: ArrayLike, ids_b: ArrayLike, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Updates:
        """Teach the learner many pairs of items; see `learn_pairs`.

        Parameters
        ----------
        ids_a, ids_b : array-like of int or str
            The ids of the items of each pair.
        similar, sample_weight
            As in `learn_pairs`.

        Returns
        -------
        Updates

        Raises
        ------
        UnknownId
            If no item has one of the ids.
        InvalidInput
            As in `learn_pair`.

        Examples
        --------
        >>> len(index.learn_pairs_by_id(["a", "b"], ["c", "d"], [True, False]))
        2
        """

    @abstractmethod
    def learn_labelled(self, X: Vectors, y: ArrayLike) -> None:
        """Teach the learner points with labels.

        Methods that learn from labels take them as they are; those that learn from pairs get them two by two.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,), or (n, n_classes) of 0 and 1 for methods that take several labels a point

        Raises
        ------
        InvalidInput
            If points or labels are not valid.

        Examples
        --------
        >>> index.learn_labelled(X[:4], [0, 0, 1, 1])
        """

    @abstractmethod
    def flush(self) -> None:
        """Start a feature map that still collects anchors with those it has, and learn a chunk that is not full.

        Examples
        --------
        >>> index.flush()
        """

    # ------------------------------------------------------------------------------------------------ texts

    @property
    def embedder(self) -> Embedding | None:
        """What makes vectors of texts here; None if texts must come as vectors, or if a service embeds them."""
        return None

    @property
    def embedded_by(self) -> Maker | None:
        """Name and `n_features` of the embedder that made the vectors, also if it was not given to this object."""
        return None

    @abstractmethod
    def add_texts(
        self, texts: Sequence[str], ids: ArrayLike | None = None, payloads: Payloads | None = None
    ) -> IdArray:
        """Add new items, whose vectors the index's embedder makes of their texts.

        Parameters
        ----------
        texts : list of str
        ids : sequence of int or str, optional
            As in `add`.
        payloads : list of dict or None, optional
            As in `add`; the text is kept in their field `text`, unless they have one.

        Returns
        -------
        ndarray of shape (n,)
            The ids.

        Raises
        ------
        NotSupported
            If the index has no embedder.
        InvalidInput
            As in `add`.

        Examples
        --------
        >>> notes = LiveIndex(n_bits=16, embed="lexical")
        >>> notes.add_texts(["open a file", "close a window"])
        array([0, 1])
        >>> notes.get(1).payload
        {'text': 'close a window'}
        """

    @abstractmethod
    def update_texts(self, ids: ArrayLike, texts: Texts, payloads: Payloads | None = None) -> None:
        """Give known items other texts, of which the index's embedder makes their vectors.

        Parameters
        ----------
        ids : sequence of int or str
        texts : str or list of str
            One for each id.
        payloads : list of dict or None, optional
            As in `add_texts`. Without them, items keep theirs, but for the field `text`.

        Raises
        ------
        NotSupported
            If the index has no embedder.
        UnknownId, InvalidInput
            As in `update`.

        Examples
        --------
        >>> notes = LiveIndex(n_bits=16, embed="lexical")
        >>> _ = notes.add_texts(["open a file"], payloads=[{"kind": "io"}])
        >>> notes.update_texts([0], ["close a file"])
        >>> notes.get(0).payload
        {'text': 'close a file', 'kind': 'io'}
        """

    @abstractmethod
    def find_text(self, texts: Texts, k: int = 10, where: Where | None = None, *, payloads: bool = False) -> Hits:
        """Find the k nearest items of a text, or of each of several, as `find` does.

        Parameters
        ----------
        texts : str, or list of str
        k : int, default=10
        where : dict, optional
            A filter on payloads, as in `search`.
        payloads : bool, default=False
            Whether to return the payloads of the items too, as in `search`.

        Returns
        -------
        Hits
            `ids` and `distances` of shape (k,) for one text, (n, k) for several, the nearest first.

        Raises
        ------
        NotSupported
            If the index has no embedder.
        NotReady, InvalidInput
            As in `find`.

        Examples
        --------
        >>> notes = LiveIndex(n_bits=16, embed="lexical")
        >>> _ = notes.add_texts(["open a file", "close a window"])
        >>> notes.find_text("opening files", k=1).ids
        array([0])
        """

    @abstractmethod
    def search_text(self, texts: Texts, k: int = 10, where: Where | None = None, *, payloads: bool = False) -> Hits:
        """Find the k nearest items of a text, or of each of several, by the Hamming distance of codes, as `search`.

        Parameters
        ----------
        texts : str or sequence of str
            What to search for.
        k, where, payloads
            As in `search`.

        Returns
        -------
        Hits

        Raises
        ------
        NotSupported
            If the index has no embedder.
        NotReady, InvalidInput
            As in `search`.

        Examples
        --------
        >>> notes = LiveIndex(n_bits=16, embed="lexical")
        >>> _ = notes.add_texts(["open a file", "close a window"])
        >>> notes.search_text("close a window", k=1).distances
        array([0], dtype=int32)
        """

    @abstractmethod
    def learn_text(
        self, text: str, ids: ArrayLike, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Updates:
        """Teach the learner which items are what somebody meant by a text, and which are not.

        Parameters
        ----------
        text : str
            What was searched for.
        ids : int, str, or sequence of either
            Items that were found.
        similar : bool, or 1 or -1, or 1 or 0; or one for each item
        sample_weight : float, or one for each item, optional

        Returns
        -------
        Updates
            What each pair of the text and an item did.

        Raises
        ------
        NotSupported
            If the index has no embedder.
        UnknownId
            If no item has one of the ids.
        InvalidInput
            As in `learn_pairs`.

        Examples
        --------
        >>> notes = LiveIndex(n_bits=16, embed="lexical")
        >>> _ = notes.add_texts(["open a file", "close a window"])
        >>> len(notes.learn_text("shut the panel", [1, 0], [True, False]))
        2
        >>> notes.find_text("shut the panel", k=1).ids
        array([1])
        """

    # ------------------------------------------------------------------------------------------------ refreshing

    @abstractmethod
    def refresh(self, wait: bool = True) -> RefreshJob | None:
        """Re-encode all stored items with the learner's current hash functions.

        Only the bits of hash functions that changed are computed. Searches go on meanwhile. A refresh that this process
        runs already is cancelled first; one that another process runs, in a database, is helped. Ends the pause after
        `roll_back`.

        Parameters
        ----------
        wait : bool, default=True
            False runs it in the background, so that changes and learning go on too.

        Returns
        -------
        RefreshJob or None
            With `wait=False`, a job that can be waited for and cancelled.

        Raises
        ------
        NotReady
            If the learner has no hash functions yet.

        Examples
        --------
        >>> _ = index.learn_pair(X[0], X[1], similar=True)
        >>> index.refresh()
        >>> index.behind
        Behind(bits=0, pairs=0)
        """

    @abstractmethod
    def roll_back(self, serial: int | None = None) -> None:
        """Return to an older encoder. The learner keeps what it learned, and policies pause until `refresh`.

        Parameters
        ----------
        serial : int, optional
            One of the serial numbers in `versions`; by default the one before the present.

        Raises
        ------
        InvalidInput
            If no such encoder is kept.

        Examples
        --------
        >>> _ = index.learn_pairs(X[:3], X[3:], [True, False, True])
        >>> index.refresh()
        >>> index.roll_back()
        >>> index.serial, index.paused
        (1, True)
        """

    @abstractmethod
    def cancel(self) -> None:
        """Stop a refresh that runs in the background, as if it had never begun.

        Examples
        --------
        >>> index.cancel()
        """

    @property
    @abstractmethod
    def versions(self) -> Sequence[VersionInfo]:
        """The encoders that are kept, oldest first, each with `serial` and `n_pairs`."""

    @property
    @abstractmethod
    def serial(self) -> int:
        """The serial number of the present encoder; 0 if there is none yet."""

    @property
    @abstractmethod
    def paused(self) -> bool:
        """Whether automatic refreshes are paused, as after `roll_back`, until `refresh` is called."""

    @property
    @abstractmethod
    def is_refreshing(self) -> bool:
        """Whether a refresh runs in the background; in a database, that of any process, from its first part on."""

    @property
    @abstractmethod
    def counters(self) -> Counters:
        """Totals over all refreshes: `refreshes`, `bits_rehashed`, `bits_skipped`, `bits_flipped`."""

    @property
    def refreshes(self) -> int:
        """The number of refreshes so far."""
        return self.counters.refreshes

    @property
    def bits_rehashed(self) -> int:
        """Bits of items whose hash function had changed, over all refreshes."""
        return self.counters.bits_rehashed

    @property
    def bits_skipped(self) -> int:
        """Those of `bits_rehashed` that were proved unchanged by their margin, and so not computed."""
        return self.counters.bits_skipped

    @property
    def bits_flipped(self) -> int:
        """Those of `bits_rehashed` whose value changed."""
        return self.counters.bits_flipped

    @property
    @abstractmethod
    def newest(self) -> Encoder:
        """The learner's hash functions as they are now."""

    @property
    @abstractmethod
    def behind(self) -> Behind:
        """How far the codes are behind the learner: `bits` and `pairs`."""

    @property
    def pairs_behind(self) -> int:
        """Pairs learned since the encoder of the codes."""
        return self.behind.pairs

    # ------------------------------------------------------------------------------------------------ capabilities

    @property
    def learner(self) -> Learner:
        """The learner. A durable index owns it: it learns through the index only."""
        raise self._unsupported(Capability.LEARNER)

    @property
    def taught(self) -> Taught:
        """What the learner has been taught, as far as it is known here: nobody is asked, and no lock is waited for."""
        raise self._unsupported(Capability.LEARNER)

    @property
    def n_changed(self) -> int:
        """How often items were added, updated and removed, by whichever process; in a database, since it was created.

        In memory or in a folder it is counted from when the index was opened. As `taught`, it is known without waiting.
        """
        raise self._unsupported(Capability.LEARNER)

    @property
    def has_shared_learner(self) -> bool:
        """Whether other processes teach the learner, too, so that `learner` may ask a database what they taught."""
        raise self._unsupported(Capability.LEARNER)

    @property
    def is_learning(self) -> bool:
        """Whether the calling thread is inside a call of this index that may teach the learner."""
        raise self._unsupported(Capability.LEARNER)

    @property
    def sample(self) -> NDArray[np.floating]:
        """Up to 256 of the vectors, drawn at random, and again once a tenth of the items has changed."""
        raise self._unsupported(Capability.LEARNER)

    @property
    def recent_pairs(self) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.int8]]:
        """Up to 512 of the last few thousand pairs that were learned: A, B, and +1 or -1."""
        raise self._unsupported(Capability.LEARNER)

    def clock(self) -> float:
        """Return seconds that only grow, for policies.

        Returns
        -------
        float

        Examples
        --------
        >>> index.clock() <= index.clock()
        True
        """
        raise self._unsupported(Capability.LEARNER)

    @property
    def view(self) -> Index:
        """Ids, codes and encoder as of one moment: the index that is searched now. It must not be changed."""
        raise self._unsupported(Capability.VIEW)

    @property
    def positions(self) -> dict[str, Json]:
        """How far each source was read: the position stored last, by the source's name."""
        raise self._unsupported(Capability.POSITIONS)

    def reached(self, source: str, position: Json) -> AbstractContextManager[None]:
        """Store a source's position together with the one change inside, in one transaction.

        Parameters
        ----------
        source : str
        position : anything that JSON can hold

        Returns
        -------
        context manager

        Raises
        ------
        InvalidInput
            If source or position are not valid, or a second change is made inside.

        Examples
        --------
        >>> with index.reached("clicks.csv", 17):
        ...     index.remove("a")
        >>> index.positions
        {'clicks.csv': 17}
        """
        raise self._unsupported(Capability.POSITIONS)

    def put_position(self, source: str, position: Json) -> None:
        """Store how far a source was read where that changed nothing else; see `reached`.

        Parameters
        ----------
        source : str
            The name of what is read, such as a file.
        position : JSON value
            How far it was read.

        Raises
        ------
        InvalidInput
            If source or position are not valid.

        Examples
        --------
        >>> index.put_position("clicks.csv", 18)
        """
        raise self._unsupported(Capability.POSITIONS)

    def once(self, key: str, digest: str) -> AbstractContextManager[None]:
        """Store a key together with the one change inside, so that it need not be made again.

        Ask for the `receipt` of the key before trying a change again. A refused change leaves none. The last 10,000
        receipts are kept, and at most 64 MB of them.

        Parameters
        ----------
        key : str
        digest : str
            Stands for what is asked for, to tell whether the same key comes with something else.

        Returns
        -------
        context manager

        Raises
        ------
        InvalidInput
            If the key has a receipt already, or a second change is made inside.

        Examples
        --------
        >>> with index.once("upload 17", "digest of the request"):
        ...     _ = index.add(["e"], X[4:5])
        >>> index.receipt("upload 17").outcome
        array(['e'], dtype=object)
        """
        raise self._unsupported(Capability.RECEIPTS)

    def group_commit(self) -> AbstractContextManager[None]:
        """Write the changes of this thread inside in one transaction, which costs little more than one change.

        They are checked one after the other, and learned as if each were committed by itself; one that is refused is
        left out. Nobody sees any of them before the block ends, this thread neither, and if it ends with an error, none
        is made. The policy is asked once, afterwards. Inside, refreshes are refused, and so is to change an item, or to
        learn from it, that was changed inside before.

        Returns
        -------
        context manager

        Raises
        ------
        InvalidInput
            For an index in memory, which has nothing to commit.

        Examples
        --------
        >>> with LiveIndex(n_bits=16, path="group") as kept:
        ...     with kept.group_commit():
        ...         for row in X:
        ...             _ = kept.add(None, [row])
        ...     print(len(kept))
        6
        """
        raise self._unsupported(Capability.GROUP_COMMIT)

    def receipt(self, key: str) -> Receipt | None:
        """Return what came of the change that was made `once` with this key.

        Parameters
        ----------
        key : str
            The key of a change.

        Returns
        -------
        Receipt or None
            None if there was no such change, or too long ago.

        Examples
        --------
        >>> index.receipt("upload 17") is None
        True
        """
        raise self._unsupported(Capability.RECEIPTS)

    def backup(self, path: str | Path) -> None:
        """Write a copy to another folder, as of this moment, which `LiveIndex.open` opens.

        The index can be used meanwhile. An index in memory is written as a durable one.

        Parameters
        ----------
        path : str or path-like
            A folder that does not exist.

        Raises
        ------
        InvalidInput
            If there is something at the path already.
        StorageError
            If the disk is full or read-only.

        Examples
        --------
        >>> index.backup("copy")
        """
        raise self._unsupported(Capability.BACKUP)

    def reload(self) -> bool:
        """Catch up with what is on the disk now, for those who only read an index while another process writes it.

        Takes time in proportion to what changed, or to all items where most did. Searches go on meanwhile.

        Returns
        -------
        bool
            Whether anything was new.

        Raises
        ------
        InvalidInput
            If the index is in memory.

        Examples
        --------
        >>> index.backup("items")
        >>> with LiveIndex.open("items", read_only=True) as reader:
        ...     reader.reload()
        False
        """
        raise self._unsupported(Capability.RELOAD)

    # ------------------------------------------------------------------------------------------------ epochs

    @property
    def epoch(self) -> int:
        """The number of the last change that this index shows. It grows with every change of what is kept."""
        raise NotSupported(f"{type(self).__name__} has no epoch.")

    @property
    def head_epoch(self) -> int:
        """The number of the last change that anybody made, as far as it is known here."""
        return self.epoch

    @property
    def lag(self) -> float:
        """Seconds since the oldest change that is known but not shown here; 0 if there is none."""
        return 0.0

    # ------------------------------------------------------------------------------------------------ life

    @property
    def path(self) -> Path | None:
        """The folder in which the index is stored; None if it is somewhere else."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Stop a refresh that is running, and let go of files, connections and the learner; nothing is lost.

        Examples
        --------
        >>> index.close()
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
