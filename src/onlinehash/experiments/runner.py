"""Run what is not done yet: in several processes, one thread each; every result is on the disk when it is there.

Runs that are timed come last, one at a time, so that nothing of ours runs beside them.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from onlinehash import datasets, evaluate
from onlinehash.errors import OnlineHashError
from onlinehash.experiments import feedback, measurement
from onlinehash.experiments.plan import Cell
from onlinehash.experiments.results import Result, Store
from onlinehash.experiments.settings import Setting
from onlinehash.experiments.split_data import SplitData, as_conditions
from onlinehash.features import RbfAnchors
from onlinehash.io import atomic
from onlinehash.learners import registry
from onlinehash.progress import progress_bar

#: Between two lines, where there is no bar.
EVERY_SECONDS = 60
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass
class Tally:
    """What a call of `run` did."""

    n_done: int = 0
    n_found: int = 0
    failures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """A run, where its data are, and where what was computed from them is kept."""

    setting: Setting
    path: str
    cache: str
    is_alone: bool
    label: str


def run(cells: Iterable[tuple[Cell, bool]], store: Store, workers: int, again: Collection[str] = ()) -> Tally:
    """All cells (each with whether it must run alone) that the store does not hold; the same setting runs once.

    again: contestants whose cells are run even if the store holds them; the new results take the place of the old.
    """
    tally, jobs = Tally(), {}
    for cell, is_alone in cells:
        name = cell.setting.name
        if name in store and cell.line not in again:
            tally.n_found += 1
        elif name not in jobs:
            label = f"{cell.plan}: {cell.line} at {cell.value}, {cell.set.title}, seed {cell.seed}"
            jobs[name] = Job(cell.setting, cell.set.path, str(store.folder / "cache"), is_alone, label)
    together = _sharing([job for job in jobs.values() if not job.is_alone])
    alone = [job for job in jobs.values() if job.is_alone]
    with progress_bar(len(jobs)) as bar, _told_now_and_then(len(jobs)) as tell:

        def show(done: int, text: str) -> None:
            bar(done, text)
            tell(done)

        def took(job: Job, future: Future[Result]) -> None:
            try:
                store.add(future.result())
                tally.n_done += 1
            except BrokenProcessPool:
                raise
            except Exception as error:  # a method of others may raise anything; the other runs go on
                tally.failures[job.label] = str(error) if isinstance(error, OnlineHashError) else repr(error)
            done = tally.n_done + len(tally.failures)
            show(done, f"{done} of {len(jobs)}  {job.label}")

        for some, n in ((together, workers), (alone, 1)):
            if some:
                show(tally.n_done, f"{tally.n_done} of {len(jobs)}  starting")
                _run_in_processes(some, n, took)
    return tally


def _sharing(jobs: Sequence[Job]) -> list[Job]:
    """Those on the same split of a set together, and of those the ones of a seed, which have the same anchors."""
    splits: dict[tuple[object, ...], int] = {}
    places = {
        job.setting.name: splits.setdefault((job.path, *as_conditions(job.setting.conditions)), len(splits))
        for job in jobs
    }
    return sorted(jobs, key=lambda job: (places[job.setting.name], job.setting.seed))


@contextmanager
def _told_now_and_then(total: int) -> Iterator[Callable[[int], None]]:
    """A line a minute on standard error where that is no terminal, and so has no bar."""
    start = last = time.monotonic()

    def tell(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done and now - last >= EVERY_SECONDS and not sys.stderr.isatty():
            last = now
            left = (now - start) / done * (total - done) / 60
            print(f"{done} of {total} runs, about {left:.0f} min left", file=sys.stderr, flush=True)

    yield tell


def _run_in_processes(jobs: Sequence[Job], workers: int, took: Callable[[Job, Future[Result]], None]) -> None:
    """Hands out jobs in their order, a few ahead of what is done, so that Ctrl-C is answered soon."""
    left = iter(jobs)
    with _one_thread_each(), _pool(workers) as pool:
        running: dict[Future[Result], Job] = {}
        try:
            while True:
                while len(running) < 2 * workers and (job := next(left, None)) is not None:
                    running[pool.submit(execute, job)] = job
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    took(running.pop(future), future)
        except BrokenProcessPool:
            raise OnlineHashError(
                "a process of the experiment was killed, possibly for lack of memory; run the command "
                "again with fewer --workers: it continues where it stopped."
            ) from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=_end_with, initargs=(os.getpid(),)
    )


def _end_with(parent: int) -> None:
    """Whoever kills the command means its workers too."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes read these when they load NumPy."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def execute(job: Job) -> Result:
    """One run, in this process."""
    data = _split_data(job.path, job.cache, *as_conditions(job.setting.conditions))
    if job.is_alone:
        _warm_up(job.setting.method, job.setting.n_bits, job.setting.parameters.get("features") is not None, job.path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        is_feedback = job.setting.conditions["protocol"] == "feedback"
        result = (feedback.measure if is_feedback else measurement.measure)(job.setting, data)
    messages = sorted({str(warning.message) for warning in told})
    return replace(result, facts=result.facts | ({"warnings": messages} if messages else {}))


@cache
def _warm_up(method: str, n_bits: int, has_features: bool, path: str) -> None:
    """A first schedule that is not timed: it loads or compiles the method's kernels, which differ with features."""
    rows = datasets.load(path).X[:2000]
    features = RbfAnchors(50) if has_features else None
    learner = registry.find(method)(n_bits=n_bits, random_state=0, features=features)
    learner.fit(rows, np.arange(len(rows)) % 10).encode(rows)


@lru_cache(maxsize=2)
def _split_data(
    path: str, cache: str, truth: str, split: tuple[int, int], vectors: str, neighbours: str, inputs: int | None
) -> SplitData:
    data = datasets.load(path)

    def radii(X: np.ndarray, share: float) -> np.ndarray:
        """Kept on the disk, because they take minutes."""
        kind = "" if neighbours == "raw" else f"-{neighbours}"
        file = Path(cache) / f"radii-{data.fingerprint}-{len(X)}-{share:g}{kind}.npy"
        if not file.exists():
            found = evaluate.neighbour_radii(X, share)
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic.replacing(file) as out:
                np.save(out, found)
            return found
        return np.asarray(np.load(file))

    return SplitData(data, truth, split, radii, vectors, neighbours, inputs)
