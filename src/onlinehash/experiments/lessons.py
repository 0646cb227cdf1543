"""Protocols as code: what is learned in which order, and what is asked when.

    retrieval     pairs of the rows, then the queries; `sampling = "consecutive"` is the later papers' stream: each of
                  the points once, two by two, with looks along it
    unseen        a quarter of the classes is never shown; queries and base are of those
    incremental   classes arrive one group after another; queries and base are of those that have arrived
    drift         at half of the stream the world changes, at once or little by little: `world = "rotated"` turns all
                  vectors, `world = "meaning"` pairs classes up in another way

A lesson is a list of parts. After each the queries are asked: with the functions as they are then, for queries and
base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from onlinehash import evaluate
from onlinehash.errors import InvalidInput
from onlinehash.experiments.worlds import NOBODY, World, unit_rows

Conditions = Mapping[str, Any]


@dataclass(frozen=True)
class Exam:
    """Who asks whom, and what should be found."""

    queries: np.ndarray
    base: np.ndarray
    truth: evaluate.Truth


@dataclass(frozen=True)
class Part:
    """Some pairs of rows, and the exam after them (None: no questions)."""

    rows: np.ndarray
    labels: np.ndarray | None
    left: np.ndarray
    right: np.ndarray
    similar: np.ndarray
    exam: Exam | None

    def __len__(self) -> int:
        return len(self.left)


@dataclass(frozen=True)
class Lesson:
    """The parts, and for batch methods the rows that they may learn from, before the first exam."""

    parts: list[Part]
    known: np.ndarray


def lesson_of(world: World, conditions: Conditions, seed: int) -> Lesson:
    """The lesson of a setting; the seed draws pairs and their order."""
    protocol = conditions["protocol"]
    if protocol not in PROTOCOLS:
        raise InvalidInput(f"expected a protocol among {', '.join(PROTOCOLS)}, got {protocol!r}.")
    if world.labels is None and protocol != "retrieval":
        raise InvalidInput(f"the protocol {protocol} needs labels, and the data set has none.")
    return PROTOCOLS[protocol](world, conditions, np.random.default_rng([seed, 7]))


# ------------------------------------------------------------------ the protocols


def retrieval(world: World, conditions: Conditions, rng: np.random.Generator) -> Lesson:
    """The paper's, and the later papers'."""
    n = int(conditions["pairs"])
    known = np.arange(len(world.rows))
    if conditions.get("sampling") == "consecutive":
        known = rng.permutation(known)[: 2 * n]
        left, right = known[0 : len(known) // 2 * 2 : 2], known[1::2]
        similar = world.similar(left, right)
    else:
        left, right, similar = world.pairs(n, rng, conditions["similar_share"])
    exam = _exam_of_all(world, float(conditions["distractors"])) if conditions.get("exam", True) else None
    parts = [
        Part(world.rows, world.labels, left[piece], right[piece], similar[piece], exam)
        for piece in _pieces(len(left), conditions)
    ]
    return Lesson(parts, known)


def unseen(world: World, conditions: Conditions, rng: np.random.Generator) -> Lesson:
    """A quarter of the classes held out, which the seed draws."""
    assert world.labels is not None
    classes = rng.permutation(_classes(world, 4, "to hold a quarter of them out"))
    hidden = classes[: len(classes) // 4]
    is_hidden = np.isin(world.labels, hidden)
    known, base = np.flatnonzero(~is_hidden), np.flatnonzero(is_hidden)
    left, right, similar = world.pairs(int(conditions["pairs"]), rng, conditions["similar_share"], known)
    exam = _exam_of_classes(world, hidden, base)
    return Lesson([Part(world.rows, world.labels, left, right, similar, exam)], known)


def incremental(world: World, conditions: Conditions, rng: np.random.Generator) -> Lesson:
    """Classes in groups; pairs of a stage are among all that have arrived."""
    assert world.labels is not None
    n_groups = int(conditions["groups"])
    groups = np.array_split(rng.permutation(_classes(world, n_groups, f"to arrive in {n_groups} groups")), n_groups)
    parts: list[Part] = []
    for stage in range(1, n_groups + 1):
        arrived = np.concatenate(groups[:stage])
        here = np.flatnonzero(np.isin(world.labels, arrived))
        newest = np.flatnonzero(np.isin(world.labels, groups[stage - 1]))
        n = int(conditions["pairs"]) // n_groups
        # Half of what comes is of the new classes, as in a stream in which they have just appeared.
        left, right, _ = world.pairs(n, rng, None, here)
        new = newest[rng.integers(0, len(newest), n)]
        left = np.where((rng.random(n) < 0.5) & (new != right), new, left)
        exam = _exam_of_classes(world, arrived, here)
        parts.append(Part(world.rows, world.labels, left, right, world.similar(left, right), exam))
    return Lesson(parts, np.flatnonzero(np.isin(world.labels, groups[0])))


def drift(world: World, conditions: Conditions, rng: np.random.Generator) -> Lesson:
    """Before, after and, where it is gradual, a third in between in which old and new come mixed."""
    assert world.labels is not None
    n_rows, n, n_looks = len(world.rows), int(conditions["pairs"]), int(conditions["checkpoints"])
    rows, labels, queries, query_labels = _two_worlds(world, conditions["world"], rng)
    middle, width = 0.5, {"sudden": 0.0, "gradual": 1 / 3}[conditions["drift"]]
    left, right, _ = world.pairs(n, rng, None)
    time = (np.arange(n) + 0.5) / n
    chance = np.clip((time - middle + width / 2) / width, 0, 1) if width else (time > middle).astype(float)
    is_new = rng.random(n) < chance
    left, right = left + n_rows * is_new, right + n_rows * is_new
    similar = labels[left] == labels[right]
    exams = [
        Exam(q, rows[k * n_rows : (k + 1) * n_rows], evaluate.same_label(y, labels[k * n_rows : (k + 1) * n_rows]))
        for k, (q, y) in enumerate(zip(queries, query_labels, strict=True))
    ]
    parts = [
        Part(rows, labels, left[piece], right[piece], similar[piece], exams[int(piece.stop > n * middle)])
        for piece in _pieces(n, {"checkpoints": n_looks})
    ]
    # The exam just after the change asks the functions of before.
    changed = next(k for k, part in enumerate(parts) if part.exam is exams[1])
    parts.insert(changed, Part(rows, labels, left[:0], right[:0], similar[:0], exams[1]))
    return Lesson(parts, np.arange(n_rows))


PROTOCOLS: dict[str, Callable[[World, Conditions, np.random.Generator], Lesson]] = {
    "retrieval": retrieval,
    "unseen": unseen,
    "incremental": incremental,
    "drift": drift,
}


# ------------------------------------------------------------------ what they share


def _classes(world: World, least: int, why: str) -> np.ndarray:
    assert world.labels is not None
    found = np.unique(world.labels)
    if len(found) < least:
        raise InvalidInput(f"expected at least {least} classes {why}, got {len(found)}.")
    return found


def _pieces(n: int, conditions: Conditions) -> Iterator[slice]:
    """Where to look: at equal distances, or at equal ratios from a thousandth on (`spacing = "log"`)."""
    n_looks = int(conditions.get("checkpoints", 1))
    ends = np.linspace(0, n, n_looks + 1)[1:]
    if conditions.get("spacing") == "log":
        ends = np.geomspace(n / 1000, n, n_looks)
    start = 0
    for end in np.rint(ends).astype(int):
        if end > start:
            yield slice(start, int(end))
            start = int(end)


@lru_cache(maxsize=1)
def _exam_of_all(world: World, distractors: float) -> Exam:
    """All queries over all rows, padded with rows that are relevant to nobody: so many for each row."""
    n = round(distractors * len(world.rows))
    if not n:
        return Exam(world.queries, world.rows, world.truth)
    if world.labels is None:
        raise InvalidInput("distractors need labels, and the data set has none.")
    base = np.concatenate([world.rows, world.distractors(n)])
    labels = np.concatenate([world.labels, np.full(n, NOBODY)])
    return Exam(world.queries, base, evaluate.same_label(world.query_labels, labels))


def _exam_of_classes(world: World, classes: np.ndarray, base: np.ndarray) -> Exam:
    assert world.labels is not None
    assert world.query_labels is not None
    asked = np.flatnonzero(np.isin(world.query_labels, classes))
    truth = evaluate.same_label(world.query_labels[asked], world.labels[base])
    return Exam(world.queries[asked], world.rows[base], truth)


def _two_worlds(world: World, kind: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """Rows and labels of the old world, then of the new; queries and their labels likewise, as lists of two."""
    assert world.labels is not None
    assert world.query_labels is not None
    if kind == "rotated":
        Q = np.linalg.qr(rng.standard_normal((world.rows.shape[1],) * 2))[0].astype(np.float32)
        rows = np.concatenate([world.rows, unit_rows(world.rows @ Q)])
        labels = np.concatenate([world.labels, world.labels])
        return rows, labels, [world.queries, unit_rows(world.queries @ Q)], [world.query_labels] * 2
    if kind == "meaning":
        n_classes = len(_classes(world, 4, "to be paired up in two ways"))
        rows = np.concatenate([world.rows, world.rows])

        def meanings(y: np.ndarray) -> list[np.ndarray]:
            return [y // 2, (y + 1) % n_classes // 2]

        return rows, np.concatenate(meanings(world.labels)), [world.queries] * 2, meanings(world.query_labels)
    raise InvalidInput(f"expected the world of a drift to be rotated or meaning, got {kind!r}.")
