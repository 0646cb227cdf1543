"""Blended pair hashing: codes that begin from the data, and go as far towards the pairs as further pairs confirm.

Embeddings know much before anybody teaches them: after a few hundred pairs, functions learned from scratch are worse
than Iterative Quantization (ITQ) without a single pair. And how far pairs should move codes depends on the data: with
ten classes a few hundred pairs say a lot, with 150 classes they say little, and a bold step destroys what was there.

- *The beginning*: the first points, observed or in pairs, are kept, and W₀ is ITQ's rotation of their principal
  directions. It is found again whenever the points have doubled (from 1/64, but at least 16, to all of those wanted:
  `burn_in`, but at least 8 for each bit), and each time the pairs so far are learned again from it. Then the points
  wait until walks are tried, or many pairs have come.
- *Learning* is that of `SmoothPairHashing`, from W₀ scaled so that the first steps turn functions less.
- *Blending*: codes are those of W₀ + α (W - W₀). Each pair is first a question: how far up does a similar pair come,
  among similar pairs and among others, for α of 0, 0.1, 0.3 and 1? Only then it is learned. Others are pairs that were
  called dissimilar and points that nobody paired. α is the mean of the four, weighted by the exponential of that
  evidence, older pairs being forgotten. So it begins in the middle, and needs evidence to leave it; the better the
  beginning answers, the more of it.
- *Marks on results* come many to a query. Pairs that share a point count together as one question, none if the chunk
  before had the point, and their step is shorter.
- *Inference*: what is shown is near the query, so marks on it never say that far points are similar. But two results
  that are similar to the same query are similar to each other, though they may be far apart, and one of them and a
  result that is dissimilar are dissimilar. These pairs are learned, too, with at most the weight of those that were
  marked, and at least as large a share of similar ones. They are no question for α, and pairs without a common point
  infer nothing.
- *Groups*: results come back for other queries and other people, and then more follows: chains of similar marks connect
  points that are far apart (`groups`). As far as marks confirm such groups, a point of each pair is paired with a point
  kept from before, of its own group or of one that differs from it. These pairs weigh twice as much as marks, and
  lengthen the step, up to that of random pairs: they are not alike.
- *Searching*: marks on near points hardly tell which α is best for far ones, so they count less. Groups tell: with
  points that come for the first time and are found to belong to one, it is searched for among points kept, and the
  more precise this search is with an α, the better.
- *Replay*: after each chunk of marks, pairs of points kept are learned, as groups tell them, in chunks of their own.
  Groups say most while marks are few, and so replays become smaller with their number.
- *Walks*: where marks say that points as near to each other as neighbours are mostly similar, points that nobody marked
  teach, too: the ends of walks from neighbour to neighbour are similar, any two points are not (`neighbours`). Whether
  that holds, points tell themselves: once, walks among most of those observed are learned, and walks among the others
  are the question. If codes find their ends no better than before, nothing is learned from walks.
- *Small classes*: where nearly all that is near is similar, the beginning is good, and what marks say of near points
  easily spoils the rest. But then walks hardly ever leave a class, and go on being asked. If they are not learned, what
  they say of α counts.
- *Near means similar*: where cosines alone tell which marks are similar, chains and walks lead away from what is
  similar. Then α is the more careful of what marks say and what searches say.
"""

from __future__ import annotations

import numpy as np

from onlinehash.io.format import MOST, like, listed, real, whole
from onlinehash.learners.buffer import Buffer, Rows
from onlinehash.learners.damping import WINDOW, Damping
from onlinehash.learners.groups import OF_WALKS, Groups
from onlinehash.learners.iterative_quantization import rotated_directions
from onlinehash.learners.neighbours import nearness_of_neighbours
from onlinehash.learners.smooth_kernels import (
    NO_KEY,
    add_pulls,
    blend_of,
    count_distances,
    count_found,
    evidence_of,
    inferred,
    load_unit_rows,
    projections,
    pulls,
    take_in,
)
from onlinehash.learners.smooth_pairs import (
    AGREE,
    DIFFER,
    MANY_PAIRS,
    OF_FLIPS,
    SHARPNESS,
    STEADY,
    SmoothPairHashing,
    rms,
)
from onlinehash.learners.surprise import Surprise
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import pad_rows
from onlinehash.numeric.threads import one_thread
from onlinehash.types import State

#: Root mean square of the first projections. Larger ones turn less with each step.
FIRST_SCALE = 1.0

#: α's candidates, and the number of pairs of a kind in which the weight of an older answer halves.
SHARES, HALF_LIFE = np.array([0.0, 0.1, 0.3, 1.0]), 100

#: The weight of a pair that groups tell, in marks.
OF_GROUPS = 2.0

#: New points are searched for among so many points kept. What marks on near points say of α counts this part, as if at
#: most so many of them were similar, and ever less with the number of searches: after so many, nothing.
N_SEARCHED, OF_NEAR, MOST_NEAR, ENOUGH_SEARCHES = 256, 0.25, 25.0, 20

#: Chunks of pairs of points kept that follow a chunk of marks; after so many pairs they are ever smaller. Similar ones
#: weigh twice as much as others, as they would if they were one in five.
REPLAYS, UNTIL, OF_REPLAYS = 2, 5000, 0.2

#: Chunks of walks that follow a chunk of marks; after so many pairs they are ever fewer.
WALKS, UNTIL_WALKS = 8, 2000

#: Walks are learned from so many marks on, while more than half of the marks as far apart as neighbours are similar, by
#: this over the square root of their number; where cosines alone tell which marks are, so many of them must be.
FIRST_MARKS, FOR_FEW, NEARLY_ALL = 60, 2.0, 0.99

#: To try walks: points that it takes, the share of them that is asked and not learned, pairs that are drawn to learn,
#: walks that are asked, and which of `SHARES` must find the ends of these better than the first one, 0.
POINTS_TO_WALK, HELD_OUT, LESSONS, QUESTIONS, BETTER = 1000, 0.25, 7000, 3000, 2

#: Where it does, so much is known of each α beforehand, as exponents, once so many marks have come: bold codes find
#: more of a class, but before that the first results suffer.
BOLDER, BOLD_AFTER = np.array([-2.0, -1.0, 0.0, 0.0]), 1000

#: Walks stay in their class where so many of the marks as far apart as neighbours are similar; where walks are not
#: learned, while so many are.
IN_CLASS, STILL_IN_CLASS = 0.85, 0.75

#: There, so many points are also searched for, with so many walks from each. When walks are tried, such searches may be
#: worse by this, as points that were learned are in the way of those that were not.
N_SEARCHING, WALKS_EACH, HARDLY_WORSE = 256, 24, -0.03

#: What walks say of α, where they are not learned, counts as so many of them.
AS_MANY = 60.0

NO_ROWS, NO_PAIRS = np.empty(0, np.int64), np.empty(0, np.bool_)

#: After `MANY_PAIRS`, one chunk in so many is asked for α, and tells which bits to publish.
LOOKED_AT = 4

#: Points that a bit needs, however small `burn_in` is: ITQ of fewer points than bits fits nothing.
POINTS_PER_BIT = 8

#: The most points that are kept, and at which parts of them a beginning is found.
MOST_POINTS, PARTS = 2000, (64, 32, 16, 8, 4, 2, 1)

#: Points of the first beginning at least: ITQ of fewer has so few directions that random projections are better.
FEWEST_POINTS = 16

#: ITQ's iterations, and those of codes longer than this, each of which takes as long as the cube of the length: the mAP
#: of these codes is the same after ten.
N_ITERATIONS, LONG_CODE, OF_LONG_CODES = 50, 128, 10


class BlendedPairHashing(SmoothPairHashing):
    """The recommended learner from pairs: begins with ITQ's codes, and trusts what it learns as far as it proves true.

    With W₀ from the first points alone, and W learned from pairs beginning there (see `SmoothPairHashing`),

        h(x) = sgn((W₀ + α (W - W₀))ᵀ x)
        α = Σ_i α_i exp(0.4 J_i + b_i) / Σ_i exp(0.4 J_i + b_i)      α_i = 0, 0.1, 0.3, 1
        J = Σ_similar log((S(d) + 0.01) / (F(d) + 0.01))

    d is the Hamming distance of a similar pair not learned yet, S(d) the part of such pairs that is nearer, and
    F(d) that of others: 0.8 times of points that nobody paired, 0.2 times of pairs called dissimilar. The weight of a
    pair falls with the square of how far back in the stream it is, and halves at least with every 100 of its kind.

    b prefers a beginning that answers well already: with q = J_0 / (n + 2) for n similar pairs, b = (c, c/2, 0, 0),
    c = 2 max(q - 1.5, 0) max(2 m - 1, 0), where m is the part of all pairs that share no point with others of their
    chunk (of k that share one, 1 / k). Where c > 0, only the best α_i and its neighbours are in the sums.

    Marks on results say more than they are: what follows from those of one chunk is learned, and so are pairs of points
    that chains of similar marks connect, over all chunks, as far as later marks confirm these.

    But marks on results are on near points, and near points hardly tell which α is best for far ones. So with them,
    0.4 J_i is 0.1 J_i max(1 - s / 20, 0) + P_i, and b is 0. P adds up, over s points that came for the first time and
    were found to belong to a group that chains connect, the mean of the logarithm of the precision down to each point
    of the group, in a search among 256 points kept. J counts 25 similar pairs at most here, and all of it, without P,
    where marks tell that such groups are no classes. Where, of a similar and a dissimilar mark, the similar one has the
    larger cosine in more than 95 % of cases, α is the smaller of this one and the one before.

    Where points as near as neighbours are surely more often similar than not, by a normal distribution of the cosines
    of either kind of mark, walks among 2,048 points are tried, and learned from if that helps to find the ends of other
    walks with α = 0.3. b is then (-2, -1, 0, 0) min(t / 1000, 1), with t marks.

    Where 85 % of points as near are similar, these ends are also searched for among all, for each of 256 points. Walks
    are learned as long as α = 0.3 finds them as precisely as α = 0 does; in the trial, hardly less precisely. Where
    they are not, b is 60 times what walks say of each α: the mean logarithm of that precision, or the mean of what J
    would be of walks. Each is less that of α = 0, and the smaller one counts, while 75 % of points as near are similar.
    They are asked again after an eighth more marks, but at least 250.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    chunk_size : int, default=32
        Pairs learned at one time.
    stale_share : float, default=0.05
        A bit is published when so large a share of recent points would change theirs; with 0, when any would.
    burn_in : int, default=2000
        Points after which the mean is frozen. The beginning is final after as many, but after 8 points for each bit at
        least and 2,000 at most; they are kept until walks were tried, for which it takes 1,000, or 2,000 pairs learned.
    features, centre, similar_share, reservoir_size, random_state
        As for every learner: see `Learner`.

    Attributes
    ----------
    blend_ : float
        α: 0 shows the beginning, 1 all that was learned.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import BlendedPairHashing
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 16))
    >>> learner = BlendedPairHashing(n_bits=8, random_state=0)
    >>> learner.partial_fit_pairs(A, B, A[:, 0] * B[:, 0] > 0).encode(A)
    Codes(n=200, n_bits=8)
    """

    _some = 32

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        super()._begin(n_inputs, rng)
        self._points: Buffer | None = self._room()
        self._begun_with = 0
        self._observed: np.ndarray | None = None  # points to walk among, until marks tell whether to
        self._infers = self._has_groups = self._has_walks = True  # files from before one of these go on without
        self._start_from(self._learning[:, :n_inputs])

    def _room(self) -> Buffer:
        """For the points of the last beginning, and one more, which a pair may bring."""
        point = ((self._n_inputs,), self.dtype_)
        return Buffer(self._n_points + 1, {"X": point, "kind": ((), np.int8), "weight": ((), np.float64)})

    def _start_from(self, W: np.ndarray) -> None:
        """Functions, a row each, from which nothing has been learned yet."""
        self._first = pad_rows(W.astype(self.dtype_))  # W₀
        self._learning = self._damping.widened(W)
        self._momentum = np.zeros_like(self._learning)
        self._squares = np.zeros(self.n_bits)
        self._surprise = Surprise()
        self._share = np.array([0.5, 2.0])
        self._mean_weight = np.ones(1)
        self._n_chunks = self._n_learned = self._directions_at = 0
        self._n_whole = 0.0  # chunks learned, where one that was ended early counts by its part
        self._distances = np.zeros((len(SHARES), 3, self.n_bits + 1))  # dissimilar, similar, other pairs
        self._n_apart = 0.0  # pairs learned, where those that share a point count as one
        self._caution = 0.0
        self._precision, self._n_searches = np.zeros(len(SHARES)), 0.0  # sums of logarithms, and how many searches
        self._keys = np.full((2, self.chunk_size), NO_KEY)  # of the points of the chunk before
        self._groups = Groups(self._n_inputs, self.dtype_)
        self._nearness: float | None = None  # mean cosine of neighbours, found when it is asked for
        self._n_walked = self._connect_at = 0
        self._walks_say: np.ndarray | None = None  # of each α, by walks, where it does not help to learn these
        self._weigh_shares()

    # ------------------------------------------------------------------ the beginning

    def _observe(self, X: np.ndarray, updates: Updates) -> None:
        start = 0
        while self._points is not None and start < len(X):
            rows = X[start : start + self._target() - self._points.count, : self._n_inputs]
            self._points.put(X=rows, kind=np.zeros(len(rows)), weight=np.zeros(len(rows)))
            start += len(rows)
            if self._is_due():
                updates.moved[start - 1] |= self._begin_from_points().any()

    @property
    def _n_points(self) -> int:
        """Points of the last beginning."""
        return min(max(self.burn_in, POINTS_PER_BIT * self.n_bits), MOST_POINTS)

    def _target(self) -> int:
        """With how many points W₀ is found next."""
        least = min(max(self._begun_with + 1, FEWEST_POINTS), self._n_points)
        return next(n for n in (self._n_points // part for part in PARTS) if n >= least)

    def _is_due(self) -> bool:
        return self._points is not None and self._points.count >= self._target()

    def _keep(self, chunk: Rows) -> int:
        """Keep the points of as many pairs as there is room for; how many that were."""
        if self._points is None:
            return 0
        n = min(len(chunk.A), self._points.room // 2)
        X = np.stack([chunk.A[:n], chunk.B[:n]], axis=1).reshape(-1, self._n_inputs)
        kind, weight = (np.repeat(values[:n], 2) for values in (chunk.similar, chunk.weights))
        self._points.put(X=X, kind=kind, weight=weight)
        return n

    def _begin_from_points(self) -> np.ndarray:
        """Find W₀ from the points kept and learn the pairs among them again: the columns that changed."""
        assert self._points is not None
        kept, is_last = self._points.rows(), self._points.count >= self._n_points
        X, _ = self._unit_rows(kept.X)
        damping = Damping(self._n_inputs, np.random.default_rng([self._seed, 3]), self.dtype_)
        damping.enter(X)
        damping.find_directions()
        self._begun_with = len(X)
        if not damping.has_directions:  # all points are the mean itself: wait for others
            if is_last:
                self._points, self._begun_with = self._room(), 0
            return np.zeros(self.n_bits, np.bool_)
        n_iterations = N_ITERATIONS if self.n_bits <= LONG_CODE else OF_LONG_CODES
        with one_thread():
            W = rotated_directions(kept.X, self.n_bits, n_iterations, np.random.default_rng([self._seed, 2]))
            scale = FIRST_SCALE / max(rms(X @ W), 1e-30)
        self._damping = damping
        self._start_from(W.T * scale)
        A, B = (rows := np.flatnonzero(kept.kind))[0::2], rows[1::2]
        for start in range(0, len(A), self.chunk_size):
            a, b = A[start : start + self.chunk_size], B[start : start + self.chunk_size]
            self._descend(kept.X[a], kept.X[b], kept.kind[a] > 0, kept.weight[a])
        if is_last:
            walks = self._has_walks and len(kept.X) >= POINTS_TO_WALK
            self._points, self._observed = None, kept.X.copy() if walks else None
        return self._show(np.ones(self.n_bits, np.bool_))

    # ------------------------------------------------------------------ a chunk

    def _learn_chunk(self, chunk: Rows) -> np.ndarray | None:
        A, B, similar, weights = chunk.A, chunk.B, chunk.similar > 0, chunk.weights
        n_kept, changed = self._keep(chunk), None
        if self._is_due():
            changed = self._begin_from_points()  # which learns what was kept
            A, B, similar, weights = A[n_kept:], B[n_kept:], similar[n_kept:], weights[n_kept:]
        if self._damping.has_directions and len(A) and (shown := self._descend(A, B, similar, weights)) is not None:
            published = self._publish(*shown)
            changed = published if changed is None else changed | published
        return changed

    def _descend(
        self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Ask the pairs for α, then learn them.

        Returns their points, and the projections that codes should show (before this step), or None where this chunk
        was not looked at.
        """
        if not weights.any():
            return None
        n, rows, alike = len(A), NO_ROWS, NO_PAIRS
        X = points = self._damping.rows(2 * n)
        weights, keys, times, is_new, same, most = take_in(
            A,
            B,
            similar,
            weights,
            self._rate(n),
            WINDOW,
            self._pattern,
            self._keys,
            self._mean_weight,
            self._share,
            X,
        )
        self._follow(X, n)
        self._n_apart += n if most == 1 else float((1 / times).sum())
        p = float(self._share[0])
        is_asked = self._n_learned <= MANY_PAIRS or self._n_chunks % LOOKED_AT == 0
        new = self._enter_groups(X, keys, similar, weights, p, is_asked) if self._has_groups else NO_ROWS
        may_walk = self._may_walk()
        is_told = self._groups.is_near and self._groups.is_trusted
        if is_told:
            rng = np.random.default_rng([self._seed, 4, self._n_chunks])
            rows, partners, alike = self._told_by_groups(keys, p, rng)
            X = np.concatenate([X, self._damping.widened(partners)]) if len(rows) else X
        learned, shown = self._damping.completed_projections(self._learning, X), None
        if is_asked:
            first = projections(self._first, points)
            if self._has_groups:
                self._search(keys.reshape(-1), new, first[new], learned[new], (weights / times)[new % n])
            self._ask(n, first, learned[: 2 * n], similar, weights * is_new / times)
            shown = points, first + self.dtype_.type(self._blend) * (learned[: 2 * n] - first)
        if self._groups.is_near:
            self._groups.keep(keys.reshape(-1), points)
            self._weigh_shares()  # where these marks have told of groups, also if they are not asked
        F = np.tanh(learned)
        loss, pull = pulls(F, similar, weights, p, AGREE, DIFFER, SHARPNESS)
        if self._infers and most > 1:
            add_pulls(F, *inferred(same, similar, weights, p), n, p, AGREE, DIFFER, SHARPNESS, pull)
        if len(rows):
            weight = np.full(len(rows), OF_GROUPS * weights.mean())
            partners = np.arange(2 * n, len(X))
            add_pulls(F, rows, partners, alike, weight, n, p, AGREE, DIFFER, SHARPNESS, pull)
        self._n_chunks += 1
        self._surprise.enter(loss, n)
        worth = n if most == 1 else float((1 / np.sqrt(times)).sum())  # marks that share a point are alike
        part = min(worth + len(rows), n) / self.chunk_size
        self._n_whole += part
        self._step(X, pull, part, part, self._n_whole)
        if is_told:
            for _ in range(REPLAYS):
                pairs = self._groups.draw_pairs(round(n * min(1, UNTIL / self._n_learned)), rng)
                self._learn_kept(*pairs, OF_REPLAYS)
        if may_walk:
            self._walk(n)
        return shown

    def _enter_groups(
        self, X: np.ndarray, keys: np.ndarray, similar: np.ndarray, weights: np.ndarray, p: float, is_asked: bool
    ) -> np.ndarray:
        """Marks enter the groups, if they are on near points. Returns which rows are points that come for the first
        time, of chunks that are asked."""
        if is_asked:
            self._groups.look(X, keys, similar, weights)
        if not self._groups.is_near:
            return NO_ROWS
        new = self._groups.strangers(keys.reshape(-1)) if is_asked else NO_ROWS
        cosines = self._groups.cosines(X)
        self._groups.enter(keys, similar, self._groups.weights_of_near(cosines, similar, weights), cosines, p)
        return new

    def _told_by_groups(
        self, keys: np.ndarray, p: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of the points marked to which groups give a partner, the partners, and whether they are similar."""
        n = np.arange(keys.shape[1])
        rows = n + len(n) * ((n + self._n_chunks) % 2)  # one point of each pair, from both sides in turn
        found, places, alike = self._groups.draw(keys.reshape(-1)[rows], p, rng)
        return rows[found], self._groups.X[places], alike

    def _learn_kept(self, left: np.ndarray, right: np.ndarray, alike: np.ndarray, p: float, less: float = 1.0) -> None:
        """Take a step, or less, for pairs of points kept, of which about a share p is similar."""
        if len(alike):
            X = self._damping.widened(self._groups.X[np.concatenate([left, right])])
            F = np.tanh(self._damping.completed_projections(self._learning, X))
            _, pull = pulls(F, alike, np.ones(len(alike)), p, AGREE, DIFFER, SHARPNESS)
            part = len(alike) / self.chunk_size
            self._n_whole += part
            self._step(X, pull, less * part, part, self._n_whole)

    # ------------------------------------------------------------------ walks

    def _may_walk(self) -> bool:
        """Whether there are points to walk among now. When there are enough marks, try to learn from walks."""
        groups = self._groups
        if self._n_learned > MANY_PAIRS:
            self._observed = None
        if not groups.is_near or groups.are_no_classes or self._share[1] < FIRST_MARKS:
            return False
        if self._observed is not None and self._nearness is None:
            self._nearness = nearness_of_neighbours(self._first, self._unit_rows(self._observed)[0])
        if not self._is_near_similar():
            return False
        if self._observed is not None:
            self._try_walks(self._observed)
            self._observed = None
        return groups.has_neighbours

    def _similar_neighbours(self) -> float:
        """The share of similar ones among marks as far apart as neighbours; none, where that tells nothing."""
        groups = self._groups
        if self._nearness is None or not groups.is_near or groups.are_no_classes:
            return 0.0
        return groups.similar_at(self._nearness)

    def _is_near_similar(self) -> bool:
        """Whether points as near as neighbours surely are mostly similar."""
        groups = self._groups
        least = NEARLY_ALL if groups.cosines_tell else 0.5 + FOR_FEW / np.sqrt(max(groups.n_counted, 1))
        return bool(self._similar_neighbours() >= least)

    def _stay_in_class(self) -> bool:
        """Whether nearly all points as near as neighbours are similar, so that also many steps lead to similar ones."""
        least = IN_CLASS if self._walks_say is None else STILL_IN_CLASS
        return self._is_near_similar() and self._similar_neighbours() >= least

    @property
    def _is_walking(self) -> bool:
        """Whether walks are learned: they were tried, and help."""
        return self._groups.has_neighbours and self._walks_say is None

    def _unit_rows(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points observed, as those of marks are, and their keys."""
        rows, keys = np.empty_like(X), np.empty(len(X))
        load_unit_rows(X, X[:0], self._pattern, rows, keys)
        return rows, keys

    def _walk(self, n: int) -> None:
        """Learn some walks after n marks, as long as that helps."""
        rng = np.random.default_rng([self._seed, 6, self._n_chunks])
        if self._n_learned >= self._connect_at and (self._is_walking or self._stay_in_class()):
            self._connect()
            if self._stay_in_class():
                self._ask_walks(rng)
        if self._is_walking:
            walks = self._groups.draw_walks(round(WALKS * n * min(1, UNTIL_WALKS / self._n_learned)), rng)
            for start in range(0, len(walks[0]), n):
                self._learn_walks(*(what[start : start + n] for what in walks))

    def _connect(self) -> None:
        """Find neighbours among the points kept, of which some are new."""
        self._groups.connect(self._first)
        self._connect_at = self._n_learned + max(MANY_PAIRS, self._n_learned) // 8

    def _learn_walks(self, left: np.ndarray, right: np.ndarray, alike: np.ndarray) -> None:
        """With steps that become smaller: there are as many walks as one likes."""
        self._learn_kept(left, right, alike, OF_WALKS, 1 / np.sqrt(1 + self._n_walked / STEADY))
        self._n_walked += len(alike)

    def _try_walks(self, observed: np.ndarray) -> None:
        """Learn from walks among points observed, and go on with it if that helps."""
        (X, keys), n_marked = self._unit_rows(observed), self._groups.n_kept
        self._groups.add_unmarked(keys, X)
        if self._groups.n_kept < POINTS_TO_WALK:
            self._groups.keep_first(n_marked)
            return
        self._connect()
        before = self._learning.copy(), self._momentum.copy(), self._squares.copy(), self._n_whole
        does_help, said = self._do_walks_help()
        if not does_help:  # what can come of learning is said, and what did so far
            self._learning, self._momentum, self._squares, self._n_whole = before
            every, rng = np.ones(self._groups.n_kept, np.bool_), np.random.default_rng([self._seed, 8])
            so_far = np.minimum(self._search_for_ends(every, rng), self._distances_of_ends(every, rng))
            self._walks_say = np.minimum(said, so_far)

    def _do_walks_help(self) -> tuple[bool, np.ndarray]:
        """Learn walks among most of the points kept: do codes find the ends of walks among the others better now? Also
        what these walks say of each α."""
        rng = np.random.default_rng([self._seed, 7])
        is_asked = rng.random(self._groups.n_kept) < HELD_OUT
        n = min(self.chunk_size, LESSONS)
        for _ in range(LESSONS // n):
            left, right, alike = self._groups.draw_walks(n, rng)
            is_lesson = ~is_asked[left] & ~is_asked[right]
            self._learn_walks(left[is_lesson], right[is_lesson], alike[is_lesson])
        said = self._distances_of_ends(is_asked, rng)
        does_help = bool(said[BETTER] > 0)
        if self._stay_in_class():
            found = self._search_for_ends(is_asked, rng)
            does_help &= bool(found[BETTER] > HARDLY_WORSE)
            said = np.minimum(said, found)
        return does_help, said

    def _ask_walks(self, rng: np.random.Generator) -> None:
        """Do codes still find the ends of walks as precisely for what was learned? If not, no more walks are learned.
        Where none are, walks tell α, by searches or by distances, whichever is less."""
        every = np.ones(self._groups.n_kept, np.bool_)
        found = self._search_for_ends(every, rng)
        if self._walks_say is not None or found[BETTER] < 0:
            self._walks_say = np.minimum(found, self._distances_of_ends(every, rng))
            self._weigh_shares()

    def _search_for_ends(self, is_asked: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """How precise is a search among the points kept, for some of those asked, down to the ends of walks from there
        that are among these? The mean logarithm for each α, less that of the first codes."""
        points = rng.permutation(np.flatnonzero(is_asked))[:N_SEARCHING]
        ends, row = self._groups.walk(points.repeat(WALKS_EACH), rng), np.arange(len(points)).repeat(WALKS_EACH)
        wanted, found = np.zeros((len(points), len(is_asked)), np.int8), (ends >= 0) & is_asked[ends]
        wanted[row[found], ends[found]] = 1
        wanted[np.arange(len(points)), points] = -1
        first, learned = (np.concatenate([F[points], F]) for F in self._of_kept())
        said = np.zeros(len(SHARES))
        weight = count_found(first, learned, wanted, np.ones(len(points)), SHARES, said)
        return np.asarray((said - said[0]) / max(weight, 1))

    def _distances_of_ends(self, is_asked: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The mean evidence for each α, less that of the first codes, if walks between points that are asked were
        similar pairs."""
        points = np.flatnonzero(is_asked)
        starts = rng.choice(points, round(QUESTIONS * len(is_asked) / len(points)))
        ends = self._groups.walk(starts, rng)
        found = (ends >= 0) & is_asked[ends]
        rows, every = np.concatenate([starts[found], ends[found]]), np.ones(np.count_nonzero(found))
        first, learned = (F[rows] for F in self._of_kept())
        asked = np.zeros_like(self._distances)
        count_distances(first, learned, SHARES, every > 0, every, HALF_LIFE, 1.0, asked)
        evidence = evidence_of(asked)
        return np.asarray((evidence - evidence[0]) / max(len(every), 1))

    def _of_kept(self) -> tuple[np.ndarray, np.ndarray]:
        """First and learned projections of the points kept."""
        X = self._damping.widened(self._groups.X[: self._groups.n_kept])
        return projections(self._first, X), self._damping.completed_projections(self._learning, X)

    # ------------------------------------------------------------------ α

    def _ask(self, n: int, first: np.ndarray, learned: np.ndarray, similar: np.ndarray, weights: np.ndarray) -> None:
        """Distances of n pairs under each α enter the histograms, in which older ones of the same kind fade."""
        count_distances(first, learned, SHARES, similar, weights, HALF_LIFE, self._sooner(n), self._distances)
        # Marks on results, many to a query, say of its neighbours what random pairs hardly ever do: no caution then.
        self._caution = min(max(2 * self._n_apart / self._n_learned - 1, 0.0), 1.0)
        self._weigh_shares()

    def _search(
        self, keys: np.ndarray, new: np.ndarray, first: np.ndarray, learned: np.ndarray, weights: np.ndarray
    ) -> None:
        """Search for points that come for the first time, the `new` ones of these keys, among points kept, for their
        groups.

        No other point of the chunk is among these: that they are near is what brought them here.
        """
        found, weight = np.zeros(len(SHARES)), 0.0
        if len(new) and self._groups.are_classes and ((labels := self._groups.labels(keys[new])) >= 0).any():
            rows, of_kept = self._groups.some_kept(
                N_SEARCHED, keys, np.random.default_rng([self._seed, 5, self._n_chunks])
            )
            X = self._damping.widened(self._groups.X[rows])
            wanted = np.where(labels[:, None] >= 0, labels[:, None] == of_kept, -1).astype(np.int8)
            weight = count_found(
                np.concatenate([first, projections(self._first, X)]),
                np.concatenate([learned, self._damping.completed_projections(self._learning, X)]),
                wanted,
                weights,
                SHARES,
                found,
            )
        fade = min(0.5 ** (weight / HALF_LIFE), self._sooner(len(keys) // 2))
        self._precision, self._n_searches = fade * self._precision + found, fade * self._n_searches + weight

    def _sooner(self, n: int) -> float:
        """How much of what is older remains when n pairs come: what was learned last is better known from the last."""
        return (1 - n / self._n_learned) ** 2

    def _weigh_shares(self) -> None:
        """α by all that was asked."""
        self._blend = blend_of(SHARES, self._distances, 1.0, self._caution, np.zeros(len(SHARES)))
        said = self._walks_say if self._walks_say is not None and self._stay_in_class() else None
        if said is not None or self._groups.decide_blend:
            most = MOST_NEAR / max(self._distances[0, 1].sum(), MOST_NEAR)
            trust = OF_NEAR * most * max(1 - self._n_searches / ENOUGH_SEARCHES, 0.0)
            known = np.zeros(len(SHARES))
            if said is not None:
                known = AS_MANY * said
            elif self._is_walking:
                known = BOLDER * min(self._n_learned / BOLD_AFTER, 1)
            blend = blend_of(SHARES, self._distances, trust, 0.0, self._precision + known)
            self._blend = min(blend, self._blend) if self._groups.cosines_tell else blend

    # ------------------------------------------------------------------ what codes show of it

    @property
    def blend_(self) -> float:
        """α: 0 shows the beginning, 1 all that was learned."""
        self._check_ready()
        return self._blend

    def _publish(self, X: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Bits of which too many points would change theirs."""
        self._note_flips(X, wanted, OF_FLIPS if self._n_learned <= MANY_PAIRS else OF_FLIPS**LOOKED_AT)
        return self._show(self._flip_rates > self.stale_share)

    def _to_publish(self, columns: np.ndarray) -> np.ndarray:
        first, learned = self._first[columns, : self._n_inputs], super()._to_publish(columns)
        return np.asarray(first + self.dtype_.type(self._blend) * (learned - first))

    def _settle(self, updates: Updates) -> None:
        """Begin from the points there are, if they are enough and twice as many as the last time; show all bits."""
        changed = np.zeros(self.n_bits, np.bool_)
        if self._points is not None and self._points.count >= max(2 * self._begun_with, FEWEST_POINTS):
            changed = self._begin_from_points()
        super()._settle(updates)
        updates.flips[0] |= changed
        updates.n_moved[0] = np.count_nonzero(updates.flips[0])

    # ------------------------------------------------------------------ state

    def _get_method_state(self) -> State:
        return super()._get_method_state() | {
            "first": np.ascontiguousarray(self._first[:, : self._n_inputs].T),
            "distances": self._distances,
            "keys": self._keys,
            "n_whole": self._n_whole,
            "caution": [self._n_apart, self._caution],
            "searches": {"precision": self._precision, "n": self._n_searches},
            "infers": int(self._infers),
            "groups": self._groups.get_state() if self._has_groups else None,
            "begun_with": self._begun_with,
            "points": None if self._points is None else self._points.get_state(),
            "observed": self._observed,
            "walks": self._walks_state() if self._has_walks else None,
        }

    def _walks_state(self) -> State:
        return {
            "n": self._n_walked,
            "connect_at": self._connect_at,
            "nearness": self._nearness,
            "say": self._walks_say,
        }

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        self._first = pad_rows(like(state["first"], self._first[:, : self._n_inputs].T, "first").T)
        self._distances = like(state["distances"], self._distances, "distances", 0, MOST)
        self._keys = like(state["keys"], self._keys, "keys")
        self._infers = bool(whole(state.get("infers", 0), "infers", 0, 1))
        self._has_groups = state.get("groups") is not None
        if self._has_groups:
            self._groups.set_state(state["groups"])
        self._n_whole, self._begun_with = real(state["n_whole"], "n_whole", 0), whole(state["begun_with"], "begun_with")
        if state["points"] is None:
            self._points = None
        else:
            assert self._points is not None
            self._points.set_state(state["points"])
        if (observed := state.get("observed")) is not None:  # files from before there were walks have none
            room = np.empty((min(max(len(observed), POINTS_TO_WALK), MOST_POINTS), self._n_inputs), self.dtype_)
            observed = like(observed, room, "observed")
        self._observed = observed
        self._has_walks = (walks := state.get("walks")) is not None
        if walks is not None:
            self._n_walked, self._connect_at = whole(walks["n"], "n"), whole(walks["connect_at"], "connect_at")
            self._nearness = None if walks["nearness"] is None else real(walks["nearness"], "nearness", -1, 1)
            say = walks.get("say")  # files from before walks told α have none
            self._walks_say = None if say is None else like(say, np.zeros(len(SHARES)), "say", -MOST, MOST)
        # Files from before there was caution do not say which pairs came apart, so those they have learned count as if
        # none had: caution comes back once more pairs that share no points have come than were learned before.
        n_apart, caution = listed(state.get("caution", [0.0, 0.0]), "caution", 2)
        self._n_apart, self._caution = real(n_apart, "n_apart", 0), real(caution, "caution", 0, 1)
        searches = state.get("searches", {"precision": np.zeros(len(SHARES)), "n": 0.0})
        self._precision = like(searches["precision"], self._precision, "precision", -MOST, 0)
        self._n_searches = real(searches["n"], "n", 0)
        self._weigh_shares()
