"""Hamming distances of one query to a block of 64 codes, in the lanes of vector registers.

For each plane (one byte of 64 codes) the lanes take an exclusive or with the query's byte, count the set bits and add.
A model's distance is the sum over its planes, and what counts is the least over the models: one model gives the plain
distance, several give the fusion `min`, and all planes taken as one model give the fusion `sum`.

Sums of up to 31 planes fit a byte. Longer codes are summed 31 planes at a time into 16 bits; at exactly 32 planes a
byte may wrap, from 256 to 0, which the comparisons of a group put up with because they promise no more than not to miss
anything.

Numba vectorises such loops by itself only to half the width of the widest registers, hence the few lines of LLVM.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from onlinehash.codes.layout import LANES

#: Blocks that one comparison covers.
GROUP = 4

#: How far ahead of what is read memory is asked for, in bytes.
AHEAD = 2048

_BIT, _BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
_BYTES, _SHORTS = ir.VectorType(_BYTE, LANES), ir.VectorType(_SHORT, LANES)

#: Planes whose bit counts always fit a byte.
_PLANES_IN_A_BYTE = 31


def spread(query: np.ndarray) -> np.ndarray:
    """Every byte of a query in all lanes, as the kernels want it: `(..., n_planes)` to `(..., n_planes * 64)`."""
    return np.repeat(query, LANES, axis=-1)


def _any_below_in_streams(
    typingctx: Any, planes: Any, block: Any, n_models: Any, per_model: Any, query: Any, bound: Any, stride: Any
) -> Any:
    """Whether a distance in GROUP blocks, each a stride apart, is below the bound; may say yes without need, never no.

    A plane of every block is taken before the next plane of any: memory is read at GROUP places at once.
    """

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        code = _arguments(context, b, signature, args)
        numbers = [b.add(args[1], b.mul(args[6], ir.Constant(args[1].type, i))) for i in range(GROUP)]

        def any_below(vector: Any) -> Any:
            least = _farthest(b, vector, GROUP)
            _take(b, code, [_block(b, code, number) for number in numbers], least)
            found = [b.load(one) for one in least]
            while len(found) > 1:
                found = [vector_call(b, "umin", v, w) for v, w in zip(found[::2], found[1::2], strict=True)]
            near = b.icmp_unsigned("<", found[0], vector_of(b, vector, b.trunc(args[5], vector.element)))
            any_near = b.icmp_unsigned("!=", b.bitcast(near, _LONG), ir.Constant(_LONG, 0))
            # A bound that does not fit is above every distance that does.
            return b.or_(any_near, b.icmp_signed(">", args[5], ir.Constant(args[5].type, _largest(vector))))

        return _in_bytes_or_shorts(b, code, any_below)

    return types.boolean(planes, block, n_models, per_model, query, bound, types.int64), codegen


any_below_in_streams: Any = intrinsic(_any_below_in_streams)


def _any_below_in_order(
    typingctx: Any, planes: Any, block: Any, n_models: Any, per_model: Any, query: Any, bound: Any
) -> Any:
    """The same for GROUP blocks that follow one another, read from the first byte to the last."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        code = _arguments(context, b, signature, args)

        def any_below(vector: Any) -> Any:
            least = _farthest(b, vector, 1)
            with cgutils.for_range(b, ir.Constant(args[1].type, GROUP)) as loop:
                _take(b, code, [_block(b, code, b.add(args[1], loop.index))], least)
            return b.icmp_signed("<", b.zext(_least_lane(b, b.load(least[0])), args[5].type), args[5])

        return _in_bytes_or_shorts(b, code, any_below)

    return types.boolean(planes, block, n_models, per_model, query, bound), codegen


any_below_in_order: Any = intrinsic(_any_below_in_order)


def _distances_below(
    typingctx: Any, planes: Any, block: Any, n_models: Any, per_model: Any, query: Any, bound: Any, out: Any
) -> Any:
    """The distances of one block into out (uint16, 64 values); the lanes that are below the bound, as a mask."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        code = _arguments(context, b, signature, args)
        out_ = context.make_array(signature.args[6])(context, b, args[6]).data
        target = b.bitcast(out_, _SHORTS.as_pointer())
        with b.if_else(_up_to(b, code, _PLANES_IN_A_BYTE)) as branches:
            for branch, vector in zip(branches, (_BYTES, _SHORTS), strict=True):
                with branch:
                    least = _farthest(b, vector, 1)
                    _take(b, code, [_block(b, code, args[1])], least)
                    distances = b.load(least[0])
                    b.store(b.zext(distances, _SHORTS) if vector is _BYTES else distances, target, align=2)
        distances = b.load(target)
        distances.align = 2
        near = b.icmp_unsigned("<", distances, vector_of(b, _SHORTS, b.trunc(args[5], _SHORT)))
        return b.bitcast(near, _LONG)

    return types.uint64(planes, block, n_models, per_model, query, bound, out), codegen


distances_below: Any = intrinsic(_distances_below)


def _lowest(typingctx: Any, mask: Any) -> Any:
    """The number of the lowest set bit of a mask that is not zero."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return b.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


lowest: Any = intrinsic(_lowest)


# ------------------------------------------------------------------------------------------------ pieces of LLVM


class _Arguments(NamedTuple):
    """Where the codes and the query begin, and how many planes they have."""

    planes: Any
    query: Any
    n_models: Any
    per_model: Any


def _arguments(context: Any, b: Any, signature: Any, args: Any) -> _Arguments:
    planes, query = (context.make_array(signature.args[a])(context, b, args[a]).data for a in (0, 4))
    return _Arguments(planes, query, args[2], args[3])


def _block(b: Any, code: _Arguments, number: Any) -> Any:
    """Where a block begins."""
    size = b.mul(b.mul(code.n_models, code.per_model), ir.Constant(number.type, LANES))
    return b.gep(code.planes, [b.mul(number, size)])


def _up_to(b: Any, code: _Arguments, n_planes: int) -> Any:
    """Whether a model has at most so many planes."""
    return b.icmp_signed("<=", code.per_model, ir.Constant(code.per_model.type, n_planes))


def _in_bytes_or_shorts(b: Any, code: _Arguments, answer: Callable[[Any], Any]) -> Any:
    """An answer found with vectors of bytes (distances modulo 256) or of shorts, as the length of the codes demands."""
    variable = cgutils.alloca_once(b, _BIT)
    with b.if_else(_up_to(b, code, _PLANES_IN_A_BYTE + 1)) as branches:
        for branch, vector in zip(branches, (_BYTES, _SHORTS), strict=True):
            with branch:
                b.store(answer(vector), variable)
    return b.load(variable)


def _largest(vector: Any) -> int:
    return int(2**vector.element.width - 1)


def _farthest(b: Any, vector: Any, n: int) -> list[Any]:
    """Variables for the least distances met so far, none yet."""
    return [cgutils.alloca_once_value(b, ir.Constant(vector, [_largest(vector)] * LANES)) for _ in range(n)]


def _least_lane(b: Any, values: Any) -> Any:
    name = f"llvm.vector.reduce.umin.v{values.type.count}i{values.type.element.width}"
    kind = ir.FunctionType(values.type.element, [values.type])
    return b.call(cgutils.get_or_insert_function(b.module, kind, name), [values])


def _take(b: Any, code: _Arguments, blocks: list[Any], least: list[Any]) -> None:
    """Lower the least distances to those of as many blocks: in bytes (modulo 256) or shorts, as the variables are."""
    in_bytes = least[0].type.pointee == _BYTES
    with cgutils.for_range(b, code.n_models) as model:
        first = b.mul(model.index, code.per_model)
        sums = _bit_counts if in_bytes else _bit_counts_in_portions
        for variable, total in zip(least, sums(b, blocks, code.query, first, code.per_model), strict=True):
            b.store(vector_call(b, "umin", b.load(variable), total), variable)


def _bit_counts_in_portions(b: Any, blocks: list[Any], query: Any, first: Any, n_planes: Any) -> list[Any]:
    """Differing bits over any number of planes, a vector of shorts for each block."""
    totals = [cgutils.alloca_once(b, _SHORTS) for _ in blocks]
    for total in totals:
        b.store(ir.Constant(_SHORTS, None), total)
    portion = ir.Constant(n_planes.type, _PLANES_IN_A_BYTE)
    n_portions = b.sdiv(b.add(n_planes, ir.Constant(n_planes.type, _PLANES_IN_A_BYTE - 1)), portion)
    with cgutils.for_range(b, n_portions) as step:
        done = b.mul(step.index, portion)
        left = b.sub(n_planes, done)
        count = b.select(b.icmp_signed("<", left, portion), left, portion)
        for total, part in zip(totals, _bit_counts(b, blocks, query, b.add(first, done), count), strict=True):
            b.store(b.add(b.load(total), b.zext(part, _SHORTS)), total)
    return [b.load(total) for total in totals]


def _bit_counts(b: Any, blocks: list[Any], query: Any, first: Any, n_planes: Any) -> list[Any]:
    """Differing bits over some planes, a vector of bytes for each block."""
    totals = [cgutils.alloca_once(b, _BYTES) for _ in blocks]
    for total in totals:
        b.store(ir.Constant(_BYTES, None), total)
    with cgutils.for_range(b, n_planes) as loop:
        at = b.mul(b.add(first, loop.index), ir.Constant(first.type, LANES))
        wanted = _load(b, query, at)
        for codes, total in zip(blocks, totals, strict=True):
            ask_for(b, b.gep(codes, [b.add(at, ir.Constant(at.type, AHEAD))]))
            differing = b.xor(_load(b, codes, at), wanted)
            b.store(b.add(b.load(total), vector_call(b, "ctpop", differing)), total)
    return [b.load(total) for total in totals]


def _load(b: Any, pointer: Any, at: Any) -> Any:
    value = b.load(b.bitcast(b.gep(pointer, [at]), _BYTES.as_pointer()))
    value.align = 1
    return value


def ask_for(b: Any, pointer: Any) -> None:
    """Ask for the cache line at a pointer to bytes."""
    kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INT, _INT, _INT])
    function = cgutils.get_or_insert_function(b.module, kind, "llvm.prefetch.p0i8")
    b.call(function, [pointer, _INT(0), _INT(3), _INT(1)])  # to read, into the nearest cache, as data


def vector_call(b: Any, name: str, *vectors: Any) -> Any:
    """An LLVM operation on vectors of one type."""
    vector = vectors[0].type
    full_name = f"llvm.{name}.v{vector.count}i{vector.element.width}"
    kind = ir.FunctionType(vector, [vector] * len(vectors))
    return b.call(cgutils.get_or_insert_function(b.module, kind, full_name), vectors)


def vector_of(b: Any, vector: Any, value: Any) -> Any:
    """The value in all lanes."""
    one = b.insert_element(ir.Constant(vector, ir.Undefined), value, _INT(0))
    return b.shuffle_vector(one, one, ir.Constant(ir.VectorType(_INT, vector.count), [0] * vector.count))
