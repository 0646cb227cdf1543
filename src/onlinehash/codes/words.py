"""Codes as rows of 64-bit words: what a search by look-ups compares, one code or a few neighbours at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import types
from numba.extending import intrinsic

from onlinehash.codes.lanes import ask_for, vector_call, vector_of
from onlinehash.codes.layout import LANES

#: Words that `words_below` looks at together.
TOGETHER = 16

_BYTE, _SHORT, _LONG = (ir.IntType(bits) for bits in (8, 16, 64))
_WORDS = ir.VectorType(_LONG, TOGETHER)


def words_per_code(n_planes: int) -> int:
    """64-bit words that hold a code of so many bytes."""
    return -(-n_planes // 8)


@njit(nogil=True, cache=True)
def put_words(planes: np.ndarray, first_plane: int, n_planes: int, first: int, out: np.ndarray) -> None:
    """The codes first, first + 1, ... as rows of words; byte j of a code is bits 8 j to 8 j + 7 of its row."""
    out[:] = 0
    for i in range(out.shape[0]):
        block, lane = (first + i) // LANES, (first + i) % LANES
        for j in range(n_planes):
            byte = np.uint64(planes[block, first_plane + j, lane])
            out[i, j // 8] |= byte << np.uint64(8 * (j % 8))


@njit(nogil=True, cache=True, inline="always")
def bits_at(rows: np.ndarray, i: int, start: int, n_bits: int) -> Any:
    """Bits start, ..., start + n_bits - 1 of row i; n_bits is 1 to 64."""
    word, shift = start // 64, np.uint64(start % 64)
    value = rows[i, word] >> shift
    if shift != np.uint64(0) and word + 1 < rows.shape[1]:
        value |= rows[i, word + 1] << (np.uint64(64) - shift)
    return value & (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - n_bits))


def _popcount(typingctx: Any, word: Any) -> Any:
    """The number of set bits."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return b.ctpop(args[0])

    return types.int64(types.uint64), codegen


popcount: Any = intrinsic(_popcount)


def _words_below(typingctx: Any, words: Any, at: Any, query: Any, bound: Any) -> Any:
    """Which of the TOGETHER words from `at` on differ from the query in fewer than `bound` bits, as a mask."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, b, args[0]).data
        codes = b.load(b.bitcast(b.gep(data, [args[1]]), _WORDS.as_pointer()))
        codes.align = 8
        distances = vector_call(b, "ctpop", b.xor(codes, vector_of(b, _WORDS, args[2])))
        near = b.icmp_unsigned("<", distances, vector_of(b, _WORDS, args[3]))
        return b.zext(b.bitcast(near, _SHORT), _LONG)

    return types.uint64(words, types.int64, types.uint64, types.int64), codegen


words_below: Any = intrinsic(_words_below)


def _prefetch(typingctx: Any, array: Any, at: Any) -> Any:
    """Ask for the cache line of array[at]; any number will do."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, b, args[0]).data
        ask_for(b, b.bitcast(b.gep(data, [args[1]]), _BYTE.as_pointer()))
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


prefetch: Any = intrinsic(_prefetch)
