"""The metric of `onlinehash.learners.pair_metric`, slowly and plainly: whole matrices, float64, loops."""

from __future__ import annotations

import math

import numpy as np

from onlinehash.learners import pair_metric as constants


class SlowMetric:
    def __init__(self, d: int, seed: int) -> None:
        self.d, self.seed = d, seed
        self.points: list[np.ndarray] = []
        self.radius = constants.ROUNDING
        self.pairs: list[tuple[np.ndarray, np.ndarray, int, float]] = []
        self.P: np.ndarray | None = None
        self.n_learned = self.n_steps = 0
        self.answers: list[tuple[list[float], bool, float]] = []

    def observe(self, x: np.ndarray) -> None:
        if self.P is None:
            self.points.append(unit(x))
            n = len(self.points)
            if n >= constants.LEAST_POINTS and n & (n - 1) == 0:
                gaps = [min(np.linalg.norm(a - b) for b in self.points if b is not a) for a in self.points]
                self.radius = max(constants.ROUNDING, constants.SAME * float(np.median(gaps)))
            if len(self.points) == constants.N_POINTS:
                X = np.array(self.points, np.float32).astype(np.float64)
                self.P = np.linalg.eigh(X.T @ X)[1][:, ::-1][:, : constants.RANK]
                self.E = np.zeros((self.P.shape[1],) * 2)
                self.momentum = np.zeros_like(self.E)
                self.learn_chunks()

    def learn(self, a: np.ndarray, b: np.ndarray, similar: int, weight: float) -> None:
        if not weight:
            return
        self.observe(a)
        self.observe(b)
        half = [unit(x).astype(np.float16).astype(np.float64) for x in (a, b)]
        self.pairs.append((half[0], half[1], similar, weight))
        self.learn_chunks()

    def learn_chunks(self) -> None:
        if self.P is None:
            return
        self.n_learned = max(self.n_learned, len(self.pairs) - constants.KEPT)
        while len(self.pairs) - self.n_learned >= (
            n := min(max(self.n_learned // constants.PART, constants.LEAST_CHUNK), constants.MOST_CHUNK)
        ):
            for a, b, similar, weight in self.pairs[self.n_learned : self.n_learned + n]:
                self.answers.append(([self.cosine(a, b, share) for share in constants.SHARES], similar > 0, weight))
            self.n_learned += n
            first = max(0, self.n_learned - constants.KEPT, len(self.pairs) - constants.KEPT)
            for _ in range(constants.STEPS):
                kept = np.arange(first, self.n_learned)
                if len(kept) > constants.BATCH:
                    rng = np.random.default_rng([self.seed, 10, self.n_steps])
                    kept = rng.choice(kept, constants.BATCH, replace=False)
                self.step([self.pairs[i] for i in kept])
                self.n_steps += 1

    def mapped(self, x: np.ndarray, share: float) -> np.ndarray:
        return x if self.P is None else x + share * self.P @ (self.E.T @ (self.P.T @ x))

    def cosine(self, a: np.ndarray, b: np.ndarray, share: float) -> float:
        u, v = self.mapped(a, share), self.mapped(b, share)
        return float(u @ v / (np.linalg.norm(u) * np.linalg.norm(v)))

    def step(self, pairs: list[tuple[np.ndarray, np.ndarray, int, float]]) -> None:
        positive = [p for p in pairs if p[2] > 0]
        negative = [p for p in pairs if p[2] < 0]
        total = sum(p[3] for p in positive) * sum(p[3] for p in negative)
        if not total:
            return

        def loss(E: np.ndarray) -> float:
            self.E = E
            near = [self.cosine(a, b, 1.0) for a, b, _, _ in positive]
            far = [self.cosine(a, b, 1.0) for a, b, _, _ in negative]
            steep = constants.SHARPNESS
            return sum(
                p[3] * q[3] * math.log1p(math.exp(steep * (f - n))) / steep
                for p, n in zip(positive, near, strict=True)
                for q, f in zip(negative, far, strict=True)
            ) / float(total)

        E, G = self.E, np.empty_like(self.E)
        for place in np.ndindex(*E.shape):  # by differences
            moved = np.zeros_like(E)
            moved[place] = 1e-5
            G[place] = (loss(E + moved) - loss(E - moved)) / 2e-5
        self.momentum += (1 - constants.MOMENTUM) * (G - self.momentum)
        self.E = (1 - constants.STEP * constants.PULL) * E - constants.STEP * self.momentum

    @property
    def share(self) -> float:
        answers = self.answers[-constants.ANSWERS :]
        positive = [(c, w) for c, similar, w in answers if similar]
        negative = [(c, w) for c, similar, w in answers if not similar]
        weights = constants.BEFOREHAND.copy()
        above, below = sum(w for _, w in positive), sum(w for _, w in negative)
        if above and below:
            trust = 4 * above * below / (above + below) / constants.ALIKE
            auc = np.zeros(len(weights))
            for c, w in positive:
                for other, v in negative:
                    auc += w * v * (np.sign(np.array(c) - np.array(other)) / 2 + 0.5) / (above * below)
            weights *= np.exp(trust * (auc - auc.max()))
        return float(constants.SHARES @ weights / weights.sum())

    def order(self, query: np.ndarray, rows: np.ndarray) -> tuple[list[int], list[float]]:
        """All candidates, the nearest first."""
        q = unit(query)
        share = self.share if self.n_steps else 0.0
        newest: dict[bytes, tuple[np.ndarray, float]] = {}
        for a, b, similar, weight in self.pairs[-constants.KEPT :]:
            for one, other in ((a, b), (b, a)):
                part = min(1.0, weight) * self.sameness(q, one)
                if part > 0:
                    before = newest[other.tobytes()][1] if other.tobytes() in newest else 0.0
                    newest[other.tobytes()] = (other, (1 - part) * before + part * similar)
        marks = list(newest.values())
        for sign, far in ((1, constants.TOWARDS), (-1, -constants.AWAY)):
            chosen = [(x, sign * w) for x, w in marks if sign * w > 0]
            total = sum(w for _, w in chosen)
            if total:
                q = q + far * min(1.0, total) * sum(w * x for x, w in chosen) / total
        q = unit(self.mapped(q, share))
        X = [unit(self.mapped(unit(x), share)) for x in rows]
        said = [constants.FORCE * self.said(unit(x), unit(query), marks) for x in rows]
        near = [float(q @ x) for x in X]
        first = sorted(range(len(X)), key=lambda i: -(near[i] + said[i]))[: constants.N_NEIGHBOURS]
        weights = np.array([max(near[i], 0) ** constants.POWER for i in first])
        if weights.sum() > 0:
            q = unit(q + sum(w * X[i] for w, i in zip(weights / weights.sum(), first, strict=True)))
        scores = [float(q @ x) + s for x, s in zip(X, said, strict=True)]
        scores[first[0]] = math.nextafter(max(scores), math.inf)
        order = sorted(range(len(X)), key=lambda i: -scores[i])
        return order, [scores[i] for i in order]

    def said(self, x: np.ndarray, query: np.ndarray, marks: list[tuple[np.ndarray, float]]) -> float:
        """By the mark that is nearest to x; and if x is the query, by that, unless x was marked as not similar."""
        if not marks:
            return 0.0
        mark, weight = min(marks, key=lambda mark: float(np.linalg.norm(x - mark[0])))
        marked = weight * self.sameness(x, mark)
        return marked + constants.ITSELF * self.sameness(x, query) * (1 + min(marked, 0.0))

    def sameness(self, a: np.ndarray, b: np.ndarray) -> float:
        return min(1.0, max(0.0, 2 - float(np.linalg.norm(a - b)) / self.radius))


def unit(x: np.ndarray) -> np.ndarray:
    length = float(np.linalg.norm(np.asarray(x, np.float64)))
    return np.asarray(x, np.float64) / length if length else np.zeros(len(x))
