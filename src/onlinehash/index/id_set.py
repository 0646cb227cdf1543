"""What may be an id, and what is said of ids that may not, whatever it is that finds an item by its id."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.errors import InvalidInput, UnknownId
from onlinehash.index import keys as arrays
from onlinehash.index.ids_kernels import Keys
from onlinehash.index.keys import are_texts

_NAMES = {False: "integers", True: "strings"}


class IdSet(ABC):
    """The ids of an index: all integers of 64 bits, or all strings."""

    _next: int  # the number of an item that comes without an id: one above the largest that ever was

    @property
    @abstractmethod
    def _are_texts(self) -> bool:
        """Whether they are strings; else they are integers."""

    @property
    @abstractmethod
    def _undecided(self) -> bool:
        """Whether there has never been an id, so that the first ones decide the kind."""

    @abstractmethod
    def _positions(self, asked: Keys) -> np.ndarray:
        """The living position of each id, -1 where there is none."""

    @property
    def _kind(self) -> str:
        return _NAMES[self._are_texts]

    def find(self, ids: ArrayLike, repeated: bool = False) -> np.ndarray:
        """The positions of an id, or of several, which are all different unless `repeated` says they need not be."""
        asked = arrays.given([ids] if isinstance(ids, str | int | np.integer) else ids)
        found = self._positions(asked)
        if found.min(initial=0) < 0:
            unknown = _shown(asked, int(found.argmin()))
            raise UnknownId(f"no item has id {unknown}; ids here are {self._kind}.")
        if repeated:
            return found
        in_order = np.sort(found)
        again = in_order[1:][in_order[1:] == in_order[:-1]]
        if len(again):
            twice = _shown(asked, int((found == again[0]).argmax()))
            raise InvalidInput(f"the id {twice} occurs twice; ids must be unique.")
        return found

    def places(self, ids: Any) -> np.ndarray:
        """The position of each id, -1 where no item has it."""
        return self._positions(arrays.given(ids))

    def __contains__(self, id: object) -> bool:
        if not isinstance(id, str | int | np.integer):
            return False
        try:
            return bool(self._positions(arrays.given([id]))[0] >= 0)
        except InvalidInput:
            return False

    def new(self, ids: ArrayLike | None, n: int) -> np.ndarray:
        """The ids of n new items, numbered automatically if None; a value that is no id, or is taken, is refused."""
        return arrays.shown_at(self._numbered_on(n) if ids is None else self._checked(ids, n), np.arange(n))

    def _numbered_on(self, n: int) -> Keys:
        if self._are_texts:
            raise InvalidInput("string ids cannot be numbered automatically; give an id for each item.")
        if self._next + n - 1 > arrays.LARGEST:
            raise InvalidInput("no 64-bit integers are left after the largest id; give an id for each item.")
        return arrays.of_numbers(np.arange(n) + self._next)

    def _checked(self, ids: ArrayLike, n: int) -> Keys:
        """A user's new ids, checked to be different from each other and from the ids in use."""
        new = arrays.given(ids)
        if arrays.count(new) != n:
            raise InvalidInput(expected=f"{n} ids, one for each item", got=f"{arrays.count(new)}")
        if n and not self._undecided and are_texts(new) != self._are_texts:
            raise InvalidInput(
                expected=f"{self._kind} as ids, like those of the other items", got=f"{_NAMES[are_texts(new)]}"
            )
        again = arrays.repeated(new)
        if again >= 0:
            raise InvalidInput(f"the id {_shown(new, again)} occurs twice; ids must be unique.")
        found = self._positions(new)
        if found.max(initial=-1) >= 0:
            known = _shown(new, int(found.argmax()))
            raise InvalidInput(f"an item with id {known} already exists; update or remove it.")
        return new


def _shown(keys: Keys, i: int) -> str:
    return checks.shown(arrays.shown_at(keys, np.array([i])).tolist()[0])


class PendingIds(IdSet):
    """The ids of an index whose items are about to change.

    What is about to be added is there already, for other additions. What changes cannot be found: nobody can tell yet
    what comes of it.
    """

    def __init__(self, known: IdSet) -> None:
        self._known, self._pending = known, dict[Any, int]()
        self._changing, self._leaving = set[Any](), set[Any]()
        self._next = known._next

    @property
    def _are_texts(self) -> bool:
        if self._known._undecided and self._pending:
            return isinstance(next(iter(self._pending)), str)
        return self._known._are_texts

    @property
    def _undecided(self) -> bool:
        return self._known._undecided and not self._pending

    def _positions(self, asked: Keys) -> np.ndarray:
        found = self._known._positions(asked)
        missing = np.flatnonzero(found < 0) if self._pending else found[:0]
        for i, id in zip(missing.tolist(), arrays.shown_at(asked, missing).tolist(), strict=True):
            found[i] = self._pending.get(id, -1)
        return found

    def extend(self, ids: np.ndarray) -> None:
        """These ids, which `new` gave, will be added too."""
        if len(ids) and ids.dtype != object:
            after = int(ids.max()) + 1
            self._next = after if self._undecided else max(after, self._next)
        self._pending.update(zip(ids.tolist(), range(len(self._pending), len(self._pending) + len(ids)), strict=True))

    def find(self, ids: ArrayLike, repeated: bool = False) -> np.ndarray:
        found = super().find(ids, repeated)
        self._check_steady(ids, self._pending, self._changing, self._leaving)
        return found

    def _checked(self, ids: ArrayLike, n: int) -> Keys:
        self._check_steady(ids, self._leaving)
        return super()._checked(ids, n)

    def check_unchanged(self, ids: ArrayLike) -> None:
        """Refuse ids of items that are about to change or to go."""
        self._check_steady(ids, self._changing, self._leaving)

    def _check_steady(self, ids: ArrayLike, *unsteady: Collection[Any]) -> None:
        if any(unsteady):
            found = [id for id in _values(ids) if any(id in some for some in unsteady)]
            if found:
                raise InvalidInput(f"item {checks.shown(found[0])} was changed by this group; commit the group first.")

    def change(self, ids: ArrayLike) -> None:
        """These items, which `find` found, will change."""
        self._changing.update(_values(ids))

    def leave(self, ids: ArrayLike) -> None:
        """These items, which `find` found, will be removed."""
        self._leaving.update(_values(ids))


def _values(ids: ArrayLike) -> list[Any]:
    keys = arrays.given([ids] if isinstance(ids, str | int | np.integer) else ids)
    return list(arrays.shown_at(keys, np.arange(arrays.count(keys))).tolist())
