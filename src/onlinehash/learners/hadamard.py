"""Hadamard hashing: HCOH and HMOH, whose classes aim at the rows of a Hadamard matrix.

Mingbao Lin, Rongrong Ji, Hong Liu, Yongjian Wu: *Supervised Online Hashing via Hadamard Codebook Learning*. ACM
Multimedia 2018 (HCOH). Mingbao Lin and others: *Hadamard Matrix Guided Online Hashing*. International Journal of
Computer Vision 128, 2020 (HMOH).

The papers take a matrix of order r* >= max(r, number of classes), one row for a class, and fold rows to r bits by the
signs of a random projection where r* > r. A stream does not say how many classes will come. So here:
- r* is the least power of two from r on, and r of its columns are drawn: distances suffer less than from folding.
- Classes come in blocks of r*; inside a block they get the rows in random order. A further block takes the rows again,
  its columns negated at random, so that what the first classes were given stays and all words of a block keep their
  distances: r/2 exactly where r is a power of two. Between blocks words differ as random ones do.
- Every other row is negated, which changes no such distance. Otherwise one column of the matrix is constant, a bit that
  tells nothing (released code has it); the random negation of columns does the same for the constant row.
- A point of several classes aims at the sign of the sum of their codewords. Zeros of the sum are set to balance +1 and
  -1 (released code takes a maximum for a minimum there, and overwrites leading bits).

Readings taken: points are centred and scaled to unit length; a perceptron's zero projection is a mistake for either
sign, so that no class is favoured at the start (released code takes it for -1).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import hadamard

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.io.format import like, whole
from onlinehash.learners import hadamard_kernels as kernels
from onlinehash.learners.base import Traits
from onlinehash.learners.label_kernels import trace_of
from onlinehash.learners.linear import unit_columns
from onlinehash.learners.targets import TargetLearner
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import aligned_zeros
from onlinehash.types import RandomState, State

#: Times that the signs of a block are drawn until it repeats no codeword; of few bits there may be no such signs.
DRAWS = 100


def hadamard_codewords(n_bits: int, seed: int, block: int, known: np.ndarray) -> np.ndarray:
    """The codewords of one block of classes, int8 `(r*, n_bits)`, unlike those that are known wherever possible."""
    order = 1 << (n_bits - 1).bit_length()
    rng = np.random.default_rng([seed, 2, block])
    rows, columns = rng.permutation(order), rng.permutation(order)[:n_bits]
    words = hadamard(order, np.int8)[np.ix_(rows, columns)]
    words[1::2] *= -1
    taken = {word.tobytes() for word in known}
    for _ in range(DRAWS):
        signed: np.ndarray = words * rng.choice(np.array([-1, 1], np.int8), n_bits)
        if not any(word.tobytes() in taken for word in signed):
            break
    return signed


def more_codewords(known: np.ndarray, n_classes: int, n_bits: int, seed: int) -> np.ndarray:
    """The codewords of `n_classes` classes, int8 `(n_classes, n_bits)`, of which the first are known."""
    words, n = [known], len(known)
    while n < n_classes:
        order = 1 << (n_bits - 1).bit_length()
        block, first = divmod(n, order)
        before = np.concatenate(words)[: n - first]  # of whole blocks, so that any split draws alike
        drawn = hadamard_codewords(n_bits, seed, block, before)
        words.append(drawn[first : first + n_classes - n])
        n += len(words[-1])
    return np.concatenate(words)


class HadamardHashing(TargetLearner):
    """Learns to map each class to its own row of a Hadamard matrix, by gradient steps, one labelled point at a time.

    Rows of a Hadamard matrix are as far apart from each other as so many codes can be: r/2 bits, all of them. A class
    gets a row c when it is first seen, and each of its points x takes a step on |tanh(Wᵀx) - c|² / 2:

        F = tanh(Wᵀx),   W ← W - η x [(F - c) ⊙ (1 - F²)]ᵀ

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code; best a power of two.
    step : float, default=0.2
        The step size η.
    features, centre, burn_in, random_state
        As for every learner: see `Learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import HadamardHashing
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = HadamardHashing(n_bits=8, random_state=0)
    >>> learner.partial_fit(X, X[:, 0] > 0).encode(X)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="labels", unit="point", several_labels=True)

    def __init__(
        self,
        n_bits: int = 64,
        *,
        step: float = 0.2,
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.step = step
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {"step": checks.real(0, above=True)}

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(unit_columns(n_inputs, self.n_bits, rng))
        self._salt = int(rng.integers(2**63))

    def _draw_codewords(self, n_classes: int) -> np.ndarray:
        return more_codewords(self._codewords, n_classes, self.n_bits, self._seed)

    def _learn_labelled(self, X: np.ndarray, members: np.ndarray, updates: Updates) -> None:
        self._meet(members)
        kernels.descend(self._W, X, members, self._codewords, self._salt, float(self.step), trace_of(updates))


class HadamardMatchingHashing(TargetLearner):
    """Learns to map each class to its own row of a Hadamard matrix, by averaged perceptrons, one point at a time.

    Each bit is a perceptron V that starts at zero and moves only when it gets a point x of a class with codeword c
    wrong; the hash functions are the sum of all V there were, which is steadier than the last:

        v_k ← v_k + c_k x   where c_k v_kᵀx ≤ 0;      W ← W + V

    There is no step size: V starts at zero, so a factor would change no sign. The sum changes with every point, and so
    do nearly all bits of an index.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code; best a power of two.
    features, centre, burn_in, random_state
        As for every learner: see `Learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import HadamardMatchingHashing
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = HadamardMatchingHashing(n_bits=8, random_state=0)
    >>> learner.partial_fit(X, X[:, 0] > 0).encode(X)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="labels", unit="point", several_labels=True)

    def __init__(
        self,
        n_bits: int = 64,
        *,
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.random_state = random_state

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(np.zeros((1, n_inputs, self.n_bits)))
        self._salt = int(rng.integers(2**63))
        self._late = aligned_zeros((self.n_bits, n_inputs), np.float64)
        self._n_taught = 0

    def _draw_codewords(self, n_classes: int) -> np.ndarray:
        return more_codewords(self._codewords, n_classes, self.n_bits, self._seed)

    def _learn_labelled(self, X: np.ndarray, members: np.ndarray, updates: Updates) -> None:
        self._meet(members)
        self._n_taught = kernels.match(
            self._W, self._late, self._n_taught, X, members, self._codewords, self._salt, trace_of(updates)
        )

    def _functions(self) -> tuple[np.ndarray, np.ndarray]:
        summed = self._n_taught * self._W.astype(np.float64) - self._late
        return np.ascontiguousarray(summed[:, : self._n_inputs].astype(self.dtype_)), self._medians.values

    @property
    def projection_(self) -> np.ndarray:
        """W, the sum of the perceptrons (a copy)."""
        self._check_ready()
        return self._functions()[0].T.copy()

    def _get_method_state(self) -> State:
        late = np.ascontiguousarray(self._late[:, : self._n_inputs])
        return super()._get_method_state() | {"late": late, "n_taught": self._n_taught}

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        self._late[:, : self._n_inputs] = like(state["late"], self._late[:, : self._n_inputs], "late")
        self._n_taught = whole(state["n_taught"], "n_taught")
