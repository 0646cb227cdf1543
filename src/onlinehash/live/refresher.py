"""`Refresher`: when the codes of an index follow its learner, and the background job that replaces them.

The index itself replaces the codes: it gives a function that begins a refresh.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, cast

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput, NotReady, OnlineHashError
from onlinehash.index.api import Behind, Counters, Policy, VectorIndex, Version, Watched
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.live.recode import Work
from onlinehash.live.reservoir import Reservoir
from onlinehash.numeric.views import read_only

#: Encoders that are kept, the present one included.
VERSIONS_KEPT = 5

#: The sample of vectors for the policies, and the share of the items that may change before it is drawn anew.
SAMPLE_SIZE, SAMPLE_AGE = 256, 0.1

#: Pairs kept at random for the policies, and how many of the last ones they are drawn from.
PAIRS_SIZE, PAIRS_HORIZON = 512, 4096

#: After a background refresh the policy is not asked for so many times as long as it took: where pairs come fast, one
#: refresh would follow the other, and take the processor from those who search and write.
REST = 3.0

#: Seconds that a new thread has to begin. It never does if there was no memory for its first steps.
START_SECONDS = 10.0

Stop = Callable[[], bool]


class Begin(Protocol):
    """Begins a refresh to a version of the encoder; gives a job if nobody waits for its end."""

    def __call__(
        self, version: Version, wait: bool, *, pause: bool = False, by_policy: bool = False
    ) -> Refresh | None: ...


class History(NamedTuple):
    """The encoders that are kept, oldest first, which of them is the present one, and totals over all refreshes."""

    versions: list[Version]
    serial: int
    paused: bool
    counters: Counters

    def after(self, version: Version, pause: bool, work: Work | None) -> History:
        """The history with a refresh to this version; the first one re-encodes nothing, so it has no work."""
        known = {v.serial: v for v in self.versions} | {version.serial: version}
        kept = [known[serial] for serial in sorted(known)][-VERSIONS_KEPT:]
        counters = self.counters if work is None else Counters(*np.add(self.counters, (1, *work)).tolist())
        return History(kept, version.serial, pause, counters)


class Refresh:
    """A refresh in a thread of its own.

    `threading.Thread` would wait for ever for a thread that dies for want of memory before it begins. Locks need no
    memory to be released.
    """

    def __init__(self, run: Callable[[Stop], bool]) -> None:
        self._stopped, self._finished = threading.Event(), False
        self.error: Exception | None = None
        self.was_waited_for = False
        self._run = run
        self._is_given_up = False
        self._begins, self._runs = _thread.allocate_lock(), _thread.allocate_lock()
        self._begun = self._ended = 0.0

    def start(self) -> None:
        """Begin; raise if no thread can be started."""
        self._begins.acquire()
        self._runs.acquire()
        try:
            _thread.start_new_thread(self._work, ())
            has_begun = self._begins.acquire(timeout=START_SECONDS)
        except (RuntimeError, MemoryError):
            has_begun = False
        if not has_begun:
            self._is_given_up = True  # should it begin after all
            self._runs.release()
            raise OnlineHashError("no thread could be started for the refresh; free some memory, or end some threads.")

    def _work(self) -> None:
        self._begins.release()
        try:
            if not self._is_given_up:
                self._begun = time.monotonic()
                self._finished = self._run(self._stopped.is_set)
                self._ended = time.monotonic()
        except Exception as error:
            self.error = error
        finally:
            if not self._is_given_up:
                self._runs.release()

    @property
    def done(self) -> bool:
        """Whether it has ended, one way or another."""
        return not self._runs.locked()

    @property
    def rests(self) -> bool:
        """Whether it did its work so short a time ago that no other should follow yet, and nobody waited for it."""
        if self.was_waited_for or not (self.done and self._finished):
            return False
        return time.monotonic() - self._ended < REST * (self._ended - self._begun)

    def cancel(self) -> None:
        """Stop at the next block, as if it had never begun."""
        self._stopped.set()

    def join(self) -> None:
        """Wait for the end, whatever it is."""
        with self._runs:
            pass

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; True if the new codes are there, False if it was cancelled or still runs."""
        self.was_waited_for = self._runs.acquire(timeout=-1 if timeout is None else timeout)
        if self.was_waited_for:
            self._runs.release()
        if self.error is not None:
            raise self.error
        return self._finished


class Refresher:
    """Asks the policy, runs one refresh at a time, and holds what policies look at besides the index itself.

    The lock is that of the index's changes. A background refresh needs it to finish, so nobody may hold it who waits
    for one.
    """

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self.forget_pairs()
        self.job: Refresh | None = None
        self.n_changed = 0  #: Items that were added, changed and removed, each time.
        self._sample, self._n_changes = np.empty((0, 0)), 0
        self._origin: object = None
        self._asked_at = -1

    def restart(self, learner: Learner) -> None:
        """The index was opened, or read from the disk again."""
        self._note(learner)
        self._sample, self._n_changes = np.empty((0, 0)), 0
        self.job = None

    def forget_pairs(self) -> None:
        """No pairs were learned yet."""
        self.pairs = Reservoir(PAIRS_SIZE, 0, PAIRS_HORIZON)

    def items_changed(self, n: int) -> None:
        """So many items more were added, changed or removed."""
        self._n_changes += n
        self.n_changed += n

    def is_same_learner(self, learner: Learner) -> None:
        """The learner was read back from its store; it is the same learner although its state was replaced."""
        self._origin = learner.origin

    # ------------------------------------------------------------------------------------------------ when

    def _note(self, learner: Learner) -> None:
        self._origin, self._asked_at = learner.origin, version_of(learner)

    def has_learned(self, learner: Learner) -> bool:
        """Whether the learner has changed since the policy was last asked."""
        return version_of(learner) != self._asked_at or learner.origin is not self._origin

    def attempt(self, policy: Policy, begin_if_due: Callable[[], None]) -> None:
        """Begin a refresh if one is due and none is running. Errors become warnings, as the call did not ask for it."""
        if self.job is not None:
            if not self.job.done or self.job.rests:
                self._asked_at = -1  # so that the policy is asked once that has ended, as it may be cancelled
                return
            if self.job.error is not None and not self.job.was_waited_for:
                _warn(policy, self.job.error)
            self.job = None
        try:
            begin_if_due()
        except NotReady:
            pass  # the feature map still waits for points
        except Exception as error:
            _warn(policy, error)

    def begin_if_due(self, index: VectorIndex, begin: Begin) -> None:
        """Ask the policy if the codes are behind the learner.

        The first codes and a new learner need no policy, nor does an encoder with which all codes stay.
        """
        learner = index.learner
        version, is_another = version_of(learner), learner.origin is not self._origin
        self._note(learner)
        encoder = index.encoder
        if encoder is not None and encoder.version == version and not is_another:
            return
        if encoder is None:
            begin(newest_version(index), True, by_policy=True)
        elif is_another or keeps_codes(learner, encoder) or index.policy.due(cast(Watched, index)):
            begin(newest_version(index), not index.background, by_policy=True)

    def newest_version(self, index: VectorIndex) -> Version:
        """The version for a refresh by hand; the policy need not be asked about it any more."""
        newest = newest_version(index)
        self._note(index.learner)
        return newest

    # ------------------------------------------------------------------------------------------------ jobs

    def launch(self, run: Callable[[Stop], bool], wait: bool) -> Refresh | None:
        """Run a refresh here, or in the background."""
        if wait:
            run(lambda: False)
            return None
        job = Refresh(run)
        job.start()
        self.job = job  # only now: others may cancel and wait for what they see here
        return job

    def stop(self) -> None:
        """Stop the refresh that runs in the background."""
        job = self.job
        if job is not None:
            job.cancel()
            job.join()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock while no refresh is running: one that is, even if begun a moment ago, is cancelled."""
        while True:
            self.stop()
            with self._lock:
                if self.job is None or self.job.done:
                    yield
                    return

    # ------------------------------------------------------------------------------------------------ for policies

    def sample(self, n: int, draw: Callable[[int], np.ndarray]) -> np.ndarray:
        """Vectors of some of n items; `draw` gives those of so many, drawn at random."""
        with self._lock:
            size = min(n, SAMPLE_SIZE)
            if self._n_changes > SAMPLE_AGE * n or len(self._sample) != size:
                self._sample, self._n_changes = draw(size), 0
            return read_only(self._sample)

    def recent_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Some of the last pairs: A, B, and +1 or -1."""
        with self._lock:
            A, B, similar = self.pairs.arrays() or (np.empty((0, 0)), np.empty((0, 0)), np.empty(0, np.int8))
            return A, B, similar

    def newest(self, index: VectorIndex) -> Encoder:
        """The learner's hash functions as they are now."""
        with self._lock:
            return index.learner.snapshot()

    def behind(self, index: VectorIndex) -> Behind:
        """How far the codes are behind the learner."""
        with self._lock:
            encoder = index.encoder
            bits = 0 if encoder is None else len(index.newest.changed_bits(encoder))
            return Behind(bits, index.pairs_behind)


def version_of(learner: Learner) -> int:
    """The learner's version, -1 before its first rows."""
    return int(getattr(learner, "version_", -1))


def keeps_codes(learner: Learner, encoder: Encoder) -> bool:
    """Whether the learner's newest encoder differs in how it encodes queries alone, so that no item is behind it."""
    return learner.traits.keeps_codes and len(learner.snapshot().changed_bits(encoder)) == 0


def newest_version(index: VectorIndex) -> Version:
    """The learner's hash functions as the next version of the encoder."""
    encoder, present = index.learner.snapshot(), index.encoder
    serial = 1 + max((version.serial for version in index.versions), default=0)
    if present is not None and len(encoder.changed_bits(present)) == 0:
        serial = index.serial  # the same functions are no other version to return to
    return Version(serial, index.learner.n_pairs_seen_, encoder)


def older_version(index: VectorIndex, serial: int | None) -> Version:
    """The version that is before the present one, or has this serial number."""
    versions, present = cast(Sequence[Version], index.versions), index.serial
    older = [v for v in versions if (v.serial < present if serial is None else v.serial == serial)]
    if not older:
        known = ", ".join(str(version.serial) for version in versions) or "none"
        wanted = "no older encoder is kept" if serial is None else f"no encoder {checks.shown(serial)} is kept"
        raise InvalidInput(f"{wanted}; the current one is {present}, and these are kept: {known}.")
    return older[-1]


def pairs_behind(index: VectorIndex) -> int:
    """Pairs learned since the encoder of the codes."""
    learner, encoder = index.learner, index.encoder
    if learner.traits.keeps_codes and encoder is not None and encoder.version == version_of(learner):
        return 0
    serial = index.serial
    present = next((v.n_pairs for v in index.versions if v.serial == serial), 0)
    return int(getattr(learner, "n_pairs_seen_", 0)) - present


def _warn(policy: Policy, error: Exception) -> None:
    problem = str(error) if isinstance(error, OnlineHashError) else f"{type(error).__name__}: {error}"
    checks.warn(f"a refresh by {policy!r} failed, and the codes stay as they were: {problem}")
