"""Signs of `Z @ W.T - thresholds`, by a BLAS product, under the numeric law, packed as codes.

The product is as fast as the machine multiplies (or, for a few columns, reads), but its last digits depend on the shape
of the call. A projection farther from its threshold than the product's rounding error has a certain sign; the few that
are nearer are decided by one canonical dot product (fixed order, twice the working precision), so that a row's bits are
the same alone, in any batch, in any order, for any set of columns and with any number of threads. Before that, a plain
product in double precision is asked under the same rule: it makes nearly all of single precision's doubts certain, and
is quicker.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onlinehash import checks
from onlinehash.numeric.dots import POINTS, pad_rows, padded_width, row_dots
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.octets import OCTET, compare_octet
from onlinehash.numeric.views import read_only

#: Rows multiplied at once: few enough that they are still in the second-level cache when their projections are looked
#: at; a whole number of blocks of codes.
BLOCK_ROWS = 512

#: Up to so many columns or rows the products are taken by `row_dots`, which reads each row once, or each function;
#: BLAS is made for more of both.
FEW_COLUMNS = FEW_ROWS = 16

#: Rows taken at once where each is read only once: a whole number of blocks of codes.
ROWS_READ_ONCE = 4096

DOUBLE_EPS = float(np.finfo(np.float64).eps)


@njit(nogil=True, cache=True)
def canonical_dot(w: np.ndarray, x: np.ndarray) -> float:
    """w . x summed in index order with compensated products and sums (Ogita, Rump, Oishi: Dot2)."""
    split = 134217729.0  # 2**27 + 1: cuts a float64 into two halves whose products are exact (Dekker)
    total = 0.0
    lost = 0.0
    for i in range(w.shape[0]):
        a, b = np.float64(w[i]), np.float64(x[i])
        product = a * b
        a_high = a * split - (a * split - a)
        b_high = b * split - (b * split - b)
        a_low, b_low = a - a_high, b - b_high
        product_error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
        new_total = total + product
        bigger = new_total - total
        sum_error = (total - (new_total - bigger)) + (product - bigger)
        total = new_total
        lost += product_error + sum_error
    return total + lost


@njit(nogil=True, cache=True)
def canonical_dots(W: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Those of each row of W with x: thresholds made of them have x itself on the boundary."""
    out = np.empty(W.shape[0])
    for k in range(W.shape[0]):
        out[k] = canonical_dot(W[k], x)
    return out


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def norm_of(x: np.ndarray) -> float:
    """|x| in the precision of x, summed in any order."""
    total = x.dtype.type(0)
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    root: float = np.sqrt(np.float64(total))
    return root


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def double_dot(w: np.ndarray, x: np.ndarray) -> float:
    """w . x in double precision and in any order."""
    total = 0.0
    for i in range(w.shape[0]):
        total += np.float64(w[i]) * np.float64(x[i])
    return total


@njit(nogil=True, cache=True)
def _decide(octet: int, W: np.ndarray, first: int, z: np.ndarray, functions: np.ndarray, error: float) -> int:
    """The signs of an octet once its doubtful ones are known; `error` is that of a product in double precision."""
    signs = octet & ((1 << OCTET) - 1)
    for j in range(OCTET):
        if octet >> (OCTET + j) & 1:
            k = first + j
            gap = double_dot(W[k], z) - functions[0, k]
            if abs(gap) > error * functions[1, k] + functions[2, k]:
                positive = gap >= 0.0
            else:
                positive = canonical_dot(W[k], z) >= functions[0, k]
            signs = signs & ~(1 << j) | positive << j
    return signs


@njit(nogil=True, cache=True)
def _spread(signs: int, places: np.ndarray, first: int, count: int) -> int:
    """The bits of consecutive columns, each put to its place in the plane."""
    out = 0
    for j in range(count):
        out |= (signs >> j & 1) << places[first + j] % OCTET
    return out


@njit(nogil=True, cache=True)
def _describe(W: np.ndarray, thresholds: np.ndarray, smallest_norm: float, underflow: float) -> np.ndarray:
    """What a comparison needs of each function, one a row: thresholds, norms, and the error that no vector adds to."""
    n = W.shape[0]
    functions = np.zeros((3, n + OCTET - 1))
    for k in range(n):
        functions[0, k] = thresholds[k]
        functions[1, k] = norm_of(W[k]) + smallest_norm
        functions[2, k] = 1e-15 * abs(thresholds[k]) + underflow
    return functions


@njit(nogil=True, cache=True)
def _runs(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Runs of columns that follow one another in a plane: where each begins (and the last ends), and its bits."""
    starts = np.empty(places.shape[0] + 1, np.int64)
    masks = np.zeros(places.shape[0], np.int64)
    n = 0
    for k in range(places.shape[0]):
        if k == 0 or places[k] // OCTET != places[k - 1] // OCTET or places[k] <= places[k - 1]:
            starts[n] = k
            n += 1
        masks[n - 1] |= 1 << places[k] % OCTET
    starts[n] = places.shape[0]
    return starts[: n + 1], masks[:n]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _norm_and_dot(x: np.ndarray, c: np.ndarray) -> tuple[float, float]:
    """|x| and x . c in the precision of x, summed in any order."""
    square = product = x.dtype.type(0)
    for i in range(x.shape[0]):
        square += x[i] * x[i]
        product += x[i] * c[i]
    return np.sqrt(np.float64(square)), np.float64(product)


@njit(nogil=True, cache=True)
def _measure(Z: np.ndarray, centre: np.ndarray, sizes: np.ndarray) -> None:
    """|z| of rows and, where a centre is given, z . c."""
    for n in range(Z.shape[0]):
        if centre.shape[0]:
            sizes[0, n], sizes[1, n] = _norm_and_dot(Z[n], centre)
        else:
            sizes[0, n] = norm_of(Z[n])


@njit(nogil=True, cache=True)
def _project_and_measure(
    W: np.ndarray, Z: np.ndarray, projections: np.ndarray, centre: np.ndarray, sizes: np.ndarray
) -> None:
    """The projections of rows on a few functions, and `_measure` while the rows are in the nearest cache."""
    for start in range(0, Z.shape[0], POINTS):
        stop = min(start + POINTS, Z.shape[0])
        row_dots(W, Z, start, stop, projections)
        _measure(Z[start:stop], centre, sizes[:, start:stop])


@njit(nogil=True, cache=True)
def _pack(
    projections: np.ndarray,
    norms: np.ndarray,
    Z: np.ndarray,
    W: np.ndarray,
    functions: np.ndarray,
    places: np.ndarray,
    eps: float,
    smallest_norm: float,
    planes: np.ndarray,
    first_block: int,
) -> bool:
    """Write the bits of the rows Z with these projections and norms; returns whether all squares are finite."""
    starts, masks = _runs(places)
    lanes, finite = planes.shape[2], True
    reach = np.empty(lanes)
    for start in range(0, Z.shape[0], lanes):
        block, n = first_block + start // lanes, min(lanes, Z.shape[0] - start)
        for lane in range(n):
            finite &= norms[start + lane] < np.inf
            reach[lane] = (Z.shape[1] + 2) * (norms[start + lane] + smallest_norm)
        for i in range(masks.shape[0]):
            first, count = starts[i], starts[i + 1] - starts[i]
            line, others = planes[block, places[first] // OCTET], ~masks[i]
            used = (1 << count) - 1
            in_one_piece = masks[i] == used  # as the columns of a run come in order
            used |= used << OCTET
            for lane in range(n):
                octet = used & compare_octet(projections, start + lane, first, eps * reach[lane], functions)
                if octet >= 1 << OCTET:
                    octet = _decide(octet, W, first, Z[start + lane], functions, DOUBLE_EPS * reach[lane])
                if not in_one_piece:
                    octet = _spread(octet, places, first, count)
                line[lane] = line[lane] & others | octet
    return finite


def smallest_norm(width: int, dtype: np.dtype) -> float:
    """What a norm of so many values may lose to underflow of their squares."""
    return float(np.sqrt((width + 2) * np.finfo(dtype).tiny))


def describe(W: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """What a comparison needs of functions, with which a product's error is `eps (d + 2) |z| [1] + [2]`.

    |computed - exact| <= d eps/2 |z| |w| for any order of summation, plus d times the smallest number for products
    that underflow; the factor 2 covers second-order terms and the rounding of the norms themselves. These are of the
    same precision, so that where |z| |w| is finite no sum overflows on its way, and where it is not all is in doubt.
    """
    underflow = (W.shape[1] + 2) * float(np.finfo(W.dtype).smallest_subnormal)
    return _describe(W, thresholds, smallest_norm(W.shape[1], W.dtype), underflow)


class Signs:
    """Functions and the places of their bits: all that a comparison needs of them, made once for any number of rows.

    W is `(k, d)`, C-contiguous; thresholds are float64; a place is 8 * byte + bit.
    """

    def __init__(self, W: np.ndarray, thresholds: np.ndarray, places: np.ndarray) -> None:
        self._needs_no_padding = padded_width(W.shape[1]) == W.shape[1]  # else rows would have to be copied
        self._few = self._needs_no_padding and len(W) <= FEW_COLUMNS
        self._W, self._places = read_only(pad_rows(W) if self._few else W), places
        self._functions = describe(self._W, read_only(thresholds))
        self._eps, self._smallest = float(np.finfo(W.dtype).eps), smallest_norm(W.shape[1], W.dtype)
        self._no_centre = read_only(np.empty(0, W.dtype))

    def put(
        self,
        Z: np.ndarray,
        planes: np.ndarray,
        first_block: int = 0,
        look: Callable[[int, np.ndarray, np.ndarray], None] | None = None,
        centre: np.ndarray | None = None,
    ) -> None:
        """Bit `places[k]` of code n in the planes = is the projection of row n of Z at or above threshold k?

        Z is `(n, d)`, C-contiguous and of W's dtype. Planes are `(blocks, bytes, codes in a block)`; row 0 becomes the
        first code of `first_block`, and other bits stay. Rows that are not finite are refused as `checks.finite` does,
        when they are met. Whoever wants the projections too gets to `look(first row, projections, sizes)` block by
        block, while they are in the cache: sizes are |z| and, where a centre is given, z . c.
        """
        by_rows = self._few or (self._needs_no_padding and len(Z) <= FEW_ROWS)
        size, n_columns = min(len(Z), ROWS_READ_ONCE if self._few else BLOCK_ROWS), len(self._W)
        Z, c = read_only(Z), self._no_centre if centre is None else read_only(centre)
        functions = (self._W, self._functions, self._places, self._eps, self._smallest)
        products, room = np.zeros(size * n_columns + OCTET - 1, Z.dtype), np.empty((2, size))
        for start in range(0, len(Z), size or 1):
            block = Z[start : start + size]
            n, at = len(block), first_block + start // planes.shape[2]
            projections, sizes = products[: n * n_columns].reshape(n, n_columns), room[:, :n]
            if by_rows:
                _project_and_measure(self._W, block, projections, c, sizes)
            else:
                with np.errstate(over="ignore", invalid="ignore"):
                    np.matmul(block, self._W.T, out=projections)
                _measure(block, c, sizes)
            if not _pack(projections, sizes[0], block, *functions, planes, at):
                checks.finite(Z)
            if look is not None:
                look(start, projections, sizes)
