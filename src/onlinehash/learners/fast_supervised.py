"""Fast supervised hashing with graph cuts and boosted trees (FastHash).

Guosheng Lin, Chunhua Shen, Qinfeng Shi, Anton van den Hengel, David Suter: *Fast Supervised Hashing with Decision
Trees for High-Dimensional Data*. IEEE Conference on Computer Vision and Pattern Recognition, 2014.

Readings taken, and where this departs from the authors' code:
- The loss of m bits is that of m bits: dissimilar points should be m/2 apart after bit m. Asking for r/2 from the first
  bit on makes early bits split classes (mAP 0.64 instead of 0.69 with 16 bits of CIFAR-10 features).
- Blocks of the graph cut are the classes: inside a class all pairs are similar, so no weight is positive. Without
  classes blocks are found greedily (`fast_supervised_pairs`), there are many more of them, and cuts that start with
  equal bits end in poor minima; so they start from the signs of an eigenvector.
  docs/reference/learners/fast-supervised.md has the figures.
- Weights are exact whole numbers (eight times the paper's), so cuts are exact too; see `block_cuts`.
- Boosting is Gentle AdaBoost with weight trimming. A leaf is a weighted mean of +1 and -1, never more than 1 in size,
  so that nothing needs to be clipped.
- The trees are grown here, on features cut into 32 bins once for all trees: with scikit-learn's trees, which sort every
  feature at every node, 20,000 rows take many times as long.
- A tree is offered a quarter of the features, drawn for it.
- The trees' own bits replace the inferred ones before the next bit, as in the paper: later bits mend what trees missed.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from onlinehash import checks
from onlinehash.errors import FormatError
from onlinehash.features import FeatureMap, Transformer
from onlinehash.features.boosted_trees import BoostedTrees
from onlinehash.learners import block_cuts
from onlinehash.learners import fast_supervised_kernels as kernels
from onlinehash.learners.base import Traits
from onlinehash.learners.batch import BatchLearner, Show, fit_similarities
from onlinehash.learners.fast_supervised_pairs import Pairs, pairs_of_classes, pairs_of_similarities
from onlinehash.types import RandomState, State

#: Passes over all blocks; a third changes next to nothing.
N_PASSES = 2

#: Steps of the power iteration that cuts start from where there are no classes.
N_STEPS = 50

#: The share of the features that a tree is offered, and the least number of them.
OFFERED, LEAST_OFFERED = 0.25, 16


class FastSupervisedHashing(BatchLearner):
    """Learns bit after bit what codes the labels (or similarities) want, and boosted trees that give them.

    Two steps for each bit: first the bit of every training point is inferred, without a thought of how it may be
    computed, then a sum of decision trees is fitted to it:

        L(d) = d² of a similar pair at distance d, max(0, m/2 - d)² of a dissimilar one    after m bits
        z = argmin Σ_pairs a_ij z_i z_j,  a_ij = (L(d_ij) - L(d_ij + 1)) / 2               by cuts, block by block
        h(x) = sgn(F(x)),  F ← F + the tree that fits z best, weighted by exp(-z F)        `n_trees` times

    The hash functions are not linear: a `snapshot` carries the trees as its feature map.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    n_trees : int, default=100
        Trees of each bit; time to learn and to encode grows with them.
    depth : int, default=4
        Questions from a tree's root to its leaves.
    n_partners : int, default=10
        Similar points, and dissimilar ones, that every training point is paired with.
    n_samples : int, default=20000
        Points to learn from, at most; of more, so many are drawn.
    features, random_state
        As for every learner: see `Learner`.

    Attributes
    ----------
    trees_ : BoostedTrees
        The trees, as arrays.
    projection_ : array of shape (n_bits, n_bits)
        The identity: a bit is the sign of its trees' score.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import FastSupervisedHashing
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = FastSupervisedHashing(n_bits=8, random_state=0)
    >>> learner.fit(X, X[:, 0] > 0).encode(X)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="labels", unit="batch")

    fit_similarities = fit_similarities

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_trees: int = 100,
        depth: int = 4,
        n_partners: int = 10,
        n_samples: int = 20_000,
        features: Transformer | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_trees = n_trees
        self.depth = depth
        self.n_partners = n_partners
        self.n_samples = n_samples
        self.features = features
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {
            "n_trees": checks.integer(1, 10**5),
            "depth": checks.integer(1, 10),
            "n_partners": checks.integer(1, 10**6),
            "n_samples": checks.integer(1, 10**9),
        }

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(np.eye(self.n_bits)[None])
        nodes, leaves = (self.n_bits, self.n_trees, 2**self.depth - 1), (self.n_bits, self.n_trees, 2**self.depth)
        trees = np.zeros(nodes, np.int32), np.zeros(nodes, self.dtype_), np.zeros(leaves)
        self.trees_ = BoostedTrees.of(self._map, np.zeros(n_inputs), *trees)

    # ------------------------------------------------------------------ learning

    def _fit(
        self, X: np.ndarray, known: np.ndarray | csr_array | None, rng: np.random.Generator, show: Show
    ) -> np.ndarray:
        assert known is not None
        by_classes = not isinstance(known, csr_array)
        draw = pairs_of_classes if by_classes else pairs_of_similarities
        pairs = draw(known, self.n_samples, self.n_partners, rng)
        X = X[pairs.rows]
        edges = kernels.bin_edges(X)
        bins = kernels.bins_of(X, edges)
        codes = Inference(pairs, None if by_classes else rng)
        trees = self.trees_
        cuts = np.empty(trees.feature.shape, np.uint8)
        for k in range(self.n_bits):
            show(k / self.n_bits, f"bit {k + 1} of {self.n_bits}")
            z, _ = codes.infer()
            scores = np.empty(len(X))
            kernels.boost(
                bins,
                z.astype(np.float64),
                self._draw_features(X.shape[1], rng),
                self.depth,
                trees.feature[k],
                cuts[k],
                trees.value[k],
                scores,
            )
            codes.add(np.where(scores.astype(self.dtype_) >= 0, 1, -1))
        # The last bin has no edge: a node that sends it to the left sends everything there.
        edges = np.append(edges, np.full((len(edges), 1), np.finfo(edges.dtype).max, edges.dtype), axis=1)
        trees.threshold[:] = edges[trees.feature, cuts]
        trees.mean[:] = self._centring.mean
        return np.eye(self.n_bits)

    def _draw_features(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """The features that each tree of a bit is offered, `(n_trees, some)`."""
        n_offered = min(n, max(LEAST_OFFERED, round(OFFERED * n)))
        shuffled = rng.permuted(np.tile(np.arange(n), (self.n_trees, 1)), axis=1)
        return np.sort(shuffled[:, :n_offered], axis=1)

    # ------------------------------------------------------------------ the trees go out

    @property
    def mean_(self) -> np.ndarray:
        """Zero for each bit: what the functions are applied to, the trees' scores, is not centred."""
        self._check_ready()
        return np.zeros(self.n_bits)

    def _encoding(self) -> tuple[np.ndarray, np.ndarray, FeatureMap | None]:
        return self._W[:, : self.n_bits], np.zeros(self.n_bits), self.trees_

    def _get_method_state(self) -> State:
        trees = {name: getattr(self.trees_, name) for name in ("feature", "threshold", "value")}
        return super()._get_method_state() | {"trees": trees}

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        trees, now = state["trees"], self.trees_
        if any(np.shape(trees[name]) != getattr(now, name).shape for name in ("feature", "threshold", "value")):
            raise FormatError("the trees of a learner have other shapes than its parameters say.")
        fresh = BoostedTrees(self._map)
        inner = None if self._map is None else self._map.get_state()
        fresh.set_state({**trees, "inner": inner, "mean": self._centring.mean})
        self.trees_ = fresh


class Inference:
    """The pairs among training points, the distances of their codes so far, and the bit that comes next."""

    def __init__(self, pairs: Pairs, rng: np.random.Generator | None = None) -> None:
        """With a generator, cuts start from the signs of an eigenvector; else from equal bits."""
        self.i, self.j, self.similar = pairs.i, pairs.j, pairs.similar
        self.distances = np.zeros(len(self.i), np.int64)
        self.n_bits = 0
        self._starts, self._rng = pairs.starts, rng
        ends = np.concatenate([self.i, self.j]), np.concatenate([self.j, self.i])
        numbers = np.tile(np.arange(len(self.i)), 2)
        self._numbers = csr_array((numbers, ends), shape=(len(pairs.rows), len(pairs.rows)))

    def infer(self) -> tuple[np.ndarray, list[int]]:
        """The next bit of each point, +1 or -1, and what its sum over pairs was before and after each pass."""
        a = pair_weights(self.distances, self.similar, self.n_bits + 1)
        graph = csr_array((a[self._numbers.data], self._numbers.indices, self._numbers.indptr), self._numbers.shape)
        z = np.ones(graph.shape[0], np.int64) if self._rng is None else leading_signs(graph, self._rng)
        return z, block_cuts.lower(graph, self._starts, z, N_PASSES)

    def add(self, bits: np.ndarray) -> None:
        """The next bit as the trees give it."""
        self.distances += bits[self.i] != bits[self.j]
        self.n_bits += 1

    def loss(self) -> float:
        """Σ L over all pairs, with the bits so far."""
        return float(four_losses(self.distances, self.similar, self.n_bits).sum() / 4)


def leading_signs(weights: csr_array, rng: np.random.Generator) -> np.ndarray:
    """Signs of about the vector v that makes vᵀ A v / vᵀ v least: the bits that it wants, were they real numbers."""
    A = weights.astype(np.float64)
    shift = max(float(abs(A).sum()) / A.shape[0], 1.0)  # makes the least eigenvalue the one of greatest size
    v = rng.standard_normal(A.shape[0])
    for _ in range(N_STEPS):
        v = shift * v - A @ v
        v /= np.linalg.norm(v)
    return np.where(v >= 0, 1, -1)


def four_losses(distances: np.ndarray, similar: np.ndarray, n_bits: int) -> np.ndarray:
    """4 L, whole numbers: L is d² of a similar pair, max(0, m/2 - d)² of a dissimilar one."""
    short = np.where(similar, 2 * distances, np.maximum(n_bits - 2 * distances, 0))
    return short * short


def pair_weights(distances: np.ndarray, similar: np.ndarray, n_bits: int) -> np.ndarray:
    """8 a: what equal bits cost a pair less what unequal ones cost."""
    apart = four_losses(distances + 1, similar, n_bits)
    weights: np.ndarray = four_losses(distances, similar, n_bits) - apart
    return weights
