"""A small service with labelled items for the tests of what accompanies it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from onlinehash import LiveIndex, OnlineHashing, evaluate, refresh
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Limits

N_CLASSES = 4
SECONDS = 60.0  # for what takes a moment, unless something is wrong


def labelled(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points around four centres, always the same ones."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((N_CLASSES, 8))
    y = rng.integers(N_CLASSES, size=n)
    return (centres[y] + rng.standard_normal((n, 8))).astype(np.float32), y


@contextmanager
def serving(n: int = 120, learner: Any = None, policy: Any = None, **limits: int) -> Iterator[Service]:
    """A service with so many items, which have their label as `kind`; what was told is in `service.told`."""
    X, y = labelled(n)
    index = LiveIndex(
        learner or OnlineHashing(16, burn_in=max(n, 1), random_state=0), refresh=policy or refresh.every(1)
    )
    if n:
        index.add(None, X, [{"kind": f"class {label}"} for label in y])
        index.refresh()
    service = Service(index, label="kind", limits=Limits(**limits))
    service.told = []
    service.events.send = lambda name, data: service.told.append((name, dict(data)))
    try:
        yield service
    finally:
        service.close()


def names(y: np.ndarray) -> list[str]:
    return [f"class {label}" for label in y]


def slow_map(encoder: Any, X_query: np.ndarray, y_query: Any, X: np.ndarray, y: Any) -> float:
    """mAP from the vectors, and nothing else."""
    truth = evaluate.same_label(np.array(y_query), np.array(y))
    return evaluate.retrieval(encoder, X_query, X, truth, ["map"])["map"]


def held(service: Service) -> threading.Event:
    """Let the writer wait until this is set; returns when it does."""
    go, here = threading.Event(), threading.Event()
    service.writer.submit(lambda: (here.set(), go.wait(SECONDS)))
    assert here.wait(SECONDS)
    return go
