"""What a service reports about itself: statistics, the model, what is served."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinehash.index.api import VectorIndex
from onlinehash.serve.changes import pairs_at_a_time, pairs_waiting
from onlinehash.serve.disk_health import DiskHealth
from onlinehash.serve.follower import Follower
from onlinehash.serve.news import News
from onlinehash.serve.settings import Limits
from onlinehash.serve.writer import Writer

if TYPE_CHECKING:
    from onlinehash.serve.monitor import Monitor
    from onlinehash.serve.pictures import Pictures
    from onlinehash.serve.rivals import Rivals
    from onlinehash.serve.teacher import Teacher

#: A reader that is further behind its writer, in seconds, is not ready.
MOST_LAG = 5.0


class Facts:
    """Read-only reports."""

    index: VectorIndex
    limits: Limits
    writer: Writer
    disk: DiskHealth
    news: News
    label: str | None
    pictures: Pictures | None
    read_only: bool
    demo: bool
    monitor: Monitor | None
    rivals: Rivals | None
    teacher: Teacher | None
    follower: Follower | None
    started: float
    searches: int
    searches_per_second: float

    @property
    def n_pairs(self) -> int:
        """Pairs that the learner has seen."""
        return int(getattr(self.index.learner, "n_pairs_seen_", 0))

    def refreshed(self) -> dict[str, Any]:
        """The state after the last refresh."""
        index = self.index
        encoder = index.encoder
        return {
            "serial": index.serial,
            "encoder": None if encoder is None else encoder.version,
            "refreshes": index.refreshes,
            "bits_rehashed": index.bits_rehashed,
            "bits_flipped": index.bits_flipped,
            "n_pairs": self.n_pairs,
        }

    def stats(self) -> dict[str, Any]:
        """All statistics."""
        index = self.index
        seconds = time.monotonic() - self.started
        return self.refreshed() | {
            "n": len(index),
            "behind": {"bits": len(self.changed_bits()), "pairs": index.pairs_behind},
            "bits_skipped": index.bits_skipped,
            "queue": {"length": len(self.writer), "limit": self.limits.queue},
            "searches": self.searches,
            "searches_per_second": self.searches_per_second,
            "learned": self.news.n_learned,
            "waiting": pairs_waiting(index.learner),
            "updated": self.news.n_updated,
            "uptime": round(seconds, 3),
            "measured": None if self.monitor is None else self.monitor.latest,
            "read_only": self.read_only,
            "lag_seconds": round(self.lag, 3),
        }

    def model(self) -> dict[str, Any]:
        """The learner, its parameters, and the encoders that are kept."""
        index, learner = self.index, self.index.learner
        versions = [{"serial": v.serial, "n_pairs": v.n_pairs, "version": v.encoder.version} for v in index.versions]
        n_bits, n_models, fusion = learner.shape_of_codes
        return {
            "method": type(learner).__name__,
            "parameters": {name: _plain(value) for name, value in learner.get_params(deep=False).items()},
            "n_bits": n_bits,
            "n_models": n_models,
            "n_features": self.n_features,
            "dtype": str(getattr(learner, "dtype_", np.dtype(np.float32))),
            "fusion": fusion,
            "version": getattr(learner, "version_", None),
            "serial": index.serial,
            "versions": versions,
            "n_pairs": self.n_pairs,
            "policy": repr(index.policy),
            "paused": index.paused,
        }

    def about(self) -> dict[str, Any]:
        """What is served, for a page or a new client."""
        n_bits, n_models, _ = self.index.learner.shape_of_codes
        return {
            "name": "onlinehash",
            "n": len(self.index),
            "method": type(self.index.learner).__name__,
            "n_bits": n_bits,
            "n_models": n_models,
            "chunk": pairs_at_a_time(self.index.learner),
            "n_features": self.n_features,
            "pictures": None if self.pictures is None else self.pictures.about(),
            "embed": None if self.index.embedder is None else self.index.embedder.name,
            "label": self.label,
            "demo": self.demo,
            "teacher": self.teacher is not None,
            "compare": [] if self.rivals is None else list(self.rivals.names),
            "read_only": self.read_only,
            "limits": dataclasses.asdict(self.limits),
        }

    @property
    def lag(self) -> float:
        """Seconds since a reader last had everything that its writer had written."""
        return 0.0 if self.follower is None else self.follower.lag

    def readiness(self) -> tuple[str, int]:
        """A status word and the HTTP status."""
        if self.writer.closing:
            return "stopping", 503
        if self.lag > MOST_LAG:
            return "behind", 503
        if self.disk.is_failing:
            return "storage failing", 503
        return "ready", 200

    @property
    def n_features(self) -> int:
        """The width of vectors; 0 before the first."""
        return int(getattr(self.index.learner, "n_features_in_", 0))

    @property
    def has_text_ids(self) -> bool:
        """Whether ids are strings; False while there are none."""
        return self.index.ids_kind == "strings"

    def changed_bits(self) -> np.ndarray:
        """The hash functions in which the codes are behind the learner; none while there are no codes."""
        with contextlib.suppress(ValueError):  # a learner that still waits has none to compare
            if self.index.encoder is not None:
                return self.index.newest.changed_bits(self.index.encoder)
        return np.empty(0, np.int64)


def _plain(value: Any) -> Any:
    """A parameter as JSON has it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "get_params"):
        return {"class": type(value).__name__} | {k: _plain(v) for k, v in value.get_params(deep=False).items()}
    return repr(value)
