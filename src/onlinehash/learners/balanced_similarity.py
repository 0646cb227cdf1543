"""Balanced similarity for online discrete hashing (BSODH).

Mingbao Lin, Rongrong Ji, Hong Liu, Xiaoshuai Sun, Yongjian Wu, Yunsheng Wu: *Towards Optimal Discrete Online Hashing
with Balanced Similarity*. AAAI Conference on Artificial Intelligence, 2019.

With X the rows of a chunk, B their codes and E the codes of all rows before, the chunk's objective is

    |B Eᵀ - r S|² + σ |X W - B|² + λ |W|²,     S_ij = η_s where row i and old row j have the same class, else -η_d

**Memory.** The paper keeps E, and S with a column for each old row. Neither is needed. E enters the step of B by EᵀE
and by its sums over each class alone, and the step of E gives all rows of a class the same code. So r² numbers, and
r for each class, stand for the whole stream, exactly: nothing has to be left out.

Where this departs from the authors' code, and why:
- σ is in P and r is in it once, as the derivation has it; the code leaves out σ and multiplies S by r twice.
- The order is B, E, W. B is then the only thing that the random first W can reach.
- B begins as sgn(XW). The code begins with the code of an old row of the same class; that changes nothing worth telling
  (mAP 0.629 and 0.637 with 32 bits of CIFAR-10 features, with and without).
- The first chunk is learned too, with its own codes sgn(XW) in the place of E; the paper only stores them, and a user
  with one chunk of points would have learned nothing.
- An old class of which the chunk has no row keeps its code, the sign of its sum. The paper's step would give all such
  classes one and the same code.
- λ is in units of the mean square length of the chunk's rows, and the random first W in units of their length, so
  that data of any scale will do.
- A chunk that `flush` ends early has few rows, which say little about W: it moves W by its share of a chunk.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.io.format import like
from onlinehash.learners.base import Traits
from onlinehash.learners.buffer import Rows
from onlinehash.learners.chunks import ChunkLearner
from onlinehash.learners.discrete_descent import settle_bits
from onlinehash.numeric.dots import pad_rows
from onlinehash.types import RandomState, State

#: Sweeps over the bits of a code, at most: most codes stay as they are after the second.
N_SWEEPS = 5


#: Rows that may have been learned: sums over them stay far from where an int64 ends.
MOST_ROWS = 2**48


class BalancedSimilarityHashing(ChunkLearner):
    """Learns from labelled chunks, whose codes should agree with the codes of all classes before.

    The codes of a chunk are found bit by bit, then those of the points before follow, then W is the ridge regression
    of the chunk's points on their codes. Most pairs are dissimilar, so these count less (S, see above):

        P = r S E + σ X W
        b_k ← sgn(p_k - Σ_{q≠k} (EᵀE)_kq b_q)          bits k = 1 .. r of each row, until none changes
        E ← sgn(Sᵀ B)
        W ← σ (σ XᵀX + λ I)⁻¹ Xᵀ B

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    chunk_size : int, default=2000
        Points that are learned together (n_t). W is learned from one chunk alone, so it should be some times the
        number of features.
    similar_weight : float, default=1.2
        η_s: the weight of pairs of the same class.
    dissimilar_weight : float, default=0.2
        η_d: the weight of other pairs.
    fit_weight : float, default=0.5
        σ: the weight of what W makes of the points, against their codes.
    ridge : float, default=0.6
        λ: the weight of the size of W.
    features, centre, burn_in, random_state
        As for every learner: see `Learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import BalancedSimilarityHashing
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = BalancedSimilarityHashing(n_bits=8, chunk_size=100, random_state=0)
    >>> learner.partial_fit(X, X[:, 0] > 0).encode(X)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="labels", unit="chunk")

    def __init__(
        self,
        n_bits: int = 64,
        *,
        chunk_size: int = 2000,
        similar_weight: float = 1.2,
        dissimilar_weight: float = 0.2,
        fit_weight: float = 0.5,
        ridge: float = 0.6,
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.chunk_size = chunk_size
        self.similar_weight = similar_weight
        self.dissimilar_weight = dissimilar_weight
        self.fit_weight = fit_weight
        self.ridge = ridge
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {
            "chunk_size": checks.integer(1, 10**6),
            "similar_weight": checks.real(0, checks.MOST_WEIGHT, above=True),
            "dissimilar_weight": checks.real(0, checks.MOST_WEIGHT),
            "fit_weight": checks.real(0, checks.MOST_WEIGHT, above=True),
            "ridge": checks.real(0, checks.MOST_WEIGHT, above=True),
        }

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(rng.standard_normal((1, n_inputs, self.n_bits)))
        self._lay_out_chunk(n_inputs)
        self._counts = np.zeros(0, np.int64)  # old rows of each class,
        self._sums = np.zeros((0, self.n_bits), np.int64)  # the sum of their codes,
        self._products = np.zeros((self.n_bits, self.n_bits), np.int64)  # and EᵀE of all

    def _learn_chunk(self, chunk: Rows) -> np.ndarray:
        X, classes = chunk.X.astype(np.float64), chunk.members[:, 0]
        self._make_room(int(classes.max()) + 1)
        W = self._W[:, : self._n_inputs].T.astype(np.float64)
        if not self._counts.any():
            W /= self._length(X)  # the first W is random, and knows no scale
        XW = X @ W
        B = self._codes(XW, classes)
        self._misfit = float(np.count_nonzero(_sgn(XW) != B))
        self._follow(B, classes)
        share = len(X) / min(self.chunk_size, int(self._counts.sum()))
        new = pad_rows((W + share * (self._regression(X, B) - W)).T.astype(self.dtype_))
        changed: np.ndarray = (new != self._W).any(axis=1)
        self._W = new
        return changed

    def _make_room(self, n_classes: int) -> None:
        more = max(n_classes - len(self._counts), 0)
        self._counts = np.pad(self._counts, (0, more))
        self._sums = np.pad(self._sums, ((0, more), (0, 0)))

    def _codes(self, XW: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """B: the codes of the chunk's rows, int64."""
        B = _sgn(XW)
        sums, products = self._sums, self._products
        if not self._counts.any():
            sums, products = _class_sums(B, classes, len(sums)), B.T @ B
        P = self.n_bits * self._balanced(sums)[classes] + self.fit_weight * XW
        settle_bits(B, P, products, N_SWEEPS)
        return B

    def _balanced(self, sums: np.ndarray) -> np.ndarray:
        """Rows of S times codes, for each class, from the sums of the codes over each class."""
        own = (self.similar_weight + self.dissimilar_weight) * sums
        balanced: np.ndarray = own - self.dissimilar_weight * sums.sum(axis=0)
        # Sums of codes are small integers and often cancel exactly; rounding must not choose the sign of a zero.
        balanced[np.abs(balanced) <= 8 * np.finfo(np.float64).eps * np.abs(own)] = 0.0
        return balanced

    def _follow(self, B: np.ndarray, classes: np.ndarray) -> None:
        """E: all old rows of a class get one code; then the chunk's rows are old ones."""
        sums = _class_sums(B, classes, len(self._sums))
        present = np.bincount(classes, minlength=len(sums))
        E = np.where(present[:, None] > 0, _sgn(self._balanced(sums)), _sgn(self._sums))
        old = self._counts[:, None] * E
        self._sums = old + sums
        self._products = E.T @ old + B.T @ B
        self._counts = self._counts + present

    def _regression(self, X: np.ndarray, B: np.ndarray) -> np.ndarray:
        """The W of least σ|XW - B|² + λs²|W|², by whichever of its two forms has the smaller matrix.

        s² is the mean square length of the rows: of unit length in the paper, and of any length here.
        """
        s = self._length(X)
        return self._regression_of_unit_rows(X / s, B) / s

    def _regression_of_unit_rows(self, X: np.ndarray, B: np.ndarray) -> np.ndarray:
        if len(X) < X.shape[1]:
            A = self.fit_weight * X @ X.T
            A[np.diag_indices_from(A)] += self.ridge
            return np.asarray(self.fit_weight * X.T @ scipy.linalg.solve(A, B, assume_a="pos"))
        A = self.fit_weight * X.T @ X
        A[np.diag_indices_from(A)] += self.ridge
        W: np.ndarray = scipy.linalg.solve(A, self.fit_weight * X.T @ B, assume_a="pos")
        return W

    def _length(self, X: np.ndarray) -> float:
        """The root of the mean square of the rows, 1 if all are zero.

        W is of the size of its inverse, so it is not taken for less than W's precision has room for.
        """
        length = math.sqrt(np.einsum("nd,nd->", X, X) / len(X)) or 1.0
        return max(length, 1 / math.sqrt(float(np.finfo(self.dtype_).max)))

    def _loss_of_chunk(self) -> float:
        """Bits by which the codes that the functions gave were not those the chunk wanted."""
        return self._misfit

    def _get_method_state(self) -> State:
        old = {"counts": self._counts, "sums": self._sums, "products": self._products}
        return super()._get_method_state() | old

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        n_classes = len(state["counts"])
        self._counts = like(state["counts"], np.zeros(n_classes, np.int64), "counts", 0, MOST_ROWS)
        sums = np.zeros((n_classes, self.n_bits), np.int64)
        self._sums = like(state["sums"], sums, "sums", -MOST_ROWS, MOST_ROWS)
        self._products = like(state["products"], self._products, "products", -MOST_ROWS, MOST_ROWS)


def _sgn(values: np.ndarray) -> np.ndarray:
    """+1 from zero on, else -1."""
    return np.where(values >= 0, 1, -1)


def _class_sums(B: np.ndarray, classes: np.ndarray, n_classes: int) -> np.ndarray:
    """The sum of the codes of each class."""
    sums = np.zeros((n_classes, B.shape[1]), np.int64)
    np.add.at(sums, classes, B)
    return sums
