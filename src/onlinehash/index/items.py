"""The items of an index: codes at positions in the order of insertion, their ids, and which of them are alive."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from onlinehash.codes import Codes, check_same_width
from onlinehash.codes.layout import (
    LANES,
    aligned_planes,
    clear_lanes,
    copy_codes,
    gather_codes,
    scatter_codes,
    set_lanes,
)
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.index.ids import Ids
from onlinehash.numeric.views import read_only
from onlinehash.types import State

T = TypeVar("T")

_ALL_LANES = np.uint64(2**64 - 1)


class Items:
    """Codes that can grow, change and die in place.

    Positions are never reused, so that the order of positions is the order of insertion; a removed item leaves a dead
    position behind until `compact`. The codes given at first are shared, not copied, until something changes.
    """

    def __init__(self, codes: Codes, ids: ArrayLike | Ids | None = None) -> None:
        if not isinstance(codes, Codes):
            raise InvalidInput(
                expected="Codes to index", got=type(codes).__name__, hint="pack booleans with Codes.from_bits"
            )
        self.n_bits, self.n_models = codes.n_bits, codes.n_models
        self.ids = ids if isinstance(ids, Ids) else Ids.of(ids, len(codes))
        self._hold(codes)

    def _hold(self, codes: Codes) -> None:
        """These codes, and no others, all alive."""
        self.n_positions, self.n_dead = len(codes), 0
        self._planes, self._owned, self._forked = codes.planes, False, False
        self._alive = np.full(len(codes.planes), _ALL_LANES)
        if len(codes) % LANES:
            self._alive[-1] = (1 << len(codes) % LANES) - 1

    def __len__(self) -> int:
        return self.n_positions - self.n_dead

    @property
    def planes(self) -> np.ndarray:
        """The planes of all positions, read-only."""
        return read_only(self._planes[: self.n_blocks])

    @property
    def alive(self) -> np.ndarray:
        """A mask of living lanes for each block."""
        return self._alive[: self.n_blocks]

    @property
    def n_blocks(self) -> int:
        """Blocks in use."""
        return -(-self.n_positions // LANES)

    @property
    def nbytes(self) -> int:
        """Bytes of codes, masks and ids."""
        return self._planes.nbytes + self._alive.nbytes + self.ids.nbytes

    def positions(self) -> np.ndarray:
        """The living positions, ascending."""
        if self.n_dead == 0:
            return np.arange(self.n_positions)
        return _lanes(self.alive)

    def codes(self) -> Codes:
        """The living items' codes, in the order of insertion."""
        if self.n_dead:
            return self.at(self.positions())
        self._owned = False  # they are shared from now on, and the next change copies them
        return self.all_codes()

    def all_codes(self) -> Codes:
        """The codes of all positions, dead ones too, as they are until the next change."""
        return Codes.from_planes(self.planes, self.n_positions, self.n_bits, self.n_models)

    def at(self, positions: np.ndarray) -> Codes:
        """The codes at some positions."""
        planes = aligned_planes(len(positions), self._planes.shape[1])
        gather_codes(self.planes, positions, planes)
        return Codes.from_planes(planes, len(positions), self.n_bits, self.n_models)

    def are_alive(self, positions: np.ndarray) -> np.ndarray:
        """Whether there is an item at each of these positions."""
        bits: np.ndarray = self._alive[positions // LANES] >> (positions % LANES).astype(np.uint64) & np.uint64(1)
        return bits.astype(np.bool_)

    # ------------------------------------------------------------------------------------------------ changes

    def add(self, codes: Codes, ids: ArrayLike | None, are_new: bool = False) -> np.ndarray:
        """New items at the end; their positions. Ids that `ids.new` has just given are not checked again."""
        self._check(codes)
        positions = np.arange(self.n_positions, self.n_positions + len(codes))
        self._own(self.n_positions + len(codes))
        self.ids.extend(ids, len(codes), are_new)  # last of all that can fail
        copy_codes(codes.planes, 0, len(codes), self._planes, self.n_positions)
        set_lanes(self._alive, positions)
        self.n_positions += len(codes)
        return positions

    def update(self, ids: ArrayLike, codes: Codes) -> np.ndarray:
        """New codes for known items, which keep their place; their positions."""
        self._check(codes)
        positions = self.ids.find(ids)
        if len(positions) != len(codes):
            raise InvalidInput(expected=f"{len(positions)} codes, one for each id", got=f"{len(codes)}")
        self.put(positions, codes)
        return positions

    def put(self, positions: np.ndarray, codes: Codes) -> None:
        """New codes at some positions."""
        self._owned &= not self._forked
        self._own(self.n_positions)
        scatter_codes(codes.planes, positions, self._planes)

    def remove(self, positions: np.ndarray) -> None:
        """Living items die."""
        self.ids.forget(positions)
        clear_lanes(self._alive, positions)
        self.n_dead += len(positions)

    def compact(self) -> None:
        """Dead positions go; the living keep their order."""
        if self.n_dead:
            living = self.positions()
            codes, ids = self.at(living), self.ids.copy()
            ids.keep(living)
            self.ids = ids  # forks go on with the old ones
            self._hold(codes)

    def replace(self, codes: Codes) -> np.ndarray:
        """New codes for all living items, in the order of insertion; the columns that changed."""
        self._check(codes)
        if len(codes) != len(self):
            raise InvalidInput(expected=f"{len(self)} codes, one for each item", got=f"{len(codes)}")
        self.compact()
        changed = _changed_columns(self.all_codes(), codes)
        self._hold(codes)
        return changed

    def _check(self, codes: Codes) -> None:
        if not isinstance(codes, Codes):
            raise InvalidInput(expected="Codes", got=type(codes).__name__, hint="pack booleans with Codes.from_bits")
        if (codes.n_bits, codes.n_models) != (self.n_bits, self.n_models):
            check_same_width(codes, Codes.from_planes(self.planes[:0], 0, self.n_bits, self.n_models))

    def _own(self, n: int) -> None:
        """Planes of our own, with room for n positions; room grows by half, so that adding one by one stays cheap."""
        if self._owned and n <= len(self._planes) * LANES:
            return
        room = n if n <= self.n_positions else max(n, self.n_positions * 3 // 2)
        planes = aligned_planes(room, self._planes.shape[1])
        planes[: self.n_blocks] = self.planes
        alive = np.zeros(len(planes), np.uint64)
        alive[: self.n_blocks] = self.alive
        self._planes, self._alive, self._owned, self._forked = planes, alive, True, False

    # ------------------------------------------------------------------------------------------------ versions

    def fork(self) -> Items:
        """Items to change, while these stay as they are for those who read them.

        Ids and planes are shared: additions go to room behind all that these can see, and other changes of codes to a
        copy. Only the newest fork may be changed.
        """
        twin = twin_of(self)
        twin._alive, twin._forked = self._alive.copy(), True
        return twin

    def recoded(self, codes: Codes) -> Items:
        """A fork with other codes at all positions, dead ones too."""
        twin = self.fork()
        twin._planes, twin._owned, twin._forked = codes.planes, False, False
        return twin

    def follow(self, newer: Items, positions: np.ndarray, codes: Codes) -> np.ndarray:
        """Take over what came and went in a later fork of the same items; these are the codes of what it changed.

        Returns the positions that died.
        """
        died = _lanes(self.alive & ~newer.alive[: self.n_blocks])
        self._own(newer.n_positions)
        self._alive[: newer.n_blocks] = newer.alive
        self.ids, self.n_positions, self.n_dead = newer.ids, newer.n_positions, newer.n_dead
        self.put(positions, codes)
        return died

    def among(self, chosen: np.ndarray) -> Items:
        """Only some of the living, of which each has a bool, in the order of insertion."""
        some, bits = self.fork(), np.zeros(LANES * len(self._alive), np.bool_)
        bits[slice(self.n_positions) if self.n_dead == 0 else self.positions()] = chosen
        some._alive = np.packbits(bits, bitorder="little").view(np.uint64)  # all machines are little-endian
        some.n_dead = self.n_positions - int(np.count_nonzero(chosen))
        return some

    # ------------------------------------------------------------------------------------------------ files

    def get_state(self) -> State:
        """Codes, ids and masks of the living, from which `from_state` makes the same items."""
        self._owned = False  # the next change copies the planes
        return {"codes": self.all_codes(), "ids": self.ids.state(), "alive": self.alive.copy()}

    @classmethod
    def from_state(cls, state: State) -> Items:
        """The items that had this state."""
        codes, alive = state["codes"], state["alive"]
        items = cls(codes, Ids.from_state(state["ids"], len(codes)))
        if alive.shape != items.alive.shape or alive.dtype != np.uint64 or (alive & ~items.alive).any():
            raise FormatError(f"the masks of living items do not fit the blocks of {codes!r}.")
        items._alive = np.array(alive)
        items.n_dead = len(codes) - int(np.bitwise_count(alive).sum())
        return items


def twin_of(thing: T) -> T:
    """A copy that shares all it consists of, as `copy.copy` makes it, in a quarter of the time."""
    twin: T = object.__new__(type(thing))
    vars(twin).update(vars(thing))
    return twin


def _lanes(masks: np.ndarray) -> np.ndarray:
    """The positions whose bits are set, ascending."""
    return np.flatnonzero(np.unpackbits(masks.view(np.uint8), bitorder="little"))  # all machines are little-endian


def _changed_columns(old: Codes, new: Codes) -> np.ndarray:
    """The columns in which any code differs."""
    differing = np.zeros((old.n_planes, LANES), np.uint8)
    for start in range(0, len(old.planes), 4096):
        differing |= np.bitwise_or.reduce(old.planes[start : start + 4096] ^ new.planes[start : start + 4096], axis=0)
    places = np.bitwise_or.reduce(differing, axis=1).reshape(old.n_models, -1)
    return np.flatnonzero(np.unpackbits(places, axis=1, count=old.n_bits, bitorder="little"))
