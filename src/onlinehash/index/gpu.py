"""`GpuIndex`: exact search by looking at every code, on a CUDA card."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from onlinehash.codes import Codes
from onlinehash.codes.layout import LANES, aligned_planes
from onlinehash.errors import InvalidInput
from onlinehash.gpu.codes import CardCodes, Runs
from onlinehash.gpu.kernels import Kernels
from onlinehash.gpu.shape import Shape, distances_of, positions_of
from onlinehash.gpu.upload import joined
from onlinehash.index.base import Index
from onlinehash.index.items import Items
from onlinehash.types import State

if TYPE_CHECKING:
    from onlinehash.learners.encoder import Encoder

#: Bytes of vectors that are encoded at once.
ENCODED_BYTES = 1 << 27

Blocks = Iterable[tuple[int, np.ndarray]]
Found = tuple[np.ndarray, np.ndarray]


class GpuIndex(Index):
    """All codes on a CUDA card, scanned there; the answers are those of a `FlatIndex`, ties included.

    The items stay in the memory of the host too (or in a file that is mapped), and the card follows every change. Codes
    that the card has no room for are refused. `n_jobs` has no effect on a card. The card is CuPy's current device in
    the thread that makes the index; other threads search it there, whatever their current device is.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import FlatIndex, GpuIndex, OnlineHashing
    >>> X = np.random.default_rng(0).standard_normal((1000, 16))
    >>> codes = OnlineHashing(n_bits=32, random_state=0).observe(X).encode(X)
    >>> found, expected = (index.search(codes[:5], k=3) for index in (GpuIndex(codes), FlatIndex(codes)))
    >>> bool((found.ids == expected.ids).all())
    True
    """

    _card: CardCodes

    def _make_runs(self, shape: Shape) -> Runs:
        return Kernels(shape)

    def _nearest(self, queries: Codes, k: int, items: Items) -> Found:
        keys = self._card.nearest(self._words_of(queries), k, self._mask(items))
        return distances_of(keys), positions_of(keys)

    def _within(self, queries: Codes, radius: int, items: Items) -> list[Found]:
        found = self._card.within(self._words_of(queries), radius, self._mask(items))
        return [(distances_of(keys), positions_of(keys)) for keys in found]

    def _words_of(self, queries: Codes) -> np.ndarray:
        return self._card.shape.words_of(queries.rows())

    def _mask(self, items: Items) -> Any | None:
        """A mask of these items on the card; None if they are all living items, which the card knows."""
        return None if items is self._items else self._card.mask(items.alive)

    # ------------------------------------------------------------------------------------------------ changes
    #
    # The card comes first: what it refuses must not be in the items.

    def _add(self, codes: Codes, ids: ArrayLike | None, are_new: bool) -> None:
        if isinstance(codes, Codes):  # anything else is refused below
            self._card.reserve(self._items.n_positions + len(codes))
        super()._add(codes, ids, are_new)

    def update(self, ids: ArrayLike, codes: Codes) -> None:
        self._card.detach(self._items.n_positions)
        super().update(ids, codes)

    def put(self, positions: np.ndarray, codes: Codes) -> None:
        if len(positions):
            self._card.detach(self._items.n_positions)
        super().put(positions, codes)

    def replace(self, codes: Codes, encoder: Encoder | None = None) -> None:
        self._card.detach(self._items.n_positions)
        super().replace(codes, encoder)

    def bury_at(self, positions: np.ndarray) -> None:
        if len(positions):
            self._card.bury(positions, self._items.alive)  # codes stay where they are
        self._items.remove(positions)

    def follow(self, newer: Index, positions: np.ndarray, codes: Codes) -> None:
        self._card.reserve(newer.items.n_positions)
        super().follow(newer, positions, codes)

    def check_addition(self, n: int) -> None:
        """Refuse n more items if the card may have no room for them: behind the others, or in a larger copy."""
        self._card.check_growth(self._items.n_positions + n)

    def check_change(self, n: int) -> None:
        """Refuse changes of items, and n more of them, if the card may have no room for the copy that they go to."""
        self._card.check_copy(self._items.n_positions + n)

    def check_removal(self) -> None:
        """Refuse a removal if the card may have no room for the fork that it goes to."""
        self._card.check_mask()

    def compact(self) -> None:
        """Drop dead positions, unless others read these codes and the card has no room for a second copy."""
        try:
            self._card.own(len(self))
        except InvalidInput:
            return
        super().compact()

    def fork(self) -> GpuIndex:
        twin = super().fork()
        twin._card = self._card.fork()
        return twin

    def _touched(self, positions: np.ndarray) -> None:
        self._card.put(self._items.planes, self._items.n_positions, positions)
        self._note_alive(np.unique(positions // 64))

    def _note_alive(self, blocks: np.ndarray | None) -> None:
        self._card.set_alive(self._items.alive if self._items.n_dead else None, blocks)

    def _replaced(self, columns: np.ndarray | None) -> None:
        if not hasattr(self, "_card"):
            self._card = CardCodes(self._make_runs(Shape(self._n_models, self._per_model)))
        self._card.put(self._items.planes, self._items.n_positions)
        self._note_alive(None)

    def _restore(self, state: State) -> None:
        self._replaced(None)

    def planes_by(self, encoder: Encoder, blocks: Blocks, stop: Callable[[], bool]) -> np.ndarray | None:
        """The planes that an encoder makes of the vectors at all positions, on the card; None when stopped.

        `blocks` gives the vectors in order, each block with the number of its first position.
        """
        n = self._items.n_positions
        planes = aligned_planes(n, self._items.planes.shape[1])
        with self._card.here(), self._card.refusing(f"the encoding of {n:,} vectors"):
            kernels = self._card.signs()
            signs = encoder.card_signs(kernels)
            for first, some in _together(blocks, n):
                if stop():
                    return None
                rows = joined(kernels.xp, some) if encoder.feature_map is None else np.concatenate(some)
                encoder.encode_by_card(signs, rows, planes, first // LANES)
        return planes

    @property
    def card_bytes(self) -> int:
        """Bytes on the card."""
        return self._card.nbytes


def _together(blocks: Blocks, n: int) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Blocks of the first n rows that follow one another, and where the first of them begins."""
    held: list[np.ndarray] = []
    start = n_bytes = 0
    for first, rows in blocks:
        if not held:
            start, n_bytes = first, 0
        held.append(rows[: n - first])
        n_bytes += rows.nbytes
        if n_bytes >= ENCODED_BYTES:
            yield start, held
            held = []
    if held:
        yield start, held
