"""What the indexes share: items that come, change and go, and searches that answer with `Hits`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.arraylike import as_array
from onlinehash.codes import Codes, check_same_width, fused_planes
from onlinehash.errors import InvalidInput
from onlinehash.index.hits import Hits
from onlinehash.index.items import Items, twin_of
from onlinehash.types import State

if TYPE_CHECKING:
    from onlinehash.learners.encoder import Encoder

#: The share of dead positions at which an index is made compact.
DEAD_SHARE = 0.25

_SEARCH_RULES, _WITHIN_RULES = {"k": checks.integer(0)}, {"radius": checks.integer(0)}


class Index(ABC):
    """Exact search over codes, in the order of (distance, insertion).

    Parameters
    ----------
    codes : Codes
        They may have several models.
    ids : array-like of int or str, optional
        One for each code, all different; by default items are numbered from 0.
    n_jobs : int, default=1
        Threads that share the work of a search; -1 is one for each CPU. The answers do not depend on it.
    fusion : {"min", "sum"}, default="min"
        Which distance counts with several models: that of the nearest model, or the sum.
    encoder : Encoder, optional
        The encoder that made the codes; with it, the index also takes vectors as queries.
    """

    def __init__(
        self,
        codes: Codes,
        ids: ArrayLike | None = None,
        n_jobs: int = 1,
        *,
        fusion: str = "min",
        encoder: Encoder | None = None,
    ) -> None:
        self._set_up(Items(codes, ids), n_jobs, fusion, encoder)
        self._replaced(None)

    def _set_up(self, items: Items, n_jobs: int, fusion: str, encoder: Encoder | None) -> None:
        self._items, self.n_jobs = items, n_jobs
        self._n_models, self._per_model = fused_planes(items.all_codes(), fusion)
        self._fusion, self._encoder = fusion, self._check_encoder(encoder)

    def _check_encoder(self, encoder: Encoder | None) -> Encoder | None:
        if encoder is None:
            return None
        from onlinehash.learners.encoder import Encoder  # which brings scikit-learn along, and takes a second

        if isinstance(encoder, Encoder) and (encoder.n_bits, encoder.n_models) == (self.n_bits, self.n_models):
            return encoder
        raise InvalidInput(
            expected=f"the encoder that made {self._items.all_codes()!r}",
            got=checks.shown(encoder),
            hint="a learner gives its encoder by snapshot()",
        )

    # ------------------------------------------------------------------------------------------------ searching

    def search(self, queries: ArrayLike | Codes, k: int = 10, among: ArrayLike | None = None) -> Hits:
        """Find the k nearest items of each query.

        Parameters
        ----------
        queries : Codes, or array-like
            Codes; booleans, one code (bits,) or several (n, bits); or, with an encoder, vectors.
        k : int, default=10
            Fewer are found where there are not as many items.
        among : array-like of bool, optional
            One for each item, in the order of insertion: only items with True are searched, by a scan.

        Returns
        -------
        Hits
            Arrays of shape (k,) for one query, (n, k) for several.

        Raises
        ------
        InvalidInput
            If queries, k or `among` are not valid.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import Codes, FlatIndex
        >>> codes = Codes.from_bits(np.eye(3, 8, dtype=bool))
        >>> FlatIndex(codes, ids=["a", "b", "c"]).search(codes[1], k=1).ids
        array([['b']], dtype=object)
        """
        checks.parameters("search", {"k": k}, _SEARCH_RULES)
        codes, one = self.codes_of(queries)
        hits = self._hits(*self.nearest(codes, k, among))
        return Hits(hits.ids[0], hits.distances[0]) if one else hits

    def nearest(self, codes: Codes, k: int, among: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return distances and positions of the nearest items, `(n_codes, k)`, for callers with more than codes."""
        items = self._chosen(among)
        k = min(int(k), len(items))
        if k and len(codes):
            return self._nearest(codes, k, items)
        return np.empty((len(codes), k), np.uint16), np.empty((len(codes), k), np.int64)

    def within(self, queries: ArrayLike | Codes, radius: int, among: ArrayLike | None = None) -> Hits | list[Hits]:
        """Find all items at a distance of at most `radius`.

        Parameters
        ----------
        queries, among
            As in `search`.
        radius : int

        Returns
        -------
        Hits or list of Hits
            One `Hits` for one query, a list of them for several.

        Raises
        ------
        InvalidInput
            If queries, radius or `among` are not valid.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import Codes, FlatIndex
        >>> codes = Codes.from_bits(np.eye(3, 8, dtype=bool))
        >>> [hits.ids for hits in FlatIndex(codes).within(codes[:2], radius=1)]
        [array([0]), array([1])]
        """
        checks.parameters("within", {"radius": radius}, _WITHIN_RULES)
        codes, one = self.codes_of(queries)
        items = self._chosen(among)
        if len(items) and len(codes):
            found = self._within(codes, min(int(radius), 8 * self._per_model), items)
        else:
            found = [(np.empty(0, np.uint16), np.empty(0, np.int64))] * len(codes)
        hits = [self._hits(*pair) for pair in found]
        return hits[0] if one else hits

    def _hits(self, distances: np.ndarray, positions: np.ndarray) -> Hits:
        return Hits(self._items.ids.at(positions), distances.astype(np.int32))

    def _chosen(self, among: ArrayLike | None) -> Items:
        """The items to search: all of them, or those that `among` selects."""
        if among is None:
            return self._items
        chosen = np.asarray(among)
        if chosen.dtype != np.bool_ or chosen.shape != (len(self),):
            raise InvalidInput(expected=f"{len(self)} bools, one for each item", got=checks.shown(among))
        return self._items.among(chosen)

    def codes_of(self, queries: ArrayLike | Codes) -> tuple[Codes, bool]:
        """Return queries as Codes, and whether there is only one, without a dimension for it."""
        if isinstance(queries, Codes):
            if (queries.n_bits, queries.n_models) != (self.n_bits, self.n_models):
                check_same_width(queries, self._items.all_codes())
            return queries, False
        array = as_array(queries, "queries")
        if array.dtype != np.bool_ and self.encoder is None:
            raise InvalidInput(
                expected="Codes or booleans to search for",
                got=checks.shown(queries),
                hint="an index that was given its encoder also takes vectors",
            )
        if array.ndim == 0:
            raise InvalidInput(expected="queries in one or two dimensions", got=checks.shown(queries))
        rows = array[None] if array.ndim == 1 else array
        if array.dtype != np.bool_ and self.encoder is not None:
            if len(rows) == 0:
                return self._items.at(np.empty(0, np.int64)), False
            return self.encoder.encode_queries(rows), array.ndim == 1
        codes = Codes.from_bits(rows, self._items.n_models)
        return self.codes_of(codes)[0], array.ndim == 1

    @abstractmethod
    def _nearest(self, queries: Codes, k: int, items: Items) -> tuple[np.ndarray, np.ndarray]:
        """Distances and positions `(n_queries, k)`, 0 < k <= len(items), which are all of this index or some."""

    @abstractmethod
    def _within(self, queries: Codes, radius: int, items: Items) -> list[tuple[np.ndarray, np.ndarray]]:
        """Distances and positions of each query, in order."""

    # ------------------------------------------------------------------------------------------------ items

    def add(self, codes: Codes, ids: ArrayLike | None = None) -> None:
        """Add new items after those that are there.

        Parameters
        ----------
        codes : Codes
        ids : array-like of int or str, optional
            By default, numbers continue from the largest so far.

        Raises
        ------
        InvalidInput
            If an id is in use already, or the codes have another width.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import Codes, FlatIndex
        >>> codes = Codes.from_bits(np.eye(3, 8, dtype=bool))
        >>> index = FlatIndex(codes[:2])
        >>> index.add(codes[2:])
        >>> index.ids
        array([0, 1, 2])
        """
        self._add(codes, ids, False)

    def update(self, ids: ArrayLike, codes: Codes) -> None:
        """Replace the codes of known items, which keep their place in the order of insertion.

        Parameters
        ----------
        ids : array-like of int or str
        codes : Codes

        Raises
        ------
        UnknownId
            If no item has one of the ids.
        InvalidInput
            If the codes do not fit.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import Codes, FlatIndex
        >>> codes = Codes.from_bits(np.eye(3, 8, dtype=bool))
        >>> index = FlatIndex(codes)
        >>> index.update([0], codes[1])
        >>> index.codes[0] == codes[1]
        True
        """
        self._touched(self._items.update(ids, codes))

    def remove(self, ids: ArrayLike) -> None:
        """Remove known items.

        Parameters
        ----------
        ids : array-like of int or str

        Raises
        ------
        UnknownId
            If no item has one of the ids.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import Codes, FlatIndex
        >>> index = FlatIndex(Codes.from_bits(np.eye(3, 8, dtype=bool)))
        >>> index.remove([1])
        >>> index.ids, 1 in index
        (array([0, 2]), False)
        """
        self.bury(ids)
        if self.wants_compaction:
            self.compact()

    def replace(self, codes: Codes, encoder: Encoder | None = None) -> None:
        """Replace the codes of all items, as after a change of the hash functions.

        Parameters
        ----------
        codes : Codes
            In the order of insertion.
        encoder : Encoder, optional
            The encoder that made them; without it, the index does not take vectors as queries any more.

        Raises
        ------
        InvalidInput
            If the codes do not fit.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import FlatIndex, OnlineHashing
        >>> X = np.random.default_rng(0).standard_normal((10, 4))
        >>> learner = OnlineHashing(n_bits=8, random_state=0).observe(X)
        >>> index = FlatIndex(learner.encode(X), encoder=learner.snapshot())
        >>> _ = learner.learn_pair(X[0], X[1], similar=True)
        >>> index.replace(learner.encode(X), learner.snapshot())
        >>> index.search(X[:1], k=1).distances
        array([[0]], dtype=int32)
        """
        encoder = self._check_encoder(encoder)
        moved = self._items.n_dead > 0
        columns = self._items.replace(codes)
        self._encoder = encoder
        self._replaced(None if moved else columns)

    # ------------------------------------------------------------------------------------------------ versions
    #
    # For those who search an index while others change it: a published index is never changed. A change is made to a
    # fork, which shares all that is large, and the fork is published in its place.

    def fork(self) -> Self:
        """An index to change, while this one stays as it is; of several forks only the last may be changed."""
        twin = twin_of(self)
        twin._items = self._items.fork()
        return twin

    def recoded(self, codes: Codes, encoder: Encoder, columns: np.ndarray) -> Self:
        """A fork whose positions, dead ones too, have other codes, which differ in some columns."""
        twin = self.fork()
        twin._items, twin._encoder = self._items.recoded(codes), self._check_encoder(encoder)
        twin._replaced(columns)
        return twin

    def with_encoder(self, encoder: Encoder) -> Self:
        """This index for queries that are encoded otherwise; the codes of items are the same by both encoders."""
        twin = twin_of(self)
        twin._encoder = self._check_encoder(encoder)
        return twin

    def follow(self, newer: Index, positions: np.ndarray, codes: Codes) -> None:
        """Take over what a later fork of this index added, changed and removed, with the codes of what it changed."""
        self._touched(np.union1d(positions, self._items.follow(newer._items, positions, codes)))

    def append(self, codes: Codes, ids: np.ndarray) -> None:
        """`add` with ids that `items.ids.new` has just given, which are not checked again."""
        self._add(codes, ids, True)

    def _add(self, codes: Codes, ids: ArrayLike | None, are_new: bool) -> None:
        self._touched(self._items.add(codes, ids, are_new))

    def put(self, positions: np.ndarray, codes: Codes) -> None:
        """`update` by position."""
        self._items.put(positions, codes)
        self._touched(positions)

    def bury(self, ids: ArrayLike) -> None:
        """`remove` without compacting, however many dead positions that leaves."""
        self.bury_at(self._items.ids.find(ids))

    def bury_at(self, positions: np.ndarray) -> None:
        """`bury` by position."""
        self._items.remove(positions)
        self._touched(positions)

    @property
    def wants_compaction(self) -> bool:
        """Whether so many positions are dead that the index should be compacted."""
        return self._items.n_dead > DEAD_SHARE * self._items.n_positions

    def compact(self) -> None:
        """Drop dead positions and renumber the others."""
        self._items.compact()
        self._replaced(None)

    @classmethod
    def of(cls, other: Index) -> Self:
        """Make an index from the items of an index of another kind.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import Codes, FlatIndex, MultiIndex
        >>> flat = FlatIndex(Codes.from_bits(np.eye(3, 8, dtype=bool)), ids=[10, 20, 30])
        >>> MultiIndex.of(flat).ids
        array([10, 20, 30])
        """
        index = cls.__new__(cls)
        index._set_up(other._items.fork(), other.n_jobs, other.fusion, other.encoder)
        index._replaced(None)
        return index

    @property
    def items(self) -> Items:
        """The items by position. Do not change them."""
        return self._items

    @abstractmethod
    def _touched(self, positions: np.ndarray) -> None:
        """Called when the items at these positions were added, changed or removed."""

    @abstractmethod
    def _replaced(self, columns: np.ndarray | None) -> None:
        """Called when all codes may have changed in these columns; None means that positions changed, too."""

    # ------------------------------------------------------------------------------------------------ files

    def get_state(self) -> State:
        """Everything that `from_state` needs to make the same index, except the encoder."""
        return {"items": self._items.get_state(), "n_jobs": self.n_jobs, "fusion": self.fusion}

    @classmethod
    def from_state(cls, state: State, encoder: Encoder | None) -> Self:
        """The index that had this state. Its arrays are used without a copy, and may be mapped from a file."""
        index = cls.__new__(cls)
        index._set_up(Items.from_state(state["items"]), state["n_jobs"], state["fusion"], encoder)
        index._restore(state)
        return index

    @abstractmethod
    def _restore(self, state: State) -> None:
        """Restore what this kind of index stores besides its items."""

    # ------------------------------------------------------------------------------------------------ what it holds

    @property
    def n_jobs(self) -> int:
        """Threads that share a search; -1 is one for each CPU."""
        return self._n_jobs

    @n_jobs.setter
    def n_jobs(self, n_jobs: int) -> None:
        rule = checks.either(checks.integer(1), checks.integer(-1, -1))
        checks.parameters(type(self).__name__, {"n_jobs": n_jobs}, {"n_jobs": rule})
        self._n_jobs = int(n_jobs)

    @property
    def fusion(self) -> str:
        """Which distance counts when there are several models: `min` or `sum`."""
        return self._fusion

    @property
    def encoder(self) -> Encoder | None:
        """The encoder that made the codes, if it is known."""
        return self._encoder

    @property
    def n_bits(self) -> int:
        """Bits of each model's code."""
        return self._items.n_bits

    @property
    def n_models(self) -> int:
        """Number of models, each of which gives an item a code."""
        return self._items.n_models

    @property
    def codes(self) -> Codes:
        """The items' codes, in the order of insertion."""
        return self._items.codes()

    @property
    def ids(self) -> np.ndarray:
        """The items' ids, in the order of insertion."""
        return self._items.ids.at(self._items.positions())

    @property
    def ids_kind(self) -> str:
        """`range` (numbers in the order of insertion), `integers` or `strings`."""
        return self._items.ids.kind

    @property
    def nbytes(self) -> int:
        """Bytes in memory, or in the file that is mapped."""
        return self._items.nbytes

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, id: object) -> bool:
        return id in self._items.ids

    def __repr__(self) -> str:
        models = f", n_models={self._items.n_models}, fusion={self.fusion!r}" if self._items.n_models > 1 else ""
        return f"{type(self).__name__}(n={len(self)}, n_bits={self._items.n_bits}{models})"
