"""Marks of rows, computed along with their bits or for the bits in doubt alone; what they mean is said in `ruler`."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from onlinehash.numeric.kernels import njit
from onlinehash.numeric.ruler import Constants
from onlinehash.numeric.signs import DOUBLE_EPS, Signs, canonical_dot, describe, double_dot
from onlinehash.numeric.views import read_only

#: Rows that are asked for before their turn.
_AHEAD = 4


class SignsAndMarks:
    """Functions whose bits are computed together with marks; made once for any number of rows, as `Signs` are.

    Where only some columns are to be `marked`, constants are of these.
    """

    def __init__(
        self,
        W: np.ndarray,
        thresholds: np.ndarray,
        places: np.ndarray,
        constants: Constants,
        marked: np.ndarray | None = None,
    ) -> None:
        self._centre, self._measures = constants[0], constants[1:]
        self._signs = Signs(W, thresholds, places)
        self._marked = None if marked is None or len(marked) == len(W) else marked
        functions = describe(read_only(W), read_only(thresholds))
        self._functions = functions if self._marked is None else np.take(functions, self._marked, axis=1)

    def put(self, Z: np.ndarray, planes: np.ndarray, first_block: int, marks: np.ndarray, first: int = 0) -> None:
        """`Signs.put`, and marks of these bits: that of row n of Z and marked column k is `marks[k, first + n]`."""

        def look(start: int, projections: np.ndarray, sizes: np.ndarray) -> None:
            if self._marked is not None:
                projections = np.take(projections, self._marked, axis=1)
            _mark_rows(projections, sizes, Z.shape[1], self._functions, *self._measures, marks, first + start)

        self._signs.put(Z, planes, first_block, look, self._centre)


def settle_doubts(
    Z: np.ndarray,
    at: np.ndarray,
    numbers: np.ndarray,
    W: np.ndarray,
    thresholds: np.ndarray,
    places: np.ndarray,
    planes: np.ndarray,
    first_block: int,
    constants: Constants,
    marks: np.ndarray,
) -> int:
    """Compute the bits whose mark is zero, and their marks; how many there were.

    Row `at[i]` of Z is code `numbers[i]` from `first_block` on, and its marks are `marks[:, numbers[i]]`.
    """
    Z, W = read_only(Z), read_only(W)
    functions = describe(W, read_only(thresholds))
    return int(_settle(Z, at, numbers, W, functions, places, planes, first_block, *constants, marks))


# ------------------------------------------------------------------ kernels


def _prefetch_row(typingctx: Any, Z: Any, n: Any) -> Any:
    """Ask for row n of Z, line by line: rows in doubt lie too far apart for the processor to guess the next."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, b, args[0])
        width, byte, flag = b.extract_value(array.shape, 1), ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        prefetch = cgutils.get_or_insert_function(b.module, kind, "llvm.prefetch.p0i8")
        per_line = width.type(64 // context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype)))
        row = b.gep(array.data, [b.mul(args[1], width)])
        with cgutils.for_range(b, b.udiv(b.add(width, b.sub(per_line, width.type(1))), per_line)) as loop:
            line = b.bitcast(b.gep(row, [b.mul(loop.index, per_line)]), byte)
            b.call(prefetch, [line, flag(0), flag(2), flag(1)])  # to read, into the second cache, data
        return context.get_dummy_value()

    return types.void(Z, n), codegen


prefetch_row: Any = intrinsic(_prefetch_row)


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _distance_and_dot(centre: np.ndarray, W: np.ndarray, k: int, Z: np.ndarray, n: int) -> tuple[float, float]:
    """|z - c| and w . z for row n, in its precision and in any order: one pass, as what takes time is reading it."""
    square, dot = Z.dtype.type(0), Z.dtype.type(0)
    for i in range(Z.shape[1]):
        z = Z[n, i]
        gap = z - centre[i]
        square += gap * gap
        dot += W[k, i] * z
    return np.sqrt(np.float64(square)), np.float64(dot)


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _dot(W: np.ndarray, k: int, Z: np.ndarray, n: int) -> float:
    total = Z.dtype.type(0)
    for i in range(Z.shape[1]):
        total += W[k, i] * Z[n, i]
    return np.float64(total)


@njit(nogil=True, cache=True)
def _mark(gap: float, error: float, share: float, per_unit: float, owed: float) -> np.uint8:
    """The mark of a row whose w.z - b is `gap` up to the error, where `share` is 1 / R(z)."""
    units = min(((abs(gap) - error) * share + owed) * per_unit, 255.0)
    return np.uint8(np.int32(units)) if units >= 1.0 else np.uint8(0)  # also where it is not a number


@njit(nogil=True, cache=True)
def _mark_rows(
    projections: np.ndarray,
    sizes: np.ndarray,
    d: int,
    functions: np.ndarray,
    scales: np.ndarray,
    radius: float,
    c_norm: float,
    eps: float,
    smallest: float,
    marks: np.ndarray,
    first: int,
) -> None:
    """The marks of rows whose projections and sizes are given; they are the rows first, first + 1, ... of `marks`.

    |z - c|^2 = |z|^2 - 2 z.c + |c|^2, each rounded up, is found without another look at the row.
    """
    n_columns, width = scales.shape[1], d + 2
    lines = np.empty((64, n_columns), np.uint8)  # marks lie column by column: rows are gathered until lines are full
    for start in range(0, sizes.shape[1], 64):
        n = min(64, sizes.shape[1] - start)
        for j in range(n):
            norm = sizes[0, start + j] * (1 + width * eps) + smallest
            error = eps * width * norm
            square = norm * norm + c_norm * c_norm - 2 * (sizes[1, start + j] - error * c_norm)
            share = 1 / max(np.sqrt(max(square, 0.0)), radius) if square < np.inf else 0.0
            for k in range(n_columns):
                gap = np.float64(projections[start + j, k]) - functions[0, k]
                off = error * functions[1, k] + functions[2, k]
                lines[j, k] = _mark(gap, off, share, scales[0, k], scales[1, k])
        for k in range(n_columns):
            for j in range(n):
                marks[k, first + start + j] = lines[j, k]


@njit(nogil=True, cache=True)
def _settle(
    Z: np.ndarray,
    at: np.ndarray,
    numbers: np.ndarray,
    W: np.ndarray,
    functions: np.ndarray,
    places: np.ndarray,
    planes: np.ndarray,
    first_block: int,
    centre: np.ndarray,
    scales: np.ndarray,
    radius: float,
    c_norm: float,
    eps: float,
    smallest: float,
    marks: np.ndarray,
) -> int:
    width, lanes, computed = Z.shape[1] + 2, planes.shape[2], 0
    for i in range(at.shape[0]):
        row, number = at[i], numbers[i]
        if i + _AHEAD < at.shape[0]:
            prefetch_row(Z, at[i + _AHEAD])
        block, lane = first_block + number // lanes, number % lanes
        is_measured, reach, share = False, 0.0, 0.0
        for k in range(W.shape[0]):
            if marks[k, number] == 0:
                computed += 1
                if is_measured:
                    dot = _dot(W, k, Z, row)
                else:
                    distance, dot = _distance_and_dot(centre, W, k, Z, row)
                    distance = distance * (1 + width * eps) + smallest
                    is_measured, reach, share = True, width * (distance + c_norm), 1 / max(distance, radius)
                gap = dot - functions[0, k]
                off = eps * reach * functions[1, k] + functions[2, k]
                positive = gap >= 0.0
                if abs(gap) > off:
                    marks[k, number] = _mark(gap, off, share, scales[0, k], scales[1, k])
                else:
                    gap = double_dot(W[k], Z[row]) - functions[0, k]
                    if abs(gap) > DOUBLE_EPS * reach * functions[1, k] + functions[2, k]:
                        positive = gap >= 0.0
                    else:
                        positive = canonical_dot(W[k], Z[row]) >= functions[0, k]
                plane, bit = places[k] // 8, places[k] % 8
                planes[block, plane, lane] = planes[block, plane, lane] & ~(1 << bit) | positive << bit
    return computed
