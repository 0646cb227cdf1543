"""What an index asks of a database: rows that say from when to when they count, and one small record, the head.

Databases of many machines have no transaction that spans all of them. So nothing that is written counts at once: each
row has the epochs at which it was `born` and has `died`, and a reader at an epoch sees the rows with
`born <= epoch < died`. A change writes its rows with the next epoch and then replaces the head, which holds the present
epoch; that is one record of one machine. Whoever reads sees all of a change or nothing of it, and never the codes of
two encoders.

    epoch = era * 2**32 + number of the change in that era

A refresh takes many batches while other changes come and go. It writes codes that are born at the first epoch of the
next era, which nobody reads yet, and its last step is to begin that era.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np

from onlinehash.errors import NotSupported
from onlinehash.stores.deltas import Delta, Step

#: The number of changes in an era.
ERA = 1 << 32
#: The `died` of a row that is still valid.
FOREVER = (1 << 63) - 1


class Layout(NamedTuple):
    """The shape of codes, which never changes."""

    n_bits: int
    n_models: int
    fusion: str

    @property
    def groups(self) -> list[int]:
        """Bits of each part of a code that has a distance of its own; the least counts.

        One for each model where the nearest model counts, and a single one for all where distances are summed. Rows of
        codes have their bytes model after model, each padded to whole bytes with zeros, which no distance notices.
        """
        n_bytes = (self.n_bits + 7) // 8
        return [8 * n_bytes] * self.n_models if self.fusion == "min" else [8 * n_bytes * self.n_models]

    @property
    def n_bytes(self) -> int:
        """Bytes of an item's code."""
        return sum(self.groups) // 8


class Head(NamedTuple):
    """The record whose replacement is a change: the epoch that counts, and all that an index must know (JSON)."""

    epoch: int
    state: dict[str, Any]


class Found(NamedTuple):
    """An item that a search found."""

    distance: int
    place: int
    id: str
    payload: str | None = None


class Rows(NamedTuple):
    """Items ordered by place, which is the order of insertion; with vectors and codes if asked for."""

    places: np.ndarray  # int64
    ids: list[str]
    payloads: list[str | None]
    vectors: list[bytes]
    codes: np.ndarray  # uint8 (n, n_bytes)


class Carried(NamedTuple):
    """Payloads by place, in no order."""

    places: np.ndarray  # int64
    payloads: list[str | None]


class News(NamedTuple):
    """The head, and what changes did to codes on the way to it, as far as that is still kept."""

    head: Head
    deltas: list[Delta]


class StoredCodes(NamedTuple):
    """Codes in no order, each with the epoch from which it counts."""

    places: np.ndarray  # int64
    born: np.ndarray  # int64
    ids: list[str]
    codes: np.ndarray  # uint8 (n, n_bytes)


class Coded(NamedTuple):
    """Vectors and codes of items, ordered by place; what a refresh reads of all items."""

    places: np.ndarray  # int64
    vectors: bytes  # of all items, one after the other
    codes: np.ndarray  # uint8 (n, n_bytes), of zeros for an item without a code yet


class Change(ABC):
    """Inside `Backend.changing`: what one change writes. Nothing of it counts before `put_head`, the last call.

    Ids are texts here. A row of an item or a code that lives has `died == FOREVER`.
    """

    head: Head  #: As it is now; nobody else changes it until this is over.
    #: Just now something was rewound that had been cut off, and with it all that a refresh under way has written so
    #: far: it begins again. Stays so for the changes that follow until one puts its head.
    rewound: bool = False
    #: What was done to codes so far, where the backend `has_deltas`.
    steps: Sequence[Step] = ()

    @abstractmethod
    def add_items(
        self, born: int, places: np.ndarray, ids: Sequence[str], vectors: np.ndarray, payloads: Sequence[str | None]
    ) -> None:
        """Add rows of items."""

    @abstractmethod
    def add_codes(self, born: int, places: np.ndarray, ids: Sequence[str], codes: np.ndarray) -> None:
        """Add rows of codes, uint8 (n, n_bytes)."""

    @abstractmethod
    def end_items(self, died: int, places: np.ndarray) -> None:
        """Let the current rows of the items at these places end at that epoch."""

    @abstractmethod
    def end_codes(self, died: int, places: np.ndarray) -> None:
        """At these places, delete the rows of codes born at that epoch or later, and let older ones end at it."""

    @abstractmethod
    def rewind(self, epoch: int) -> None:
        """Undo what was written after the epoch: delete rows born later, and revive rows that ended later."""

    @abstractmethod
    def purge(self, epoch: int) -> None:
        """Delete the rows that ended at this epoch or before."""

    @abstractmethod
    def put_blob(self, name: str, value: bytes) -> None:
        """Store bytes under a name; replaces any that are there."""

    @abstractmethod
    def drop_blobs(self, names: Sequence[str]) -> None:
        """Delete blobs; names that are not there are ignored."""

    def put_receipt(self, key: str, digest: str, value: bytes) -> bool:
        """Store the outcome of this change, where the backend `has_receipts`; False if the key has one already."""
        raise NotSupported("this database keeps no receipts.")

    @abstractmethod
    def put_head(self, head: Head) -> None:
        """Commit: everything that this change wrote is visible from now on."""


class Backend(ABC):
    """The tables of one index in some database. Any number of threads may read."""

    layout: Layout
    address: str  #: For messages; without a password.
    #: Whether what `snapshot` gives sees all rows of its first moment until its end, even if they are purged meanwhile.
    has_snapshots: bool = False
    #: Whether `news`, `stored_codes` and `listening` are there, so that a process can keep all codes in memory.
    has_deltas: bool = False
    #: Whether `admitted` and `changed` are there, so that who has all codes need not ask for a ranking.
    has_filters: bool = False
    #: Whether `Change.put_receipt` and `receipt` are there.
    has_receipts: bool = False

    @contextmanager
    def snapshot(self) -> Iterator[Backend]:
        """Several reads together: what this gives reads in one transaction, where the database has such."""
        yield self

    @abstractmethod
    def changing(self) -> AbstractContextManager[Change]:
        """One change at a time, of all processes where the database can tell; others wait.

        If the block is left by an exception, the head stays as it was. What a change left behind that was cut off
        before its head was put is rewound before the next one begins.
        """

    has_claims: ClassVar[bool] = False  #: Whether `claimed` can tell.

    @contextmanager
    def claimed(self, part: int) -> Iterator[bool]:
        """Whether this part of a refresh is this worker's, until the block or its process ends.

        Claims only spare work: where a database cannot tell, a part may be computed twice, and is written once.
        """
        yield True

    @abstractmethod
    def head(self) -> Head:
        """The head as it is now."""

    @abstractmethod
    def blobs(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the blobs of these names that exist."""

    @abstractmethod
    def places(self, ids: Sequence[str], epoch: int) -> np.ndarray:
        """The place of each item, -1 where there is none (int64). An id may be there more than once."""

    @abstractmethod
    def rows(
        self,
        epoch: int,
        places: np.ndarray | None = None,
        after: int = -1,
        limit: int | None = None,
        *,
        vectors: bool = False,
        codes: bool = False,
    ) -> Rows:
        """The items at these places or, without them, the first `limit` items after a place, in the order of places.

        Vectors and codes only where asked for (else empty); an item without a code yet has one of zeros.
        """

    def coded(self, epoch: int, first: int, stop: int) -> Coded:
        """Vectors and codes of the items from a place on, up to another one, which is not among them."""
        rows = self.rows(epoch, after=first - 1, limit=stop - first, vectors=True, codes=True)
        n = int(np.searchsorted(rows.places, stop))  # there may be places without an item
        return Coded(rows.places[:n], b"".join(rows.vectors[:n]), rows.codes[:n])

    @abstractmethod
    def vectors(self, epoch: int, places: np.ndarray, size: int) -> dict[int, bytes]:
        """The vectors of the items at different places, each of so many bytes."""

    @abstractmethod
    def nearest(self, code: np.ndarray, k: int, epoch: int) -> list[Found]:
        """The k nearest items of a code (uint8 (n_bytes,)), in the order of (distance, place)."""

    def nearest_all(self, codes: np.ndarray, k: int, epoch: int) -> list[list[Found]]:
        """The k nearest items of each code, uint8 (n, n_bytes)."""
        return [self.nearest(code, k, epoch) for code in codes]

    @abstractmethod
    def within(self, code: np.ndarray, radius: int, epoch: int) -> list[Found]:
        """All items at a distance of at most `radius`, in the order of (distance, place)."""

    @abstractmethod
    def ranked(self, code: np.ndarray, epoch: int, tests: dict[str, Any]) -> Iterator[Found]:
        """Items in the order of (distance, place), with their payloads, for who looks at one after the other.

        `tests` are those of `live.filters.checked`. All items that pass are there; a backend may leave out others.
        """

    def admitted(self, epoch: int, tests: dict[str, Any], first: int, stop: int) -> Carried:
        """What the items from a place on carry, up to another one, which is not among them.

        All that pass are there, as in `ranked`; a backend may leave out others.
        """
        raise NotSupported("this database does not filter items by itself.")

    def changed(self, epoch: int, since: int, stop: int, limit: int, *, by_birth: bool = False) -> Carried:
        """What those items carry whose rows are younger than the epoch `since`, at places before `stop`.

        They are found by the rows that ended since or, where these may be gone, by birth, which may take longer.
        """
        raise NotSupported("this database does not filter items by itself.")

    def news(self, after: int) -> News:
        """The head as it is now, and the deltas of later epochs than this one that are kept, in their order."""
        raise NotSupported("this database does not keep what changes did.")

    def stored_codes(self, epoch: int) -> Iterator[StoredCodes]:
        """All codes that count at an epoch, and those that count from a later one on, which a refresh has written."""
        raise NotSupported("this database does not keep what changes did.")

    def listening(self) -> AbstractContextManager[Callable[[float], int | None]]:
        """Gives a function that waits for a change, for so many seconds, and returns the epoch it heard of, or None.

        It is a hint: a change may go unheard, as when a connection was lost, and what is heard need not be true.
        """
        raise NotSupported("this database does not keep what changes did.")

    def receipt(self, key: str) -> tuple[str, bytes] | None:
        """The digest and the outcome that were stored with a key."""
        raise NotSupported("this database keeps no receipts.")

    @abstractmethod
    def close(self) -> None:
        """Close the connections to the database."""
