"""Fast online sketching hashing (FROSH): OSH whose chunks are mixed down to few rows before they are sketched.

Xixian Chen, Irwin King, Michael R. Lyu: *FROSH: FasteR Online Sketching Hashing*. UAI 2017 (arXiv 2010.04948).

We found no public code. Readings taken:
- The buffer that is mixed is the chunk, filled with zero rows up to a power of two.
- Each chunk has signs and a sample of its own, drawn from the seed and the number of points before it.
- The row that carries the shift of the mean is not mixed: it goes into the sketch as it is, so the mean stays exact.
- A chunk that is not longer than what it would be mixed down to is sketched as it is.
"""

from __future__ import annotations

import numpy as np

from onlinehash.learners.sketching import OnlineSketchingHashing
from onlinehash.numeric.kernels import njit

#: Columns transformed at once: a block of a thousand rows then stays in the second-level cache.
COLUMNS = 16


class FastSketchingHashing(OnlineSketchingHashing):
    """Online sketching hashing that sketches a random mixture of each chunk: several times faster, less exact.

    The m centred rows X of a chunk become q = ℓ/2 rows by a subsampled randomised Hadamard transform

        Φ X = √(m / q) S H D X

    with D random signs, H the orthonormal Walsh-Hadamard matrix and S a sample of q rows without replacement, so that
    E[(ΦX)ᵀΦX] = XᵀX. They fill the sketch once, so it shrinks once a chunk and not 2m/ℓ times. Everything else is as
    in `OnlineSketchingHashing`.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    sketch_size : int, default=200
        Rows ℓ of the sketch, raised to 2r where that is more; memory is O(n_inputs (ℓ + chunk_size)).
    chunk_size : int, default=1000
        Points learned at once; longer chunks are faster, and mixed more coarsely.
    features, random_state
        As for every learner: see `Learner`. The method keeps its own mean, so there is no `centre`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import FastSketchingHashing
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = FastSketchingHashing(n_bits=8, chunk_size=100, random_state=0)
    >>> learner.partial_fit(X).encode(X)
    Codes(n=200, n_bits=8)
    """

    def _reduced(self, rows: np.ndarray) -> np.ndarray:
        q = max(self._half - (self._n_learned > 0), 1)  # with the row of the mean they are half a sketch
        if len(rows) <= q:
            return rows
        rng = np.random.default_rng([self._seed, 2, self._n_learned])
        size = 1 << (len(rows) - 1).bit_length()
        signs = rng.choice([-1.0, 1.0], size)
        sample = rng.choice(size, q, replace=False)
        return hadamard_sample(rows, signs, sample)


@njit(nogil=True, cache=True)
def hadamard_sample(X: np.ndarray, signs: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """√(m / q) S H D X for m signs (a power of two, at least the rows of X) and the q numbers in the sample."""
    n, d = X.shape
    scale = 1.0 / np.sqrt(len(sample))  # √(m / q) times the 1 / √m of H
    out = np.empty((len(sample), d))
    block = np.empty((len(signs), COLUMNS))
    for first in range(0, d, COLUMNS):
        width = min(COLUMNS, d - first)
        block[:] = 0.0
        for i in range(n):
            for j in range(width):
                block[i, j] = signs[i] * X[i, first + j]
        _hadamard(block)
        for i in range(len(sample)):
            for j in range(width):
                out[i, first + j] = scale * block[sample[i], j]
    return out


@njit(nogil=True, cache=True)
def _hadamard(block: np.ndarray) -> None:
    """The Walsh-Hadamard transform of each column, in place."""
    half = 1
    while half < block.shape[0]:
        for start in range(0, block.shape[0], 2 * half):
            for i in range(start, start + half):
                for j in range(block.shape[1]):
                    a, b = block[i, j], block[i + half, j]
                    block[i, j] = a + b
                    block[i + half, j] = a - b
        half *= 2
