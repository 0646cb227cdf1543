"""Hamming distances of one query to a block of 64 codes, in the lanes of vector registers.

For each plane (one byte of 64 codes) the lanes take an exclusive or with the query's byte, count the set bits and add.
A model's distance is the sum over its planes, and what counts is the least over the models: one model gives the plain
distance, several give the fusion `min`, and all planes taken as one model give the fusion `sum`.

Sums of up to 31 planes fit a byte. Longer codes are summed 31 planes at a time into 16 bits; at exactly 32 planes a
byte may wrap, from 256 to 0, which `any_below` puts up with because it promises no more than not to miss anything.

Numba vectorises such loops by itself only to half the width of the widest registers, hence the few lines of LLVM.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from onlinehash.codes.layout import LANES

#: Blocks that `any_below` looks at together. Taken from places far apart, they are as many streams from memory, which
#: are faster than one.
GROUP = 4

#: How far ahead in each stream memory is asked for, in bytes.
AHEAD = 2048

_BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_BYTES, _SHORTS = ir.VectorType(_BYTE, LANES), ir.VectorType(_SHORT, LANES)

#: Planes whose bit counts always fit a byte.
_PLANES_IN_A_BYTE = 31


def spread(query: np.ndarray) -> np.ndarray:
    """Every byte of a query in all lanes, as the kernels want it: `(..., n_planes)` to `(..., n_planes * 64)`."""
    return np.repeat(query, LANES, axis=-1)


def _any_below(
    typingctx: Any, planes: Any, block: Any, n_models: Any, per_model: Any, query: Any, bound: Any, stride: Any
) -> Any:
    """Is there a distance below the bound in GROUP blocks, each a stride apart? May say yes without need, never no."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        planes_, block, n_models, per_model, query_, bound = _arrays(context, b, signature, args)
        blocks = [b.add(block, b.mul(args[6], ir.Constant(block.type, i))) for i in range(GROUP)]
        answer = cgutils.alloca_once(b, ir.IntType(1))

        def look(vector: Any, distances: list[Any]) -> None:
            while len(distances) > 1:
                distances = [vector_call(b, "umin", v, w) for v, w in zip(distances[::2], distances[1::2], strict=True)]
            near = b.icmp_unsigned("<", distances[0], vector_of(b, vector, b.trunc(bound, vector.element)))
            any_near = b.icmp_unsigned("!=", b.bitcast(near, _LONG), ir.Constant(_LONG, 0))
            b.store(any_near, answer)

        narrow = b.icmp_signed("<=", per_model, ir.Constant(per_model.type, _PLANES_IN_A_BYTE + 1))
        with b.if_else(narrow) as (then, otherwise):
            with then:
                look(_BYTES, _distances_in_bytes(b, planes_, blocks, n_models, per_model, query_))
                # A bound beyond a byte is above every sum of bytes.
                beyond = b.icmp_signed(">", bound, ir.Constant(bound.type, 255))
                b.store(b.or_(b.load(answer), beyond), answer)
            with otherwise:
                look(_SHORTS, _distances_in_shorts(b, planes_, blocks, n_models, per_model, query_))
        return b.load(answer)

    return types.boolean(planes, block, n_models, per_model, query, bound, types.int64), codegen


any_below: Any = intrinsic(_any_below)


def _distances_below(
    typingctx: Any, planes: Any, block: Any, n_models: Any, per_model: Any, query: Any, bound: Any, out: Any
) -> Any:
    """The distances of one block into out (uint16, 64 values); the lanes that are below the bound, as a mask."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        planes_, block, n_models, per_model, query_, bound = _arrays(context, b, signature, args)
        out_ = context.make_array(signature.args[6])(context, b, args[6]).data
        target = b.bitcast(out_, _SHORTS.as_pointer())
        narrow = b.icmp_signed("<=", per_model, ir.Constant(per_model.type, _PLANES_IN_A_BYTE))
        with b.if_else(narrow) as (then, otherwise):
            with then:
                (distances,) = _distances_in_bytes(b, planes_, [block], n_models, per_model, query_)
                b.store(b.zext(distances, _SHORTS), target, align=2)
            with otherwise:
                (distances,) = _distances_in_shorts(b, planes_, [block], n_models, per_model, query_)
                b.store(distances, target, align=2)
        distances = b.load(target)
        distances.align = 2
        near = b.icmp_unsigned("<", distances, vector_of(b, _SHORTS, b.trunc(bound, _SHORT)))
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


def _arrays(context: Any, b: Any, signature: Any, args: Any) -> tuple[Any, ...]:
    """The first six arguments, arrays as pointers to their first byte."""
    planes, query = (context.make_array(signature.args[a])(context, b, args[a]).data for a in (0, 4))
    return planes, args[1], args[2], args[3], query, args[5]


def _distances_in_bytes(
    b: Any, planes: Any, numbers: list[Any], n_models: Any, per_model: Any, query: Any
) -> list[Any]:
    """A vector of distances for each of some blocks, modulo 256."""
    nearest = [cgutils.alloca_once_value(b, ir.Constant(_BYTES, [255] * LANES)) for _ in numbers]
    blocks = _block_pointers(b, planes, numbers, n_models, per_model)
    with cgutils.for_range(b, n_models) as model:
        first = b.mul(model.index, per_model)
        for best, total in zip(nearest, _bit_counts(b, blocks, query, first, per_model), strict=True):
            b.store(vector_call(b, "umin", b.load(best), total), best)
    return [b.load(best) for best in nearest]


def _distances_in_shorts(
    b: Any, planes: Any, numbers: list[Any], n_models: Any, per_model: Any, query: Any
) -> list[Any]:
    """The same in 16 bits, for any number of planes."""
    nearest = [cgutils.alloca_once_value(b, ir.Constant(_SHORTS, [65535] * LANES)) for _ in numbers]
    totals = [cgutils.alloca_once(b, _SHORTS) for _ in numbers]
    blocks = _block_pointers(b, planes, numbers, n_models, per_model)
    portion = ir.Constant(per_model.type, _PLANES_IN_A_BYTE)
    with cgutils.for_range(b, n_models) as model:
        for total in totals:
            b.store(ir.Constant(_SHORTS, None), total)
        n_portions = b.sdiv(b.add(per_model, ir.Constant(per_model.type, _PLANES_IN_A_BYTE - 1)), portion)
        with cgutils.for_range(b, n_portions) as step:
            done = b.mul(step.index, portion)
            left = b.sub(per_model, done)
            count = b.select(b.icmp_signed("<", left, portion), left, portion)
            first = b.add(b.mul(model.index, per_model), done)
            for total, part in zip(totals, _bit_counts(b, blocks, query, first, count), strict=True):
                b.store(b.add(b.load(total), b.zext(part, _SHORTS)), total)
        for best, total in zip(nearest, totals, strict=True):
            b.store(vector_call(b, "umin", b.load(best), b.load(total)), best)
    return [b.load(best) for best in nearest]


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


def _block_pointers(b: Any, planes: Any, numbers: list[Any], n_models: Any, per_model: Any) -> list[Any]:
    size = b.mul(b.mul(n_models, per_model), ir.Constant(per_model.type, LANES))
    return [b.gep(planes, [b.mul(number, size)]) for number in numbers]


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
