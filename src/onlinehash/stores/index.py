"""`StoreIndex`: an index whose items are on a backend, in a database that any number of processes may use."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.embed import embedder
from onlinehash.errors import InvalidInput, OnlineHashError
from onlinehash.index import keys as arrays
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
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.taught import Taught
from onlinehash.live import filters, policies
from onlinehash.live.attachments import Attachments
from onlinehash.live.filters import Filter
from onlinehash.live.group import Group
from onlinehash.live.learner_index import LearnerIndex
from onlinehash.live.policies import IS_POLICY
from onlinehash.live.queries import Finder, VectorKind, find, joined, no_codes, queries_of, to_find
from onlinehash.live.receipts import MemoryReceipts
from onlinehash.live.refresher import Refresh, Refresher, newest_version
from onlinehash.live.stop import to_its_end
from onlinehash.live.transaction import REFUSALS
from onlinehash.stores import recode
from onlinehash.stores.backend import Backend
from onlinehash.stores.filtered import Ranking
from onlinehash.stores.ids import ids_of
from onlinehash.stores.manifest import Moment, Pending, State
from onlinehash.stores.reader import Gone, Reader, matrix_of
from onlinehash.stores.recode import Ahead, Recoded, Recoder, Task, is_claimed
from onlinehash.stores.replica import Followed, Replica
from onlinehash.stores.search import Search
from onlinehash.stores.shared_learner import SharedLearner
from onlinehash.stores.transaction import Draft, StoreGroup, StoreTransaction
from onlinehash.stores.vectors import RecentVectors
from onlinehash.types import Json

#: Seconds without progress after which the worker of a refresh is presumed dead.
PATIENCE = 30.0
#: Seconds between two looks at a refresh whose last parts others are at.
PAUSE = 0.05
#: Parts of a refresh that are computed while others are written, and the items from which that is worth it.
N_AHEAD, AHEAD_ITEMS = 2, 50_000
#: Up to this many items, a sample is drawn by rank.
MANY_ITEMS = 1 << 16
#: Dead rows are deleted once there are more than this many, and more than this fraction of the items.
LEAST_DEAD, DEAD_SHARE = 4096, 0.25

T = TypeVar("T")
H = TypeVar("H", Hits, Hits | list[Hits])


class StoreIndex(LearnerIndex):
    """An index of vectors in a database, whose codes follow a learner that is kept there too.

    Methods, results and errors are those of `LiveIndex`. Any number of processes may open the same index, read it and
    change it: changes are made one after the other, and everyone sees all of a change or nothing of it.

    backend : Backend
        The tables, which hold an index already; the index closes it.
    refresh : policy or None, default=None
        For the changes that are made through this object; None is the policy that the index was made with.
    background : bool, default=False
        Let the policy's refreshes run in a thread of their own.
    embed : object with `encode(texts)`, callable, str or None, default=None
        What makes vectors of texts, as in `LiveIndex`.
    follow : bool, default=False
        Keep ids and codes in memory, in step with the database, and search there. What this object reads is then as of
        the epoch that it has followed to: its own changes at once, those of others a moment after they were made.
    """

    # Locks, always taken in this order:
    #   _lock             changes and learning through this object, one at a time. Whoever waits for a background
    #                     refresh must not hold it, as the refresh takes it for each batch (see `Refresher.alone`).
    #   backend.changing()  changes of all processes, one at a time, where the database can tell.
    #   that of the replica  one step of following, by this object's changes or by the replica's own thread.
    # Reading takes none: it sees the rows of one epoch, and reads anew if they were cleared away meanwhile.
    #
    # What the index consists of:
    #   _reader       the backend, read as of one moment; a thread inside a change sees the moment before it
    #   _replica      ids and codes in memory, where they are followed
    #   _vectors      those that `find` compared last
    #   _shared       the learner, in step with what other processes teach it
    #   _refresher    when to refresh, and the job in the background
    #   _attachments  positions of sources that threads want to have stored with their next change

    _replica: Replica | None

    #: To replace a code takes 0.2 to 0.5 ms, however many of its bits changed, so this is cheap for few items only.
    bits_at_once = 2_000
    batch_rows = 8192  #: Places of items that a refresh recodes in one change: a part of it.

    # ------------------------------------------------------------------------------------------------ opening

    def __init__(
        self,
        backend: Backend,
        refresh: Policy | None = None,
        *,
        background: bool = False,
        embed: embedder.Model | str | None = None,
        follow: bool = False,
    ) -> None:
        self.background, self._lock = background, threading.RLock()
        self._reader, self._vectors, self._teacher = Reader(backend), RecentVectors(), 0
        self._group, self._replica, self._is_changing = None, None, False
        self._receipts, self._positions = MemoryReceipts(), dict[str, str]()  # stay empty: the store has them
        try:
            self._check_options(refresh, background)
            self.policy = refresh or self._stored_policy()
            self._attachments, self._refresher = Attachments(), Refresher(self._lock)
            self._shared = SharedLearner(self._reader, self._refresher)
            self.learner.owned_by(self)
            self._refresher.restart(self.learner)
            self._embedder = self._resumed_embedder(None if embed is None else embedder.of(embed))
            if follow:
                self._replica = Replica(self._reader, self._learn_along)
                self._reader.follow = self._followed_moment
        except BaseException:
            backend.close()
            raise
        self._has_codes = False  # once there are, there always will be
        self._left: set[str] = set()  # workers of this process that failed
        self._watched: tuple[tuple[str, int, int], float] | None = None  # how far another one's was, and since when

    @classmethod
    def _check_options(cls, refresh: Any, background: Any) -> None:
        """Check options; before anything is created, where the index is new."""
        checks.parameters(
            cls.__name__,
            {"refresh": refresh, "background": background},
            {"refresh": IS_POLICY, "background": ("True or False", lambda value: isinstance(value, bool))},
        )

    def _stored_policy(self) -> Policy:
        stored = self._state.refresh
        if stored is None:
            raise InvalidInput(
                "the refresh policy of this index cannot be stored in a database; give it again by refresh=."
            )
        return policies.from_specification(stored)

    def _resumed_embedder(self, given: embedder.Embedding | None) -> embedder.Embedding | None:
        """The embedder that is given, if it may be, or the stored one; the first to be given is stored."""
        state = self._state
        found = embedder.resumed(given, state.embed, state.n_features, f"the index in {self._reader.backend.address}")
        if found is not None and state.embed is None:
            with self._lock, self._one_change() as draft:
                embedder.resumed(found, draft.state.embed, draft.state.n_features, "this index")  # another was as quick
                draft.state = replace(draft.state, embed=found.facts)
                draft.put()
        self._embedded_by = state.embed or (None if found is None else found.facts)
        return found

    @property
    def capabilities(self) -> frozenset[Capability]:
        found = {Capability.GROUP_COMMIT, Capability.LEARNER, Capability.POSITIONS}
        if self._replica is not None:
            found |= {Capability.RELOAD, Capability.VIEW}
        if self._reader.backend.has_receipts:
            found.add(Capability.RECEIPTS)
        return frozenset(found)

    @property
    def _state(self) -> State:
        """What the head says now; inside a change, before it."""
        return self._reader.now.state

    def _check_open(self, writing: bool = False) -> None:
        """Refuse what cannot be done now."""
        self._reader.check_open()
        if writing:
            self._attachments.check_unused()

    # ------------------------------------------------------------------------------------------------ items

    def get(self, id: Id) -> Item:
        self._before_reading()
        return self._reader.read(lambda moment: self._items_at(moment, self._reader.ids_at(moment).find([id]))[0])

    def get_many(self, ids: ArrayLike) -> list[Item]:
        self._before_reading()
        return self._reader.read(
            lambda moment: self._items_at(moment, self._reader.ids_at(moment).find(ids, repeated=True))
        )

    def _items_at(self, moment: Moment, places: np.ndarray) -> list[Item]:
        rows, whose = self._reader.rows_at(moment, places, vectors=True)
        ids, payloads = ids_of(rows.ids, moment.state).tolist(), [_object(text) for text in rows.payloads]
        vectors = matrix_of(rows.vectors, moment.state)[whose]
        return [Item(ids[i], vector, payloads[i]) for i, vector in zip(whose.tolist(), vectors, strict=True)]

    def _take(self, ids: ArrayLike) -> np.ndarray:
        self._check_unchanged(ids)

        def take(moment: Moment) -> np.ndarray:
            places = self._reader.ids_at(moment).find(ids, repeated=True)
            rows, whose = self._reader.rows_at(moment, places, vectors=True)
            vectors: np.ndarray = matrix_of(rows.vectors, moment.state)[whose]
            return vectors

        return self._reader.read(take)

    def payloads_of(self, ids: Sequence[Id]) -> list[Payload | None]:
        asked = list(ids)
        self._check_unchanged(asked)

        def look(moment: Moment) -> list[Payload | None]:
            places = self._places(moment, asked)
            rows, whose = self._reader.rows_at(moment, places[places >= 0])
            found = iter([_object(rows.payloads[i]) for i in whose.tolist()])
            return [next(found) if place >= 0 else None for place in places.tolist()]

        return self._reader.read(look)

    def _places(self, moment: Moment, ids: list[Any]) -> np.ndarray:
        """The places of what may or may not be ids, -1 where there is no item."""
        if not ids:
            return np.empty(0, np.int64)
        with suppress(InvalidInput):  # unless all are of one kind, they are looked at one by one
            return self._reader.ids_at(moment).places(arrays.given(ids))
        if len(ids) == 1:
            return np.array([-1])
        return np.concatenate([self._places(moment, [id]) for id in ids])

    def __contains__(self, id: object) -> bool:
        return self._reader.read(lambda moment: id in self._reader.ids_at(moment))

    def __len__(self) -> int:
        return self._state.n

    @property
    def ids(self) -> np.ndarray:
        followed = self._with_codes()
        if followed is not None:
            return followed.view.ids
        return self._reader.read(
            lambda moment: ids_of([id for page in self._reader.pages(moment) for id in page.ids], moment.state)
        )

    @property
    def ids_kind(self) -> str:
        return self._state.ids or "range"

    @property
    def vectors(self) -> np.ndarray:
        self._before_reading()
        return self._reader.read(
            lambda moment: np.concatenate(
                [matrix_of(page.vectors, moment.state) for page in self._reader.pages(moment, vectors=True)]
            )
        )

    @property
    def codes(self) -> Codes:
        self._before_reading()
        followed = self._with_codes()
        if followed is not None:
            return followed.view.codes

        def read(moment: Moment) -> Codes:
            self._check_searchable(moment)
            rows = np.concatenate([page.codes for page in self._reader.pages(moment, codes=True)])
            return Codes.from_rows(rows.reshape(len(rows), self._layout.n_bytes), self.n_bits, self.n_models)

        return self._reader.read(read)

    @property
    def encoder(self) -> Encoder | None:
        replica = self._followed()
        if replica is not None:  # not by the reader, whose lock is held while an encoder is read from the database
            self._reader.check_open()
            return replica.current.view.encoder
        return self._reader.read(self._reader.encoder_at, rows=False)

    @property
    def _layout(self) -> Any:
        return self._reader.backend.layout

    @property
    def n_bits(self) -> int:
        return int(self._layout.n_bits)

    @property
    def n_models(self) -> int:
        return int(self._layout.n_models)

    @property
    def _vector_kind(self) -> VectorKind:
        return self._state.vector_kind

    # ------------------------------------------------------------------------------------------------ following

    @property
    def epoch(self) -> int:
        return self._reader.now.epoch

    @property
    def head_epoch(self) -> int:
        return self.epoch if self._replica is None else self._replica.head

    @property
    def lag(self) -> float:
        return 0.0 if self._replica is None else self._replica.lag

    @property
    def view(self) -> Index:
        if self._replica is None:
            raise self._unsupported(Capability.VIEW)
        return self._replica.current.view

    def reload(self) -> bool:
        self._check_open()
        if self._replica is None:
            raise self._unsupported(Capability.RELOAD)
        return self._replica.catch_up()

    def _followed_moment(self) -> Moment:
        assert self._replica is not None
        return self._replica.current.moment

    def _followed(self) -> Replica | None:
        """Where to search in memory; None inside a change, which sees a moment of its own."""
        return None if self._reader.is_pinned else self._replica

    def _with_codes(self) -> Followed | None:
        """All items, if they are followed and have codes."""
        replica = self._followed()
        self._reader.check_open()
        return None if replica is None or replica.current.view.encoder is None else replica.current

    def _learn_along(self, moment: Moment) -> None:
        """Learn what others taught, unless a change of this object is about to do that."""
        if self._shared.is_behind(moment.state) and self._lock.acquire(blocking=not self._is_changing):
            try:
                self._catch_up()
            finally:
                self._lock.release()

    # ------------------------------------------------------------------------------------------------ searching

    def found(self, queries: Vectors, k: int = 10, where: Where | None = None) -> tuple[Hits, Encoder]:
        self._before_reading()
        has_caught_up = False

        def find_all(moment: Moment, finder_of: Callable[[Filter | None], Finder]) -> tuple[Hits, Encoder] | None:
            if self._shared.is_behind(moment.state) and not has_caught_up:
                return None
            self._settle_group()
            metric, state = self._shared.learner.pair_metric_, moment.state
            if metric is None:  # before the first vector
                raise no_codes(self._shared.learner)
            rows, is_one = to_find(queries, k, state.vector_kind)
            finder = finder_of(None if where is None else filters.checked(where))
            hits = joined(list(find(rows, k, metric, finder)), is_one)
            return replace(hits, epoch=moment.epoch), finder.encoder

        def attempt() -> tuple[Hits, Encoder] | None:
            return self._ask(
                lambda backend, moment: find_all(moment, lambda filter: self._finder(backend, moment, filter)),
                lambda followed: find_all(followed.moment, lambda filter: self._finder_here(followed, filter)),
                where,
            )

        found = attempt()
        if found is None:  # what others taught before this call must count, and what they teach meanwhile may
            self._catch_up()
            has_caught_up = True
            found = attempt()
            assert found is not None
        return found

    def _ask(self, there: Callable[[Backend, Moment], T], here: Callable[[Followed], T], where: Any) -> T:
        """What is found in the database, or here, if the index is followed."""
        replica = self._followed()
        if replica is None:
            return self._reader.read_together(there)
        if where is None:
            return replica.read(here)

        def find(followed: Followed) -> T:
            found = here(followed)
            if not self._reader.are_all_there(followed.moment):  # of which the database may have ranked some
                raise Gone
            return found

        return replica.read(find)

    def _finder(self, backend: Backend, moment: Moment, filter: Filter | None) -> Finder:
        """Places are the keys; the ids of those that were found are known from then on."""
        encoder = self._check_searchable(moment, backend)
        return self._finder_by(backend, moment, encoder, Search(backend, moment, encoder, filter))

    def _finder_by(self, backend: Backend, moment: Moment, encoder: Encoder, search: Search) -> Finder:
        names = dict[int, str]()

        def nearest(rows: np.ndarray, n: int) -> Iterator[np.ndarray]:
            for some in search.found(encoder.encode_queries(rows), n):
                names.update((found.place, found.id) for found in some)
                yield np.array([found.place for found in some], np.int64)

        return Finder(
            encoder,
            nearest,
            lambda places: self._vectors.take(backend, moment, places),
            lambda places: ids_of([names[place] for place in places.tolist()], moment.state),
        )

    def _finder_here(self, followed: Followed, filter: Filter | None) -> Finder:
        """Candidates come from the codes in memory. Without a filter, positions are the keys."""
        moment, view, backend = followed.moment, followed.view, self._reader.backend
        encoder = self._check_followed(followed)
        if filter is not None:
            return self._finder_by(backend, moment, encoder, self._search_here(followed, encoder, filter))
        return Finder(
            encoder,
            lambda rows, n: view.nearest(encoder.encode_queries(rows), n)[1],
            lambda positions: self._vectors.take(backend, moment, followed.places[positions]),
            view.items.ids.at,
        )

    def _search_here(self, followed: Followed, encoder: Encoder, filter: Filter) -> Search:
        backend = self._reader.backend
        return Search(backend, followed.moment, encoder, filter, Ranking(followed, backend, filter).passing)

    def _check_followed(self, followed: Followed) -> Encoder:
        if followed.view.encoder is None:
            raise no_codes(self._shared.learner)
        return followed.view.encoder

    def searched(self, queries: Queries, k: int = 10, where: Where | None = None) -> tuple[Hits, Encoder]:
        return self._answer(
            queries, where, lambda search, asked: search.nearest(asked, k), lambda view, asked: view.search(asked, k)
        )

    def found_within(
        self, queries: Queries, radius: int, where: Where | None = None
    ) -> tuple[Hits | list[Hits], Encoder]:
        return self._answer(
            queries,
            where,
            lambda search, asked: search.within(asked, radius),
            lambda view, asked: view.within(asked, radius),
        )

    def _answer(
        self,
        queries: Queries,
        where: Where | None,
        search: Callable[[Search, Any], H],
        search_here: Callable[[Index, Any], H],
    ) -> tuple[H, Encoder]:
        """The answer of a search in the database, or of one in memory."""
        self._before_reading()

        def there(backend: Backend, moment: Moment) -> tuple[H, Encoder]:
            filter = None if where is None else filters.checked(where)
            encoder = self._check_searchable(moment, backend)
            asked = queries_of(queries, moment.state.vector_kind.dtype)
            return _as_of(moment, search(Search(backend, moment, encoder, filter), asked)), encoder

        def here(followed: Followed) -> tuple[H, Encoder]:
            filter = None if where is None else filters.checked(where)
            encoder, kind = self._check_followed(followed), followed.moment.state.vector_kind
            asked = queries_of(queries, kind.dtype)
            if filter is None:
                found = search_here(followed.view, asked)
            else:
                found = search(self._search_here(followed, encoder, filter), asked)
            return _as_of(followed.moment, found), encoder

        return self._ask(there, here, where)

    def _check_searchable(self, moment: Moment, backend: Backend | None = None) -> Encoder:
        encoder = self._reader.encoder_at(moment, backend)
        if encoder is None:
            raise no_codes(self._shared.learner)
        return encoder

    # ------------------------------------------------------------------------------------------------ learning

    @property
    def learner(self) -> Learner:
        if not self.is_learning:
            if self._replica is None:
                self._catch_up()
            elif not self._reader.is_pinned:  # without waiting for a change that is going on
                self._learn_along(self._replica.current.moment)
        self._settle_group()
        return self._shared.learner

    @property
    def taught(self) -> Taught:
        return self._shared.taught

    @property
    def n_changed(self) -> int:
        return self._state.changed

    @property
    def has_shared_learner(self) -> bool:
        return True

    def _catch_up(self) -> None:
        with to_its_end(), self._lock, self._teaching():
            if self._replica is None or self._shared.is_behind(self._state):
                self._shared.catch_up()

    # ------------------------------------------------------------------------------------------------ transactions

    @contextmanager
    def _transaction(self) -> Iterator[StoreTransaction | Group]:
        """One change at a time, whole or not at all; afterwards the policy is asked."""
        with self._lock:
            self._check_open(writing=True)
            if self._group is not None:
                with self._group.change(self._attachments.of_this_thread()) as part:
                    yield part
                return
            with self._one_change() as draft:
                shared, pairs, attachment = self._shared, self._refresher.pairs, self._attachments.of_this_thread()
                change = StoreTransaction(shared.learner, pairs, attachment, self._reader, draft, shared.log)
                yield change
            if change.attachment is not None:
                change.attachment.settle(in_memory=False)
            self._after_change(draft)

    def _after_change(self, draft: Draft) -> None:
        """Ask the policy, and clear away."""
        with self._reader.pinned(draft.after):
            self._follow()
        self._clear_away(draft.after.state)

    @contextmanager
    def group_commit(self) -> Iterator[None]:
        with self._lock:
            self._check_open(writing=True)
            self._check_no_group("group_commit")
            self._attachments.check_none("group_commit")
            with self._one_change() as draft:
                shared, pairs = self._shared, self._refresher.pairs
                self._group = group = StoreGroup(shared.learner, pairs, self._reader, draft, shared.log)
                try:
                    yield
                    group.commit()
                except BaseException:
                    group.undo()
                    raise
                finally:
                    self._group, draft.is_taught = None, group.is_begun
            if draft.is_put:
                self._after_change(draft)

    @contextmanager
    def _one_change(self) -> Iterator[Draft]:
        """One change of all processes at a time, whole or not at all: what fails leaves the learner as it is kept."""
        draft: Draft | None = None
        try:
            with self._marked_as_changing(), self._reader.backend.changing() as change:
                draft = Draft(self._reader.backend, change)
                with self._reader.pinned(draft.before, is_changing=True), self._teaching():
                    self._shared.catch_up()
                    yield draft
        except BaseException as error:
            if not isinstance(error, REFUSALS) or (draft is not None and draft.is_taught):
                with self._teaching():
                    self._shared.undo()
            raise
        if draft.is_put:
            self._shared.accept(draft.after.state)
            if self._replica is not None:
                self._replica.advance(draft.before.epoch, draft.after, draft.change.steps)

    @contextmanager
    def _marked_as_changing(self) -> Iterator[None]:
        """For those who would wait for the lock only to learn what the change learns anyway."""
        self._is_changing = True
        try:
            yield
        finally:
            self._is_changing = False

    def _clear_away(self, state: State) -> None:
        """Delete rows that nobody can see any more, once there are many; errors are warnings, not the call's.

        The horizon moves one change before rows are deleted: a reader that finds it beyond the moment it read retries.
        """
        try:
            if not _is_full(state):
                return
            with self._one_change() as draft:
                if not _is_full(draft.state):
                    return
                draft.state = replace(draft.state, horizon=draft.before.epoch)
                draft.put()
            with self._one_change() as draft:
                if draft.state.pending is None:
                    draft.change.purge(draft.before.state.horizon)
                    draft.state = replace(draft.state, dead=0)
                    draft.put()
        except OnlineHashError as error:
            address = self._reader.backend.address
            checks.warn(f"dead rows in {address} could not be cleared away, and stay for now: {error}")

    def _stored_receipt(self, key: str) -> tuple[str, bytes] | None:
        if not self.supports(Capability.RECEIPTS):
            raise self._unsupported(Capability.RECEIPTS)
        group = self._own_group()
        return (group and group.receipt(key)) or self._reader.backend.receipt(key)

    @property
    def positions(self) -> dict[str, Json]:
        self._check_open()
        found: dict[str, Json] = json.loads(self._state.positions)
        return found

    # ------------------------------------------------------------------------------------------------ refreshing

    def cancel(self) -> None:
        self._check_no_group("cancel")
        self._refresher.stop()
        if not self._reader.closed and self._state.pending is not None:
            with self._lock:
                self._rewind()

    def _before_reading(self) -> None:
        """Raise if the index is closed; begin the first refresh if the process that should have died before."""
        self._check_open()
        if self._lacks_first_codes and not self._reader.is_pinned and self._lock.acquire(blocking=False):
            try:
                with to_its_end():
                    self._follow()
            finally:
                self._lock.release()

    @property
    def _lacks_first_codes(self) -> bool:
        """Whether there are vectors but no codes, as when the process that added them died before its first refresh."""
        if self._has_codes:
            return False
        state = self._state
        self._has_codes = state.serial > 0
        return not self._has_codes and state.n_features > 0

    def _follow(self) -> None:
        """Refresh if the policy says so, or if a process died during a refresh."""
        if self._group is None and not self._reader.closed and (not self.paused or self._state.pending is not None):
            self._refresher.attempt(self.policy, self._begin_if_due)

    def _begin_if_due(self) -> None:
        pending = self._state.pending
        if pending is None:
            self._refresher.begin_if_due(self, self._begin)
        elif self._is_left(pending):
            try:
                encoder = self._reader.encoder_to_come(pending.to)
            except Gone:
                return  # given up by another process just now
            version = Version(pending.to.serial, pending.to.n_pairs, encoder)
            self._launch(Task(version, pending.pause, resumed=True), wait=not self.background)

    def _is_left(self, pending: Pending) -> bool:
        """Whether the worker of this refresh is gone; of other processes only a lack of progress can be seen."""
        if pending.worker in self._left:
            return True
        step, now = (pending.worker, pending.done, pending.replaced), self.clock()
        if self._watched is None or self._watched[0] != step:
            self._watched = step, now
        return now - self._watched[1] >= PATIENCE

    def _begin(self, version: Version, wait: bool, *, pause: bool = False, by_policy: bool = False) -> Refresh | None:
        older = version if pause else None  # one to return to; else the newest, as of when the refresh begins
        attachment = None if by_policy else self._attachments.of_this_thread()
        return self._launch(Task(older, pause, by_policy, attachment=attachment), wait)

    def _launch(self, task: Task, wait: bool) -> Refresh | None:
        return self._refresher.launch(lambda stop: self._run(task, stop), wait)

    def _run(self, task: Task, stop: Callable[[], bool]) -> bool:
        """One part after the other, until the new codes are there; False if it was cancelled, here or elsewhere.

        If somebody else's refresh is under way, to what the learner was before, it is not cancelled but helped: two
        processes that refresh while pairs are learned would otherwise cancel each other for ever.
        """
        worker = secrets.token_hex(8)
        try:
            recoder, state = self._take_up(task, worker)
            while recoder is None:
                if not task.was_asked_for or not self._help(stop):
                    return False
                recoder, state = self._take_up(task, worker)
            done = self._work_on(recoder, state, task, stop)
            if done is None:
                with self._lock:
                    self._rewind(worker)
                return False
            if not recoder.is_over(done):
                return False
            self._has_codes = True
            if task.attachment is not None and not task.attachment.is_used:  # another worker wrote the last part
                with self._lock, self._one_change() as draft:
                    task.attachment.record(None, draft)
                    draft.put()
                task.attachment.settle(in_memory=False)
            with self._lock:
                self._clear_away(done)
            return True
        except BaseException:
            self._left.add(worker)
            raise

    def _help(self, stop: Callable[[], bool]) -> bool:
        """Take part in a refresh that somebody else began, until it has ended; False if there was a call to stop."""
        moment = self._reader.fresh()
        pending = moment.state.pending
        if pending is None:
            return True
        with suppress(Gone):  # it was replaced meanwhile
            encoder = self._reader.encoder_to_come(pending.to)
            recoder = Recoder(self._reader, moment, Version(pending.to.serial, pending.to.n_pairs, encoder))
            return self._work_on(recoder, moment.state, Task(), stop) is not None
        return True

    def _work_on(self, recoder: Recoder, state: State, task: Task, stop: Callable[[], bool]) -> State | None:
        """Work on a refresh until it is under way no more; None if there was a call to stop before."""
        with Ahead(recoder, self._reader, N_AHEAD if state.n >= AHEAD_ITEMS else 0) as ahead:
            while recoder.is_under_way(state):
                if stop():
                    return None
                state = self._work(recoder, ahead, task)
        return state

    def _take_up(self, task: Task, worker: str) -> tuple[Recoder | None, State]:
        """Begin or join a refresh; who begins it writes the first part at once, which may be all there is."""
        with self._lock, self._one_change() as draft:
            wanted = task.version or newest_version(self)  # only now nobody else can teach the learner
            version = recode.take_up(draft, self._reader, task, wanted, worker, self.batch_rows)
            if version is None:
                return None, draft.before.state
            recoder, pending = Recoder(self._reader, draft.before, version), draft.state.pending
            assert pending is not None
            has_begun = pending.worker == worker and not task.resumed
            recoder.write(draft, recoder.part(draft.before, pending, 0) if has_begun else None, task.attachment)
        return recoder, self._after_part(recoder, task, draft)

    def _work(self, recoder: Recoder, ahead: Ahead, task: Task) -> State:
        """Compute and write a part that nobody else is at; wait for those who are at the last ones."""
        state, backend = self._reader.fresh().state, self._reader.backend
        if not recoder.is_under_way(state):
            return state
        pending = state.pending
        assert pending is not None
        parts = list(pending.unwritten(state.next_place))
        with ExitStack() as held:
            if (made := ahead.next(pending, parts)) is not None:
                held.push(made.claim)
                return self._write_part(recoder, made.recoded, task)
            part = next((part for part in parts if is_claimed(held, backend, part)), None)
            if parts and part is None:
                if not self._is_left(pending):
                    time.sleep(PAUSE)
                    return state
                part = parts[0]  # whoever has claimed it does nothing
            if part is None:
                return self._write_part(recoder, None, task)
            moment = self._reader.fresh()  # which whoever had claimed it before may have changed
            if not recoder.is_to_do(moment.state, part):
                return moment.state
            return self._write_part(recoder, recoder.part(moment, pending, part), task)

    def _write_part(self, recoder: Recoder, recoded: Recoded | None, task: Task) -> State:
        with self._lock, self._one_change() as draft:
            if not recoder.is_under_way(draft.state):
                return draft.before.state
            recoder.write(draft, recoded, task.attachment)
        return self._after_part(recoder, task, draft)

    def _after_part(self, recoder: Recoder, task: Task, draft: Draft) -> State:
        if task.attachment is not None and recoder.is_over(draft.after.state):
            task.attachment.settle(in_memory=False)
        return draft.after.state

    def _rewind(self, worker: str | None = None) -> None:
        """Cancel the refresh in progress; if a worker is given, only that worker's."""
        with self._one_change() as draft:
            pending = draft.state.pending
            if pending is not None and worker in (None, pending.worker):
                recode.give_up(draft)

    @property
    def versions(self) -> list[Version]:
        def read(moment: Moment) -> list[Version]:
            kept = moment.state.versions
            encoders = self._reader.encoders(kept)
            return [Version(one.serial, one.n_pairs, encoder) for one, encoder in zip(kept, encoders, strict=True)]

        return self._reader.read(read, rows=False)

    @property
    def serial(self) -> int:
        return self._state.serial

    @property
    def paused(self) -> bool:
        return self._state.paused

    @property
    def is_refreshing(self) -> bool:
        return self._state.pending is not None

    @property
    def counters(self) -> Counters:
        return self._state.counters

    def _draw(self, size: int) -> np.ndarray:
        """As `LiveIndex` draws, unless that takes the places of very many items."""

        def draw(moment: Moment) -> np.ndarray:
            state, rng = moment.state, np.random.default_rng(moment.state.n)
            n_drawn = min(size, state.n)
            places = np.sort(rng.choice(state.n, n_drawn, replace=False))
            if state.n < state.next_place and state.n <= MANY_ITEMS:  # there are places without an item
                all_places = np.concatenate([page.places for page in self._reader.pages(moment)])
                if len(all_places) != state.n:
                    raise Gone
                places = all_places[places]
            elif state.n < state.next_place:
                found = np.empty(0, np.int64)
                while len(found) < n_drawn:
                    if not self._reader.are_all_there(moment):
                        raise Gone
                    some = rng.integers(state.next_place, size=2 * n_drawn * state.next_place // state.n)
                    found = np.union1d(found, self._reader.backend.rows(moment.epoch, np.unique(some)).places)
                places = np.sort(rng.permutation(found)[:n_drawn])
            return matrix_of(self._reader.rows_at(moment, places, vectors=True)[0].vectors, state)

        return self._reader.read(draw)

    # ------------------------------------------------------------------------------------------------ life

    def close(self) -> None:
        self._check_no_group("close")
        if self._replica is not None:
            self._replica.close()  # without the lock, for which its thread may be waiting
        with self._refresher.alone():
            if not self._reader.closed:
                with self._teaching():
                    self._shared.learner.owned_by(None)
            self._reader.close()

    def __repr__(self) -> str:
        name, learner = type(self).__name__, type(self._shared.learner).__name__
        n = "closed" if self._reader.closed else f"n={len(self)}"
        return f"{name}({learner}, {n}, refresh={self.policy!r}, address={self._reader.backend.address!r})"

    def __reduce__(self) -> Any:
        raise InvalidInput(f"cannot copy or pickle a {type(self).__name__}: open it again where it is needed.")


def _object(text: str | None) -> Payload | None:
    return None if text is None else json.loads(text)


def _as_of(moment: Moment, found: H) -> H:
    """Hits that tell from which epoch they are."""
    if isinstance(found, list):
        return [replace(hits, epoch=moment.epoch) for hits in found]
    return replace(found, epoch=moment.epoch)


def _is_full(state: State) -> bool:
    """Whether enough rows are dead to delete them; never during a refresh, which may be rewound."""
    return state.pending is None and state.dead > max(LEAST_DEAD, DEAD_SHARE * state.n)
