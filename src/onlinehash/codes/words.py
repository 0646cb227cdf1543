"""Codes as rows of 64-bit words: what a search by look-ups compares, one code or a few neighbours at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from onlinehash.codes.lanes import ask_for, vector_call, vector_of
from onlinehash.codes.layout import LANES
from onlinehash.numeric.kernels import njit

#: Words that `words_below` looks at together.
TOGETHER = 16

_BYTE, _SHORT, _LONG = (ir.IntType(bits) for bits in (8, 16, 64))
_WORDS = ir.VectorType(_LONG, TOGETHER)


def rows_of_words(planes: np.ndarray, n: int, first_model: int, n_models: int, n_bits: int) -> np.ndarray:
    """The first n codes of some models as rows of words; the columns of all of them follow one another without gaps."""
    rows = np.zeros((n, -(-n_models * n_bits // 64)), np.uint64)
    _put_words(planes, first_model, n_models, n_bits, rows)
    return rows


@njit(nogil=True, cache=True)
def _put_words(planes: np.ndarray, first_model: int, n_models: int, n_bits: int, rows: np.ndarray) -> None:
    per_model = (n_bits + 7) // 8
    for first in range(0, rows.shape[0], LANES):
        lanes = min(LANES, rows.shape[0] - first)
        for model in range(n_models):
            for j in range(per_model):
                plane = planes[first // LANES, (first_model + model) * per_model + j]
                at = model * n_bits + 8 * j
                word, shift = at // 64, np.uint64(at % 64)
                for lane in range(lanes):
                    rows[first + lane, word] |= np.uint64(plane[lane]) << shift
                if at % 64 > 56 and word + 1 < rows.shape[1]:
                    for lane in range(lanes):
                        rows[first + lane, word + 1] |= np.uint64(plane[lane]) >> (np.uint64(64) - shift)


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
