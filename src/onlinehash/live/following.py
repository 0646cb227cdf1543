"""How a live index follows its learner: refreshes, by a policy or by hand, beside everything else, and back again."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput, NotReady, OnlineHashError, StorageError
from onlinehash.learners.encoder import Encoder
from onlinehash.live import refresh as policies
from onlinehash.live.interrupts import uninterrupted
from onlinehash.live.keeper import Keeper, Version
from onlinehash.live.policy import Policy
from onlinehash.live.receipts import Note, Receipting
from onlinehash.live.rehash import Refresh, Rehash
from onlinehash.live.reservoir import Reservoir
from onlinehash.live.searching import Searching
from onlinehash.numeric.views import read_only

#: Encoders that are kept, the present one included.
VERSIONS_KEPT = 5

#: The sample of vectors for the policies, and the share of the items that may change before it is drawn anew.
SAMPLE_SIZE, SAMPLE_AGE = 256, 0.1


class Behind(NamedTuple):
    """How far the codes are behind the learner: hash functions that differ, and pairs learned since."""

    bits: int
    pairs: int


class Counters(NamedTuple):
    """What all refreshes did, in bits of items; see the properties of these names."""

    refreshes: int = 0
    bits_rehashed: int = 0
    bits_skipped: int = 0
    bits_flipped: int = 0


class Following(Searching, Receipting, ABC):
    """Codes and encoder, replaced in one step."""

    policy: Policy
    background: bool
    _kind: str
    _keeper: Keeper | None
    _lock: threading.RLock
    _closed: bool
    _broken: bool
    _pairs: Reservoir

    def _set_out(self, settings: dict[str, Any], versions: list[Version]) -> None:
        """What is known of refreshes when an index begins, or is read back."""
        self._versions, self._serial, self._paused = versions, settings["serial"], settings["paused"]
        self._counters = Counters(*settings["counters"])
        self._origin, self._asked_at = self.learner.origin, self._learner_version
        self._sample, self._n_changes = np.empty((0, 0)), 0
        self._job: Refresh | None = None

    @abstractmethod
    def _recover(self) -> None:
        """After a change that failed halfway: be what is on the disk or, in memory, what is published."""

    def _settings(self) -> dict[str, Any]:
        """The counterpart of `_set_out`, and what else an index must know when it is opened."""
        return {
            "index": self._kind,
            "refresh": policies.specification(self.policy),
            "serial": self._serial,
            "paused": self._paused,
            "counters": list(self._counters),
        }

    # ------------------------------------------------------------------------------------------------ when

    def _before_reading(self) -> None:
        """Refuse if the index was closed; ask the policy about what the learner learned elsewhere.

        Not if somebody is changing the index right now, who asks it then.
        """
        self._check_open()
        learned = self._learner_version != self._asked_at or self.learner.origin is not self._origin
        if (learned or self.encoder is None) and self._lock.acquire(blocking=False):
            try:
                self._follow()
            finally:
                self._lock.release()

    def _follow(self) -> None:
        """Ask the policy, if the codes are behind the learner. What goes wrong is no fault of the call that asks."""
        if self._paused or self._closed or (self._keeper is not None and self._keeper.store.read_only):
            return
        if self._job is not None:
            if not self._job.done:
                return
            if self._job.error is not None and not self._job.was_waited_for:
                self._warn(self._job.error)
            self._job = None
        version, is_another = self._learner_version, self.learner.origin is not self._origin
        self._origin, self._asked_at = self.learner.origin, version
        if self.encoder is not None and self.encoder.version == version and not is_another:
            return
        try:
            if self.encoder is None:
                self._begin(self._newest_version(), wait=True)
            elif is_another or self.policy.due(self):
                self._begin(self._newest_version(), wait=not self.background)
        except NotReady:
            pass  # the feature map still waits for points
        except Exception as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        problem = str(error) if isinstance(error, OnlineHashError) else f"{type(error).__name__}: {error}"
        checks.warn(f"a refresh by {self.policy!r} failed, and the codes stay as they were: {problem}")

    @property
    def _learner_version(self) -> int:
        return int(getattr(self.learner, "version_", -1))

    def _newest_version(self) -> Version:
        encoder = self.learner.snapshot()
        serial = 1 + max((version.serial for version in self._versions), default=0)
        if self.encoder is not None and len(encoder.changed_bits(self.encoder)) == 0:
            serial = self._serial  # the same functions are no other version to return to
        return Version(serial, self.learner.n_pairs_seen_, encoder)

    # ------------------------------------------------------------------------------------------------ how

    def refresh(self, wait: bool = True) -> Refresh | None:
        """Let the codes be the learner's: only the columns of hash functions that changed are computed anew.

        Searches go on meanwhile. With `wait=False` so does everything else, and what is returned can be waited for and
        cancelled. A refresh that is already under way is cancelled first. Ends the pause after a `roll_back`.
        """
        with self._alone():
            self._check_open(writing=True)
            newest = self._newest_version()
            self._origin, self._asked_at = self.learner.origin, self._learner_version
            return self._begin(newest, wait, note=self._note())

    def roll_back(self, serial: int | None = None) -> None:
        """Return to an older encoder: the one before the present, or the one of this serial in `versions`.

        The learner keeps what it learned, and no policy refreshes again before `refresh` is called.
        """
        with self._alone():
            self._check_open(writing=True)
            older = [v for v in self._versions if (v.serial < self._serial if serial is None else v.serial == serial)]
            if not older:
                known = ", ".join(str(version.serial) for version in self._versions) or "none"
                raise InvalidInput(
                    f"expected an older encoder to return to, got {'none' if serial is None else checks.shown(serial)};"
                    f" the present one is {self._serial}, and these are kept: {known}."
                )
            self._begin(older[-1], wait=True, pause=True, note=self._note())

    def cancel(self) -> None:
        """Stop a refresh that is under way in the background, as if it had never begun."""
        job = self._job
        if job is not None:
            job.cancel()
            job.join()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The lock, while no refresh is under way: one that is, even if begun a moment ago, is cancelled."""
        while True:
            self.cancel()
            with self._lock:
                if self._job is None or self._job.done:
                    yield
                    return

    def _begin(self, version: Version, wait: bool, pause: bool = False, note: Note | None = None) -> Refresh | None:
        rehash = self._holdings.begin(version.encoder, self.learner.mean_)
        if wait:
            self._run(rehash, version, pause, note, lambda: False)
            return None
        job = Refresh(lambda stop: self._run(rehash, version, pause, note, stop))
        job.start()
        self._job = job  # only now: others may cancel and wait for what they see here
        return job

    def _run(self, rehash: Rehash, version: Version, pause: bool, note: Note | None, stop: Callable[[], bool]) -> bool:
        """Compute beside everything else, then publish; was it done?"""
        holdings = self._holdings
        try:
            if not rehash.compute(stop):
                return False
            with self._lock:
                if stop() or holdings is not self._holdings:  # which was read back from the disk meanwhile
                    return False
                with uninterrupted():
                    self._finish(rehash, version, pause, note)
            return True
        finally:
            with self._lock:
                holdings.end()

    def _finish(self, rehash: Rehash, version: Version, pause: bool, note: Note | None) -> None:
        """Write the new codes and their encoder in one transaction, then publish them by one assignment."""
        view, margins = rehash.finish(self._holdings.view)
        before = self._versions, self._serial, self._paused, self._counters
        known = {v.serial: v for v in self._versions} | {version.serial: version}
        kept = [known[serial] for serial in sorted(known)][-VERSIONS_KEPT:]
        self._versions, self._serial, self._paused = kept, version.serial, pause
        if self.encoder is not None:  # else it is the first, and nothing was hashed before
            self._counters = Counters(*np.add(self._counters, (1, *rehash.work)).tolist())
        try:
            with nullcontext() if self._keeper is None else self._keeper.store.transaction():
                if self._keeper is not None:
                    forgotten = sorted(set(known) - {v.serial for v in kept})
                    self._keeper.refreshed(version, view.items.all_codes(), self._settings(), forgotten)
                self._write_receipt(note)
        except BaseException as error:
            self._versions, self._serial, self._paused, self._counters = before
            if not isinstance(error, OnlineHashError):  # it may be on the disk nonetheless
                self._recover()
            raise
        self._holdings.publish(view, margins)
        self._keep_receipt(note)

    def _check_open(self, writing: bool = False) -> None:
        if self._closed:
            raise InvalidInput("expected an index that is open, got one that was closed; open it again.")
        if self.encoder is not None and self._n_features != self.encoder.n_features:
            raise InvalidInput(
                f"expected the learner of this index to stay with vectors of {self.encoder.n_features} values, got one "
                f"that was fitted to {self._n_features}; give it an index of its own."
            )
        if self._broken and not writing:
            raise StorageError("expected an index that agrees with its disk, but a failed change could not be undone.")
        if writing and self._keeper is not None and self._keeper.store.read_only:
            raise InvalidInput("expected an index that may be changed, got one that was opened read-only.")
        if writing:
            self._check_unspent()

    # ------------------------------------------------------------------------------------------------ for policies

    @property
    def newest(self) -> Encoder:
        """The learner's hash functions as they are now."""
        with self._lock:
            return self.learner.snapshot()

    @property
    def behind(self) -> Behind:
        """How far the codes are behind the learner."""
        with self._lock:
            bits = 0 if self.encoder is None else len(self.newest.changed_bits(self.encoder))
            return Behind(bits, self.pairs_behind)

    @property
    def pairs_behind(self) -> int:
        """Pairs learned since the encoder of the codes."""
        present = next((v.n_pairs for v in self._versions if v.serial == self._serial), 0)
        return int(getattr(self.learner, "n_pairs_seen_", 0)) - present

    @property
    def sample(self) -> np.ndarray:
        """Up to 256 of the vectors, drawn at random, and drawn anew once a tenth of the items has changed."""
        with self._lock:
            n = len(self)
            if self._n_changes > SAMPLE_AGE * n or len(self._sample) != min(n, SAMPLE_SIZE):
                living = self._holdings.view.items.positions()
                chosen = np.random.default_rng(n).choice(living, min(n, SAMPLE_SIZE), replace=False)
                self._sample, self._n_changes = self._holdings.vectors.take(np.sort(chosen)), 0
            return read_only(self._sample)

    @property
    def recent_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Up to 512 of the last few thousand pairs that were learned: A, B, and +1 or -1."""
        with self._lock:
            A, B, similar = self._pairs.arrays() or (np.empty((0, 0)), np.empty((0, 0)), np.empty(0, np.int8))
            return A, B, similar

    def clock(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()

    # ------------------------------------------------------------------------------------------------ what happened

    @property
    def versions(self) -> list[Version]:
        """The encoders that are kept, oldest first."""
        return list(self._versions)

    @property
    def serial(self) -> int:
        """The number of the present encoder among all that ever were; 0 if there is none yet."""
        return self._serial

    @property
    def paused(self) -> bool:
        """Does no policy refresh, as after a `roll_back`, until `refresh` is called?"""
        return self._paused

    @property
    def refreshes(self) -> int:
        """Refreshes so far."""
        return self._counters.refreshes

    @property
    def bits_rehashed(self) -> int:
        """Bits of items whose function had changed, over all refreshes."""
        return self._counters.bits_rehashed

    @property
    def bits_skipped(self) -> int:
        """Those of `bits_rehashed` that margins proved to be as they were, so that they were not computed."""
        return self._counters.bits_skipped

    @property
    def bits_flipped(self) -> int:
        """Those of `bits_rehashed` that came out otherwise."""
        return self._counters.bits_flipped
