"""`LiveIndex`: items whose codes follow a learner, searchable at every moment."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.codes.layout import planes_per_model
from onlinehash.embed import embedder
from onlinehash.errors import FormatError, InvalidInput, NotReady, OnlineHashError, StorageError
from onlinehash.gpu.card import check_device
from onlinehash.index.api import (
    Capability,
    Counters,
    Id,
    Item,
    Payload,
    Policy,
    Queries,
    Vectors,
    Version,
    Where,
)
from onlinehash.index.base import Index
from onlinehash.index.hits import Hits
from onlinehash.learners import registry
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.taught import Taught
from onlinehash.live import policies
from onlinehash.live.attachments import Attachment, Attachments
from onlinehash.live.group import LiveGroup
from onlinehash.live.interrupts import uninterrupted
from onlinehash.live.learner_index import LearnerIndex
from onlinehash.live.payloads import Payloads, payload_of
from onlinehash.live.policies import IS_POLICY
from onlinehash.live.queries import (
    BLOCK_QUERIES,
    TRIES,
    Finder,
    VectorKind,
    find,
    joined,
    no_codes,
    queries_of,
    to_find,
)
from onlinehash.live.receipts import MemoryReceipts
from onlinehash.live.recode import Rehash
from onlinehash.live.refresher import History, Refresh, Refresher, keeps_codes, version_of
from onlinehash.live.settings import check_settings
from onlinehash.live.sqlite.changes import Difference
from onlinehash.live.sqlite.receipts import Stored
from onlinehash.live.sqlite.store import Loaded
from onlinehash.live.storage import Snapshot, Storage, replay
from onlinehash.live.table import KINDS, ItemTable, Moved, class_of
from onlinehash.live.transaction import REFUSALS, LiveTransaction
from onlinehash.live.vectors import PRECISIONS, MemoryVectors
from onlinehash.types import Json

#: Rows read at once where all vectors are asked for.
BLOCK_ROWS = 4096


class LiveIndex(LearnerIndex):
    """An index of vectors whose codes follow a learner.

    After every call, `codes` are what `encoder` makes of `vectors`, and queries are encoded with it. Learning changes
    neither. A refresh replaces both in one step; the policy says when. A learner that keeps the codes of items needs no
    refresh: its encoder is replaced at once, and only queries are encoded otherwise. Searches need no lock: they see
    the state before a change or the one after it. `VectorIndex` documents the methods, and has the index that the
    examples below share.

    Parameters
    ----------
    learner : Learner or None, default=None
        A durable index owns it, and alone may teach it. In memory it may also learn elsewhere; the policy is then
        asked at the next call. None is the recommended one, with the seed 0; an index that is continued has its own.
    refresh : policy, default=refresh.when_changed(0.05)
        Any object with `due(index) -> bool`.
    index : {"auto", "flat", "multi"} or None, default=None
        How codes are searched: by a scan, by tables, or by tables once there are a million items. None is "auto", or
        what an index that is continued has been.
    path : folder or None, default=None
        Where everything is kept. An index that is there already is continued, if this learner has the same
        parameters and has learned nothing, or if none is given.
    n_bits : int or None, default=None
        In place of a learner: the length of a code, where None is 64, or that of an index that is continued.
    background : bool, default=False
        Let the policy's refreshes run in a thread of their own, for at most a quarter of the time.
    sync : {"full", "batch"}, default="full"
        `full`: what a call changed is on the disk when it returns. `batch`: it survives the death of the process, but
        a power failure may take the last changes with it; calls return sooner.
    n_jobs : int, default=1
        Threads that share a search; -1 is one for each CPU.
    device : {"cpu", "cuda"} or None, default=None
        Where codes are searched. A CUDA card holds a copy of them, which it scans whatever `index` says, and needs room
        for a second one, in which a refresh is made before it is published. It is not kept at the path.
    precision : {"int8", "float16", "float32"}, default="int8"
        How vectors on a disk are also kept in memory once `find` has compared them: one, two or four bytes a value.
    embed : object with `encode(texts)`, callable, str or None, default=None
        What makes vectors of texts: a model, or a name such as "lexical" (`onlinehash.embed.load`). The index keeps
        its name and a fingerprint of its vectors, and refuses another one. None is what a "lexical" index had, or no
        texts.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import LiveIndex
    >>> X = np.random.default_rng(0).standard_normal((100, 16))
    >>> with LiveIndex(n_bits=32, path="items") as index:
    ...     _ = index.add(None, X)
    ...     _ = index.learn_pair_by_id(0, 1, similar=True)
    >>> with LiveIndex.open("items") as index:
    ...     print(len(index), index.find(X[7], k=1).ids)
    100 [7]
    """

    # Three locks, always taken in this order:
    #   _lock   changes, learning, and the end of a refresh, one at a time. A refresh computes without it. Whoever waits
    #           for a background refresh must not hold it, as the refresh needs it to finish (see `Refresher.alone`).
    #   _gate   held while a change is committed and published: taken by those who read from the disk what has to belong
    #           to what is in memory (`get`, `vectors`). They wait for the disk, so `find` must not take it.
    #   _table.view_lock
    #           held for moments, while a change is published: taken by those who read more in memory than the published
    #           index of codes (payloads, cached vectors). Searches without a filter take no lock at all: `_table.view`
    #           is replaced by one assignment and never changed.
    # The locks of `Payloads` and of the store are taken inside these, and nothing else is taken inside them.
    #
    # What the index consists of. A failed change is undone by reading all of it from the disk again (`_recover`), so
    # `_table`, `_history` and the refresher's state may be replaced; the learner of a writer stays the same object.
    #   _storage      the folder, in terms of learners and encoders; None in memory
    #   _table        code, id, vector, payload and margin at each position
    #   _history      the encoders that are kept, and totals over all refreshes
    #   _refresher    when to refresh, and the job in the background
    #   _attachments  what threads want to have stored with their next change: receipts and positions
    #   _group        what a thread does inside `group_commit`

    _storage: Storage | None
    _group: LiveGroup | None

    # ------------------------------------------------------------------------------------------------ opening

    def __init__(
        self,
        learner: Learner | None = None,
        refresh: Policy | None = None,
        index: str | None = None,
        path: str | os.PathLike[str] | None = None,
        *,
        n_bits: int | None = None,
        background: bool = False,
        sync: str = "full",
        n_jobs: int = 1,
        device: str | None = None,
        precision: str = "int8",
        embed: embedder.Model | str | None = None,
    ) -> None:
        is_given = learner is not None
        learner = learner_for(learner, n_bits)
        if learner.traits.unit == "batch" and path is not None and not hasattr(learner, "n_features_in_"):
            raise InvalidInput(f"an index on a disk needs a fitted {type(learner).__name__}; call fit first.")
        checks.parameters("LiveIndex", {"index": index}, {"index": checks.one_of(None, *KINDS)})
        self._set_up(refresh, index, background, sync, n_jobs, device, precision, embed)
        if path is None:
            self._take_over(Snapshot.of_nothing(learner))
        elif Storage.exists(path):
            self._open(path, False, sync, learner if is_given else None, n_bits)
        else:
            learner.check_free()
            self._take_over(Snapshot.of_nothing(learner))
            self._storage = Storage.create(path, learner, self._settings(), sync)
            self._table.keep_vectors_in(self._storage.store)
            learner.owned_by(self)
            self._count_epoch()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        refresh: Policy | None = None,
        *,
        read_only: bool = False,
        background: bool = False,
        sync: str = "full",
        n_jobs: int = 1,
        device: str | None = None,
        precision: str = "int8",
        embed: embedder.Model | str | None = None,
    ) -> Self:
        """Open the index at a path, with its own learner and, unless another is given, its own policy.

        One process at a time may write. With `read_only` any number may search it meanwhile, each as of the moment at
        which it opened the index or called `reload`.

        Returns
        -------
        LiveIndex

        Raises
        ------
        InvalidInput
            If there is no index at the path, or another process writes it.
        FormatError
            If it is damaged.
        """
        index = cls.__new__(cls)
        index._set_up(refresh, None, background, sync, n_jobs, device, precision, embed)
        index._open(path, read_only, sync, None)
        return index

    def _set_up(
        self,
        refresh: Policy | None,
        kind: str | None,
        background: bool,
        sync: str,
        n_jobs: int,
        device: str | None,
        precision: str,
        embed: embedder.Model | str | None,
    ) -> None:
        check_device(device)
        checks.parameters(
            "LiveIndex",
            {"refresh": refresh, "background": background, "sync": sync, "n_jobs": n_jobs, "precision": precision},
            {
                "refresh": IS_POLICY,
                "background": ("True or False", lambda b: isinstance(b, bool)),
                "sync": checks.one_of("full", "batch"),
                "n_jobs": checks.either(checks.integer(1), checks.integer(-1, -1)),
                "precision": checks.one_of(*PRECISIONS),
            },
        )
        self.background, self._n_jobs = background, int(n_jobs)
        self._device, self._precision = device, precision
        self._given_policy, self._given_kind = refresh, kind  # None: the stored ones
        self._given_embedder = None if embed is None else embedder.of(embed)
        self._embedder = None
        self._embedded_by = None
        self._storage = None
        self._lock, self._gate = threading.RLock(), threading.RLock()
        self._closed, self._teacher = False, 0
        self._broken, self._is_searchable = False, True  # after a change that could not be undone yet
        self._refresher, self._attachments = Refresher(self._lock), Attachments()
        self._group, self._epoch = None, 0
        self._receipts, self._positions = MemoryReceipts(), dict[str, str]()  # where there is no store

    def _open(
        self,
        path: str | os.PathLike[str],
        read_only: bool,
        sync: str,
        learner: Learner | None,
        n_bits: int | None = None,
    ) -> None:
        """Continue the index at a path; with this learner, or this length of codes, if one is given."""
        self._storage = Storage.open(path, read_only, sync)
        try:
            if learner is not None:
                self._storage.check_same(learner)
            elif n_bits is not None:
                self._storage.check_bits(n_bits)
            self._read_back(learner)
            if not read_only and self._settings() != self._storage.store.settings:  # another policy or kind was given
                with self._storage.store.transaction():
                    self._storage.store.put_settings(self._settings())
            self._count_epoch()
        except BaseException:
            self._storage.close()
            raise

    def _read_back(self, learner: Learner | None) -> None:
        """Load the state of the store: after opening, and after a change that failed."""
        assert self._storage is not None
        loaded = self._storage.store.read()
        contents = self._storage.contents(loaded)
        check_settings(contents.settings, self._storage.store.path)
        policy = self._policy_for(contents.settings)
        if learner is not None:
            learner.set_state(contents.learner.get_state())
            contents = contents._replace(learner=learner)
        self._take_over(contents, policy, loaded)
        if not self._is_read_only:
            self.learner.owned_by(self)

    def _take_over(self, contents: Snapshot, policy: Policy | None = None, loaded: Loaded | None = None) -> None:
        """Build everything in memory from a snapshot; what is large, before anybody has to wait."""
        learner, settings = contents.learner.keep_metric(), contents.settings
        kind = self._given_kind or settings["index"]
        embeds = self._embedder_for(settings, VectorKind.of(learner).n_features)
        present = [version.encoder for version in contents.versions if version.serial == settings["serial"]]
        n_bits, n_models, fusion = learner.shape_of_codes
        width = n_models * planes_per_model(n_bits)
        codes = Codes.from_rows(contents.codes.reshape(len(contents.ids), width), n_bits, n_models)
        encoder = present[0] if present else None
        view = class_of(kind, self._device)(codes, contents.ids, self._n_jobs, fusion=fusion, encoder=encoder)
        view.items.ids.number_from(contents.next_id)
        vectors = MemoryVectors() if self._storage is None else self._storage.store
        table = ItemTable(view, kind, vectors, Payloads(contents.payloads), self._gate, self._precision)
        with self._gate:  # positions are renumbered
            if self._storage is not None and loaded is not None:
                self._storage.store.adopt(loaded)
            self._learner, self.policy, self._kind = learner, policy or self._policy_for(settings), kind
            self._table = table
            self._embedder, self._embedded_by = embeds
            self._refresher.forget_pairs()
            self._begin_history(settings, contents.versions)
            self._refresher.items_changed(1 + len(contents.ids))  # what has changed is not known, and may be removals
            self._let_queries_follow()
        self._count_epoch()

    def _begin_history(self, settings: dict[str, Any], versions: list[Version]) -> None:
        """Restore what is known of refreshes; the counterpart of `_settings`."""
        counters = Counters(*settings["counters"])
        self._history = History(versions, settings["serial"], settings["paused"], counters)
        self._refresher.restart(self.learner)

    def _settings(self) -> dict[str, Any]:
        """What else an index must know when it is opened."""
        return {
            "index": self._kind,
            "refresh": policies.specification(self.policy),
            "serial": self._history.serial,
            "paused": self._history.paused,
            "counters": list(self._history.counters),
        } | ({} if self._embedded_by is None else {"embed": self._embedded_by})

    def _embedder_for(
        self, settings: dict[str, Any], n_features: int
    ) -> tuple[embedder.Embedding | None, dict[str, Any] | None]:
        """The embedder that was given, or else a stored name's, and the facts that are kept of the one there was."""
        stored = settings.get("embed")
        if stored is not None and stored == self._embedded_by:
            return self._embedder, stored
        owner = "this index" if self.path is None else f"the index {self.path}"
        found = embedder.resumed(self._given_embedder, stored, n_features, owner)
        return found, stored or (None if found is None else found.facts)

    def _policy_for(self, settings: dict[str, Any]) -> Policy:
        """The policy that was given, or else the stored one."""
        if self._given_policy is not None:
            return self._given_policy
        if settings["refresh"] is None:
            if self._is_read_only:
                return policies.by_hand()  # it is never asked
            raise InvalidInput(
                "the refresh policy of this index cannot be stored in a file; give it again by refresh=."
            )
        return policies.from_specification(settings["refresh"])

    @property
    def _is_read_only(self) -> bool:
        return self._storage is not None and self._storage.store.read_only

    def _check_open(self, writing: bool = False) -> None:
        """Refuse what cannot be done now."""
        if self._closed:
            raise InvalidInput("the index is closed; open it again.")
        encoder = self._table.view.encoder
        if encoder is not None and getattr(self._learner, "n_features_in_", 0) != encoder.n_features:
            raise InvalidInput(
                f"the learner was fitted to vectors of {self._vector_kind.n_features} values, and the vectors of this "
                f"index have {encoder.n_features}; give it an index of its own."
            )
        if writing and self._is_read_only:
            raise InvalidInput("the index was opened read-only and cannot be changed.")
        if writing and self._broken:
            with self._lock:
                self._recover()
        if self._broken and not self._is_searchable:
            raise StorageError("a change failed and could not be undone, as the disk fails; repair it and try again.")
        if writing:
            self._attachments.check_unused()

    # ------------------------------------------------------------------------------------------------ items

    def get(self, id: Id) -> Item:
        self._before_reading()
        with self._gate:
            positions = self._table.find([id])
            (vector,) = self._table.vectors.take(positions)
            (stored,) = self._table.view.items.ids.at(positions).tolist()
            return Item(stored, vector, self._table.payloads.at(int(positions[0])))

    def get_many(self, ids: ArrayLike) -> list[Item]:
        self._before_reading()
        with self._gate:
            positions = self._table.view.items.ids.find(ids, repeated=True)
            names = self._table.view.items.ids.at(positions).tolist()
            texts = [self._table.payloads.text(position) for position in positions.tolist()]
            vectors: Any = self._table.take(ids) if len(positions) else []
        return [Item(*item) for item in zip(names, vectors, map(payload_of, texts), strict=True)]

    def _take(self, ids: ArrayLike) -> np.ndarray:
        self._check_unchanged(ids)
        rows = self._table.take(ids)
        return rows if len(rows) else np.empty((0, self._vector_kind.n_features), self._vector_kind.dtype)

    def payloads_of(self, ids: Sequence[Id]) -> list[Payload | None]:
        self._check_unchanged(ids)
        table = self._table
        with table.view_lock:
            index, payloads = table.view.items.ids, table.payloads
            texts = [payloads.text(int(index.find([id])[0])) if id in table.view else None for id in ids]
        return [payload_of(text) for text in texts]

    def __contains__(self, id: object) -> bool:
        table = self._table
        with table.view_lock:
            return id in table.view

    def __len__(self) -> int:
        return len(self._table.view)

    @property
    def ids(self) -> np.ndarray:
        return self._table.view.ids

    @property
    def ids_kind(self) -> str:
        return self._table.view.ids_kind

    @property
    def vectors(self) -> np.ndarray:
        self._before_reading()
        with self._gate:
            living = self._table.view.items.positions()
            out = np.empty((len(living), self._vector_kind.n_features), self._vector_kind.dtype)
            for start in range(0, len(living), BLOCK_ROWS):
                out[start : start + BLOCK_ROWS] = self._table.vectors.take(living[start : start + BLOCK_ROWS])
        return out

    @property
    def codes(self) -> Codes:
        self._before_reading()
        if self.encoder is None:
            raise no_codes(self._learner)
        table = self._table
        with table.view_lock:
            return table.view.codes

    @property
    def view(self) -> Index:
        return self._table.view

    @property
    def encoder(self) -> Encoder | None:
        return self._table.view.encoder

    @property
    def n_bits(self) -> int:
        return self._table.view.n_bits

    @property
    def n_models(self) -> int:
        return self._table.view.n_models

    @property
    def _vector_kind(self) -> VectorKind:
        return VectorKind.of(self._learner)

    # ------------------------------------------------------------------------------------------------ searching

    def searched(self, queries: Queries, k: int = 10, where: Where | None = None) -> tuple[Hits, Encoder]:
        view, encoder, asked, among = self._to_search(queries, where)
        return view.search(asked, k, among), encoder

    def found_within(
        self, queries: Queries, radius: int, where: Where | None = None
    ) -> tuple[Hits | list[Hits], Encoder]:
        view, encoder, asked, among = self._to_search(queries, where)
        return view.within(asked, radius, among), encoder

    def _to_search(self, queries: Queries, where: Where | None) -> tuple[Index, Encoder, Any, np.ndarray | None]:
        """The published index with its encoder, what to look for in it, and which items a filter admits."""
        self._before_reading()
        view, among = self._table.chosen(where)
        if view.encoder is None:
            raise no_codes(self._learner)
        return view, view.encoder, queries_of(queries, self._learner.dtype_), among

    def found(self, queries: Vectors, k: int = 10, where: Where | None = None) -> tuple[Hits, Encoder]:
        self._before_reading()
        metric = self.learner.pair_metric_
        if metric is None:  # before the first vector
            raise no_codes(self._learner)
        rows, is_one = to_find(queries, k, self._vector_kind)
        hits: list[Hits] = []
        encoder: Encoder | None = None
        n_tries = TRIES * (1 + len(rows) // BLOCK_QUERIES)
        for _ in range(n_tries):
            finder = self._finder(where)
            if finder.encoder is not encoder:  # a refresh may have come between
                hits, encoder = [], finder.encoder
            try:
                for found in find(rows[len(hits) :], k, metric, finder):
                    hits.append(found)
                return joined(hits, is_one), encoder
            except Moved:
                continue
        raise NotReady(f"the index changed {n_tries} times during this search; search again, for less at once.")

    def _finder(self, where: Where | None) -> Finder:
        """One view for all steps: positions are its keys, and items that are removed meanwhile are still found."""
        self._before_reading()
        table = self._table
        generation = table.generation
        view, among = table.chosen(where)
        if view.encoder is None:
            raise no_codes(self._learner)
        encoder = view.encoder

        def at_positions(take: Callable[[np.ndarray, int], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
            def vectors(positions: np.ndarray) -> np.ndarray:
                if table is not self._table:  # everything was read back from the disk
                    raise Moved
                return take(positions, generation)

            return vectors

        def products(positions: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
            if table is not self._table:
                raise Moved
            return table.products(positions, direction, generation)

        return Finder(
            encoder,
            lambda rows, n: view.nearest(encoder.encode_queries(rows), n, among)[1],
            at_positions(table.compared),
            view.items.ids.at,
            at_positions(table.exact) if table.rounds else None,
            lambda: table.rounding,
            products,
        )

    # ------------------------------------------------------------------------------------------------ learning

    @property
    def learner(self) -> Learner:
        self._settle_group()
        return self._learner

    @property
    def taught(self) -> Taught:
        return Taught.of(self.learner)

    @property
    def n_changed(self) -> int:
        return self._refresher.n_changed

    @property
    def has_shared_learner(self) -> bool:
        return False  # those who read a folder see the learner as it was written

    # ------------------------------------------------------------------------------------------------ transactions

    @contextmanager
    def _transaction(self) -> Iterator[LiveTransaction | LiveGroup]:
        """One change at a time, whole or not at all; afterwards the policy is asked."""
        with self._lock:
            self._check_open(writing=True)
            if self._group is not None:
                with self._group.change(self._attachments.of_this_thread()) as part:
                    yield part
                return
            with uninterrupted(), self._teaching():
                attachment, pairs = self._attachments.of_this_thread(), self._refresher.pairs
                change = LiveTransaction(self._learner, pairs, attachment, self._table, self._storage)
                try:
                    yield change
                except REFUSALS:
                    if change.is_written:  # what was refused is no more than the rest of it
                        self._recover()
                    raise
                except BaseException as error:
                    # The store refuses before anything is published: searches may go on, whatever else fails.
                    self._recover(is_searchable=isinstance(error, StorageError))
                    raise
                change.finish()
            self._count_epoch()
            self._refresher.items_changed(change.n_changed)
            self._follow()

    @property
    def capabilities(self) -> frozenset[Capability]:
        in_memory = {Capability.GROUP_COMMIT} if self._storage is None else set()  # which commits nothing
        return frozenset(Capability) - in_memory

    @contextmanager
    def group_commit(self) -> Iterator[None]:
        if self._storage is None:
            raise self._unsupported(Capability.GROUP_COMMIT)
        with self._lock:
            self._check_open(writing=True)
            self._check_no_group("group_commit")
            self._attachments.check_none("group_commit")
            group = LiveGroup(self._learner, self._refresher.pairs, self._table, self._storage)
            with self._teaching():
                self._group = group
                try:
                    yield
                    with uninterrupted():
                        group.commit()
                except BaseException as error:
                    self._group = None
                    group.undo()
                    if group.is_begun:
                        self._recover(is_searchable=not group.is_written or isinstance(error, StorageError))
                    raise
                finally:
                    self._group = None
            self._count_epoch()
            self._refresher.items_changed(group.n_changed)
            self._follow()

    def _recover(self, is_searchable: bool = False) -> None:
        """After a change that failed halfway, return to what is on the disk or, in memory, to what is published."""
        if self._storage is None:
            self._table.heal()
            return
        self._is_searchable = is_searchable or (self._broken and self._is_searchable)
        self._broken = True
        with self._teaching():
            self._read_back(None if self._is_read_only else self._learner)
        self._broken = False

    def _stored_receipt(self, key: str) -> Stored | None:
        if self._storage is None:
            return self._receipts.get(key)
        group = self._own_group()
        return (group and group.receipt(key)) or self._storage.store.receipt(key)

    @property
    def positions(self) -> dict[str, Json]:
        self._check_open()
        if self._storage is not None:
            return self._storage.store.sources
        return {source: json.loads(text) for source, text in self._positions.items()}

    # ------------------------------------------------------------------------------------------------ refreshing

    def cancel(self) -> None:
        self._check_no_group("cancel")
        self._refresher.stop()

    def _before_reading(self) -> None:
        """Raise if the index is closed; ask the policy about what the learner learned elsewhere.

        Skips the policy if another thread is changing the index right now: that thread asks it.
        """
        self._check_open()
        if (self._refresher.has_learned(self._learner) or self.encoder is None) and self._lock.acquire(blocking=False):
            try:
                self._follow()
            finally:
                self._lock.release()

    def _follow(self) -> None:
        """Refresh if the policy says so."""
        is_held = self._group is not None  # the policy is asked when the group is on the disk
        if not (self._history.paused or self._closed or self._is_read_only or self._broken or is_held):
            self._refresher.attempt(self.policy, self._begin_if_due)

    def _begin_if_due(self) -> None:
        self._let_queries_follow()
        self._refresher.begin_if_due(self, self._begin)

    def _let_queries_follow(self) -> None:
        """Encode queries by what was learned last, where that leaves the codes of all items as they are."""
        learner, view = self._learner, self._table.view
        if not learner.traits.keeps_codes or self._history.paused or view.encoder is None:
            return
        if view.encoder.version != version_of(learner) and keeps_codes(learner, view.encoder):
            self._table.publish(view.with_encoder(learner.snapshot()), self._table.margins)

    def _begin(self, version: Version, wait: bool, *, pause: bool = False, by_policy: bool = False) -> Refresh | None:
        """Replace codes and encoder by those of this version, here or in the background."""
        attachment = None if by_policy else self._attachments.of_this_thread()
        rehash = self._table.begin(version.encoder, self._learner.mean_)
        try:
            return self._refresher.launch(lambda stop: self._run(rehash, version, pause, attachment, stop), wait)
        except BaseException:
            self._table.end()  # it may not even have begun
            raise

    def _run(
        self, rehash: Rehash, version: Version, pause: bool, attachment: Attachment | None, stop: Callable[[], bool]
    ) -> bool:
        """Compute beside everything else, then publish. Returns whether it was done."""
        table = self._table
        try:
            if not rehash.compute(stop):
                return False
            storage, codes = self._storage, rehash.codes
            is_ahead = storage is not None and storage.is_large(len(codes))
            if storage is not None and is_ahead:
                for write in storage.parts_ahead(codes.rows()):
                    if not self._write_part(table, write, stop):
                        return False
            with self._lock:
                if stop() or table is not self._table:  # which was read back from the disk meanwhile
                    return False
                with uninterrupted():
                    self._publish(rehash, version, pause, attachment, is_ahead)
            if storage is not None and is_ahead:
                with suppress(StorageError):  # what is left the next refresh takes away
                    for write in storage.parts_behind():
                        if not self._write_part(table, write, stop):
                            break
            return True
        finally:
            with self._lock:
                table.end()

    def _write_part(self, table: ItemTable, write: Callable[[], None], stop: Callable[[], bool]) -> bool:
        """Write codes that do not count, so that others have to wait for this much only; whether to go on."""
        with self._lock:
            if stop() or table is not self._table or self._storage is None or self._closed:
                return False
            with uninterrupted():
                try:
                    with self._storage.store.transaction():
                        write()
                finally:  # of a commit that failed it may be unknown whether it took effect
                    self._count_epoch()  # readers count every transaction, whatever is in it
        return True

    def _publish(
        self, rehash: Rehash, version: Version, pause: bool, attachment: Attachment | None, is_ahead: bool
    ) -> None:
        """Write the new codes and their encoder in one transaction, then publish them by one assignment.

        Codes that were written ahead are only moved to where they count, with those of what came meanwhile.
        """
        view, margins = rehash.finish(self._table.view)
        before, storage = self._history, self._storage
        self._history = before.after(version, pause, None if self.encoder is None else rehash.work)
        kept = {v.serial for v in self._history.versions}
        forgotten = sorted(({v.serial for v in before.versions} | {version.serial}) - kept)
        try:
            with nullcontext() if storage is None else storage.store.transaction():
                if storage is not None:
                    if is_ahead:
                        storage.store.put_next_codes(rehash.late, view.items.at(rehash.late).rows())
                        storage.store.move_codes()
                    else:
                        storage.store.put_codes(None, view.items.all_codes().rows())
                    storage.refreshed(version, self._settings(), forgotten)
                if attachment is not None:
                    attachment.record(None, None if storage is None else storage.store)
        except BaseException as error:
            self._history = before
            if not isinstance(error, OnlineHashError):  # it may be on the disk nonetheless
                self._recover()
            raise
        self._table.publish(view, margins)
        self._count_epoch()
        if attachment is not None:
            attachment.settle(in_memory=storage is None)

    @property
    def versions(self) -> list[Version]:
        return list(self._history.versions)

    @property
    def serial(self) -> int:
        return self._history.serial

    @property
    def paused(self) -> bool:
        return self._history.paused

    @property
    def counters(self) -> Counters:
        return self._history.counters

    def _draw(self, size: int) -> np.ndarray:
        chosen = np.random.default_rng(len(self)).choice(self._table.view.items.positions(), size, replace=False)
        return self._table.vectors.take(np.sort(chosen))

    # ------------------------------------------------------------------------------------------------ reloading

    def reload(self) -> bool:
        with self._lock:
            if self._storage is None:
                raise InvalidInput("an index in memory cannot be reloaded.")
            self._check_no_group("reload")
            if self._broken:
                self._recover()
                return True
            self._check_open()
            store = self._storage.store
            if store.read_only and not store.is_behind:
                return False
            found = self._difference() if store.read_only else None
            if found is None:
                with self._teaching():
                    self._read_back(None if store.read_only else self._learner)
                return store.read_only
            self._table.check_difference(found)
            try:
                self._apply(found)
            except BaseException as error:  # memory may be in any state now, and the disk has everything
                self._recover()
                if not isinstance(error, Exception):
                    raise
            return True

    def _difference(self) -> Difference | None:
        """What is new on the disk; None if it cannot be told, or everything has to be read again."""
        assert self._storage is not None
        try:
            found = self._storage.store.difference()
        except FormatError:
            return None  # reading everything gives the better message
        other_kind = found is not None and found.settings is not None and found.settings["index"] != self._kind
        return None if other_kind else found

    def _apply(self, found: Difference) -> None:
        """Apply what is new on the disk; what takes long comes before anybody has to wait for the gate."""
        assert self._storage is not None
        learner, recoded = self._learner, None
        settings, versions, policy = self._settings(), self._history.versions, self.policy
        if found.settings is not None and found.encoders is not None:
            settings, versions = found.settings, self._storage.versions(found.encoders)
            policy = self._policy_for(settings)
            present = [version.encoder for version in versions if version.serial == settings["serial"]]
            recoded = self._table.recoded(found, present[0]) if present else None
        if found.learner is not None:
            learner = self._storage.learner(found.learner)
        with self._teaching():
            replay(learner, found.events)
        with self._gate:
            self._table.follow(self._storage.store, found, recoded)
            self._learner, self.policy = learner, policy
            self._embedder, self._embedded_by = self._embedder_for(settings, VectorKind.of(learner).n_features)
            self._begin_history(settings, versions)
            self._refresher.items_changed(found.n_items)
            self._let_queries_follow()
        self._count_epoch()

    # ------------------------------------------------------------------------------------------------ life

    def backup(self, path: str | os.PathLike[str]) -> None:
        with self._lock:
            self._check_open()
            if self._storage is None:
                view, payloads = self._table.view, self._table.payloads
                texts = [payloads.text(position) for position in view.items.positions().tolist()]
                codes, settings = view.codes.rows(), self._settings()
                contents = Snapshot(self._learner, self._history.versions, list(self), texts, codes, settings)
                Storage.write(path, contents, self.vectors, self._receipts.all(), self.positions)
                return
            store = self._storage.store
        store.backup(path)

    def close(self) -> None:
        self._check_no_group("close")
        with self._refresher.alone():
            if self._storage is not None and not self._closed:
                with self._teaching():
                    self._learner.owned_by(None)
                self._storage.close()
            self._closed = True

    def _count_epoch(self) -> None:
        """A change has just been published: it can be seen from this epoch on."""
        self._epoch = self._epoch + 1 if self._storage is None else self._storage.store.commit

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def path(self) -> Path | None:
        return None if self._storage is None else self._storage.store.path

    def __repr__(self) -> str:
        where = "" if self.path is None else f", path={str(self.path)!r}"
        return f"LiveIndex({type(self._learner).__name__}, n={len(self)}, refresh={self.policy!r}{where})"

    def __reduce__(self) -> Any:
        raise InvalidInput("cannot copy or pickle a LiveIndex: backup(path) writes a copy, which LiveIndex.open opens.")


def learner_for(learner: Learner | None, n_bits: int | None) -> Learner:
    """The learner of a new index: the one that is given, or the recommended one with codes of this length."""
    if learner is None:
        given = {} if n_bits is None else {"n_bits": n_bits}
        checks.parameters("LiveIndex", given, {name: checks.integer(1, 4096) for name in given})
        found: Learner = registry.find(registry.RECOMMENDED)(**given, random_state=0)
        return found
    if not isinstance(learner, Learner):
        raise InvalidInput(
            expected="a learner, such as OnlineHashing(n_bits=64), or none and n_bits", got=checks.shown(learner)
        )
    if n_bits is not None:
        raise InvalidInput(f"give a learner or n_bits, not both: a {type(learner).__name__} has its own n_bits.")
    return learner
