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
from onlinehash.gpu.card import THREADS, Card, begin_products, fetch, load_cupy, source
from onlinehash.gpu.card import describe as describe_card
from onlinehash.gpu.upload import to_card
from onlinehash.numeric.signs import DOUBLE_EPS, canonical_dot, describe, smallest_norm
from onlinehash.numeric.views import read_only

#: Bytes of vectors or of projections that are on the card at a time, beside vectors that are there already.
BLOCK_BYTES = 512 << 20

#: One bit in so many may be in doubt before a block is left to the CPU, and so many bits of a small block.
DOUBTFUL_SHARE, LEAST_DOUBTS = 8, 1 << 16

#: Settings, of CuPy and of cuBLAS, under which cuBLAS rounds values before it multiplies them.
_LOOSE = (
    "CUPY_TF32",
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_EMULATE_SINGLE_PRECISION",
    "CUBLAS_EMULATE_DOUBLE_PRECISION",
)


def check_precision() -> None:
    """Refuse settings of the environment under which the bounds on rounding do not hold."""
    if loose := [name for name in _LOOSE if os.environ.get(name, "0") != "0"]:
        raise NotReady(f"exact results from a card need products in full precision; unset {loose[0]}.")


class SignKernels:
    """The kernels of `vectors.cu` that take signs. `functions` are those of `numeric.signs.describe`."""

    def __init__(self) -> None:
        self.xp: Any = load_cupy("encoding on a card")
        check_precision()
        begin_products(self.xp)
        self._grid = (8 * self.xp.cuda.Device().attributes["MultiProcessorCount"],)

    def card(self) -> Card | None:
        """The card as it is now."""
        return describe_card(self.xp)

    def norms(self, Z: Any) -> Any:
        """|z| of each row, in the precision of its values."""
        out = self.xp.empty(len(Z))
        self._run("norms", Z, (Z, np.int64(len(Z)), np.int32(Z.shape[1]), out))
        return out

    def bits(
        self,
        products: Any,
        norms: Any,
        d: int,
        functions: Any,
        columns: Any,
        limits: tuple[float, float],
        planes: Any,
        doubts: Any,
    ) -> Any:
        """Bits of rows whose projections and norms are given, into the planes; those in doubt become 0 and are listed.

        `columns` has the column of each place, or -1; `limits` are eps and the least norm. Returns how many bits are in
        doubt, of which as many are listed as there is room for, and whether a norm is not finite.
        """
        tally, (n, k) = self.xp.zeros(2, np.uint64), products.shape
        sizes = (np.int64(n), np.int32(k), np.int32(d), functions, np.int32(functions.shape[1]))
        places = (columns, np.int32(planes.shape[1]), *map(np.float64, limits), planes)
        listed = (tally, doubts, np.uint64(len(doubts)), tally[1:])
        self._run("bits", products, (products, norms, *sizes, *places, *listed))
        return tally

    def settle(
        self, Z: Any, W: Any, norms: Any, functions: Any, places: Any, smallest: float, doubts: Any, planes: Any
    ) -> None:
        """Decide bits in doubt, by a product in double precision and then by the canonical dot product."""
        sizes = (np.int32(len(W)), np.int32(Z.shape[1]), functions, np.int32(functions.shape[1]))
        listed = (np.float64(smallest), doubts, np.uint64(len(doubts)), planes)
        self._run("settle", Z, (Z, W, norms, *sizes, places, np.int32(planes.shape[1]), *listed))

    def _run(self, name: str, values: Any, arguments: tuple[Any, ...]) -> None:
        module_of(values.dtype.char).get_function(name)(self._grid, (THREADS,), arguments)


class SignsTwin:
    """The same in NumPy."""

    xp: Any = np

    def card(self) -> Card | None:
        """None: the memory is the host's."""
        return None

    def norms(self, Z: Any) -> Any:
        with np.errstate(over="ignore"):
            return np.sqrt((Z * Z).sum(axis=1).astype(np.float64))

    def bits(
        self,
        products: Any,
        norms: Any,
        d: int,
        functions: Any,
        columns: Any,
        limits: tuple[float, float],
        planes: Any,
        doubts: Any,
    ) -> Any:
        (n, k), (eps, smallest) = products.shape, limits
        thresholds, sizes, fixed = functions[:, :k]
        with np.errstate(invalid="ignore"):
            gaps = products.astype(np.float64) - thresholds
            certain = np.abs(gaps) > eps * ((d + 2) * (norms + smallest))[:, None] * sizes + fixed
        signs, rows = certain & (gaps >= 0), np.arange(n)
        for place in np.flatnonzero(columns >= 0):
            bits = signs[:, columns[place]].astype(np.uint8)
            planes[rows // LANES, place // 8, rows % LANES] |= bits << np.uint8(place % 8)
        listed = np.flatnonzero(~certain)[::-1]  # in any order: one that the rest must not rely on
        doubts[: len(listed)] = listed[: len(doubts)]
        return np.array([len(listed), not (norms < np.inf).all()], np.uint64)

    def settle(
        self, Z: Any, W: Any, norms: Any, functions: Any, places: Any, smallest: float, doubts: Any, planes: Any
    ) -> None:
        for row, k in zip(*divmod(doubts.astype(np.int64), len(W)), strict=True):
            gap = W[k].astype(np.float64) @ Z[row].astype(np.float64) - functions[0, k]
            reach = (Z.shape[1] + 2) * (norms[row] + smallest)
            if not abs(gap) > DOUBLE_EPS * reach * functions[1, k] + functions[2, k]:
                gap = canonical_dot(read_only(W[k]), read_only(Z[row])) - functions[0, k]
            planes[row // LANES, places[k] // 8, row % LANES] |= (gap >= 0) << places[k] % 8


class CardSigns:
    """Functions and the places of their bits, as in `numeric.signs.Signs`: W is `(k, d)`, thresholds are float64."""

    def __init__(
        self,
        W: np.ndarray,
        thresholds: np.ndarray,
        places: np.ndarray,
        n_planes: int,
        kernels: SignKernels | SignsTwin | None = None,
    ) -> None:
        self._kernels = SignKernels() if kernels is None else kernels
        self._xp = xp = self._kernels.xp
        columns = np.full(8 * n_planes, -1, np.int32)
        columns[places] = np.arange(len(W))
        self._W, self._functions = xp.asarray(W), xp.asarray(describe(read_only(W), read_only(thresholds)))
        self._columns, self._places = xp.asarray(columns), xp.asarray(places.astype(np.int32))
        self._limits = float(np.finfo(W.dtype).eps), smallest_norm(W.shape[1], W.dtype)

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
            rows = to_card(xp, Z[start : start + size])
            at = slice(first_block + start // LANES, first_block + -(-(start + len(rows)) // LANES))
            on_card = xp.zeros(planes[at].shape, np.uint8)
            finish = self._begin(rows, on_card)
            planes[at] = 0  # while the card computes, the system gives us the memory page by page
            if finish():
                fetch(on_card, planes[at])
            else:
                left.append(slice(start, start + len(rows)))
        return left

    def _begin(self, Z: Any, planes: Any) -> Callable[[], bool]:
        """Have the card compute the bits of some rows; what is returned waits for them and settles what is in doubt,
        and says whether it could."""
        xp, (n, d), k = self._xp, Z.shape, len(self._W)
        doubts, norms = xp.empty(max(LEAST_DOUBTS, n * k // DOUBTFUL_SHARE), np.uint64), self._kernels.norms(Z)
        with np.errstate(over="ignore", invalid="ignore"):
            products = xp.matmul(Z, self._W.T)
        tally = self._kernels.bits(products, norms, d, self._functions, self._columns, self._limits, planes, doubts)

        def finish() -> bool:
            n_doubts, overflowed = (int(value) for value in fetch(tally))
            if overflowed:
                checks.finite(fetch(Z[xp.flatnonzero(~xp.isfinite(norms))]))
            if n_doubts > len(doubts):
                return False
            if n_doubts:
                of = (Z, self._W, norms, self._functions, self._places, self._limits[1])
                self._kernels.settle(*of, doubts[:n_doubts], planes)
            return True

        return finish


@cache
def module_of(char: str) -> Any:
    """The kernels of `vectors.cu` for a precision, by its character in NumPy."""
    return load_cupy().RawModule(code=source("vectors.cu"), options=options(char))


def options(char: str) -> tuple[str, ...]:
    """What the compiler is told of a precision."""
    return "-std=c++17", "-DREAL=" + {"f": "float", "d": "double"}[char]
