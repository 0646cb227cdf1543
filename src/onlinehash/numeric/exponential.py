"""exp of a number that is not positive, the same on every machine and in any company.

A compiler may call one exp for a single value and another for a vector of them, and libraries differ in the last
digit. This one is plain arithmetic (argument reduction and a Taylor polynomial, within 2e-16 of the true value,
relatively), which the compiler turns into vector instructions.
"""

from __future__ import annotations

import numpy as np

from onlinehash.numeric.kernels import njit

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # its last bits are zero, so that a whole multiple of it is exact
_LN2_LOW = 1.9082149292705877e-10
_LOWEST = -708.0  # below it exp is less than the smallest normal number: taken as zero
_POWERS_OF_TWO = 2.0 ** np.arange(-1022, 1)


@njit(nogil=True, cache=True)
def exp_of_nonpositive(t: float) -> float:
    """e**t for t <= 0."""
    clipped = max(t, _LOWEST)
    n = np.rint(clipped * _LOG2_E)
    x = (clipped - n * _LN2_HIGH) - n * _LN2_LOW  # |x| <= ln(2) / 2
    p = 1.0 / 6227020800.0
    p = p * x + 1.0 / 479001600.0
    p = p * x + 1.0 / 39916800.0
    p = p * x + 1.0 / 3628800.0
    p = p * x + 1.0 / 362880.0
    p = p * x + 1.0 / 40320.0
    p = p * x + 1.0 / 5040.0
    p = p * x + 1.0 / 720.0
    p = p * x + 1.0 / 120.0
    p = p * x + 1.0 / 24.0
    p = p * x + 1.0 / 6.0
    p = p * x + 0.5
    p = p * x + 1.0
    p = p * x + 1.0
    value = p * _POWERS_OF_TWO[np.int64(n) + 1022]
    return value if t >= _LOWEST else 0.0
