"""One run: teach a learner of any kind a schedule, and look at it along the way."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from onlinehash import __version__, evaluate
from onlinehash.codes import Codes
from onlinehash.errors import NotReady
from onlinehash.experiments.adapter import ExactSearch
from onlinehash.experiments.flops import flops_per_pair, state_bytes
from onlinehash.experiments.protocols import Exam, Part, Schedule, schedule_of
from onlinehash.experiments.results import Result
from onlinehash.experiments.settings import Setting
from onlinehash.experiments.split_data import SplitData
from onlinehash.features import FeatureMap, same_map
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder

CPUINFO = Path("/proc/cpuinfo")
METRICS = ("map", "map@1000", "precision@100", "precision@r2", "recall@1000")
#: Cosines have no radius.
OF_FLOATS = tuple(name for name in METRICS if name != "precision@r2")
#: Pairs gathered at a time, which bounds the memory of a schedule.
BLOCK = 10_000
#: Pairs that are learned, and pairs that judge, where a parameter is chosen.
LEARNED, JUDGED = 4000, 4000
#: Numbers of features that may be kept: 300 of each of 118,000 rows are fewer.
MOST_KEPT = 2**26


def measure(setting: Setting, data: SplitData) -> Result:
    """The whole run."""
    schedule = schedule_of(data, setting.conditions, setting.seed)
    if setting.method == ExactSearch.__name__:
        return measure_floats(setting, schedule)
    chosen = choose(setting, data)
    learner = setting.learner(**chosen)
    teacher = Teacher(learner, data, schedule, setting)
    looks: list[dict[str, Any]] = []
    asked = Answers(None, [])
    n_pairs = 0
    for part in schedule.parts:
        teacher.teach(part, is_last=part is schedule.parts[-1])
        n_pairs += len(part)
        look = {"pairs": n_pairs, "seconds": round(teacher.seconds, 6)} | counters(learner, n_pairs) | teacher.bounds
        if part.exam is not None:
            with suppress(NotReady):  # a feature map or a chunk still waits: there is nothing to ask yet
                asked = ask(learner, part.exam, bool(setting.conditions.get("stored_order")))
                look |= asked.means()
        looks.append(look)
    facts: dict[str, Any] = {
        "similar_share": similar_share(schedule),
        "flops_per_pair": flops_per_pair(learner),
        "n_features": data.rows.shape[1],
        "state_bytes": state_bytes(learner),
        "machine": machine(),
        "version": __version__,
    }
    if chosen:
        facts["chosen"] = chosen
    last = schedule.parts[-1].exam
    if last is not None:
        facts |= {"n_queries": len(last.queries), "n_base": len(last.base), "curve": asked.curve}
    return Result(setting, looks, asked.values["map"] if asked.values else None, facts)


def similar_share(schedule: Schedule) -> float:
    """Of all pairs."""
    return round(float(np.concatenate([part.similar for part in schedule.parts]).mean()), 4)


def measure_floats(setting: Setting, schedule: Schedule) -> Result:
    """Exact search in the vectors, which learns nothing: what each exam finds by cosine."""
    looks: list[dict[str, Any]] = []
    n_pairs = 0
    for part in schedule.parts:
        n_pairs += len(part)
        exam = part.exam
        found = {} if exam is None else dict(found_by_floats(exam))
        if found and setting.conditions.get("stored_order"):
            found["map_stored"] = found["map"]  # equal cosines are taken as stored anyway
        looks.append({"pairs": n_pairs, "seconds": 0.0} | found)
    facts: dict[str, Any] = {"similar_share": similar_share(schedule), "machine": machine(), "version": __version__}
    last = schedule.parts[-1].exam
    if last is not None:
        facts |= {"n_features": last.base.shape[1], "n_queries": len(last.queries), "n_base": len(last.base)}
        facts["curve"] = float_curve(last)
    return Result(setting, looks, None, facts)


@lru_cache(maxsize=2)
def found_by_floats(exam: Exam) -> Mapping[str, float]:
    """What an exam finds by cosine; looks along a stream, and seeds, mostly ask the same."""
    means = evaluate.cosine(exam.queries, exam.base, exam.truth, OF_FLOATS)
    return {name: round(value, 6) for name, value in means.items()}


@lru_cache(maxsize=2)
def float_curve(exam: Exam) -> list[float]:
    """Precision at eleven levels of recall."""
    return [round(float(p), 4) for p in evaluate.cosine_curve(exam.queries, exam.base, exam.truth)]


def choose(setting: Setting, data: SplitData) -> dict[str, Any]:
    """The values of parameters that pairs held out speak for, by the area under the ROC curve of code distances.

    Pairs to learn from and pairs to judge by are drawn apart from those of the run.
    """
    chosen: dict[str, Any] = {}
    for name, values in setting.conditions.get("choose", {}).items():
        rng = np.random.default_rng([setting.seed, 11])
        left, right, similar = data.pairs(LEARNED + JUDGED, rng, setting.conditions["similar_share"])
        A, B = data.rows[left], data.rows[right]
        areas = []
        for value in values:
            learner = setting.learner(**chosen, **{name: value})
            learner.partial_fit_pairs(A[:LEARNED], B[:LEARNED], similar[:LEARNED]).flush()
            areas.append(evaluate.pairs(learner, A[LEARNED:], B[LEARNED:], similar[LEARNED:]).auc)
        chosen[name] = values[int(np.argmax(areas))]
    return chosen


class Teacher:
    """Gives a schedule to a learner, in the form that its kind takes; counts the seconds of one core that it took.

    Pairs go to those that learn from pairs; their points, one after the other, to those that learn from points; a batch
    method learns once, before the first exam, from all rows that are known then.
    """

    def __init__(self, learner: Learner, data: SplitData, schedule: Schedule, setting: Setting) -> None:
        self.learner = learner
        self.data = data
        self.known = schedule.known
        self.seconds = 0.0
        #: What the analysis of the loss needs, where the setting asks for it.
        self.bounds: dict[str, float] = {}
        self._follows = bool(setting.conditions.get("bounds"))
        self._are_similar_rare = setting.conditions["similar_share"] is not None

    def teach(self, part: Part, is_last: bool) -> None:
        """One part."""
        if self.learner.traits.unit == "batch":
            if not self.seconds:
                self._teach_all(part)
            return
        for start in range(0, len(part), BLOCK):
            self._teach_block(part, slice(start, start + BLOCK))
        if is_last:
            self._timed(self.learner.flush)

    def _teach_block(self, part: Part, block: slice) -> None:
        left, right = part.left[block], part.right[block]
        if self.learner.traits.learns_from == "pairs":
            A, B, similar = part.rows[left], part.rows[right], part.similar[block]
            if self._follows:
                self._follow(evaluate.bounds.follow(self.learner, A, B, similar))
            else:
                self._timed(lambda: self.learner.partial_fit_pairs(A, B, similar))
        else:
            points = np.stack([left, right], axis=1).ravel()
            X, y = part.rows[points], None if part.labels is None else part.labels[points]
            self._timed(lambda: self.learner.partial_fit(X, y))

    def _teach_all(self, part: Part) -> None:
        known, labels = self.known, part.labels
        rng = np.random.default_rng([cast(int, self.learner.random_state), 8])  # a plan gives each run a seed
        n_samples = getattr(self.learner, "n_samples", None)
        if labels is not None:
            if n_samples is not None and self._are_similar_rare:
                known = whole_classes(known, labels, n_samples, rng)
            self._timed(lambda: self.learner.fit(part.rows[known], labels[known]))
        elif self.learner.traits.learns_from == "labels":
            known = rng.permutation(known)[:n_samples]
            similar = self.data.similarities(known)
            self._timed(lambda: self.learner.fit_similarities(part.rows[known], similar))
        else:
            self._timed(lambda: self.learner.fit(part.rows[known]))

    def _follow(self, ledger: evaluate.bounds.Ledger) -> None:
        """The largest √R and F² so far, and so the smallest C that Theorem 2 asks for."""
        R = max(float(trail.R.max(initial=0.0)) for trail in ledger.models)
        self.bounds["largest_R"] = max(self.bounds.get("largest_R", 0.0), R)
        self.bounds["F2"] = max(self.bounds.get("F2", 0.0), ledger.F2)
        if self.bounds["F2"]:
            self.bounds["smallest_C"] = self.bounds["largest_R"] ** 0.5 / self.bounds["F2"]

    def _timed(self, work: Callable[[], object]) -> None:
        start = time.process_time()
        work()
        self.seconds += time.process_time() - start


def whole_classes(rows: np.ndarray, labels: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Up to so many rows, in whole classes of two members or more: as many random rows of thousands of classes would
    hardly hold a similar pair."""
    classes, counts = np.unique(labels[rows], return_counts=True)
    order = rng.permutation(np.flatnonzero(counts > 1))
    taken = order[np.cumsum(counts[order]) <= n]
    return rows[np.isin(labels[rows], classes[taken])]


@cache
def machine() -> str:
    """What the times were taken on."""
    return f"{_processor()} ({platform.machine()}), Python {platform.python_version()}, NumPy {np.__version__}"


def _processor() -> str:
    """Its name; the kernel of Linux knows none for an ARM core, but who made it and which one it is."""
    with suppress(OSError, subprocess.CalledProcessError):
        if sys.platform == "darwin":
            return subprocess.check_output(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], text=True).strip()
        facts: dict[str, str] = {}
        for line in CPUINFO.read_text().splitlines():
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())  # of the first core
        if "model name" in facts:
            return facts["model name"]
        if "CPU part" in facts:
            return f"implementer {facts.get('CPU implementer', 'unknown')}, part {facts['CPU part']}"
    return platform.processor() or platform.machine()


def counters(learner: Learner, n_pairs: int) -> dict[str, Any]:
    """What the learner counted; what it does not count is left out."""
    found: dict[str, Any] = {}
    if n_pairs and learner.traits.learns_from == "pairs":
        found["loss"] = float(learner.cumulative_loss_)
        found["update_rate"] = learner.n_updates_ / n_pairs
        found["bits_moved"] = int(learner.n_bits_moved_)
        steps = int(getattr(learner, "n_steps_", 0))
        if steps:
            found["capped_share"] = learner.n_capped_ / steps
    return found


@dataclass(frozen=True)
class Answers:
    """What an exam found: each metric for each query, and precision at eleven levels of recall."""

    values: dict[str, np.ndarray] | None
    curve: list[float]

    def means(self) -> dict[str, float]:
        """Over the queries to which something is relevant."""
        assert self.values is not None
        return {name: round(float(np.nanmean(values)), 6) for name, values in self.values.items()}


def _base_codes(encoder: Encoder, base: np.ndarray) -> Codes:
    """As `encode` gives them. The features of a base are kept for the next look or run with the same anchors."""
    kernel = encoder.feature_map
    if kernel is None or len(base) * encoder.weights.shape[1] > MOST_KEPT:
        return encoder.encode(base)
    if not (_Features.last and _Features.last.are_of(kernel, base, encoder.weights.dtype)):
        _Features.last = None  # so that two are never there at once
        rows = base.astype(encoder.weights.dtype, copy=False)
        _Features.last = _Features(kernel, base, kernel.map_rows(rows))
    values = _Features.last.values
    return replace(encoder, feature_map=None, n_features=values.shape[1]).encode(values)


@dataclass(frozen=True)
class _Features:
    """Those of a base by a map."""

    last: ClassVar[_Features | None] = None
    kernel: FeatureMap
    base: np.ndarray
    values: np.ndarray

    def are_of(self, kernel: FeatureMap, base: np.ndarray, dtype: np.dtype) -> bool:
        return base is self.base and dtype == self.values.dtype and same_map(kernel, self.kernel)


def ask(learner: Learner, exam: Exam, stored_order: bool = False) -> Answers:
    """Queries and base are encoded by the functions of now; `map_stored` takes ties in the order of the base."""
    encoder = learner.snapshot()
    queries, base = encoder.encode_queries(exam.queries), _base_codes(encoder, exam.base)
    values = evaluate.rank(queries, base, exam.truth, METRICS, fusion=encoder.fusion, per_query=True)
    if stored_order:
        stored = evaluate.rank(queries, base, exam.truth, ["map"], fusion=encoder.fusion, per_query=True, ties="stored")
        values["map_stored"] = stored["map"]
    curve = evaluate.curve(queries, base, exam.truth, fusion=encoder.fusion)
    return Answers(values, [round(float(p), 4) for p in curve.interpolated])
