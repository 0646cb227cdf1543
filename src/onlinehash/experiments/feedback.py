"""What feedback buys: quality after so many marks, where the marks come from simulated users.

A *mark* says of two items whether they are similar. All that is searched are the first 20,000 rows; the questions are
400 queries that were held out, each with something to find; every learner first observes 2,000 rows without marks.

    random   pairs of rows at random, 30 % of them drawn to be similar (or the share of the set's role)
    uniform  pairs of rows at random as they come: similar ones are as rare as they are among all pairs
    shown    somebody searches for a row of the base and marks, truthfully, the ten other rows that the index shows
    clicks   the same, but people read from the top, reach place i with probability 1/i, click nine of ten relevant rows
             they see and one of fifty others; `streams.from_clicks` makes weighted pairs of that, and each is a mark

The index that users see is the method's own: its codes as they are published, or the mapped vectors of an adapter. It
is brought up to date before every search while there are fewer than 100 marks, later whenever they have become a tenth
more. `wrong_share` of the marks say the opposite of the truth. Held-out queries are never searched for by users.

Methods that learn from labels get one labelled point for each mark: the first of the random pair, with its true label.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol

import numpy as np

from onlinehash import FlatIndex, __version__, evaluate, streams
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput
from onlinehash.experiments.adapter import LinearAdapter
from onlinehash.experiments.measurement import machine
from onlinehash.experiments.protocols import Exam
from onlinehash.experiments.results import Result
from onlinehash.experiments.settings import Setting
from onlinehash.experiments.split_data import SplitData
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder

N_BASE, N_QUERIES, N_OBSERVED = 20_000, 400, 2000
METRICS = ("map", "precision@10")
#: The share of similar ones among random pairs, where the role of a set has none of its own.
SIMILAR_SHARE = 0.3
#: Results that a user sees.
N_SHOWN = 10
#: Up to so many marks the index is brought up to date before every search; then when they are so much more.
ALWAYS_FRESH, MORE = 100, 0.1
#: Place i is reached with probability i^-POSITION_BIAS; a row that is seen is clicked with these probabilities.
POSITION_BIAS, CLICK_RELEVANT, CLICK_OTHER = 1.0, 0.9, 0.02
#: Queries whose cosines with the whole base are held at a time.
BLOCK = 256


def measure(setting: Setting, data: SplitData) -> Result:
    """The whole run."""
    conditions, scene = setting.conditions, scene_of(data)
    student = student_of(setting, scene)
    rng = np.random.default_rng([setting.seed, 7])
    n_marks = int(conditions["pairs"])
    is_wrong = wrong_marks(n_marks, float(conditions.get("wrong_share", 0.0)), np.random.default_rng([setting.seed, 8]))
    source: Source
    if conditions["marks"] in ("random", "uniform"):
        share = None if conditions["marks"] == "uniform" else conditions["similar_share"] or SIMILAR_SHARE
        source = RandomMarks(data, scene, n_marks, share, rng)
    else:
        source = Users(scene, student, conditions["marks"] == "clicks", rng)
    looks: list[dict[str, Any]] = []
    n, n_similar, seconds = 0, 0, 0.0
    for look in (look for look in conditions["looks"] if look <= n_marks):
        while student.learns and n < look:
            marks = source.marks(n, look - n)
            marks.similar ^= is_wrong[n : n + len(marks)]
            start = time.process_time()
            student.learn(marks)
            seconds += time.process_time() - start
            n, n_similar = n + len(marks), n_similar + int(marks.similar.sum())
        looks.append({"pairs": look, "seconds": round(seconds, 6)} | student.answers(scene.exam))
    facts: dict[str, Any] = {
        "n_features": scene.base.shape[1],
        "machine": machine(),
        "version": __version__,
        "n_queries": len(scene.exam.queries),
        "n_base": len(scene.base),
    }
    if n and setting.learner().traits.learns_from == "pairs":
        facts["similar_share"] = round(n_similar / n, 4)
    return Result(setting, looks, student.per_query, facts)


@dataclass(frozen=True)
class Scene:
    """What is searched, and who asks at the end. `askable`: rows to which another row of the base is similar."""

    base: np.ndarray
    labels: np.ndarray
    askable: np.ndarray
    exam: Exam


@lru_cache(maxsize=1)
def scene_of(data: SplitData) -> Scene:
    """The same for every seed and method."""
    if data.labels is None or data.query_labels is None:
        raise InvalidInput(expected="labels for the protocol feedback", got="a set without")
    base, labels = data.rows[:N_BASE], data.labels[:N_BASE]
    asked = np.flatnonzero(np.isin(data.query_labels, labels))[:N_QUERIES]
    askable = np.flatnonzero(np.bincount(labels)[labels] > 1)
    truth = evaluate.same_label(data.query_labels[asked], labels)
    return Scene(base, labels, askable, Exam(data.queries[asked], base, truth))


# ------------------------------------------------------------------ marks


@dataclass
class Marks:
    """Aligned: two rows of the base each, what is said of them, and how much it counts (None: all the same)."""

    left: np.ndarray
    right: np.ndarray
    similar: np.ndarray
    weight: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.left)

    def rows(self, some: slice) -> Marks:
        """Some of them, to be changed freely."""
        weight = None if self.weight is None else self.weight[some].copy()
        return Marks(self.left[some].copy(), self.right[some].copy(), self.similar[some].copy(), weight)


class Source(Protocol):
    """Where marks come from."""

    def marks(self, n: int, most: int) -> Marks:
        """The next ones, at least one and at most so many, after `n` were learned."""


class RandomMarks:
    """Random pairs, drawn once; `share` of them to be similar, or as many as chance has it."""

    def __init__(self, data: SplitData, scene: Scene, n: int, share: float | None, rng: np.random.Generator) -> None:
        self._all = Marks(*data.pairs(n, rng, share, np.arange(len(scene.base))))

    def marks(self, n: int, most: int) -> Marks:
        return self._all.rows(slice(n, n + most))


class Users:
    """Search for rows of the base with the index as it is, and mark what is shown, or click on some of it."""

    def __init__(self, scene: Scene, student: Student, clicks: bool, rng: np.random.Generator) -> None:
        self._scene, self._student, self._clicks, self._rng = scene, student, clicks, rng
        self._refresh_at = 0
        self._waiting = Marks(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))

    def marks(self, n: int, most: int) -> Marks:
        while not len(self._waiting):
            if n >= self._refresh_at:
                self._student.refresh(self._scene.base)
                self._refresh_at = n + (1 if n < ALWAYS_FRESH else int(np.ceil(MORE * n)))
            # As many searches as make at most the marks until then.
            queries = self._rng.choice(self._scene.askable, max(1, (self._refresh_at - n) // N_SHOWN))
            self._waiting = self._marks_of(queries, self._shown(queries))
        taken = self._waiting.rows(slice(most))
        self._waiting = self._waiting.rows(slice(most, None))
        return taken

    def _shown(self, queries: np.ndarray) -> np.ndarray:
        """Ten other rows for each query, the nearest first."""
        found = self._student.search(queries, N_SHOWN + 1)
        itself = found == queries[:, None]
        itself[~itself.any(axis=1), -1] = True  # equals may have crowded it out
        others: np.ndarray = found[~itself]
        return others.reshape(len(queries), -1)

    def _marks_of(self, queries: np.ndarray, shown: np.ndarray) -> Marks:
        labels = self._scene.labels
        relevant = labels[queries][:, None] == labels[shown]
        if not self._clicks:
            return Marks(np.repeat(queries, shown.shape[1]), shown.ravel(), relevant.ravel())
        clicked = clicks(relevant, self._rng)
        lists = [
            streams.from_clicks(int(query), ids.tolist(), ids[chosen].tolist(), position_bias=POSITION_BIAS)
            for query, ids, chosen in zip(queries, shown, clicked, strict=True)
        ]
        left, right, similar, weight = (list(chain.from_iterable(column)) for column in zip(*lists, strict=True))
        return Marks(np.array(left, np.int64), np.array(right, np.int64), np.array(similar, np.bool_), np.array(weight))


def clicks(relevant: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Which results of each list are clicked."""
    n, k = relevant.shape
    depth = (1 - rng.random(n)) ** (-1 / POSITION_BIAS)  # P(depth >= i) = i^-bias
    seen = np.arange(1, k + 1) <= depth[:, None]
    return np.asarray(seen & (rng.random((n, k)) < np.where(relevant, CLICK_RELEVANT, CLICK_OTHER)))


def wrong_marks(n: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Which of n marks say the opposite of the truth: exactly this share of them."""
    return np.asarray(rng.permutation(n) < round(share * n))


# ------------------------------------------------------------------ who learns from them


class Student(Protocol):
    """A method on its way along the marks."""

    learns: bool
    per_query: np.ndarray | None

    def learn(self, marks: Marks) -> None: ...

    def refresh(self, base: np.ndarray) -> None:
        """Bring the index that users see up to date."""

    def search(self, rows: np.ndarray, k: int) -> np.ndarray:
        """The k rows of the base that the index finds nearest to each of these rows of it."""

    def answers(self, exam: Exam) -> dict[str, float]:
        """How good a search is now, with all marks learned."""


def student_of(setting: Setting, scene: Scene) -> Student:
    """The method of a setting, which has observed its first rows."""
    learner = setting.learner()
    return VectorStudent(learner, scene) if isinstance(learner, LinearAdapter) else HashStudent(learner, scene)


class HashStudent:
    """A learner of hash functions."""

    def __init__(self, learner: Learner, scene: Scene) -> None:
        is_batch = learner.traits.unit == "batch"
        self.learner, self.scene = learner, scene
        self.learns = learner.traits.learns_from != "nothing" and not is_batch
        self.per_query: np.ndarray | None = None
        self._found: dict[str, float] = {}
        self._encoder: Encoder | None = None
        (learner.fit if is_batch else learner.observe)(scene.base[:N_OBSERVED])

    def learn(self, marks: Marks) -> None:
        X, y = self.scene.base, self.scene.labels
        if self.learner.traits.learns_from == "pairs":
            self.learner.partial_fit_pairs(X[marks.left], X[marks.right], marks.similar, marks.weight)
        else:
            self.learner.partial_fit(X[marks.left], y[marks.left])

    def refresh(self, base: np.ndarray) -> None:
        encoder, before = self.learner.snapshot(), self._encoder
        if before is None:
            self._codes: Codes = encoder.encode(base)
        else:
            self._codes = encoder.recode(self._codes, base, encoder.changed_bits(before))
        self._encoder = encoder
        self._index = FlatIndex(self._codes, fusion=encoder.fusion)

    def search(self, rows: np.ndarray, k: int) -> np.ndarray:
        assert self._encoder is not None, "searched before the first refresh"
        return np.asarray(self._index.search(self._encoder.encode_queries(self.scene.base[rows]), k).ids)

    def answers(self, exam: Exam) -> dict[str, float]:
        if self.learns or not self._found:
            encoder = copy.deepcopy(self.learner).flush().snapshot() if self.learns else self.learner.snapshot()
            values = evaluate.retrieval(encoder, exam.queries, exam.base, exam.truth, METRICS, per_query=True)
            self.per_query = values["map"]
            self._found = {name: round(float(np.nanmean(value)), 6) for name, value in values.items()}
        return self._found


class VectorStudent:
    """Search in mapped vectors, which users see; the signs of these and their ITQ codes are read off the same map."""

    def __init__(self, adapter: LinearAdapter, scene: Scene) -> None:
        self.adapter, self.scene = adapter.observe(scene.base[:N_OBSERVED]), scene
        self.learns = adapter.traits.learns_from == "pairs"
        self.per_query: np.ndarray | None = None
        self._found: dict[str, float] = {}

    def learn(self, marks: Marks) -> None:
        X = self.scene.base
        self.adapter.partial_fit_pairs(X[marks.left], X[marks.right], marks.similar, marks.weight)

    def refresh(self, base: np.ndarray) -> None:
        self._mapped = self.adapter.map_rows(base)

    def search(self, rows: np.ndarray, k: int) -> np.ndarray:
        found = []
        for start in range(0, len(rows), BLOCK):
            cosines = self._mapped[rows[start : start + BLOCK]] @ self._mapped.T
            near = np.argpartition(-cosines, k, axis=1)[:, :k]
            order = np.argsort(-np.take_along_axis(cosines, near, axis=1), axis=1, kind="stable")
            found.append(np.take_along_axis(near, order, axis=1))
        return np.concatenate(found)

    def answers(self, exam: Exam) -> dict[str, float]:
        if self.learns or not self._found:
            settled = copy.deepcopy(self.adapter).flush()
            queries, base = settled.map_rows(exam.queries), settled.map_rows(exam.base)
            forms = {
                "": evaluate.cosine(queries, base, exam.truth, METRICS),
                "signs": evaluate.rank(Codes.from_bits(queries >= 0), Codes.from_bits(base >= 0), exam.truth, METRICS),
                "ITQ": evaluate.retrieval(settled.itq(), queries, base, exam.truth, METRICS),
            }
            self._found = {
                f"{name}, {form}" if form else name: round(float(value), 6)
                for form, values in forms.items()
                for name, value in values.items()
            }
        return self._found
