"""Signs of projections on a card, under the numeric law: the bits are the CPU's to the last one.

The product is cuBLAS's. A projection farther from its threshold than the product's rounding error has a certain sign,
in whatever order it was summed; the rest is decided on the card by a product in double precision and, where that leaves
a doubt, by the canonical dot product, whose every operation is rounded as on the CPU. See `numeric.signs`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.codes.layout import LANES
from onlinehash.errors import NotReady
from onlinehash.gpu.card import load_cupy
from onlinehash.gpu.kernels import THREADS, source
from onlinehash.numeric.signs import describe, smallest_norm
from onlinehash.numeric.views import read_only

#: Bytes of vectors or of projections that are on the card at a time, beside vectors that are there already.
BLOCK_BYTES = 512 << 20

#: One bit in so many may be in doubt before a block is left to the CPU.
DOUBTFUL_SHARE = 8

#: Settings under which cuBLAS rounds values before it multiplies them.
_LOOSE = ("CUPY_TF32", "CUBLAS_EMULATE_SINGLE_PRECISION", "NVIDIA_TF32_OVERRIDE")


def check_precision() -> None:
    """Refuse settings of the environment under which the bounds on rounding do not hold."""
    if loose := [name for name in _LOOSE if os.environ.get(name, "0") != "0"]:
        raise NotReady(f"exact results from a card need products in full precision; unset {loose[0]}.")


class CardSigns:
    """Functions and the places of their bits, as in `numeric.signs.Signs`: W is `(k, d)`, thresholds are float64."""

    def __init__(self, W: np.ndarray, thresholds: np.ndarray, places: np.ndarray, n_planes: int) -> None:
        self._xp = xp = load_cupy("encoding on a card")
        check_precision()
        functions = describe(read_only(W), read_only(thresholds))
        columns = np.full(8 * n_planes, -1, np.int32)
        columns[places] = np.arange(len(W))
        self._W, self._n_planes = xp.asarray(W), n_planes
        self._functions, self._stride = xp.asarray(functions), np.int32(functions.shape[1])
        self._columns, self._places = xp.asarray(columns), xp.asarray(places.astype(np.int32))
        self._eps, self._smallest = float(np.finfo(W.dtype).eps), smallest_norm(W.shape[1], W.dtype)
        self._blocks = 8 * xp.cuda.Device().attributes["MultiProcessorCount"]

    def put(self, Z: Any, planes: np.ndarray, first_block: int = 0) -> list[slice]:
        """Bit `places[k]` of code n = is the projection of row n of Z at or above threshold k? All others become 0.

        Z is `(n, d)`, C-contiguous and of W's dtype, on the host or on the card. Rows that are not finite are refused.
        Returns the rows, in slices of whole blocks of codes, that are left to the CPU because too many bits are in
        doubt.
        """
        xp, left = self._xp, []
        values = len(self._W) if isinstance(Z, xp.ndarray) else max(Z.shape[1], len(self._W))
        size = max(1, BLOCK_BYTES // (Z.dtype.itemsize * values) // LANES) * LANES
        for start in range(0, len(Z), size):
            rows = xp.asarray(Z[start : start + size])
            at = slice(first_block + start // LANES, first_block + -(-(start + len(rows)) // LANES))
            on_card = xp.zeros(planes[at].shape, np.uint8)
            finish = self._begin(rows, on_card)
            planes[at] = 0  # while the card computes, the system gives us the memory page by page
            if finish():
                on_card.get(out=planes[at])
            else:
                left.append(slice(start, start + len(rows)))
        return left

    def _begin(self, Z: Any, planes: Any) -> Callable[[], bool]:
        """Have the card compute the bits of some rows; what is returned waits for them and settles what is in doubt,
        and says whether it could."""
        xp, (n, d), k = self._xp, Z.shape, len(self._W)
        module, norms, tally = module_of(Z.dtype.char), xp.empty(n), xp.zeros(2, np.uint64)
        room = max(1 << 16, n * k // DOUBTFUL_SHARE)
        doubts, grid, block = xp.empty(room, np.uint64), (self._blocks,), (THREADS,)
        module.get_function("norms")(grid, block, (Z, np.int64(n), np.int32(d), norms))
        products = xp.matmul(Z, self._W.T)
        sizes = (np.int32(k), np.int32(d), self._functions, self._stride)
        module.get_function("bits")(
            grid,
            block,
            (
                products,
                norms,
                np.int64(n),
                *sizes,
                self._columns,
                np.int32(self._n_planes),
                np.float64(self._eps),
                np.float64(self._smallest),
                planes,
                tally,
                doubts,
                np.uint64(room),
                tally[1:],
            ),
        )

        def finish() -> bool:
            n_doubts, overflowed = (int(value) for value in tally.get())
            if overflowed:
                bad = xp.flatnonzero(~xp.isfinite(norms)).get()
                checks.finite(xp.asnumpy(Z[bad]))
            if n_doubts > room:
                return False
            if n_doubts:
                tail = (self._places, np.int32(self._n_planes), np.float64(self._smallest), doubts, np.uint64(n_doubts))
                module.get_function("settle")(grid, block, (Z, self._W, norms, *sizes, *tail, planes))
            return True

        return finish


@cache
def module_of(char: str) -> Any:
    """The kernels of `vectors.cu` for a precision, by its character in NumPy."""
    real = {"f": "float", "d": "double"}[char]
    return load_cupy().RawModule(code=source("vectors.cu"), options=("-std=c++17", f"-DREAL={real}"))
