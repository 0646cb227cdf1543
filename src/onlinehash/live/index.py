"""`LiveIndex`: items whose codes follow a learner, searchable at every moment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.codes.layout import planes_per_model
from onlinehash.errors import InvalidInput
from onlinehash.learners.base import Learner
from onlinehash.learners.update import Update, Updates
from onlinehash.live import refresh as policies
from onlinehash.live.following import Counters, Following
from onlinehash.live.holdings import KINDS, Holdings
from onlinehash.live.keeper import Contents, Keeper
from onlinehash.live.payloads import Payloads
from onlinehash.live.policy import Policy
from onlinehash.live.reservoir import Reservoir
from onlinehash.live.store import Store
from onlinehash.live.vectors import MemoryVectors

#: Pairs kept at random for the policies, and how many of the last ones they are drawn from.
PAIRS_SIZE, PAIRS_HORIZON = 512, 4096


class LiveIndex(Following):
    """An index of vectors whose codes follow a learner.

    After every call, `codes` are what `encoder` makes of `vectors`, and queries are encoded with it. Learning changes
    neither. A refresh replaces both in one step; the policy says when. Searches need no lock: they see the state
    before a change or the one after it.

    learner : Learner
        A durable index owns it, and alone may teach it. In memory it may also learn elsewhere; the policy is then
        asked at the next call.
    refresh : policy, default=refresh.when_changed(0.05)
        Any object with `due(index) -> bool`.
    index : {"auto", "flat", "multi"}, default="auto"
        How codes are searched: by a scan, by tables, or by tables once there are a million items.
    path : folder or None, default=None
        Where everything is kept. An index that is there already is continued, if this learner has the same
        parameters and has learned nothing.
    background : bool, default=False
        Let the policy's refreshes run in a thread of their own.
    sync : {"full", "batch"}, default="full"
        `full`: what a call changed is on the disk when it returns. `batch`: it survives the death of the process, but
        a power failure may take the last changes with it; calls return sooner.
    n_jobs : int, default=1
        Threads that share a search; -1 is one for each CPU.
    """

    _given_policy: Policy | None  # None: the stored one

    def __init__(
        self,
        learner: Learner,
        refresh: Policy | None = None,
        index: str = "auto",
        path: str | os.PathLike[str] | None = None,
        *,
        background: bool = False,
        sync: str = "full",
        n_jobs: int = 1,
    ) -> None:
        if not isinstance(learner, Learner):
            raise InvalidInput(f"expected a learner, such as OnlineHashing(n_bits=64), got {checks.shown(learner)}.")
        checks.parameters("LiveIndex", {"index": index}, {"index": checks.one_of(*KINDS)})
        self._set_up(refresh, background, sync, n_jobs)
        if path is not None and Keeper.exists(path):
            self._keeper = Keeper.open(path, False, sync)
            with self._closed_on_error():
                self._keeper.check_same(learner)
                self._read_back(learner)
            return
        self._given_policy = policies.when_changed(0.05) if refresh is None else refresh
        settings = {"index": index, "serial": 0, "paused": False, "counters": list(Counters())}
        self._take_over(Contents(learner, [], [], [], np.empty((0, 0), np.uint8), settings))
        if path is not None:
            self._keeper = Keeper.create(path, learner, self._settings(), sync)
            self._holdings.vectors = self._keeper.store
            learner.owned_by(self)

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
    ) -> Self:
        """The index at a path, with its own learner and, unless another is given, its own policy.

        One process at a time may write. With `read_only` any number may search it meanwhile, each as of the moment at
        which it opened the index or called `reload`.
        """
        index = cls.__new__(cls)
        index._set_up(refresh, background, sync, n_jobs)
        index._keeper = Keeper.open(path, read_only, sync)
        with index._closed_on_error():
            index._read_back(None)
        return index

    # ------------------------------------------------------------------------------------------------ coming and going

    def _set_up(self, refresh: Policy | None, background: bool, sync: str, n_jobs: int) -> None:
        checks.parameters(
            "LiveIndex",
            {"refresh": refresh, "background": background, "sync": sync, "n_jobs": n_jobs},
            {
                "refresh": ("a policy with a method due(index)", lambda p: p is None or callable(getattr(p, "due", 0))),
                "background": ("True or False", lambda b: isinstance(b, bool)),
                "sync": checks.one_of("full", "batch"),
                "n_jobs": checks.either(checks.integer(1), checks.integer(-1, -1)),
            },
        )
        self.background, self._n_jobs = background, int(n_jobs)
        self._given_policy = refresh
        self._keeper: Keeper | None = None
        self._lock = threading.RLock()
        self._closed, self._teacher = False, 0

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._keeper is not None:
                self._keeper.close()
            raise

    def _read_back(self, learner: Learner | None) -> None:
        """Be what the store says: after opening, and after a change that could not be kept."""
        assert self._keeper is not None
        contents = self._keeper.load()
        if learner is not None:
            learner.set_state(contents.learner.get_state())
            contents = contents._replace(learner=learner)
        self._take_over(contents)
        if not self._keeper.store.read_only:
            self.learner.owned_by(self)

    def _take_over(self, contents: Contents) -> None:
        """Make everything in memory from what an index consists of."""
        self.learner, settings = contents.learner, contents.settings
        if self._given_policy is None and settings["refresh"] is None:
            raise InvalidInput(
                "expected a policy, as the one that this index was made with cannot be kept in a file, got none; "
                "give it again by refresh=."
            )
        self.policy = self._given_policy or policies.from_specification(settings["refresh"])
        self._kind = settings["index"]
        present = [version.encoder for version in contents.versions if version.serial == settings["serial"]]
        n_bits, n_models, fusion = self.learner.shape_of_codes
        codes = Codes.from_rows(
            contents.codes.reshape(len(contents.ids), n_models * planes_per_model(n_bits)), n_bits, n_models
        )
        encoder = present[0] if present else None
        view = KINDS[self._kind](codes, contents.ids, self._n_jobs, fusion=fusion, encoder=encoder)
        vectors = MemoryVectors() if self._keeper is None else self._keeper.store
        self._holdings = Holdings(view, self._kind, vectors, Payloads(contents.payloads))
        self._pairs = Reservoir(PAIRS_SIZE, 0, PAIRS_HORIZON)
        self._set_out(settings, contents.versions)

    def reload(self) -> None:
        """Be as the index on the disk is now: for those who only read it while another process writes."""
        with self._lock:
            self._check_open()
            if self._keeper is None:
                raise InvalidInput("expected an index with a path to read again, got one in memory.")
            with self._teaching():
                self._read_back(self.learner)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """A copy in another folder, as of this moment, which `open` opens; the index can be used meanwhile.

        An index in memory is written as a durable one.
        """
        with self._lock:
            self._check_open()
            if self._keeper is None:
                view, payloads = self._holdings.view, self._holdings.payloads
                texts = [payloads.text(position) for position in view.items.positions().tolist()]
                codes, settings = view.codes.rows(), self._settings()
                contents = Contents(self.learner, self._versions, list(self), texts, codes, settings)
                Keeper.write(path, contents, self.vectors)
                return
            store = self._keeper.store
        store.backup(path)

    def close(self) -> None:
        """Stop a refresh that is under way, and let go of the path and of the learner; nothing is lost."""
        with self._alone():
            if self._keeper is not None and not self._closed:
                with self._teaching():
                    self.learner.owned_by(None)
                self._keeper.close()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = f", path={str(self._keeper.store.path)!r}" if self._keeper is not None else ""
        return f"LiveIndex({type(self.learner).__name__}, n={len(self)}, refresh={self.policy!r}{where})"

    # ------------------------------------------------------------------------------------------------ items

    def add(self, ids: Any, X: Any, payloads: Any = None) -> None:
        """New items: ids (integers or strings; None numbers them on), vectors, and JSON payloads or None.

        The learner observes the vectors. Ids that are known already are refused; `update` changes items.
        """
        with self._changing() as holdings:
            ids, rows = self._given(ids, X)
            names = holdings.view.items.ids.new(ids, len(rows))
            texts = Payloads.checked(payloads, len(rows))
            codes, marks = holdings.encode(rows)
            with self._teaching():
                self.learner.observe(rows)
                with self._kept({"what": "points", "X": rows}) as store:
                    if store is not None:
                        store.add(names.tolist(), rows, texts)
                        store.put_codes(np.arange(len(store) - len(rows), len(store)), codes.rows())
            holdings.add(names, rows, texts, codes, marks)
            self._n_changes += len(rows)

    def update(self, ids: Any, X: Any = None, payloads: Any = None) -> None:
        """New vectors or payloads, or both, for known items, which keep their place in the order of insertion."""
        with self._changing() as holdings:
            if X is None and payloads is None:
                raise InvalidInput("expected vectors or payloads to update, got neither.")
            ids, rows = (_listed(ids), None) if X is None else self._given(ids, X)
            positions = holdings.find(ids)
            texts = None if payloads is None else Payloads.checked(payloads, len(positions))
            if rows is not None:
                checks.same_length("ids", len(positions), len(rows), "X")
            codes, marks = (None, None) if rows is None else holdings.encode(rows)
            with holdings.gate, self._teaching():  # nobody may see what is on the disk before the rest has changed
                if rows is not None:
                    self.learner.observe(rows)
                with self._kept(None if rows is None else {"what": "points", "X": rows}) as store:
                    if store is not None:
                        self._rewrite(store, positions, rows, texts)
                        if codes is not None:
                            store.put_codes(positions, codes.rows())
                holdings.update(positions, rows, texts, codes, marks)
            self._n_changes += len(positions)

    def _rewrite(
        self, store: Store, positions: np.ndarray, rows: np.ndarray | None, texts: list[str | None] | None
    ) -> None:
        """Some items as they are to be, where what the caller does not change stays."""
        payloads = self._holdings.payloads
        store.update(
            positions,
            self._holdings.view.items.ids.at(positions).tolist(),
            store.take(positions) if rows is None else rows,
            [payloads.text(position) for position in positions.tolist()] if texts is None else texts,
        )

    def remove(self, ids: Any) -> None:
        """Forget known items."""
        with self._changing() as holdings:
            ids = _listed(ids)
            positions = holdings.find(ids)
            with holdings.gate:  # as above
                with self._kept(None) as store:
                    if store is not None:
                        store.remove(positions)
                holdings.remove(ids)
            self._n_changes += len(positions)

    def _given(self, ids: Any, X: Any) -> tuple[Any, np.ndarray]:
        """Ids and vectors; one id goes with one vector."""
        if isinstance(ids, str | int | np.integer) and np.ndim(X) == 1:
            ids, X = [ids], checks.row(X, "X")
        rows = checks.vectors(X, dtype=self._dtype if self._n_features else None)
        if self._n_features:
            checks.width(rows, self._n_features, "this index")
        return ids, rows

    @contextmanager
    def _changing(self) -> Iterator[Holdings]:
        """One change at a time; afterwards the policy is asked."""
        with self._lock:
            self._check_open(writing=True)
            yield self._holdings
            self._follow()

    # ------------------------------------------------------------------------------------------------ learning

    def learn_pair(self, a: Any, b: Any, similar: Any, sample_weight: float = 1.0) -> Update:
        """Teach the learner one pair of vectors, and whether they are similar (a bool, or +1 / -1)."""
        return self.learn_pairs(checks.row(a, "a"), checks.row(b, "b"), similar, sample_weight)[0]

    def learn_pair_by_id(self, id_a: int | str, id_b: int | str, similar: Any, sample_weight: float = 1.0) -> Update:
        """Teach the learner a pair of items."""
        return self.learn_pairs_by_id([id_a], [id_b], similar, sample_weight)[0]

    def learn_pairs(self, A: Any, B: Any, similar: Any, sample_weight: Any = None) -> Updates:
        """Teach the learner many pairs, row t of A with row t of B; the policy is asked once, after the last."""
        with self._changing():
            with self._teaching():
                updates = self.learner.learn_pairs(A, B, similar, sample_weight)
                A, B = (np.ascontiguousarray(X, self.learner.dtype_) for X in (A, B))
                s, w = checks.similarities(similar, len(A)), checks.weights(sample_weight, len(A))
                with self._kept({"what": "pairs", "A": A, "B": B, "similar": s, "weight": w}):
                    pass
            self._pairs.append(A, B, s)
        return updates

    def learn_pairs_by_id(self, ids_a: Any, ids_b: Any, similar: Any, sample_weight: Any = None) -> Updates:
        """Teach the learner many pairs of items."""
        with self._lock:
            self._check_open(writing=True)
            none = np.empty((0, self._n_features), self._dtype)
            A, B = (np.concatenate([none, *(self._holdings.take([i]) for i in _listed(ids))]) for ids in (ids_a, ids_b))
            return self.learn_pairs(A, B, similar, sample_weight)

    @property
    def is_learning(self) -> bool:
        """Is the calling thread inside a call of this index that teaches the learner?"""
        return self._teacher == threading.get_ident()

    @contextmanager
    def _teaching(self) -> Iterator[None]:
        """What the learner learns here is kept on the disk, or everything is read back from there."""
        before, self._teacher = self._teacher, threading.get_ident()
        try:
            yield
        except InvalidInput:  # which a learner raises before it changes
            raise
        except BaseException:
            if self._keeper is not None:
                self._read_back(self.learner)
            raise
        finally:
            self._teacher = before

    @contextmanager
    def _kept(self, event: dict[str, Any] | None) -> Iterator[Store | None]:
        """One transaction: what is written inside it, and what the learner was taught."""
        if self._keeper is None:
            yield None
            return
        with self._keeper.store.transaction():
            yield self._keeper.store
            if event is not None:
                self._keeper.learned(self.learner, event)


def _listed(ids: Any) -> Any:
    return [ids] if isinstance(ids, str | int | np.integer) else ids
