"""`Ids`: which id is at which position of an index, and which position has an id."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.errors import FormatError
from onlinehash.index import keys as arrays
from onlinehash.index.id_set import IdSet
from onlinehash.index.ids_kernels import Keys, empty_table, enter, has_room, look_up
from onlinehash.index.keys import appended, are_texts
from onlinehash.numeric.views import read_only
from onlinehash.types import State

_NO_TABLE = np.empty(0, np.uint32)


class Ids(IdSet):
    """All integers of 64 bits, or all strings, at positions that count the insertions from 0.

    As long as position i has the id i, nothing is stored. What finds an id is made when it is first asked for: a hash
    table, or nothing if the integers rise. A forgotten id stays at its position until `keep`, and can be used again.
    Any number of threads may read while none changes anything.
    """

    def __init__(self) -> None:
        self._n = 0
        self._next = 0  # the number of an item that comes without an id: one above the largest that ever was
        self._keys: Keys | None = None  # with room at the end; None as long as position i has the id i
        self._dead = np.empty(0, np.bool_)  # for each position, with room at the end; empty as long as none is
        self._table: np.ndarray | None = None  # None until it is needed; `_NO_TABLE` if the integers rise

    @classmethod
    def of(cls, ids: ArrayLike | None, n: int) -> Ids:
        """The ids of n items; None numbers them from 0."""
        new = cls()
        new.extend(ids, n)
        return new

    def __len__(self) -> int:
        return self._n

    @property
    def kind(self) -> str:
        """`range` as long as position i has the id i, else `integers` or `strings`."""
        return "range" if self._keys is None else self._kind

    @property
    def nbytes(self) -> int:
        """Bytes in memory or mapped."""
        tables = () if self._table is None else (self._table,)
        return sum(array.nbytes for array in (*(self._keys or ()), self._dead, *tables))

    # ------------------------------------------------------------------------------------------------ reading

    def at(self, positions: np.ndarray) -> np.ndarray:
        """The ids at some positions, in their shape: int64, or str objects."""
        if self._keys is None:
            return np.array(positions, np.int64)
        return arrays.shown_at(self._keys, np.asarray(positions, np.int64))

    def _positions(self, asked: Keys) -> np.ndarray:
        """The living position of each id, -1 where there is none."""
        found = np.full(arrays.count(asked), -1)
        if are_texts(asked) != self._are_texts or self._n == 0:
            return found
        if self._keys is None:
            known = (asked.numbers >= 0) & (asked.numbers < self._n)
            found[known] = asked.numbers[known]
        elif len(table := self._lookup()):
            look_up(table, self._frozen(), arrays.frozen(asked, len(found)), found)
        else:
            numbers = self._keys.numbers[: self._n]
            places = np.minimum(np.searchsorted(numbers, asked.numbers), self._n - 1)
            known = numbers[places] == asked.numbers
            found[known] = places[known]
        if len(self._dead):
            found[self._dead[found]] = -1  # what was not found stays so, whichever position -1 is
        return found

    def _lookup(self) -> np.ndarray:
        """The table, complete before other threads can see it."""
        table = self._table
        if table is None:
            keys = self._frozen()
            if not are_texts(keys) and arrays.rise(keys.numbers):
                table = _NO_TABLE
            else:
                table = empty_table(self._n)
                again = enter(table, keys, read_only(self._dead), 0, self._n)
                if again >= 0:
                    raise FormatError(
                        f"the id {checks.shown(self._one(again))} occurs twice; restore the index file from a copy."
                    )
            self._table = table
        return table

    def _frozen(self) -> Keys:
        """The ids that are in use, without the spare room at the end."""
        return arrays.of_numbers(np.arange(self._n)) if self._keys is None else arrays.frozen(self._keys, self._n)

    def _one(self, position: int) -> Any:
        return self.at(np.array([position])).tolist()[0]

    @property
    def _are_texts(self) -> bool:
        return self._keys is not None and are_texts(self._keys)

    @property
    def _undecided(self) -> bool:
        return self._keys is None and self._next == 0

    # ------------------------------------------------------------------------------------------------ changes

    def extend(self, ids: ArrayLike | None, n: int, are_new: bool = False) -> None:
        """n new positions; without ids, integers go on after the largest that ever was.

        Ids that `new` has just given are not checked again.
        """
        if ids is None and (n == 0 or (self._keys is None and self._next == self._n)):
            self._grow(None, n, self._next + n)
            return
        new = self._numbered_on(n) if ids is None else arrays.given(ids) if are_new else self._checked(ids, n)
        if n == 0:
            return
        if are_texts(new):
            self._grow(new, n, 0)
            return
        after = int(new.numbers.max()) + 1
        counts_on = self._keys is None and np.array_equal(new.numbers, np.arange(self._n, self._n + n))
        self._grow(None if counts_on else new, n, after if self._undecided else max(after, self._next))

    def _grow(self, new: Keys | None, n: int, next_number: int) -> None:
        """n more positions, with new ids or (None) with their own numbers; what can fail comes before the change."""
        start, stop = self._n, self._n + n
        keys = self._keys
        if new is not None:
            keys = new if start == 0 else arrays.joined(self._keys or self._frozen(), start, new)
        dead = appended(self._dead, start, np.zeros(n, np.bool_)) if len(self._dead) else self._dead
        table = None if keys is None else self._table_after(keys, dead, start, stop)
        self._n, self._next, self._keys, self._dead, self._table = stop, next_number, keys, dead, table

    def _table_after(self, keys: Keys, dead: np.ndarray, start: int, stop: int) -> np.ndarray | None:
        """The table with new positions in it; None where a new one has to be made."""
        table = self._table
        if table is None:
            return None
        if len(table) == 0:
            return table if arrays.rise(keys.numbers[max(start - 1, 0) : stop]) else None
        fits = has_room(table, stop) and enter(table, arrays.frozen(keys, stop), read_only(dead), start, stop) < 0
        return table if fits else None

    def forget(self, positions: np.ndarray) -> None:
        """Mark the items at these positions as removed."""
        if len(self._dead) == 0:
            self._dead = np.zeros(self._n, np.bool_)
        elif not self._dead.flags.writeable:
            self._dead = self._dead.copy()
        self._dead[positions] = True

    def keep(self, positions: np.ndarray) -> None:
        """Keep only these positions, which ascend, and renumber them from 0."""
        n, keys = len(positions), None
        if self._keys is not None:
            keys = arrays.taken(self._frozen(), positions)
        elif n and positions[-1] != n - 1:  # some before the last were left out
            keys = arrays.of_numbers(self.at(positions))
        dead = self._dead[positions] if len(self._dead) else self._dead
        self._n, self._keys = n, keys
        self._dead = dead if dead.any() else dead[:0]
        self._table = _NO_TABLE if self._table is not None and len(self._table) == 0 else None

    def number_from(self, number: int) -> None:
        """Integers that are given to items without an id are not below this one."""
        if not self._are_texts:
            self._next = max(self._next, number)

    def settle(self, alive: np.ndarray) -> None:
        """As many positions as these, of which those live: what a change that failed halfway has to be put back to."""
        if len(self) != len(alive):
            self.keep(np.arange(len(alive)))
        self._dead, self._table = np.empty(0, np.bool_) if alive.all() else ~alive, None

    # ------------------------------------------------------------------------------------------------ copies

    def copy(self) -> Ids:
        """An independent copy. It shares the arrays, because what they already hold never changes."""
        twin = Ids()
        twin._n, twin._next = self._n, self._next
        twin._keys = None if self._keys is None else self._frozen()
        twin._dead = self._dead.copy()
        twin._table = None if self._table is None else self._table.copy()
        return twin

    def state(self) -> State:
        """Plain values and arrays for a file; later changes do not touch them."""
        state: State = {"kind": self.kind, "next": self._next}
        if self._keys is not None:
            keys = self._frozen()
            state |= {"data": keys.data, "offsets": keys.offsets} if self._are_texts else {"numbers": keys.numbers}
        if len(self._dead):
            state["dead"] = self._dead[: self._n].copy()
        return state

    @classmethod
    def from_state(cls, state: State, n: int) -> Ids:
        """The ids of n positions from a file, whose arrays are used without a copy."""
        new = cls()
        new._n = n
        kind = state.get("kind")
        if kind == "integers":
            new._keys = arrays.of_numbers(_array(state, "numbers", np.int64, n))
        elif kind == "strings":
            offsets = _array(state, "offsets", np.int64, n + 1)
            if offsets[0] != 0 or not (offsets[1:] >= offsets[:-1]).all():
                raise FormatError("the offsets of the ids must start at 0 and never decrease.")
            new._keys = arrays.of_texts(_array(state, "data", np.uint8, int(offsets[-1])), offsets)
        elif kind != "range":
            raise FormatError(expected="ids of kind range, integers or strings", got=checks.shown(kind))
        if "dead" in state:
            new._dead = read_only(_array(state, "dead", np.bool_, n))
        number, least = state.get("next"), n if kind == "range" else -arrays.LARGEST
        if type(number) is not int or not least <= number <= arrays.LARGEST + 1:
            raise FormatError(expected=f"an unused number as the next of {n} ids", got=checks.shown(number))
        new._next = number
        return new


def _array(state: State, name: str, dtype: type, n: int) -> np.ndarray:
    """An array from a file, checked for its dtype and shape."""
    value = state.get(name)
    if not isinstance(value, np.ndarray) or value.shape != (n,) or value.dtype != dtype:
        got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise FormatError(expected=f"{name} of the ids to be {np.dtype(dtype)} {(n,)}", got=f"{got}")
    return np.ascontiguousarray(value)
