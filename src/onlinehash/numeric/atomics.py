"""Numbers that several processes share: read and written in one piece, in the order in which they were written.

Numba has no atomic loads and stores of its own, hence the few lines of LLVM.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

#: Lets other processes have the core.
yield_core = types.ExternalFunction("sched_yield", types.int32())


def _load(typingctx: Any, array: Any, at: Any) -> Any:
    """array[at] (int64, one dimension); what its writer wrote before is seen from here on."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        pointer = b.gep(context.make_array(signature.args[0])(context, b, args[0]).data, [args[1]])
        return b.load_atomic(pointer, "acquire", 8)

    return types.int64(array, types.int64), codegen


def _store(typingctx: Any, array: Any, at: Any, value: Any) -> Any:
    """array[at] = value (int64, one dimension); who reads it sees all that was written before."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        pointer = b.gep(context.make_array(signature.args[0])(context, b, args[0]).data, [args[1]])
        b.store_atomic(args[2], pointer, "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), codegen


load_acquired: Any = intrinsic(_load)
store_released: Any = intrinsic(_store)
