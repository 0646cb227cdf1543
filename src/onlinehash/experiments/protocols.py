"""Protocols as code: what is learned in which order, and what is asked when.

    retrieval     pairs of the rows, then the queries; `sampling = "consecutive"` is the later papers' stream: each of
                  the points once, two by two, with looks along it
    unseen        a quarter of the classes is never shown; queries and base are of those
    incremental   classes arrive one group after another; queries and base are of those that have arrived
    drift         at half of the stream the world changes, at once or little by little: `world = "rotated"` turns all
                  vectors, `world = "meaning"` pairs classes up in another way

A schedule is a list of parts. After each the queries are asked: with the functions as they are then, for queries and
base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from onlinehash import evaluate
from onlinehash.errors import InvalidInput
from onlinehash.experiments.split_data import NOBODY, SplitData, unit_rows
from onlinehash.experiments.toml import Conditions


@dataclass(frozen=True, eq=False)
class Exam:
    """Who asks whom, and what should be found. Equal to itself alone, so that answers can be kept."""

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
class Schedule:
    """The parts, and for batch methods the rows that they may learn from, before the first exam."""

    parts: list[Part]
    known: np.ndarray


def schedule_of(data: SplitData, conditions: Conditions, seed: int) -> Schedule:
    """The schedule of a setting; the seed draws pairs and their order."""
    protocol = conditions["protocol"]
    if protocol not in PROTOCOLS:
        raise InvalidInput(expected=f"a protocol among {', '.join(PROTOCOLS)}", got=repr(protocol))
    if data.labels is None and protocol != "retrieval":
        raise InvalidInput(f"the protocol {protocol} needs labels, and the data set has none.")
    return PROTOCOLS[protocol](data, conditions, np.random.default_rng([seed, 7]))


# ------------------------------------------------------------------ the protocols


def retrieval(data: SplitData, conditions: Conditions, rng: np.random.Generator) -> Schedule:
    """The paper's, and the later papers'."""
    n = int(conditions["pairs"])
    known = np.arange(len(data.rows))
    if conditions.get("sampling") == "consecutive":
        known = rng.permutation(known)[: 2 * n]
        left, right = known[0 : len(known) // 2 * 2 : 2], known[1::2]
        similar = data.similar(left, right)
    else:
        left, right, similar = data.pairs(n, rng, conditions["similar_share"])
    exam = _exam_of_all(data, float(conditions["distractors"])) if conditions.get("exam", True) else None
    parts = [
        Part(data.rows, data.labels, left[piece], right[piece], similar[piece], exam)
        for piece in _pieces(len(left), conditions)
    ]
    return Schedule(parts, known)


def unseen(data: SplitData, conditions: Conditions, rng: np.random.Generator) -> Schedule:
    """A quarter of the classes held out, which the seed draws."""
    assert data.labels is not None
    classes = rng.permutation(_classes(data, 4, "to hold a quarter of them out"))
    hidden = classes[: len(classes) // 4]
    is_hidden = np.isin(data.labels, hidden)
    known, base = np.flatnonzero(~is_hidden), np.flatnonzero(is_hidden)
    left, right, similar = data.pairs(int(conditions["pairs"]), rng, conditions["similar_share"], known)
    exam = _exam_of_classes(data, hidden, base)
    return Schedule([Part(data.rows, data.labels, left, right, similar, exam)], known)


def incremental(data: SplitData, conditions: Conditions, rng: np.random.Generator) -> Schedule:
    """Classes in groups; pairs of a stage are among all that have arrived."""
    assert data.labels is not None
    n_groups = int(conditions["groups"])
    groups = np.array_split(rng.permutation(_classes(data, n_groups, f"to arrive in {n_groups} groups")), n_groups)
    parts: list[Part] = []
    for stage in range(1, n_groups + 1):
        arrived = np.concatenate(groups[:stage])
        here = np.flatnonzero(np.isin(data.labels, arrived))
        newest = np.flatnonzero(np.isin(data.labels, groups[stage - 1]))
        n = int(conditions["pairs"]) // n_groups
        # Half of what comes is of the new classes, as in a stream in which they have just appeared.
        left, right, _ = data.pairs(n, rng, None, here)
        new = newest[rng.integers(0, len(newest), n)]
        left = np.where((rng.random(n) < 0.5) & (new != right), new, left)
        exam = _exam_of_classes(data, arrived, here)
        parts.append(Part(data.rows, data.labels, left, right, data.similar(left, right), exam))
    return Schedule(parts, np.flatnonzero(np.isin(data.labels, groups[0])))


def drift(data: SplitData, conditions: Conditions, rng: np.random.Generator) -> Schedule:
    """Before, after and, where it is gradual, a third in between in which old and new come mixed."""
    assert data.labels is not None
    n_rows, n, n_looks = len(data.rows), int(conditions["pairs"]), int(conditions["checkpoints"])
    rows, labels, queries, query_labels = _before_and_after(data, conditions["world"], rng)
    middle, width = 0.5, {"sudden": 0.0, "gradual": 1 / 3}[conditions["drift"]]
    left, right, _ = data.pairs(n, rng, None)
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
    return Schedule(parts, np.arange(n_rows))


PROTOCOLS: dict[str, Callable[[SplitData, Conditions, np.random.Generator], Schedule]] = {
    "retrieval": retrieval,
    "unseen": unseen,
    "incremental": incremental,
    "drift": drift,
}


# ------------------------------------------------------------------ what they share


def _classes(data: SplitData, least: int, why: str) -> np.ndarray:
    assert data.labels is not None
    found = np.unique(data.labels)
    if len(found) < least:
        raise InvalidInput(expected=f"at least {least} classes {why}", got=f"{len(found)}")
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
def _exam_of_all(data: SplitData, distractors: float) -> Exam:
    """All queries over all rows, padded with rows that are relevant to nobody: so many for each row."""
    n = round(distractors * len(data.rows))
    if not n:
        return Exam(data.queries, data.rows, data.truth)
    if data.labels is None or data.query_labels is None:
        raise InvalidInput("distractors need labels, and the data set has none.")
    base = np.concatenate([data.rows, data.distractors(n)])
    labels = np.concatenate([data.labels, np.full(n, NOBODY)])
    return Exam(data.queries, base, evaluate.same_label(data.query_labels, labels))


def _exam_of_classes(data: SplitData, classes: np.ndarray, base: np.ndarray) -> Exam:
    assert data.labels is not None
    assert data.query_labels is not None
    asked = np.flatnonzero(np.isin(data.query_labels, classes))
    truth = evaluate.same_label(data.query_labels[asked], data.labels[base])
    return Exam(data.queries[asked], data.rows[base], truth)


def _before_and_after(data: SplitData, kind: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """Rows and labels of the old data, then of the new; queries and their labels likewise, as lists of two."""
    assert data.labels is not None
    assert data.query_labels is not None
    if kind == "rotated":
        Q = np.linalg.qr(rng.standard_normal((data.rows.shape[1],) * 2))[0].astype(np.float32)
        rows = np.concatenate([data.rows, unit_rows(data.rows @ Q)])
        labels = np.concatenate([data.labels, data.labels])
        return rows, labels, [data.queries, unit_rows(data.queries @ Q)], [data.query_labels] * 2
    if kind == "meaning":
        n_classes = len(_classes(data, 4, "to be paired up in two ways"))
        rows = np.concatenate([data.rows, data.rows])

        def meanings(y: np.ndarray) -> list[np.ndarray]:
            return [y // 2, (y + 1) % n_classes // 2]

        return rows, np.concatenate(meanings(data.labels)), [data.queries] * 2, meanings(data.query_labels)
    raise InvalidInput(expected="the world of a drift to be rotated or meaning", got=repr(kind))
