"""`PairMetric`: how near two float vectors are, learned from the same pairs as hash functions, at once.

Codes find candidates; this metric puts them in order. It begins as the cosine and has three parts.

- *Memory.* The last `KEPT` pairs are kept. For a query that was marked before, marked results move to where the marks
  say, and the query moves towards what was marked similar and away from what was not (Rocchio 1971). A mark counts from
  the very next search on, for this query and for those that are nearly equal to it. Of two marks on the same two
  vectors the newer one counts, by its weight: w of it and 1 - w of what was said before.
- *Map.* x -> x + P E' P' x with an E of `RANK` x `RANK` numbers, in the directions P in which vectors vary most. It
  makes a mark count for all other queries too, and it takes many marks. It is learned in chunks of pairs, by gradient
  descent on the order of pairs: of all similar pairs i and dissimilar pairs j of a step, the mean of
  log(1 + exp(10 (c_j - c_i))) / 10, with c the cosine of mapped vectors. As much of E is used as pairs confirm that
  were not learned yet, by the area under the ROC curve.
- *Expansion.* The query is joined by the `N_NEIGHBOURS` candidates that are nearest to it, each counting as the cube of
  its cosine (Chum et al. 2007; Radenovic et al. 2019 for the weights). The nearest of all stays first. It needs no
  marks.

Everything happens at fixed places in the stream of pairs, so that any split of it gives the same bytes. On another
machine the last digits may differ, as products of matrices round differently there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.special import expit

from onlinehash.errors import FormatError
from onlinehash.numeric.threads import one_thread
from onlinehash.types import State

#: Pairs that are kept; directions of the map; points that say which directions these are.
KEPT, RANK, N_POINTS = 1024, 128, 1024
#: Steepness of the loss; length of a step; pull of the map towards nothing, per step; momentum.
SHARPNESS, STEP, PULL, MOMENTUM = 10.0, 4.0, 1e-4, 0.9
#: Pairs of a step; steps after each chunk; the size of a chunk: a part of the pairs so far, in bounds.
BATCH, STEPS = 256, 2
PART, LEAST_CHUNK, MOST_CHUNK = 8, 8, 64
#: How much of the map may be used, what speaks for each share before any pair does, how many answers decide on it, and
#: how many of them count as one: those of one query say nearly the same.
SHARES, BEFOREHAND = np.array([0.0, 0.15, 0.3, 0.6, 1.0]), np.array([1.0, 2.0, 2.0, 1.0, 0.5])
ANSWERS, ALIKE = 1000, 8
#: Vectors count as the same up to this part of the usual distance between neighbours, as others from twice it on, and
#: partly in between. Before there are so many points, only vectors that are equal but for rounding count as the same.
SAME, LEAST_POINTS, ROUNDING = 0.1, 32, 1e-3
#: Points whose nearest neighbours say how far that distance is.
SPACED = 256
#: The largest number of a map; they are far below it, as steps are bounded and pulled back.
LARGEST = 1e6
#: Times that pairs are read while they are being written.
READS = 1000
#: How far a mark moves its item: past all cosines. What equals a query with marks moves so many times as far: of the
#: query and of all that was marked similar to it, none would come before the others otherwise but by rounding.
FORCE, ITSELF = 2.0, 2.0
#: How far a query moves towards the mean of what was marked similar to it, and away from what was not.
TOWARDS, AWAY = 1.0, 0.5
#: Candidates that join a query, and the power of their cosine that each counts; candidates that are mapped.
N_NEIGHBOURS, POWER, N_BEST = 3, 3, 256


class PairMetric:
    """A measure of nearness that learns from pairs; see the module.

    Parameters
    ----------
    n_features : int
        Width of the vectors.
    seed : int
        Of what is drawn from the pairs that are kept.
    """

    def __init__(self, n_features: int, seed: int) -> None:
        self.n_features, self.seed = n_features, seed
        self.n_pairs = self.n_learned = self.n_steps = 0  # pairs that came; pairs that the map has learned; its steps
        self._points = np.empty((0, n_features), np.float32)  # until there are enough for the directions
        self._map = _Map(np.empty((n_features, 0), np.float32), np.empty((0, 0), np.float32))  # no direction yet
        self._momentum = self._map.change
        self._finite_map: _Map | None = None  # the last one that was found to be finite
        self.share = float(SHARES @ BEFOREHAND / BEFOREHAND.sum())  # how much of the map is used
        self._radius = ROUNDING  # up to here, vectors are the same
        self._answers = np.empty((len(SHARES) + 2, 0))  # cosines under each share, before learning; similar; weight
        self._pairs = _Pairs(n_features)

    # ------------------------------------------------------------------ learning

    def observe(self, X: np.ndarray) -> None:
        """Points without pairs: the first say in which directions the map works."""
        if not self._has_points:
            known = len(self._points)
            self._points = np.concatenate([self._points, unit(X[: N_POINTS - known])])
            with one_thread():  # others search meanwhile
                for n in range(LEAST_POINTS.bit_length() - 1, N_POINTS.bit_length()):  # at every doubling
                    if known < 2**n <= len(self._points):
                        self._radius = max(ROUNDING, SAME * _spacing(self._points[: 2**n]))
            self._learn_chunks()

    @property
    def _has_points(self) -> bool:
        """Whether the directions of the map are known, or the points that say them, which no other may join."""
        return self._map.rank > 0 or len(self._points) == N_POINTS

    def learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weight: np.ndarray) -> None:
        """Pairs that were checked; `similar` is +1 or -1. One of weight 0 says nothing, and takes no other's place."""
        if not weight.all():
            A, B, similar, weight = (values[weight > 0] for values in (A, B, similar, weight))
        left, right = (unit(X).astype(np.float16) for X in (A, B))
        lengths = np.stack([_norms(A), _norms(B)])
        t = 0
        while t < len(A):
            if not self._has_points:
                n = 1
                self.observe(np.stack([A[t], B[t]]))
            else:  # up to where the next chunk is full, as later pairs must not be replayed for it
                n = min(len(A) - t, self._chunk_size() - (self.n_pairs - self.n_learned))
            some = slice(t, t + n)
            self._pairs.put(self.n_pairs, left[some], right[some], lengths[:, some], similar[some], weight[some])
            self.n_pairs += n
            t += n
            self._learn_chunks()

    def _begin_map(self) -> None:
        """Find the directions in which the first points vary most; only when somebody needs them, as it takes long."""
        X, d = self._points, self.n_features
        if len(X) < N_POINTS:
            return
        with one_thread():
            if len(X) < d:  # in double precision, as directions in which hardly any point varies are divided by
                X = X.astype(np.float64)
                values, U = np.linalg.eigh(X @ X.T)
                basis = X.T @ (U[:, : -RANK - 1 : -1] / np.sqrt(np.maximum(values[: -RANK - 1 : -1], 1e-12)))
            else:
                basis = scipy.linalg.eigh(X.T @ X, subset_by_index=[max(d - RANK, 0), d - 1])[1]
        rank = basis.shape[1]
        self._map = _Map(np.ascontiguousarray(basis, np.float32), np.zeros((rank, rank), np.float32))
        self._momentum = np.zeros((rank, rank), np.float32)
        self._points = self._points[:0]

    def _chunk_size(self) -> int:
        return min(max(self.n_learned // PART, LEAST_CHUNK), MOST_CHUNK)

    def _learn_chunks(self) -> None:
        if not self._has_points:
            return
        self.n_learned = max(self.n_learned, self.n_pairs - KEPT)  # older ones were lost while there were no directions
        while self.n_pairs - self.n_learned >= (n := self._chunk_size()):
            self._begin_map()
            chunk = np.arange(self.n_learned, self.n_learned + n)
            self._pairs.project(chunk, self._map.basis)
            self._ask(chunk)
            self.n_learned += n
            first = max(0, self.n_learned - KEPT, self.n_pairs - KEPT)
            for _ in range(STEPS):
                kept = np.arange(first, self.n_learned)
                if len(kept) > BATCH:
                    kept = np.random.default_rng([self.seed, 10, self.n_steps]).choice(kept, BATCH, replace=False)
                self._step(kept)
                self.n_steps += 1

    def _ask(self, numbers: np.ndarray) -> None:
        """How near would pairs be under each share? They have not been learned yet."""
        pairs = self._pairs.at(numbers)
        answers = np.vstack([_cosines(pairs, self._map.change, SHARES[:, None]), pairs.similar > 0, pairs.weight])
        self._answers = np.concatenate([self._answers, answers], axis=1)[:, -ANSWERS:]
        self.share = self._share()

    def _step(self, numbers: np.ndarray) -> None:
        pairs = self._pairs.at(numbers)
        similar = pairs.similar > 0
        positive, negative = pairs.weight[similar], pairs.weight[~similar]
        if not positive.sum() or not negative.sum():
            return  # there is nothing to bring into order
        mapped = _Mapped(pairs, self._map.change)
        c = mapped.cosines
        wrong = expit(SHARPNESS * (c[~similar] - c[similar, None])) * negative * positive[:, None]
        wrong /= positive.sum() * negative.sum()
        slope = np.empty_like(c)  # of the loss, along the cosine of each pair
        slope[similar], slope[~similar] = -wrong.sum(axis=1), wrong.sum(axis=0)
        self._momentum += np.float32(1 - MOMENTUM) * (mapped.gradient(slope) - self._momentum)
        change = np.float32(1 - STEP * PULL) * self._map.change - np.float32(STEP) * self._momentum
        self._map = self._map._replace(change=change)  # by one assignment, as searches may be reading

    def _share(self) -> float:
        """What the last answers say of how much of the map to use, between 0 and 1."""
        *cosines, similar, weight = self._answers
        is_similar = similar > 0
        positive, negative = weight[is_similar].sum(), weight[~is_similar].sum()
        if positive == 0 or negative == 0:
            return float(SHARES @ BEFOREHAND / BEFOREHAND.sum())
        trust = 4 * positive * negative / (positive + negative) / ALIKE
        areas = np.array([auc(c[is_similar], c[~is_similar], weight[is_similar], weight[~is_similar]) for c in cosines])
        chance = BEFOREHAND * np.exp(trust * (areas - areas.max()))
        return float(SHARES @ chance / chance.sum())

    @property
    def is_finite(self) -> bool:
        """Whether the map is one that a file may hold. It is asked for every pair, and a step replaces the map."""
        if self._finite_map is not self._map:
            if not all((np.abs(E) <= LARGEST).all() for E in (self._map.change, self._momentum)):
                return False
            self._finite_map = self._map
        return True

    # ------------------------------------------------------------------ ranking

    def ranking(self, query: np.ndarray, k: int) -> Ranking:
        """Return a ranking that keeps the best k candidates of a query, or more."""
        return Ranking(self, query, max(k, N_BEST))

    # ------------------------------------------------------------------ state

    def get_state(self) -> State:
        """Everything learned, as arrays and plain values. As it may find directions, nobody may teach it meanwhile."""
        self._begin_map()  # directions are smaller than the points they are of
        return {
            "counters": [self.n_pairs, self.n_learned, self.n_steps],
            "points": self._points,
            "radius": self._radius,
            "basis": self._map.basis,
            "change": self._map.change,
            "momentum": self._momentum,
            "answers": self._answers,
            "pairs": self._pairs.get_state(min(self.n_pairs, KEPT)),
        }

    def set_state(self, state: State) -> None:
        """Take the place of the one whose `get_state` this was; ValueError or FormatError if it cannot have been."""
        counters = state["counters"]
        if [type(n) for n in counters] != [int] * 3 or not 0 <= counters[1] <= counters[0] < 2**62 > counters[2] >= 0:
            raise FormatError(expected="counters of a metric", got=f"{counters!r}")
        self.n_pairs, self.n_learned, self.n_steps = counters
        self._radius = state["radius"]
        if type(self._radius) is not float or not ROUNDING <= self._radius <= 2 * SAME:
            raise FormatError(expected="a distance of unit vectors", got=f"{self._radius!r}")
        rank = np.shape(state["basis"])[1]
        if rank not in (0, min(RANK, self.n_features)):
            raise FormatError(expected=f"no direction or {min(RANK, self.n_features)}", got=f"{rank}")
        self._points = _array(state["points"], np.float32, (len(state["points"]), self.n_features))
        basis = _array(state["basis"], np.float32, (self.n_features, rank))
        self._map = _Map(basis, _array(state["change"], np.float32, (rank, rank)))
        self._momentum = _array(state["momentum"], np.float32, (rank, rank))
        self._answers = _array(state["answers"], np.float64, (len(SHARES) + 2, np.shape(state["answers"])[1]))
        self._pairs.set_state(state["pairs"], self.n_pairs, rank if self.n_learned else 0)
        *_, similar, weight = self._answers
        if not np.isin(similar, (0, 1)).all() or (weight < 0).any():
            raise FormatError("the answers of a metric are neither similar nor not, or have weights below 0.")
        if len(self._points) >= N_POINTS or self._answers.shape[1] > ANSWERS or (rank and len(self._points)):
            raise FormatError("a metric has more points or answers than it keeps.")
        if rank and self.n_pairs - self.n_learned >= self._chunk_size():
            raise FormatError(f"more pairs of a metric wait than fit into a chunk of {self._chunk_size()}.")
        if max(np.abs(self._map.change).max(initial=0), np.abs(self._momentum).max(initial=0)) > LARGEST:
            raise FormatError(f"the map of a metric has numbers above {LARGEST:g}.")
        self.share = self._share()


class _Map(NamedTuple):
    """x -> x + P E'P'x: the directions P, and E."""

    basis: np.ndarray
    change: np.ndarray

    @property
    def rank(self) -> int:
        return int(self.basis.shape[1])

    def times(self, share: float) -> _Map:
        """A share of it; a share of 0 has no directions, so that it costs nothing."""
        if share == 0:
            return _Map(self.basis[:, :0], self.change[:0, :0])
        return _Map(self.basis, np.float32(share) * self.change)

    def of(self, X: np.ndarray) -> np.ndarray:
        """Rows, mapped."""
        return np.asarray(X + ((X @ self.basis) @ self.change) @ self.basis.T)

    def turned(self, mapped: np.ndarray) -> np.ndarray:
        """The vector whose product with x is that of this mapped one with x mapped."""
        return np.asarray(mapped + self.basis @ (self.change @ (mapped @ self.basis)))


class Ranking:
    """The candidates of one query, in order; more may come at any time.

    A mapped candidate is x + P E'P'x. Its product with the mapped query is that of x alone with another vector, so only
    its length asks for the map, and only the best candidates are mapped.
    """

    def __init__(self, metric: PairMetric, query: np.ndarray, n_best: int) -> None:
        self._n_best, self._radius = n_best, metric._radius
        self._asked, self._length = query, float(_norms(query[None])[0])
        direction = unit(query[None])[0]
        marks = metric._pairs.of(direction, self._radius)  # what was marked for it
        self._moved = moved(direction, marks.rows, marks.weight)
        if len(marks.rows):  # what equals the query stays first, wherever marks move the query
            marks = marks.and_query(direction, self._length)
        self._marks, self._is_met = marks, np.zeros(len(marks.rows), np.bool_)
        self._map = metric._map.times(metric.share if metric.n_steps else 0.0)
        self._query = unit(self._map.of(self._moved[None]))[0]
        self._n = self.n_unsure = 0  # candidates; those that may have been marked, but for their rounding
        self._best = _Candidates.none(len(query))

    @property
    def sought(self) -> np.ndarray:
        """The vector whose code finds candidates: the query or, in its length, what marks have made of it."""
        if not len(self._marks.rows):
            return self._asked
        return np.asarray(self._lengthened(unit(self._moved[None]), np.array([self._length]))[0])

    def missing(self, n: int) -> np.ndarray:
        """What was marked similar and is not among the candidates, nor anything like it; of more than n, the newest n.

        With marks, the query counts as marked, as an item that equals it is found wherever marks have moved it.
        """
        missing = np.flatnonzero((self._marks.weight > 0) & ~self._is_met)[-n:]
        return self._lengthened(self._marks.rows[missing], self._marks.lengths[missing])

    def _lengthened(self, rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Unit vectors as they would be stored; what has an unknown length, 0, gets that of the query."""
        dtype = self._asked.dtype
        lengths = np.where(lengths > 0, lengths, self._length)
        longest = 0.99 * np.sqrt(np.finfo(dtype).max)  # whose square is finite, rounded as it may be
        return np.asarray(rows * np.minimum(lengths, longest)[:, None], dtype)

    @property
    def direction(self) -> np.ndarray:
        """The vector whose products with candidates say how near they are."""
        return self._map.turned(self._query)

    @property
    def needs_only_products(self) -> bool:
        """Whether nothing else of a candidate counts: no marks were made for the query."""
        return not len(self._marks.rows)

    def add(self, rows: np.ndarray, rounding: float = 0.0) -> None:
        """More candidates, by their vectors, which rounding may have moved so far."""
        with np.errstate(over="ignore"):
            X = np.asarray(rows, np.float32)
            squares = np.einsum("ij,ij->i", X, X)
        if not _are_normal(squares):
            X = unit(rows)
            squares = np.einsum("ij,ij->i", X, X)
        lengths, said = _lengths(squares), np.zeros(len(X), np.float32)
        if len(self._marks.rows) and rounding:
            off = rounding / np.maximum(_norms(rows) - rounding, np.finfo(np.float32).tiny)
            said = self._may_be_said(X / lengths[:, None], np.minimum(off, 2.0))
        elif len(self._marks.rows):
            said = self._said(X / lengths[:, None])
        self._add(X @ self.direction, lengths, said, lambda best: X[best])

    def add_products(self, products: np.ndarray, squares: np.ndarray, take: Callable[[np.ndarray], np.ndarray]) -> None:
        """More candidates, by their products with the direction and with themselves; `take` gives some vectors."""
        if not _are_normal(squares):
            self.add(take(np.arange(len(squares))))
            return
        self._add(products, np.sqrt(squares), np.zeros(len(squares), np.float32), take)

    def _add(
        self, products: np.ndarray, lengths: np.ndarray, said: np.ndarray, take: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        products, old = products / lengths, self._best
        best = np.argsort(-(products + said), kind="stable")[: self._n_best]
        numbers = np.append(old.numbers, self._n + best)
        products, said = np.append(old.products, products[best]), np.append(old.said, said[best])
        kept = np.argsort(-(products + said), kind="stable")[: self._n_best]
        is_new = kept >= len(old.numbers)
        new = best[kept[is_new] - len(old.numbers)]
        rows = np.empty((len(kept), len(self._query)), np.float32)
        rows[~is_new] = old.rows[kept[~is_new]]
        X = np.asarray(take(new), np.float32)
        rows[is_new] = X / _lengths(np.einsum("ij,ij->i", X, X))[:, None]  # as `add` has them, to the last digit
        self._best = _Candidates(numbers[kept], rows, products[kept], said[kept])
        self._n += len(lengths)

    def nearest(self, k: int) -> np.ndarray:
        """The numbers of the k best candidates so far, before the query is joined by any."""
        return self._best.numbers[:k]

    def order(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the best k candidates, in the order of coming where equal, and how near they are."""
        best = self._best
        mapped = unit(self._map.of(best.rows))
        query, cosines = self._query, mapped @ self._query
        first = np.argsort(-(cosines + best.said), kind="stable")[:N_NEIGHBOURS]
        weights = np.maximum(cosines[first], 0) ** POWER
        if weights.sum() > 0:
            query = unit((query + (weights / weights.sum()) @ mapped[first])[None])[0]
        near = mapped @ query + best.said
        near[first[:1]] = np.nextafter(near.max(initial=-1), np.float32(np.inf))  # the nearest by itself stays first
        order = np.argsort(-near, kind="stable")[:k]
        return best.numbers[order], near[order]

    def _said(self, X: np.ndarray) -> np.ndarray:
        """What marks say of candidates, each the nearest mark alone; and the query, of what equals it."""
        found = _close(X, self._marks.rows, np.full(len(X), 2 * self._radius))
        self._is_met[found.right] = True
        same = np.clip(2 - found.away / self._radius, 0, 1)
        marked, itself = np.zeros((2, len(X)))
        is_query = found.right == len(self._marks.rows) - 1
        itself[found.left[is_query]] = same[is_query]
        order = np.argsort(-found.away, kind="stable")  # the nearest comes last, and stays
        order = order[~is_query[order]]
        marked[found.left[order]] = same[order] * self._marks.weight[found.right[order]]
        itself *= 1 + np.minimum(marked, 0)  # unless this very item was marked as not similar
        return np.asarray(FORCE * (marked + self._marks.weight[-1] * itself), np.float32)

    def _may_be_said(self, X: np.ndarray, off: np.ndarray) -> np.ndarray:
        """The same of candidates that are so far from what is stored. They are compared again as they are stored.

        So what may have been marked similar must be among the best, and what may have been marked as not similar may
        not lose its place yet: another one may be so near to it that only its rounding makes both the same.
        """
        found = _close(X, self._marks.rows, 2 * self._radius + off)
        self._is_met[found.right[found.away + off[found.left] < 2 * self._radius]] = True
        self.n_unsure += len(np.unique(found.left))
        same = np.clip(2 - np.maximum(found.away - off[found.left], 0) / self._radius, 0, 1)
        said = np.zeros(len(X), np.float32)
        np.maximum.at(said, found.left, np.float32(FORCE) * same * np.maximum(self._marks.weight[found.right], 0))
        return said


class _Candidates(NamedTuple):
    """Aligned, the best first: numbers in the order of coming, unit vectors, products with the query, and what marks
    say of them."""

    numbers: np.ndarray
    rows: np.ndarray
    products: np.ndarray
    said: np.ndarray

    @classmethod
    def none(cls, d: int) -> _Candidates:
        return cls(np.empty(0, np.intp), np.empty((0, d), np.float32), np.empty(0, np.float32), np.empty(0, np.float32))


class _Marks(NamedTuple):
    """What was marked for a query: unit vectors, how much each mark counts (+1 to -1), and lengths of the vectors."""

    rows: np.ndarray
    weight: np.ndarray
    lengths: np.ndarray

    def and_query(self, query: np.ndarray, length: float) -> _Marks:
        """With the query itself, at the end."""
        lengths = np.append(self.lengths, length)
        return _Marks(np.vstack([self.rows, query]), np.append(self.weight, np.float32(ITSELF)), lengths)


class _Pairs:
    """The last pairs, by their numbers: unit vectors of half precision, and what they are in the map's directions."""

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        self._sides = np.zeros((2, 0, n_features), np.float32)  # grows up to KEPT
        self._inside = np.zeros((2, 0, 0), np.float32)
        self._similar, self._weight = np.zeros(KEPT, np.int8), np.zeros(KEPT)
        self._lengths = np.zeros((2, KEPT))  # that the vectors had; 0 is not known
        self._n_pairs = 0  # that came; what is read with them must be of the same moment
        self._n_writes = 0  # odd while somebody writes, so that those who read meanwhile read again

    def put(
        self,
        number: int,
        left: np.ndarray,
        right: np.ndarray,
        lengths: np.ndarray,
        similar: np.ndarray,
        weight: np.ndarray,
    ) -> None:
        """The next pairs take the places of the oldest."""
        places = (number + np.arange(len(left))) % KEPT
        self._n_writes += 1
        try:
            self._grow(int(places.max()) + 1)
            self._sides[0, places], self._sides[1, places], self._lengths[:, places] = left, right, lengths
            self._similar[places], self._weight[places] = similar, weight
            self._n_pairs = number + len(left)
        finally:
            self._n_writes += 1

    def _grow(self, n: int) -> None:
        if n > self._sides.shape[1]:
            room = min(KEPT, max(n, 2 * self._sides.shape[1], 64)) - self._sides.shape[1]
            self._sides = np.concatenate([self._sides, np.zeros((2, room, self.n_features), np.float32)], axis=1)

    def project(self, numbers: np.ndarray, basis: np.ndarray) -> None:
        """What the map works on; a chunk at a time, so that it is the same however pairs came."""
        if not self._inside.size:
            self._inside = np.zeros((2, KEPT, basis.shape[1]), np.float32)
        places = numbers % KEPT
        for side in (0, 1):
            self._inside[side, places] = self._sides[side, places] @ basis

    def at(self, numbers: np.ndarray) -> _Chunk:
        """Some of the pairs, as the map needs them."""
        places = numbers % KEPT
        whole = _dots(self._sides[0, places], self._sides[1, places])
        A, B = self._inside[:, places]
        return _Chunk(A, B, whole, self._similar[places], self._weight[places])

    def of(self, query: np.ndarray, radius: float) -> _Marks:
        """What was marked for a query."""
        for _ in range(READS):
            before = self._n_writes
            found = self._of(query, radius)
            if before % 2 == 0 and before == self._n_writes:
                break
            time.sleep(0)  # whoever writes goes on
        return found

    def _of(self, query: np.ndarray, radius: float) -> _Marks:
        n_pairs = self._n_pairs
        n = min(n_pairs, KEPT)
        marks: dict[bytes, tuple[np.ndarray, float, float]] = {}
        same = np.stack([_sameness(side[:n], query[None], radius)[:, 0] for side in self._sides])
        places = np.flatnonzero(same.any(axis=0))
        for place in places[np.argsort((places - n_pairs) % KEPT)]:  # the oldest first: newer ones take their place
            for one, other in ((0, 1), (1, 0)):
                share = float(same[one, place]) * min(1.0, float(self._weight[place]))
                if share:
                    mark = self._sides[other, place].copy()
                    _, before, _ = marks.get(key := mark.tobytes(), (mark, 0.0, 0.0))
                    count = before + share * (int(self._similar[place]) - before)
                    marks[key] = mark, count, float(self._lengths[other, place])
        rows, counts, lengths = zip(*marks.values(), strict=True) if marks else ((), (), ())
        return _Marks(
            np.array(rows, np.float32).reshape(len(rows), self.n_features),
            np.array(counts, np.float32),
            np.array(lengths, np.float64),
        )

    def get_state(self, n: int) -> State:
        return {
            "sides": self._sides[:, :n].astype(np.float16),
            "inside": self._inside[:, :n],  # of shape (2, 0, 0) before the first chunk
            "similar": self._similar[:n],
            "weight": self._weight[:n],
            "lengths": self._lengths[:, :n],
        }

    def set_state(self, state: State, n_pairs: int, rank: int) -> None:
        n = min(n_pairs, KEPT)
        sides = _array(state["sides"], np.float16, (2, n, self.n_features))
        inside = _array(state["inside"], np.float32, (2, n, rank) if rank else (2, 0, 0))
        similar = _array(state["similar"], np.int8, (n,))
        weight = _array(state["weight"], np.float64, (n,))
        lengths = _array(state.get("lengths", np.zeros((2, n))), np.float64, (2, n))  # older files have none
        if not np.isin(similar, (-1, 1)).all() or (weight < 0).any():
            raise FormatError("pairs of a metric are neither similar nor not, or have weights below 0.")
        if (lengths < 0).any():
            raise FormatError("vectors in pairs of a metric have lengths below 0.")
        if (np.square(sides, dtype=np.float32).sum(axis=2) > 1.01).any():
            raise FormatError("vectors in pairs of a metric are longer than 1.")
        self._n_pairs = n_pairs
        self._grow(n)
        self._sides[:, :n], self._similar[:n], self._weight[:n], self._lengths[:, :n] = sides, similar, weight, lengths
        if inside.size:
            self._inside = np.zeros((2, KEPT, rank), np.float32)
            self._inside[:, :n] = inside


class _Chunk(NamedTuple):
    """Pairs in the directions of the map, with the cosine of the whole vectors."""

    A: np.ndarray
    B: np.ndarray
    whole: np.ndarray
    similar: np.ndarray
    weight: np.ndarray


class _Mapped:
    """Pairs under the map: their cosines, and how the cosines change with E.

    Within the map's directions a moves to a + a E, and outside of them nothing moves.
    """

    def __init__(self, pairs: _Chunk, change: np.ndarray) -> None:
        self._pairs = pairs
        moved_A, moved_B = pairs.A @ change, pairs.B @ change
        self._A, self._B = pairs.A + moved_A, pairs.B + moved_B
        self._u = np.sqrt(np.maximum(1 + 2 * _dots(pairs.A, moved_A) + _dots(moved_A, moved_A), 1e-12))
        self._v = np.sqrt(np.maximum(1 + 2 * _dots(pairs.B, moved_B) + _dots(moved_B, moved_B), 1e-12))
        dots = pairs.whole + _dots(self._A, self._B) - _dots(pairs.A, pairs.B)
        self.cosines = dots / (self._u * self._v)

    def gradient(self, slope: np.ndarray) -> np.ndarray:
        """Of a loss along E, whose slope along each cosine this is."""
        U, V = self._A / self._u[:, None], self._B / self._v[:, None]
        c = self.cosines[:, None]
        towards_A = (slope / self._u)[:, None] * (V - c * U)
        towards_B = (slope / self._v)[:, None] * (U - c * V)
        return np.asarray(self._pairs.A.T @ towards_A + self._pairs.B.T @ towards_B, np.float32)


def _cosines(pairs: _Chunk, change: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The cosines of pairs under some shares of a map, a row each: as `_Mapped` has them, by one product for all."""
    A, B = pairs.A @ change, pairs.B @ change
    u = np.sqrt(np.maximum(1 + shares * (2 * _dots(pairs.A, A) + shares * _dots(A, A)), 1e-12))
    v = np.sqrt(np.maximum(1 + shares * (2 * _dots(pairs.B, B) + shares * _dots(B, B)), 1e-12))
    dots = pairs.whole + shares * (_dots(pairs.A, B) + _dots(A, pairs.B) + shares * _dots(A, B))
    return np.asarray(dots / (u * v))


def moved(query: np.ndarray, marks: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """A query, nearer to the mean of what was marked similar to it and farther from what was not."""
    for sign, far in ((1, TOWARDS), (-1, -AWAY)):
        chosen = np.maximum(sign * weight, 0)
        if chosen.any():
            query = query + np.float32(far * min(1.0, chosen.sum()) / chosen.sum()) * (chosen @ marks)
    return query


def unit(X: np.ndarray) -> np.ndarray:
    """Rows of length 1, in single precision; rows of zeros stay."""
    tiny = np.finfo(X.dtype).tiny
    with np.errstate(over="ignore", under="ignore"):
        squares = (X * X).sum(axis=1)
    odd = ~(np.isfinite(squares) & (squares > tiny))  # too long or too short to be squared
    if odd.any():
        X = X.copy()
        X[odd] /= np.maximum(np.abs(X[odd]).max(axis=1, keepdims=True), tiny)
        squares[odd] = np.maximum((X[odd] * X[odd]).sum(axis=1), tiny)
    return np.asarray(X / np.sqrt(squares)[:, None], np.float32)


def _norms(X: np.ndarray) -> np.ndarray:
    """Lengths of rows, in double precision."""
    return np.asarray(np.sqrt(np.square(X, dtype=np.float64).sum(axis=1)))


def _lengths(squares: np.ndarray) -> np.ndarray:
    """Lengths of rows by their squares; those of zeros have some, so that they are near to nothing."""
    return np.asarray(np.sqrt(np.maximum(squares, np.finfo(np.float32).tiny)))


def _are_normal(squares: np.ndarray) -> bool:
    """Whether lengths can be told by these squares: none is too large or too small for single precision."""
    return bool((np.isfinite(squares) & (squares > np.finfo(np.float32).tiny)).all())


def _dots(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.asarray((A * B).sum(axis=1), np.float64)


def auc(positive: np.ndarray, negative: np.ndarray, w: np.ndarray, v: np.ndarray) -> float:
    """The weighted share of couples in which the similar pair is nearer; couples that are equally near count half."""
    order = np.argsort(negative, kind="stable")
    negative, below = negative[order], np.concatenate([[0.0], np.cumsum(v[order])])
    beaten = below[np.searchsorted(negative, positive, "left")] + below[np.searchsorted(negative, positive, "right")]
    return float(w @ beaten / 2 / (w.sum() * v.sum()))


def _spacing(X: np.ndarray) -> float:
    """The usual distance of unit vectors to their nearest neighbour: that of some of them, as it hardly varies."""
    some = np.arange(0, len(X), max(1, len(X) // SPACED))
    cosines = X[some] @ X.T
    cosines[np.arange(len(some)), some] = -1
    return float(np.sqrt(np.maximum(2 - 2 * np.median(cosines.max(axis=1)), 0)))


class _Close(NamedTuple):
    """Rows of two matrices that are near to each other, by their numbers, and their distances."""

    left: np.ndarray
    right: np.ndarray
    away: np.ndarray


def _close(A: np.ndarray, B: np.ndarray, reach: np.ndarray) -> _Close:
    """The rows of B that are within the reach of each row of A."""
    squares = np.einsum("ij,ij->i", A, A)[:, None] + np.einsum("ij,ij->i", B, B) - 2 * (A @ B.T)
    left, right = np.nonzero(squares < np.square(reach)[:, None] + 1e-5)  # no others can be; this is rounded
    away = np.sqrt(np.square(A[left] - B[right]).sum(axis=1))
    near = away < reach[left]
    return _Close(left[near], right[near], away[near])


def _sameness(A: np.ndarray, B: np.ndarray, radius: float) -> np.ndarray:
    """How much rows of A are the same as rows of B, all of length 1: 1 within the radius, 0 from twice it on."""
    cosines = A @ B.T
    same = np.zeros(cosines.shape, np.float32)
    i, j = np.nonzero(cosines > 1 - 2 * radius**2 - 2e-3)  # no others can be; half precision changes lengths a little
    away = A[i] - B[j]
    same[i, j] = np.clip(2 - np.sqrt((away * away).sum(axis=1)) / radius, 0, 1)
    return same


def _array(value: object, dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    """A copy of an array out of a state, which must be of this kind."""
    array = np.asarray(value)
    if array.dtype != dtype or array.shape != shape or not np.isfinite(array).all():
        raise FormatError(expected=f"finite {np.dtype(dtype)} of shape {shape}", got=f"{array.dtype} of {array.shape}")
    return array.copy()
