"""What a live index holds at each position: a code, an id, a vector, a payload, margins; all changed in one step."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from onlinehash.codes import Codes
from onlinehash.codes.layout import aligned_planes, planes_per_model
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.gpu.card import check_device
from onlinehash.index.base import Index
from onlinehash.index.flat import FlatIndex
from onlinehash.index.gpu import GpuIndex
from onlinehash.index.multi_index import MultiIndex
from onlinehash.learners.encoder import Encoder
from onlinehash.live import filters
from onlinehash.live.margins import Margins
from onlinehash.live.payloads import Columns, Payloads
from onlinehash.live.recode import Rehash
from onlinehash.live.sqlite import Store
from onlinehash.live.sqlite.changes import Difference
from onlinehash.live.vectors import MemoryVectors, VectorCache

#: Rows that tell what all are like; times that rows are read while others change them.
SAMPLED, READS = 1024, 5

#: With the kind "auto", so many items are the first for which tables are built.
MANY_ITEMS = 1_000_000


class Encoded(NamedTuple):
    """The codes of new vectors and, where margins are kept, their marks."""

    codes: Codes
    marks: np.ndarray | None


KINDS: dict[str, type[Index]] = {"flat": FlatIndex, "multi": MultiIndex, "auto": FlatIndex}


def class_of(kind: str, device: str | None) -> type[Index]:
    """What searches the codes: on a card they are scanned, whatever the kind."""
    return GpuIndex if check_device(device) else KINDS[kind]


class Moved(Exception):
    """Positions were renumbered; whoever holds some must start over."""


class Added(NamedTuple):
    """New items."""

    ids: np.ndarray
    rows: np.ndarray
    texts: list[str | None]
    encoded: Encoded


class Changed(NamedTuple):
    """Other vectors with their codes, other payloads, or both, of known items."""

    positions: np.ndarray
    rows: np.ndarray | None
    texts: list[str | None] | None
    encoded: Encoded | None


class ItemTable:
    """All items of a live index, changed by one thread and read by many.

    `view` is the published index of codes. It is never changed: a change makes a fork of it, and puts that in its
    place by one assignment, so those who search it need no lock. What else belongs to an item changes at the same
    moment under the `view_lock`, which those take who read more than the view; it is held for moments only. The `gate`
    is held while a change is written, too: those take it who read from the disk.

    Vectors are in memory, with margins beside them, or in a store, which has written a change before it comes here.
    """

    def __init__(
        self,
        view: Index,
        kind: str,
        vectors: MemoryVectors | Store,
        payloads: Payloads,
        gate: threading.RLock,
        precision: str,
    ) -> None:
        self._kind = kind
        self.payloads, self.gate, self.view = payloads, gate, self._with_tables(view)
        self.view_lock = threading.RLock()  # inside the gate, which is held while the disk is at work, and this is not
        self._precision, self.generation = precision, 0
        self.keep_vectors_in(vectors)
        self.margins: Margins | None = None
        self._rehash: Rehash | None = None

    def keep_vectors_in(self, vectors: MemoryVectors | Store) -> None:
        """Set where vectors are stored from now on."""
        self.vectors = vectors
        self._cache = None if isinstance(vectors, MemoryVectors) else VectorCache(self._precision)

    @property
    def encoder(self) -> Encoder | None:
        """What made the codes; None while the learner waits for its first."""
        return self.view.encoder

    # ------------------------------------------------------------------------------------------------ reading

    def chosen(self, where: Any) -> tuple[Index, np.ndarray | None]:
        """The published index, and which of its items a filter admits."""
        if where is None:
            return self.view, None
        filter = filters.checked(where)
        found = self._with_columns(filter)
        if found is None:
            with self.payloads.prepared(filter):  # may read all payloads, for which nobody waits at the gate
                found = self._with_columns(filter)
                assert found is not None
        view, columns = found
        return view, columns.mask(filter)[view.items.positions()]

    def _with_columns(self, filter: filters.Filter) -> tuple[Index, Columns] | None:
        """The published index and the columns that belong to it, if all are there."""
        with self.view_lock:
            columns = self.payloads.columns(filter)
            return None if columns is None else (self.view, columns)

    def find(self, ids: Any) -> np.ndarray:
        """The positions of items; refused if one is unknown."""
        with self.gate:
            return self.view.items.ids.find(ids)

    def take(self, ids: Any) -> np.ndarray:
        """The vectors of items, some of which may be asked for more than once."""
        with self.gate:
            positions = self.view.items.ids.find(ids, repeated=True)
            if isinstance(self.vectors, MemoryVectors):
                return self.vectors.take(positions)
            different, places = np.unique(positions, return_inverse=True)  # so that a store reads each once
            return self.vectors.take(different)[places]

    def compared(self, positions: np.ndarray, generation: int) -> np.ndarray:
        """The vectors at some positions as `find` compares them: from the cache, once they were read.

        Raises `Moved` if positions have been renumbered since this generation.
        """
        with self.view_lock:
            self._check(generation)
            if self._cache is None:
                return self.vectors.take(positions)
            rows, unknown = self._cache.take(positions)
            if not len(unknown):
                return rows
            n_changes, has_begun = self._cache.n_changes, self._cache.has_begun
            n = self.view.items.n_positions  # vectors may have more that are not committed yet
        read = sample = self._read(positions[unknown], generation)
        if not has_begun:
            chosen = np.random.default_rng(n_changes).choice(n, min(n, SAMPLED), replace=False)
            with suppress(InvalidInput):  # a writer has changed some of them
                sample = self._read(np.sort(chosen), generation)
        with self.view_lock:
            self._check(generation)
            if not self._cache.has_begun:
                self._cache.begin(sample)
            if n_changes == self._cache.n_changes and self._cache.has_begun:
                self._cache.put(positions[unknown], read)
        if rows.shape[1] == 0:  # the first that are read
            rows = np.zeros((len(positions), read.shape[1]), np.float32)
        rows[unknown] = np.nan_to_num(read)
        return rows

    def products(
        self, positions: np.ndarray, direction: np.ndarray, generation: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The products with a direction, and with themselves, of the vectors that `compared` gives.

        None if some of these must be read before.
        """
        with self.view_lock:
            self._check(generation)
            if self._cache is not None:
                return self._cache.compared(positions, direction)
            assert isinstance(self.vectors, MemoryVectors)
            return self.vectors.compared(positions, direction)

    @property
    def rounds(self) -> bool:
        """Whether `compared` rounds vectors so much that `exact` may put them in another order."""
        return self._cache is not None and self._precision == "int8"

    @property
    def rounding(self) -> float:
        """How far vectors that `compared` gives may be from those that are stored, where it rounds them so much."""
        return self._cache.rounding if self.rounds and self._cache is not None else 0.0

    def exact(self, positions: np.ndarray, generation: int) -> np.ndarray:
        """The vectors at some positions as they are stored; as `compared` has them where they have gone since."""
        try:
            rows = self._read(positions, generation)
        except InvalidInput:  # a writer has changed some of them since this reader has looked
            return self.compared(positions, generation)
        gone = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(gone):
            rows[gone] = self.compared(positions[gone], generation)
        return rows

    def _read(self, positions: np.ndarray, generation: int) -> np.ndarray:
        """Vectors from the disk, for which nobody waits at the gate."""
        for _ in range(READS):
            try:
                return self.vectors.take(positions)
            except (FormatError, IndexError):  # rows that go in this very moment look as if they were lost
                self._check(generation)
                time.sleep(0.001)
        with self.gate:
            self._check(generation)
            return self.vectors.take(positions)

    def _check(self, generation: int) -> None:
        if generation != self.generation:
            raise Moved

    # ------------------------------------------------------------------------------------------------ changes

    def encode(self, rows: np.ndarray) -> Encoded:
        """The codes of new vectors, before anything changes; zeros while there is no encoder."""
        self.check_addition(len(rows))
        if self.encoder is None:
            n_bits, n_models = self.view.n_bits, self.view.n_models
            planes = aligned_planes(len(rows), n_models * planes_per_model(n_bits))
            return Encoded(Codes.from_planes(planes, len(rows), n_bits, n_models), None)
        if self.margins is None:
            return Encoded(self.encoder.codes_of(rows), None)
        return Encoded(*self.margins.encode(self.encoder, rows))

    def check_addition(self, n: int) -> None:
        """Refuse n more items, before anything changes, if a card may have no room for them."""
        if isinstance(self.view, GpuIndex):
            self.view.check_addition(n)

    def check_change(self, n: int = 0) -> None:
        """Refuse changes of items, and n more of them, before anything changes, if a card may have no room for that."""
        if isinstance(self.view, GpuIndex):
            self.view.check_change(n)

    def check_removal(self) -> None:
        """Refuse a removal, before anything changes, if a card may have no room for it."""
        if isinstance(self.view, GpuIndex):
            self.view.check_removal()

    def check_difference(self, found: Difference) -> None:
        """Refuse to follow another process, before anything changes, if a card may have no room for that."""
        if found.codes is not None or found.changed.ids:
            self.check_change(len(found.added.ids))
        else:
            self.check_addition(len(found.added.ids))
        self.check_removal()

    def contents(
        self, positions: np.ndarray, rows: np.ndarray | None, texts: list[str | None] | None
    ) -> tuple[list[Any], np.ndarray, list[str | None]]:
        """Ids, vectors and payloads that items will have, where what is not given stays as it is."""
        ids = self.view.items.ids.at(positions).tolist()
        vectors = self.vectors.take(positions) if rows is None else rows
        payloads = [self.payloads.text(position) for position in positions.tolist()] if texts is None else texts
        return ids, vectors, payloads

    def change(
        self, added: Added | None = None, changed: Sequence[Changed] = (), removed: np.ndarray | None = None
    ) -> None:
        """Add items, replace contents of others and remove yet others, by position, published in one step.

        Once a quarter of the positions is dead, all are renumbered.
        """
        with self.gate, self.view_lock:
            fork = self.view.fork()
            if added is not None:
                self._add(fork, added)
            for some in changed:
                self._put(fork, some)
            if removed is not None:
                fork.bury_at(removed)
                if fork.wants_compaction and self._rehash is None:
                    self._compact(fork)
            if added is not None:
                fork = self._with_tables(fork)
            self.view = fork

    def _add(self, fork: Index, added: Added) -> None:
        codes, marks = added.encoded
        if isinstance(self.vectors, MemoryVectors):
            self.vectors.append(added.rows)
        if self.margins is not None and marks is not None:
            self.margins.append(marks)
        self.payloads.append(added.texts)
        fork.append(codes, added.ids)

    def _with_tables(self, index: Index) -> Index:
        """The same index, with tables where it has become so large that they are worth it."""
        wants = self._kind == "auto" and isinstance(index, FlatIndex) and len(index) >= MANY_ITEMS
        return MultiIndex.of(index) if wants else index

    def _put(self, fork: Index, changed: Changed) -> None:
        positions, rows, texts, encoded = changed
        codes, marks = (None, None) if encoded is None else encoded
        if codes is not None:
            fork.put(positions, codes)
        if texts is not None:
            self.payloads.put(positions, texts)
        if rows is None:
            return
        if isinstance(self.vectors, MemoryVectors):
            self.vectors.put(positions, rows)
        if self._cache is not None:
            self._cache.update(positions, rows)
        if self.margins is not None and marks is not None:
            self.margins.put(positions, marks)
        if self._rehash is not None:
            self._rehash.note(positions)

    def _compact(self, fork: Index) -> None:
        """Renumber all positions."""
        living = fork.items.positions()
        fork.compact()
        if fork.items.n_dead:  # a card has no room for that now
            return
        self.generation += 1
        if self._cache is not None:
            self._cache.forget()
        for column in (self.vectors, self.payloads, self.margins):
            if column is not None:
                column.keep(living)

    def recoded(self, found: Difference, encoder: Encoder) -> Index:
        """The published index with the codes of another encoder, before anything else of a difference is followed."""
        assert found.codes is not None
        columns = np.arange(encoder.n_columns)
        if self.encoder is not None and len(found.changed.ids) == 0:  # else any bit may differ
            columns = encoder.changed_bits(self.encoder)
        return self.view.recoded(self._codes(found.codes), encoder, columns)

    def follow(self, store: Store, found: Difference, recoded: Index | None) -> None:
        """Take over what another process changed in the store, in one step; after a refresh, with other codes."""
        with self.gate, self.view_lock:
            changed, added = store.positions(found.changed.numbers), found.added
            fork = (self.view if recoded is None else recoded).fork()  # an index without items is false
            if len(found.removed):
                fork.bury_at(store.positions(found.removed))
            if len(changed):
                self.payloads.put(changed, found.changed.payloads)
                if recoded is None:
                    fork.put(changed, self._codes(found.changed.codes))
                if self._cache is not None:
                    self._cache.forget(changed)
            if added.ids:
                self.payloads.append(added.payloads)
                fork.add(self._codes(added.codes), added.ids)
            store.follow(found)
            if fork.wants_compaction:
                self._compact(fork)
            self.view = self._with_tables(fork)

    def _codes(self, rows: np.ndarray) -> Codes:
        return Codes.from_rows(rows, self.view.n_bits, self.view.n_models)

    def heal(self) -> None:
        """In memory, undo a change that failed halfway; the published index is unchanged."""
        with self.gate, self.view_lock:
            items = self.view.items
            alive = np.zeros(items.n_positions, np.bool_)
            alive[items.positions()] = True
            for column in (self.vectors, self.payloads, self.margins):
                if column is not None and len(column) != len(alive):
                    column.keep(np.arange(len(alive)))
            items.ids.settle(alive)

    # ------------------------------------------------------------------------------------------------ refreshes

    def begin(self, encoder: Encoder, centre: np.ndarray) -> Rehash:
        """A refresh, which computes the codes of another encoder beside all this; until it ends positions stay.

        The centre is the mean of the features, from which margins are measured. A card needs none: it computes all bits
        in the time that the vectors take to reach it.
        """
        margins = self.margins
        is_on_card = isinstance(self.view, GpuIndex)
        if self.encoder is None and isinstance(self.vectors, MemoryVectors) and not is_on_card:
            margins = Margins(encoder, centre)
        self._rehash = Rehash(self.view, encoder, self.vectors, margins, centre)
        return self._rehash

    def end(self) -> None:
        """The refresh is over, or was given up."""
        self._rehash = None

    def publish(self, view: Index, margins: Margins | None) -> None:
        """Replace the codes by those of another encoder."""
        with self.gate, self.view_lock:
            self.view, self.margins = view, margins
