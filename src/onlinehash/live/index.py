"""`LiveIndex`: items whose codes follow a learner, searchable at every moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput, NotReady, UnknownId
from onlinehash.learners import registry
from onlinehash.learners.base import Learner
from onlinehash.live.asking import listed
from onlinehash.live.interrupts import uninterrupted
from onlinehash.live.payloads import Payloads
from onlinehash.live.policy import Policy
from onlinehash.live.reloading import Reloading
from onlinehash.live.sqlite import Store
from onlinehash.live.storage import Contents, Keeper
from onlinehash.live.table import KINDS, Holdings


class LiveIndex(Reloading):
    """An index of vectors whose codes follow a learner.

    After every call, `codes` are what `encoder` makes of `vectors`, and queries are encoded with it. Learning changes
    neither. A refresh replaces both in one step; the policy says when. Searches need no lock: they see the state
    before a change or the one after it.

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
        Let the policy's refreshes run in a thread of their own.
    sync : {"full", "batch"}, default="full"
        `full`: what a call changed is on the disk when it returns. `batch`: it survives the death of the process, but
        a power failure may take the last changes with it; calls return sooner.
    n_jobs : int, default=1
        Threads that share a search; -1 is one for each CPU.
    """

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
    ) -> None:
        is_given = learner is not None
        learner = learner_for(learner, n_bits)
        if learner.traits.unit == "batch" and path is not None and not hasattr(learner, "n_features_in_"):
            raise InvalidInput(
                f"expected a fitted {type(learner).__name__} for an index on a disk, which then owns it, got one that "
                "has learned nothing; call fit first."
            )
        checks.parameters("LiveIndex", {"index": index}, {"index": checks.one_of(None, *KINDS)})
        self._set_up(refresh, index, background, sync, n_jobs)
        if path is None:
            self._take_over(Contents.of_nothing(learner))
        elif Keeper.exists(path):
            self._open(path, False, sync, learner if is_given else None, n_bits)
        else:
            learner.check_free()
            self._take_over(Contents.of_nothing(learner))
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
        index._set_up(refresh, None, background, sync, n_jobs)
        index._open(path, read_only, sync, None)
        return index

    # ------------------------------------------------------------------------------------------------ items

    def add(self, ids: Any, X: Any, payloads: Any = None) -> np.ndarray:
        """New items: ids (integers or strings; None numbers them on), vectors, and JSON payloads or None.

        The learner observes the vectors. Ids that are known already are refused; `update` changes items. Returns the
        ids.
        """
        with self._changing() as holdings:
            ids, rows = self._given(ids, X)
            names = holdings.view.items.ids.new(ids, len(rows))
            texts = Payloads.checked(payloads, len(rows))
            codes, marks = holdings.encode(rows)
            self.learner.observe(rows)
            with self._kept({"what": "points", "X": rows}, names) as store:
                if store is not None:
                    store.add(names.tolist(), rows, texts)
                    store.put_codes(np.arange(len(store) - len(rows), len(store)), codes.rows())
            holdings.add(names, rows, texts, codes, marks)
            self._n_changes += len(rows)
        return names

    def update(self, ids: Any, X: Any = None, payloads: Any = None) -> None:
        """New vectors or payloads, or both, for known items, which keep their place in the order of insertion."""
        with self._changing() as holdings, ExitStack() as held:
            if X is None and payloads is None:
                raise InvalidInput("expected vectors or payloads to update, got neither.")
            ids, rows = (listed(ids), None) if X is None else self._given(ids, X)
            positions = holdings.find(ids)
            texts = None if payloads is None else Payloads.checked(payloads, len(positions))
            codes, marks = None, None
            if rows is not None:
                checks.same_length("ids", len(positions), len(rows), "X")
                codes, marks = holdings.encode(rows)
                self.learner.observe(rows)
            with self._kept(None if rows is None else {"what": "points", "X": rows}) as store:
                if store is not None:
                    self._rewrite(store, positions, rows, texts)
                    if codes is not None:
                        store.put_codes(positions, codes.rows())
                held.enter_context(self._gate)  # nobody may see what is on the disk before the rest has changed
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
        with self._changing() as holdings, ExitStack() as held:
            ids = listed(ids)
            positions = holdings.find(ids)
            with self._kept(None) as store:
                if store is not None:
                    store.remove(positions)
                held.enter_context(self._gate)  # as above
            holdings.remove(ids)
            self._n_changes += len(positions)

    @contextmanager
    def _changing(self) -> Iterator[Holdings]:
        """One change at a time, whole or not at all; afterwards the policy is asked."""
        with self._lock:
            self._check_open(writing=True)
            if self._broken:
                self._recover()
            with uninterrupted(), self._teaching():
                try:
                    yield self._holdings
                except (InvalidInput, UnknownId, NotReady):  # which come before anything changes
                    raise
                except BaseException:
                    self._recover()
                    raise
                self._keep_note(self._note())
            self._follow()


def learner_for(learner: Learner | None, n_bits: int | None) -> Learner:
    """The learner of a new index: the one that is given, or the recommended one with codes of this length."""
    if learner is None:
        given = {} if n_bits is None else {"n_bits": n_bits}
        checks.parameters("LiveIndex", given, {name: checks.integer(1, 4096) for name in given})
        found: Learner = registry.find(registry.RECOMMENDED)(**given, random_state=0)
        return found
    if not isinstance(learner, Learner):
        raise InvalidInput(
            f"expected a learner, such as OnlineHashing(n_bits=64), or none and n_bits, got {checks.shown(learner)}."
        )
    if n_bits is not None:
        raise InvalidInput(
            f"expected a learner or n_bits, got both: a {type(learner).__name__} has its length of codes already."
        )
    return learner
