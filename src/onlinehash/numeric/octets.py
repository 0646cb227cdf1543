"""Eight comparisons at once: a byte of signs, and a byte that says which of them are in doubt.

A vector comparison gives one bit a lane, which is what a packed code wants; Numba has no word for it, hence the few
lines of LLVM.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

#: Columns compared together: the bits of a byte.
OCTET = 8

_REALS, _BYTE, _LONG = ir.VectorType(ir.DoubleType(), OCTET), ir.IntType(8), ir.IntType(64)


def _compare_octet(typingctx: Any, projections: Any, row: Any, column: Any, error: Any, functions: Any) -> Any:
    """The eight columns from `column` on: the signs of `gap = projections[row] - functions[0]` in the low byte, and in
    the byte above it where `abs(gap) > error * functions[1] + functions[2]` does not hold.

    Both arrays are C-contiguous, and there is memory for seven values more behind their last.
    """

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        projections_, functions_ = (context.make_array(signature.args[a])(context, b, args[a]) for a in (0, 4))
        row, column, error = args[1:4]

        def load(array: Any, line: Any) -> Any:
            start = b.add(b.mul(line, b.extract_value(array.shape, 1)), column)
            pointer = b.gep(array.data, [start])
            real = pointer.type.pointee
            values = b.load(b.bitcast(pointer, ir.VectorType(real, OCTET).as_pointer()))
            values.align = context.get_abi_sizeof(real)
            return values if values.type == _REALS else b.fpext(values, _REALS)

        thresholds, norms, slacks = (load(functions_, ir.Constant(row.type, i)) for i in range(3))
        gaps = b.fsub(load(projections_, row), thresholds)
        signs = b.fcmp_ordered(">=", gaps, ir.Constant(_REALS, None))
        absolute = cgutils.get_or_insert_function(b.module, ir.FunctionType(_REALS, [_REALS]), "llvm.fabs.v8f64")
        first = b.insert_element(ir.Constant(_REALS, ir.Undefined), error, ir.IntType(32)(0))
        errors = b.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), OCTET), [0] * OCTET))
        reach = b.fadd(b.fmul(errors, norms), slacks)
        doubtful = b.fcmp_unordered("<=", b.call(absolute, [gaps]), reach)  # also where one of them is not a number
        low, high = (b.zext(b.bitcast(lanes, _BYTE), _LONG) for lanes in (signs, doubtful))
        return b.or_(low, b.shl(high, _LONG(8)))

    return types.int64(projections, row, column, error, functions), codegen


compare_octet: Any = intrinsic(_compare_octet)
