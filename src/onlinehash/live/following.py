"""How the codes of a live index follow its learner: computed beside everything else, and replaced in one step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from onlinehash.errors import InvalidInput, OnlineHashError, StorageError
from onlinehash.live import policies
from onlinehash.live.follower import VERSIONS_KEPT, Counters, Follower
from onlinehash.live.interrupts import uninterrupted
from onlinehash.live.notes import Note
from onlinehash.live.positions import Positioning
from onlinehash.live.receipts import Receipting
from onlinehash.live.recode import Refresh, Rehash
from onlinehash.live.searching import Searching
from onlinehash.live.storage import Keeper, Version


class Following(Searching, Follower, Receipting, Positioning):
    """Codes and encoder, replaced in one step."""

    _kind: str
    _keeper: Keeper | None
    _broken: bool

    def _set_out(self, settings: dict[str, Any], versions: list[Version]) -> None:
        """What is known of refreshes when an index begins, or is read back."""
        self._versions, self._serial, self._paused = versions, settings["serial"], settings["paused"]
        self._counters = Counters(*settings["counters"])
        self._begin_to_follow()

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

    @property
    def _may_follow(self) -> bool:
        return not (self._paused or self._closed or (self._keeper is not None and self._keeper.store.read_only))

    @property
    def _has_learned_elsewhere(self) -> bool:
        learned = self._learner_version != self._asked_at or self.learner.origin is not self._origin
        return learned or self.encoder is None

    # ------------------------------------------------------------------------------------------------ how

    def _begin(self, version: Version, wait: bool, pause: bool = False, by_policy: bool = False) -> Refresh | None:
        note = None if by_policy else self._note()
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
                self._write_note(note)
        except BaseException as error:
            self._versions, self._serial, self._paused, self._counters = before
            if not isinstance(error, OnlineHashError):  # it may be on the disk nonetheless
                self._recover()
            raise
        self._holdings.publish(view, margins)
        self._keep_note(note)

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

    def _draw(self, size: int) -> np.ndarray:
        chosen = np.random.default_rng(len(self)).choice(self._holdings.view.items.positions(), size, replace=False)
        return self._holdings.vectors.take(np.sort(chosen))

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
    def _counted(self) -> Counters:
        return self._counters
