"""`StoreIndex`: the methods of `LiveIndex`, with items on a shelf."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.distributed.stores.draft import Draft
from onlinehash.distributed.stores.following import Following
from onlinehash.distributed.stores.shelf import Shelf
from onlinehash.errors import InvalidInput
from onlinehash.live import policies
from onlinehash.live.asking import listed
from onlinehash.live.payloads import Payloads
from onlinehash.live.policy import IS_POLICY, Policy


class StoreIndex(Following):
    """An index of vectors in a database, whose codes follow a learner that is kept there too.

    Methods, results and errors are those of `LiveIndex`. Any number of processes may open the same index, read it and
    change it: changes are made one after the other, and everyone sees all of a change or nothing of it.

    shelf : Shelf
        The tables, which hold an index already; the index closes it.
    refresh : policy or None, default=None
        For the changes that are made through this object; None is the policy that the index was made with.
    background : bool, default=False
        Let the policy's refreshes run in a thread of their own.
    """

    def __init__(self, shelf: Shelf, refresh: Policy | None = None, *, background: bool = False) -> None:
        self.background, self._lock = background, threading.RLock()
        self._begin_to_read(shelf)
        try:
            self._check_options(refresh, background)
            self.policy = refresh or self._stored_policy()
            self._begin_to_learn()
            self._set_out()
        except BaseException:
            shelf.close()
            raise

    @classmethod
    def _check_options(cls, refresh: Any, background: Any) -> None:
        """Refuse what cannot be meant; who makes a new index asks before anything is made."""
        checks.parameters(
            cls.__name__,
            {"refresh": refresh, "background": background},
            {"refresh": IS_POLICY, "background": ("True or False", lambda value: isinstance(value, bool))},
        )

    def _stored_policy(self) -> Policy:
        stored = self._now.state.refresh
        if stored is None:
            raise InvalidInput(
                "expected a policy, as the one that this index was made with cannot be kept in a database, got none; "
                "give it again by refresh=."
            )
        return policies.from_specification(stored)

    # ------------------------------------------------------------------------------------------------ items

    def add(self, ids: Any, X: Any, payloads: Any = None) -> np.ndarray:
        """New items: ids (integers or strings; None numbers them on), vectors, and JSON payloads or None.

        The learner observes the vectors. Ids that are known already are refused; `update` changes items. Returns the
        ids.
        """
        with self._changing() as draft:
            ids, rows = self._given(ids, X)
            names = draft.ids.new(ids, len(rows))
            texts = Payloads.checked(payloads, len(rows))
            codes = self._encoded(draft, rows)
            self.learner.observe(rows)
            with self._kept({"what": "points", "X": rows}, names):
                draft.add(names, rows, texts, codes)
        return names

    def update(self, ids: Any, X: Any = None, payloads: Any = None) -> None:
        """New vectors or payloads, or both, for known items, which keep their place in the order of insertion."""
        with self._changing() as draft:
            if X is None and payloads is None:
                raise InvalidInput("expected vectors or payloads to update, got neither.")
            ids, rows = (listed(ids), None) if X is None else self._given(ids, X)
            places = draft.ids.find(ids)
            texts = None if payloads is None else Payloads.checked(payloads, len(places))
            codes = None
            if rows is not None:
                checks.same_length("ids", len(places), len(rows), "X")
                codes = self._encoded(draft, rows)
                self.learner.observe(rows)
            with self._kept(None if rows is None else {"what": "points", "X": rows}):
                draft.update(places, rows, texts, codes)

    def remove(self, ids: Any) -> None:
        """Forget known items."""
        with self._changing() as draft:
            places = draft.ids.find(listed(ids))
            with self._kept(None):
                draft.remove(places)

    def _encoded(self, draft: Draft, rows: np.ndarray) -> Codes | None:
        encoder = self._encoder_at(draft.before)
        return None if encoder is None else encoder.codes_of(rows)

    @contextmanager
    def _changing(self) -> Iterator[Draft]:
        """One change at a time, whole or not at all; afterwards the policy is asked."""
        with self._lock:
            self._check_open(writing=True)
            with self._one_change() as draft:
                yield draft
            self._keep_note(self._note())
            with self._pinning(draft.after):
                self._follow()
            self._clear_away(draft.after.state)

    def _check_open(self, writing: bool = False) -> None:
        super()._check_open(writing)
        if writing:
            self._check_unspent()

    # ------------------------------------------------------------------------------------------------ coming and going

    def close(self) -> None:
        """Stop a refresh that is under way in this process, and let go of the database; nothing is lost."""
        with self._alone():
            if not self._closed:
                with self._teaching():
                    self.learner.owned_by(None)
                self._shelf.close()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name, learner = type(self).__name__, type(self._learner).__name__
        n = "closed" if self._closed else f"n={len(self)}"
        return f"{name}({learner}, {n}, refresh={self.policy!r}, address={self._shelf.address!r})"

    def __reduce__(self) -> Any:
        raise InvalidInput(f"cannot copy or pickle a {type(self).__name__}: open it again where it is needed.")
