"""Dot products of rows in one fixed order, near the speed of a BLAS product.

A BLAS product rounds the same dot product differently depending on how many rows and columns are multiplied at
once. What feeds learning must not: a batch has to give, bit for bit, what the loop over its rows gives. So every
product here is computed the same way wherever it stands in a matrix:

    lane l  =  fma over i = l, l + LANES, l + 2 LANES, ...   of  w[i] x[i]
    result  =  lanes folded in halves: l + (l + LANES/2), then quarters, ... down to one

What makes it fast is that a *tile* of several rows of W times several rows of X keeps all its lanes in registers, so
that a value once loaded serves several products. Tiles change which products are computed together, never the order
inside one; the fused multiply-add makes the result the same on every CPU.

Mixed rows, sums of rows times coefficients, are chains of fused multiply-adds in the order of the rows; there, too, a
tile keeps its sums in registers.

Numba cannot be told that a reduction may be split into exactly these lanes, hence the few lines of LLVM.
"""

from __future__ import annotations

import math
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import DTypeLike

from onlinehash.numeric.kernels import njit

#: Rows are padded with zeros to a multiple of this many values (both dtypes: 16 float32 or 2 x 8 float64).
ROW_MULTIPLE = 16


def padded_width(n: int) -> int:
    """The row length the kernels want for `n` values."""
    return -(-n // ROW_MULTIPLE) * ROW_MULTIPLE


def aligned_zeros(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """A matrix of zeros whose rows, padded, begin at a cache line: a vector across two lines costs two loads."""
    rows = aligned_empty((shape[0], padded_width(shape[1])), dtype)
    rows[:] = 0
    return rows


def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """A matrix that begins at a cache line, and is not padded."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    buffer = np.empty(n_bytes + 64, np.uint8)
    start = -buffer.__array_interface__["data"][0] % 64  # `ctypes.data` takes ten times as long
    return np.asarray(buffer[start : start + n_bytes].view(dtype).reshape(shape))


def pad_rows(X: np.ndarray) -> np.ndarray:
    """A copy of X whose rows end in zeros up to the padded width."""
    out = aligned_zeros(X.shape, X.dtype)
    out[:, : X.shape[1]] = X
    return out


def _has_wide_registers() -> bool:
    """AVX-512 has 32 registers of 16 lanes; elsewhere a 16-lane value takes two (AVX2) or four (NEON) registers."""
    return bool(llvm.get_host_cpu_features().get("avx512f", False))


def _make_tile(n_w: int, n_x: int, gather: bool = False) -> Any:
    """An intrinsic for `out[p + j, k + i] = W[k + i] . X[p + j]`, i < n_w, j < n_x, all lanes held in registers.

    With `gather`, the rows of W (and columns of out) are `rows[k + i]` instead of `k + i`.
    """

    @intrinsic
    def tile(typingctx: Any, W: Any, rows: Any, k: Any, X: Any, p: Any, out: Any) -> Any:
        def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
            vector, fma, bytes_ = _vectors_of(context, b, signature.args[0].dtype)
            lanes = vector.count
            W_, rows_, X_, out_ = (context.make_array(signature.args[a])(context, b, args[a]) for a in (0, 1, 3, 5))
            k_, p_ = args[2], args[4]
            width = b.extract_value(W_.shape, 1)

            def const(value: int) -> Any:
                return ir.Constant(k_.type, value)

            def line(array: Any, at: Any, length: Any) -> Any:
                return b.gep(array.data, [b.mul(at, length)])

            columns = [b.add(k_, const(i)) for i in range(n_w)]
            if gather:
                columns = [b.load(b.gep(rows_.data, [column])) for column in columns]
            w_rows = [line(W_, column, width) for column in columns]
            x_rows = [line(X_, b.add(p_, const(j)), b.extract_value(X_.shape, 1)) for j in range(n_x)]
            sums = [[cgutils.alloca_once_value(b, ir.Constant(vector, None)) for _ in w_rows] for _ in x_rows]
            with cgutils.for_range(b, b.udiv(width, const(lanes))) as loop:
                at = b.mul(loop.index, const(lanes))
                xs = [_load(b, vector, x_row, at, bytes_) for x_row in x_rows]
                for i, w_row in enumerate(w_rows):
                    w = _load(b, vector, w_row, at, bytes_)
                    for x, of_point in zip(xs, sums, strict=True):
                        b.store(b.call(fma, [w, x, b.load(of_point[i])]), of_point[i])

            totals = _fold(b, [b.load(total) for of_point in sums for total in of_point], lanes)
            for j in range(n_x):
                out_line = line(out_, b.add(p_, const(j)), b.extract_value(out_.shape, 1))
                if gather:
                    for i, column in enumerate(columns):
                        _store(b, totals, j * n_w + i, 1, b.gep(out_line, [column]), bytes_)
                else:
                    _store(b, totals, j * n_w, n_w, b.gep(out_line, [k_]), bytes_)
            return context.get_dummy_value()

        return types.void(W, rows, k, X, p, out), codegen

    return tile


def _make_mix(n_rows: int, n_vectors: int) -> Any:
    """An intrinsic for `out[i] = sum over n of C[n, k + i] X[n]`, i < n_rows, in so many vectors of columns from `at`.

    All sums are held in registers; they are fused multiply-adds in the order of n.
    """

    @intrinsic
    def mix(typingctx: Any, C: Any, k: Any, X: Any, at: Any, out: Any) -> Any:
        def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
            vector, fma, bytes_ = _vectors_of(context, b, signature.args[2].dtype)
            C_, X_, out_ = (context.make_array(signature.args[a])(context, b, args[a]) for a in (0, 2, 4))
            n, n_columns = (b.extract_value(C_.shape, axis) for axis in (0, 1))
            width, k_, at_ = b.extract_value(X_.shape, 1), args[1], args[3]

            def const(value: int) -> Any:
                return ir.Constant(k_.type, value)

            places = [b.add(at_, const(v * vector.count)) for v in range(n_vectors)]
            sums = [[cgutils.alloca_once_value(b, ir.Constant(vector, None)) for _ in places] for _ in range(n_rows)]
            with cgutils.for_range(b, n) as loop:
                x_row = b.gep(X_.data, [b.mul(loop.index, width)])
                xs = [_load(b, vector, x_row, place, bytes_) for place in places]
                first = b.gep(C_.data, [b.add(b.mul(loop.index, n_columns), k_)])
                for i, of_row in enumerate(sums):
                    factor = _spread(b, vector, b.load(b.gep(first, [const(i)])))
                    for x, total in zip(xs, of_row, strict=True):
                        b.store(b.call(fma, [factor, x, b.load(total)]), total)
            for i, of_row in enumerate(sums):
                for place, total in zip(places, of_row, strict=True):
                    target = b.gep(out_.data, [b.add(b.mul(const(i), width), place)])
                    b.store(b.load(total), b.bitcast(target, vector.as_pointer()), align=bytes_)
            return context.get_dummy_value()

        return types.void(C, k, X, at, out), codegen

    return mix


def _spread(b: Any, vector: Any, value: Any) -> Any:
    """A vector of one value."""
    one = b.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return _pick(b, one, one, [0] * vector.count)


def _add_row(typingctx: Any, W: Any, k: Any, factor: Any, X: Any, p: Any) -> Any:
    """W[k] += factor * X[p], by fused multiply-add."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        vector, fma, bytes_ = _vectors_of(context, b, signature.args[0].dtype)
        W_, X_ = (context.make_array(signature.args[a])(context, b, args[a]) for a in (0, 3))
        width = b.extract_value(W_.shape, 1)
        w_row, x_row = (b.gep(array.data, [b.mul(at, width)]) for array, at in ((W_, args[1]), (X_, args[4])))
        spread = _spread(b, vector, args[2])
        lanes = ir.Constant(width.type, vector.count)
        with cgutils.for_range(b, b.udiv(width, lanes)) as loop:
            at = b.mul(loop.index, lanes)
            w = _load(b, vector, w_row, at, bytes_)
            x = _load(b, vector, x_row, at, bytes_)
            target = b.bitcast(b.gep(w_row, [at]), vector.as_pointer())
            b.store(b.call(fma, [spread, x, w]), target, align=bytes_)
        return context.get_dummy_value()

    return types.void(W, k, W.dtype, X, p), codegen


add_row: Any = intrinsic(_add_row)


def _dot_of_rows(typingctx: Any, X: Any, i: Any, j: Any) -> Any:
    """X[i] . X[j] in float64, for the occasional product: the square of a small float32 must not vanish."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        vector, _, bytes_ = _vectors_of(context, b, signature.args[0].dtype)
        wide, fma, _ = _vectors_of(context, b, types.float64, vector.count)
        X_ = context.make_array(signature.args[0])(context, b, args[0])
        width = b.extract_value(X_.shape, 1)
        lanes = ir.Constant(width.type, vector.count)
        rows = [b.gep(X_.data, [b.mul(at, width)]) for at in args[1:]]
        total = cgutils.alloca_once_value(b, ir.Constant(wide, None))
        with cgutils.for_range(b, b.udiv(width, lanes)) as loop:
            x, y = (_load(b, vector, row, b.mul(loop.index, lanes), bytes_) for row in rows)
            if wide != vector:
                x, y = b.fpext(x, wide), b.fpext(y, wide)
            b.store(b.call(fma, [x, y, b.load(total)]), total)
        return b.extract_element(_fold(b, [b.load(total)], wide.count)[0], ir.Constant(ir.IntType(32), 0))

    return types.float64(X, i, j), codegen


dot_of_rows: Any = intrinsic(_dot_of_rows)


def _vectors_of(context: Any, b: Any, dtype: Any, lanes: int | None = None) -> tuple[Any, Any, int]:
    """The vector type for values of a dtype, its fused multiply-add, and the bytes of one value."""
    real = context.get_data_type(dtype)
    bytes_ = context.get_abi_sizeof(real)
    vector = ir.VectorType(real, lanes or 64 // bytes_)
    name = f"llvm.fma.v{vector.count}f{8 * bytes_}"
    return vector, cgutils.get_or_insert_function(b.module, ir.FunctionType(vector, [vector] * 3), name), bytes_


def _load(b: Any, vector: Any, pointer: Any, at: Any, align: int) -> Any:
    value = b.load(b.bitcast(b.gep(pointer, [at]), vector.as_pointer()))
    value.align = align
    return value


def _fold(b: Any, vectors: list[Any], lanes: int) -> list[Any]:
    """Sum each vector's lanes by halving, vectors packed together as they shrink; the sums in order, as vectors."""
    segment = lanes
    while segment > 1:
        half, count = segment // 2, vectors[0].type.count
        low = [start + i for start in range(0, count, segment) for i in range(half)]
        if len(vectors) % 2 == 0:  # the halves of two vectors fill one
            low += [count + i for i in low]
            pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
        else:
            pairs = [(v, v) for v in vectors]
        high = [i + half for i in low]
        vectors = [b.fadd(_pick(b, v, w, low), _pick(b, v, w, high)) for v, w in pairs]
        segment = half
    return vectors


def _store(b: Any, vectors: list[Any], first: int, n: int, pointer: Any, align: int) -> None:
    """Write the values first, ..., first + n - 1 of some vectors laid end to end."""
    count = vectors[0].type.count
    vector, at = vectors[first // count], first % count
    values = _pick(b, vector, vector, list(range(at, at + n)))
    b.store(values, b.bitcast(pointer, values.type.as_pointer()), align=align)


def _pick(b: Any, v: Any, w: Any, lanes: list[int]) -> Any:
    return b.shuffle_vector(v, w, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))


#: Rows of W, and rows of X, in one tile: as many lanes as the registers hold.
TILE = 4 if _has_wide_registers() else 2

#: Points that `row_dots` takes through W together.
POINTS = 8

_next_tile, _next_pair, _next_one = (_make_tile(TILE, points) for points in (TILE, 2, 1))
_some_tile, _some_pair, _some_one = (_make_tile(TILE, points, gather=True) for points in (TILE, 2, 1))
_one_tile, _one_pair, _one_one = (_make_tile(1, points, gather=True) for points in (TILE, 2, 1))


@njit(nogil=True, cache=True)
def row_dots(W: np.ndarray, X: np.ndarray, first: int, stop: int, out: np.ndarray) -> None:
    """out[p, k] = W[k] . X[p] for first <= p < stop and every row k of W; all C-contiguous, rows padded.

    Rows of X may be longer than those of W: what is beyond does not count.
    """
    whole = W.shape[0] - W.shape[0] % TILE
    rest = np.empty(W.shape[0] - whole, np.int64)
    for i in range(rest.shape[0]):
        rest[i] = whole + i
    for start in range(first, stop, POINTS):  # few enough points to stay in the nearest cache while W passes by
        end = min(start + POINTS, stop)
        for k in range(0, whole, TILE):
            p = start
            while p + TILE <= end:
                _next_tile(W, rest, k, X, p, out)
                p += TILE
            while p + 2 <= end:
                _next_pair(W, rest, k, X, p, out)
                p += 2
            if p < end:
                _next_one(W, rest, k, X, p, out)
        some_row_dots(W, rest, X, start, end, out)


@njit(nogil=True, cache=True)
def some_row_dots(W: np.ndarray, rows: np.ndarray, X: np.ndarray, first: int, stop: int, out: np.ndarray) -> None:
    """The same for some rows of W: out[p, k] = W[k] . X[p] for k in rows."""
    k = 0
    while k + TILE <= rows.shape[0]:
        p = first
        while p + TILE <= stop:
            _some_tile(W, rows, k, X, p, out)
            p += TILE
        while p + 2 <= stop:
            _some_pair(W, rows, k, X, p, out)
            p += 2
        if p < stop:
            _some_one(W, rows, k, X, p, out)
        k += TILE
    while k < rows.shape[0]:
        p = first
        while p + TILE <= stop:
            _one_tile(W, rows, k, X, p, out)
            p += TILE
        while p + 2 <= stop:
            _one_pair(W, rows, k, X, p, out)
            p += 2
        if p < stop:
            _one_one(W, rows, k, X, p, out)
        k += 1


#: Columns of C, and vectors of X, that `mixed_rows` takes together.
MIXED, _VECTORS = (8, 2) if _has_wide_registers() else (4, 1)

_mix_all, _mix_last, _mix_one = _make_mix(MIXED, _VECTORS), _make_mix(MIXED, 1), _make_mix(1, 1)


@njit(nogil=True, cache=True)
def mixed_rows(C: np.ndarray, k: int, X: np.ndarray, out: np.ndarray) -> int:
    """out[i] = sum over n of C[n, k + i] X[n] for the next `MIXED` columns of C, or for one where fewer are left.

    Returns for how many. All C-contiguous, rows of X and out padded.
    """
    lanes, n = ROW_MULTIPLE * 4 // X.itemsize, MIXED if k + MIXED <= C.shape[1] else 1
    at = 0
    while at < X.shape[1]:
        if n == 1:
            _mix_one(C, k, X, at, out)
            at += lanes
        elif at + _VECTORS * lanes <= X.shape[1]:
            _mix_all(C, k, X, at, out)
            at += _VECTORS * lanes
        else:
            _mix_last(C, k, X, at, out)
            at += lanes
    return n
