"""Dot products of rows in one fixed order, near the speed of a BLAS product.

A BLAS product rounds the same dot product differently depending on how many rows and columns are multiplied at
once. What feeds learning must not: a batch has to give, bit for bit, what the loop over its rows gives. So every
product here is computed the same way wherever it stands in a matrix:

    lane l  =  fma over i = l, l + LANES, l + 2 LANES, ...   of  w[i] x[i]
    result  =  lanes folded in halves: l + (l + LANES/2), then quarters, ... down to one

What makes it fast is that a *tile* of several rows of W times several rows of X keeps all its lanes in registers, so
that a value once loaded serves several products. Tiles change which products are computed together, never the order
inside one; the fused multiply-add makes the result the same on every CPU.

Numba cannot be told that a reduction may be split into exactly these lanes, hence the few lines of LLVM.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

#: Rows are padded with zeros to a multiple of this many values (both dtypes: 16 float32 or 2 x 8 float64).
ROW_MULTIPLE = 16


def padded_width(n: int) -> int:
    """The row length the kernels want for `n` values."""
    return -(-n // ROW_MULTIPLE) * ROW_MULTIPLE


def pad_rows(X: np.ndarray) -> np.ndarray:
    """A C-contiguous copy of X whose rows end in zeros up to the padded width."""
    out = np.zeros((X.shape[0], padded_width(X.shape[1])), X.dtype)
    out[:, : X.shape[1]] = X
    return out


def _has_wide_registers() -> bool:
    """AVX-512 has 32 registers of 16 lanes; elsewhere a 16-lane value takes two (AVX2) or four (NEON) registers."""
    return bool(llvm.get_host_cpu_features().get("avx512f", False))


def _make_tile(n_w: int, n_x: int) -> Any:
    """An intrinsic for `out[p + j, k + i] = W[k + i] . X[p + j]`, i < n_w, j < n_x, all lanes held in registers."""

    @intrinsic
    def tile(typingctx: Any, W: Any, k: Any, X: Any, p: Any, out: Any) -> Any:
        def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
            W_type, _, X_type, _, out_type = signature.args
            real = context.get_data_type(W_type.dtype)
            bytes_ = context.get_abi_sizeof(real)
            lanes = 64 // bytes_
            vector = ir.VectorType(real, lanes)
            fma = cgutils.get_or_insert_function(
                b.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes}f{8 * bytes_}"
            )
            W_, X_, out_ = (
                context.make_array(t)(context, b, a)
                for t, a in ((W_type, args[0]), (X_type, args[2]), (out_type, args[4]))
            )
            k_, p_ = args[1], args[3]
            width = b.extract_value(W_.shape, 1)

            def const(value: int) -> Any:
                return ir.Constant(k_.type, value)

            def row(array: Any, first: Any, i: int) -> Any:
                return b.gep(array.data, [b.mul(b.add(first, const(i)), width)])

            def load(pointer: Any, at: Any) -> Any:
                value = b.load(b.bitcast(b.gep(pointer, [at]), vector.as_pointer()))
                value.align = bytes_
                return value

            w_rows = [row(W_, k_, i) for i in range(n_w)]
            x_rows = [row(X_, p_, j) for j in range(n_x)]
            sums = [cgutils.alloca_once_value(b, ir.Constant(vector, None)) for _ in range(n_w * n_x)]
            with cgutils.for_range(b, b.udiv(width, const(lanes))) as loop:
                at = b.mul(loop.index, const(lanes))
                xs = [load(x, at) for x in x_rows]
                for i, w_row in enumerate(w_rows):
                    w = load(w_row, at)
                    for j, x in enumerate(xs):
                        total = sums[i * n_x + j]
                        b.store(b.call(fma, [w, x, b.load(total)]), total)

            for index, value in _fold(b, [b.load(s) for s in sums], lanes):
                i, j = divmod(index, n_x)
                line = b.mul(b.add(p_, const(j)), b.extract_value(out_.shape, 1))
                b.store(value, b.gep(out_.data, [b.add(line, b.add(k_, const(i)))]))
            return context.get_dummy_value()

        return types.void(W, k, X, p, out), codegen

    return tile


def _fold(b: Any, vectors: list[Any], lanes: int) -> list[tuple[int, Any]]:
    """Sum each vector's lanes by halving, several vectors packed into one; (index of the vector, its sum)."""
    int32 = ir.IntType(32)
    owners = [[i] for i in range(len(vectors))]  # whose segments lie in each vector, in order
    segment = lanes
    while segment > 1:
        half = segment // 2
        starts = range(0, vectors[0].type.count, segment)
        low = [s + i for s in starts for i in range(half)]
        high = [s + half + i for s in starts for i in range(half)]
        pack = len(vectors) % 2 == 0
        if pack:  # two vectors fill one
            count = vectors[0].type.count
            low, high = low + [count + i for i in low], high + [count + i for i in high]
            pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
            owners = [a + c for a, c in zip(owners[::2], owners[1::2], strict=True)]
        else:
            pairs = [(v, v) for v in vectors]
        masks = [ir.Constant(ir.VectorType(int32, len(m)), m) for m in (low, high)]
        vectors = [b.fadd(*(b.shuffle_vector(a, c, mask) for mask in masks)) for a, c in pairs]
        segment = half
    return [
        (owner, b.extract_element(v, ir.Constant(int32, lane)))
        for v, owned in zip(vectors, owners, strict=True)
        for lane, owner in enumerate(owned)
    ]


#: Rows of W, and rows of X, in one tile: as many lanes as the registers hold.
TILE = 4 if _has_wide_registers() else 2

_tile_full = _make_tile(TILE, TILE)
_tile_tall = _make_tile(TILE, 1)
_tile_wide = _make_tile(1, TILE)
_tile_single = _make_tile(1, 1)
_tile_tall_pair = _make_tile(TILE, 2)
_tile_pair = _make_tile(1, 2)


@njit(nogil=True, cache=True)
def one_row(W: np.ndarray, k: int, X: np.ndarray, first: int, stop: int, out: np.ndarray) -> None:
    """out[p, k] = W[k] . X[p] for first <= p < stop."""
    p = first
    while p + TILE <= stop:
        _tile_wide(W, k, X, p, out)
        p += TILE
    while p + 2 <= stop:
        _tile_pair(W, k, X, p, out)
        p += 2
    if p < stop:
        _tile_single(W, k, X, p, out)


@njit(nogil=True, cache=True)
def row_dots(W: np.ndarray, X: np.ndarray, first: int, stop: int, out: np.ndarray) -> None:
    """out[p, k] = W[k] . X[p] for first <= p < stop and every row k of W; all C-contiguous, rows padded."""
    whole = W.shape[0] - W.shape[0] % TILE
    for k in range(0, whole, TILE):
        p = first
        while p + TILE <= stop:
            _tile_full(W, k, X, p, out)
            p += TILE
        while p + 2 <= stop:
            _tile_tall_pair(W, k, X, p, out)
            p += 2
        if p < stop:
            _tile_tall(W, k, X, p, out)
    for k in range(whole, W.shape[0]):
        one_row(W, k, X, first, stop, out)
