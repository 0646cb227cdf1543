"""When the codes of an index follow its learner: by a policy or by hand. How they do is the index's own business."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput, NotReady, OnlineHashError
from onlinehash.learners.encoder import Encoder
from onlinehash.live.asking import Asking
from onlinehash.live.policy import Policy
from onlinehash.live.recode import Refresh
from onlinehash.live.reservoir import Reservoir
from onlinehash.live.storage import Version
from onlinehash.numeric.views import read_only

#: Encoders that are kept, the present one included.
VERSIONS_KEPT = 5

#: The sample of vectors for the policies, and the share of the items that may change before it is drawn anew.
SAMPLE_SIZE, SAMPLE_AGE = 256, 0.1

#: Pairs kept at random for the policies, and how many of the last ones they are drawn from.
PAIRS_SIZE, PAIRS_HORIZON = 512, 4096


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


class Follower(Asking):
    """Asks the policy, begins refreshes, and tells what came of them."""

    policy: Policy
    background: bool
    _lock: threading.RLock
    _closed: bool
    _pairs: Reservoir
    _job: Refresh | None

    def _begin_to_follow(self) -> None:
        """What is known of refreshes when an index begins, or is read back."""
        self._origin, self._asked_at = self.learner.origin, self._learner_version
        self._sample, self._n_changes = np.empty((0, 0)), 0
        self._job = None

    @abstractmethod
    def _begin(self, version: Version, wait: bool, pause: bool = False, by_policy: bool = False) -> Refresh | None:
        """Replace codes and encoder, as one step to all who look; what is returned goes on if nobody waits."""

    @abstractmethod
    def _check_open(self, writing: bool = False) -> None:
        """Refuse what cannot be done now."""

    @property
    @abstractmethod
    def _may_follow(self) -> bool:
        """May a refresh begin that nobody asked for?"""

    @property
    @abstractmethod
    def _has_learned_elsewhere(self) -> bool:
        """Is it time to ask the policy though nothing was changed through this index?"""

    @property
    @abstractmethod
    def _counted(self) -> Counters:
        """What all refreshes did."""

    @abstractmethod
    def _draw(self, size: int) -> np.ndarray:
        """The vectors of so many items, drawn at random."""

    # ------------------------------------------------------------------------------------------------ when

    def _before_reading(self) -> None:
        """Refuse if the index was closed; ask the policy about what the learner learned elsewhere.

        Not if somebody is changing the index right now, who asks it then.
        """
        self._check_open()
        if self._has_learned_elsewhere and self._lock.acquire(blocking=False):
            try:
                self._follow()
            finally:
                self._lock.release()

    def _follow(self) -> None:
        """Ask the policy, if the codes are behind the learner. What goes wrong is no fault of the call that asks."""
        if not self._may_follow:
            return
        if self._job is not None:
            if not self._job.done:
                return
            if self._job.error is not None and not self._job.was_waited_for:
                self._warn(self._job.error)
            self._job = None
        try:
            self._begin_if_due()
        except NotReady:
            pass  # the feature map still waits for points
        except Exception as error:
            self._warn(error)

    def _begin_if_due(self) -> None:
        version, is_another = self._learner_version, self.learner.origin is not self._origin
        self._origin, self._asked_at = self.learner.origin, version
        encoder = self.encoder
        if encoder is not None and encoder.version == version and not is_another:
            return
        if encoder is None:
            self._begin(self._newest_version(), wait=True, by_policy=True)
        elif is_another or self.policy.due(self):
            self._begin(self._newest_version(), wait=not self.background, by_policy=True)

    def _warn(self, error: Exception) -> None:
        problem = str(error) if isinstance(error, OnlineHashError) else f"{type(error).__name__}: {error}"
        checks.warn(f"a refresh by {self.policy!r} failed, and the codes stay as they were: {problem}")

    @property
    def _learner_version(self) -> int:
        return int(getattr(self.learner, "version_", -1))

    def _newest_version(self) -> Version:
        encoder, present = self.learner.snapshot(), self.encoder
        serial = 1 + max((version.serial for version in self.versions), default=0)
        if present is not None and len(encoder.changed_bits(present)) == 0:
            serial = self.serial  # the same functions are no other version to return to
        return Version(serial, self.learner.n_pairs_seen_, encoder)

    # ------------------------------------------------------------------------------------------------ by hand

    def refresh(self, wait: bool = True) -> Refresh | None:
        """Let the codes be the learner's: only the columns of hash functions that changed are computed anew.

        Searches go on meanwhile. With `wait=False` so does everything else, and what is returned can be waited for and
        cancelled. A refresh that is already under way is cancelled first. Ends the pause after a `roll_back`.
        """
        with self._alone():
            self._check_open(writing=True)
            newest = self._newest_version()
            self._origin, self._asked_at = self.learner.origin, self._learner_version
            return self._begin(newest, wait)

    def roll_back(self, serial: int | None = None) -> None:
        """Return to an older encoder: the one before the present, or the one of this serial in `versions`.

        The learner keeps what it learned, and no policy refreshes again before `refresh` is called.
        """
        with self._alone():
            self._check_open(writing=True)
            versions, present = self.versions, self.serial
            older = [v for v in versions if (v.serial < present if serial is None else v.serial == serial)]
            if not older:
                known = ", ".join(str(version.serial) for version in versions) or "none"
                raise InvalidInput(
                    f"expected an older encoder to return to, got {'none' if serial is None else checks.shown(serial)};"
                    f" the present one is {present}, and these are kept: {known}."
                )
            self._begin(older[-1], wait=True, pause=True)

    def cancel(self) -> None:
        """Stop a refresh that is under way in the background, as if it had never begun."""
        self._stop()

    def _stop(self) -> None:
        """Stop the refresh that this index runs in the background."""
        job = self._job
        if job is not None:
            job.cancel()
            job.join()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The lock, while no refresh is under way: one that is, even if begun a moment ago, is cancelled."""
        while True:
            self._stop()
            with self._lock:
                if self._job is None or self._job.done:
                    yield
                    return

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
            encoder = self.encoder
            bits = 0 if encoder is None else len(self.newest.changed_bits(encoder))
            return Behind(bits, self.pairs_behind)

    @property
    def pairs_behind(self) -> int:
        """Pairs learned since the encoder of the codes."""
        serial = self.serial
        present = next((v.n_pairs for v in self.versions if v.serial == serial), 0)
        return int(getattr(self.learner, "n_pairs_seen_", 0)) - present

    @property
    def sample(self) -> np.ndarray:
        """Up to 256 of the vectors, drawn at random, and drawn anew once a tenth of the items has changed."""
        with self._lock:
            n = len(self)
            size = min(n, SAMPLE_SIZE)
            if self._n_changes > SAMPLE_AGE * n or len(self._sample) != size:
                self._sample, self._n_changes = self._draw(size), 0
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
    @abstractmethod
    def versions(self) -> list[Version]:
        """The encoders that are kept, oldest first."""

    @property
    @abstractmethod
    def serial(self) -> int:
        """The number of the present encoder among all that ever were; 0 if there is none yet."""

    @property
    @abstractmethod
    def paused(self) -> bool:
        """Does no policy refresh, as after a `roll_back`, until `refresh` is called?"""

    @property
    def refreshes(self) -> int:
        """Refreshes so far."""
        return self._counted.refreshes

    @property
    def bits_rehashed(self) -> int:
        """Bits of items whose function had changed, over all refreshes."""
        return self._counted.bits_rehashed

    @property
    def bits_skipped(self) -> int:
        """Those of `bits_rehashed` that margins proved to be as they were, so that they were not computed."""
        return self._counted.bits_skipped

    @property
    def bits_flipped(self) -> int:
        """Those of `bits_rehashed` that came out otherwise."""
        return self._counted.bits_flipped
