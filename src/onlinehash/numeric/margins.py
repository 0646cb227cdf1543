"""Margins: how far a hash function may move before a row's bit can change.

A bit is the sign of w.z - b. With c a fixed centre and R(z) = max(|z - c|, radius), a function that moves by dw and db
moves every row's w.z - b by at most

    |dw.z - db|  =  |dw.(z - c) - (db - dw.c)|  <=  R(z) drift,      drift = |dw| + |db - dw.c| / radius

so that a row whose |w.z - b| / R(z) is more than all drift since it was computed keeps its bit. A *mark* is a byte that
holds a lower bound of it, in units of the column:

    |w.z - b|  >=  (mark * unit - owed) R(z)         `owed`: drift that is not yet subtracted from marks, below a unit

A mark of zero is a doubt. All rounding here is towards doubt, and the last hundredth of a unit is never spent: it is
far more than what the canonical dot product (see `signs`) may be off, so that a bit without doubt is the one that
encoding gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from onlinehash.numeric.signs import (
    DOUBLE_EPS,
    canonical_dot,
    describe,
    double_dot,
    norm_of,
    sign_planes,
    smallest_norm,
)
from onlinehash.numeric.views import read_only

#: The largest mark: "so much, or more".
MOST = 255

#: Steps that leave nothing of any mark: of columns whose drift is too large, or has no bound.
ALL = MOST + 1

#: The mean margin in units: fine enough that rounding down costs little, coarse enough that few marks are `MOST`.
_UNITS_OF_THE_MEAN = 48

#: Rows that a ruler is chosen by.
_SAMPLE = 512

#: What kernels want of a ruler: centre, scales of columns, radius, |c|, and the precision of rows.
Constants = tuple[np.ndarray, np.ndarray, float, float, float, float]

#: Rows that are asked for before their turn.
_AHEAD = 2

_RESERVE = 0.01
_DOWN, _UP = 1 - 1e-12, 1 + 1e-12


@dataclass(frozen=True, eq=False)
class Ruler:
    """What marks are measured by: centre and radius for all columns, unit and owed drift for each."""

    centre: np.ndarray
    radius: float
    units: np.ndarray
    owed: np.ndarray

    @classmethod
    def of(cls, Z: np.ndarray, W: np.ndarray, thresholds: np.ndarray, centre: np.ndarray | None) -> Ruler:
        """A ruler that suits rows like these; a centre that is the learner's mean makes db - dw.c vanish."""
        c = (Z.mean(axis=0, dtype=np.float64) if centre is None else centre).astype(Z.dtype)
        radius = float(_distances(Z, c).mean()) / 2
        radius = radius if 0 < radius < np.inf else 1.0
        ruler = cls(c, radius, np.ones(len(W)), np.zeros(len(W)))
        return ruler.renewed(Z, W, thresholds, np.arange(len(W)))

    def renewed(self, Z: np.ndarray, W: np.ndarray, thresholds: np.ndarray, columns: np.ndarray) -> Ruler:
        """The same with units chosen anew for some columns, whose marks must then all be made anew."""
        Z, W = Z.astype(np.float64), W[columns].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            reach = np.maximum(_distances(Z, self.centre), self.radius)[:, None]
            mean = (np.abs(Z @ W.T - thresholds[columns]) / reach).mean(axis=0)
            least = np.sqrt((W * W).mean(axis=1)) / 1000
            chosen = np.maximum(mean / _UNITS_OF_THE_MEAN, least)
        units, owed = self.units.copy(), self.owed.copy()
        units[columns], owed[columns] = np.where((chosen > 0) & (chosen < np.inf), chosen, 1.0), 0.0
        return replace(self, units=units, owed=owed)

    def moved(
        self, W: np.ndarray, thresholds: np.ndarray, old_W: np.ndarray, old_thresholds: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, Ruler]:
        """How many units to subtract from the marks of columns whose functions moved, and the ruler afterwards."""
        W, old_W = (V[columns].astype(np.float64) for V in (W, old_W))
        b, old_b = thresholds[columns], old_thresholds[columns]
        units, width, c = self.units[columns], W.shape[1] + 2, self.centre.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            dW = W - old_W
            c_norm = float(np.linalg.norm(c)) * _UP
            length = np.linalg.norm(dW, axis=1) * (1 + width * DOUBLE_EPS) + 1e-150  # which squares may lose
            shift = np.abs((b - old_b) - dW @ c)
            shift += DOUBLE_EPS * (2 * width * length * c_norm + 4 * (np.abs(b) + np.abs(old_b)))
            drift = (self.owed[columns] + length + shift / self.radius) * _UP
            steps = np.floor(drift / units + _RESERVE)
            # What the canonical dot product may be off, with a factor of four to spare, in the units of a margin.
            small = (width * DOUBLE_EPS) ** 2 * np.linalg.norm(W, axis=1)
            off = 4 * (small + (small * c_norm + 1e-15 * np.abs(b) + width * np.finfo(np.float64).tiny) / self.radius)
            bounded = (steps < ALL) & (off < _RESERVE / 2 * units)
            owed = self.owed.copy()
            left = np.maximum(drift - steps * units, 0.0) + 1e-12 * drift
        owed[columns] = np.where(bounded, left, 0.0)
        return np.where(bounded, steps, ALL).astype(np.int64), replace(self, owed=owed)

    def constants(self, columns: np.ndarray) -> Constants:
        """What kernels want of it, for some columns."""
        limits = np.finfo(self.centre.dtype)
        smallest = smallest_norm(len(self.centre), self.centre.dtype)
        scales = np.stack([1 / self.units[columns] * _DOWN, self.owed[columns]])
        c_norm = norm_of(read_only(self.centre)) * (1 + len(self.centre) * float(limits.eps)) + smallest
        return read_only(self.centre), scales, self.radius, c_norm, float(limits.eps), smallest


def sign_and_mark(
    Z: np.ndarray,
    W: np.ndarray,
    thresholds: np.ndarray,
    places: np.ndarray,
    planes: np.ndarray,
    first_block: int,
    constants: Constants,
    marks: np.ndarray,
    first: int = 0,
) -> None:
    """`sign_planes`, and the marks of all these bits: that of row n of Z and row k of W is `marks[k, first + n]`."""
    functions = describe(read_only(W), read_only(thresholds))

    def look(start: int, rows: np.ndarray, projections: np.ndarray) -> None:
        _mark_rows(projections, rows, functions, *constants, marks, first + start)

    sign_planes(Z, W, thresholds, places, planes, first_block, look)


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


def sample(Z: np.ndarray) -> np.ndarray:
    """Rows enough to choose a ruler by."""
    return Z[:: -(-len(Z) // _SAMPLE)]


def _distances(Z: np.ndarray, centre: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        distances: np.ndarray = np.linalg.norm(Z.astype(np.float64) - centre, axis=1)
    return distances


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
            b.call(prefetch, [line, flag(0), flag(3), flag(1)])  # to read, into the nearest cache, data
        return context.get_dummy_value()

    return types.void(Z, n), codegen


prefetch_row: Any = intrinsic(_prefetch_row)


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _distance(Z: np.ndarray, n: int, centre: np.ndarray) -> float:
    """|z - c| for row n, in its precision and in any order."""
    total = Z.dtype.type(0)
    for i in range(centre.shape[0]):
        gap = Z[n, i] - centre[i]
        total += gap * gap
    return np.sqrt(np.float64(total))


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
    Z: np.ndarray,
    functions: np.ndarray,
    centre: np.ndarray,
    scales: np.ndarray,
    radius: float,
    c_norm: float,
    eps: float,
    smallest: float,
    marks: np.ndarray,
    first: int,
) -> None:
    """The marks of rows whose projections are given; they are the rows first, first + 1, ... of `marks`."""
    n_columns, width = projections.shape[1], Z.shape[1] + 2
    lines = np.empty((64, n_columns), np.uint8)  # marks lie column by column: rows are gathered until lines are full
    for start in range(0, Z.shape[0], 64):
        n = min(64, Z.shape[0] - start)
        for j in range(n):
            distance = _distance(Z, start + j, centre) * (1 + width * eps) + smallest
            error, share = eps * width * (distance + c_norm), 1 / max(distance, radius)
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
        distance = _distance(Z, row, centre) * (1 + width * eps) + smallest
        reach, share = width * (distance + c_norm), 1 / max(distance, radius)
        for k in range(W.shape[0]):
            if marks[k, number] == 0:
                computed += 1
                gap = _dot(W, k, Z, row) - functions[0, k]
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
                block, lane = first_block + number // lanes, number % lanes
                planes[block, plane, lane] = planes[block, plane, lane] & ~(1 << bit) | positive << bit
    return computed
