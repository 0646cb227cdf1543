"""What happened since the last events were sent."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np

from onlinehash.learners.update import Updates

#: Losses that one `learned` event tells, the last ones.
MOST_LOSSES = 200


class News:
    """Filled by the writer, emptied by the task that sends events; also counts totals."""

    def __init__(self) -> None:
        self.n_learned = self.n_updated = 0
        self._untold, self._lock = Untold(), threading.Lock()

    def note_items(self) -> None:
        """Items were added, changed or removed."""
        with self._lock:
            self._untold.items = True

    def note(self, updates: Updates) -> None:
        """Pairs were learned."""
        changed = updates.changed()
        with self._lock:
            self.n_learned += len(updates)
            self.n_updated += int(changed.sum())
            self._untold.note(updates, changed)

    def take(self) -> Untold:
        """What has not been sent yet; clears it."""
        with self._lock:
            untold, self._untold = self._untold, Untold()
        return untold


class Untold:
    """What was learned, and whether items changed."""

    def __init__(self) -> None:
        self.items = False
        self.count, self.updated = 0, 0
        self.losses: list[float] = []
        self.bits: Counter[int] = Counter()

    def note(self, updates: Updates, changed: np.ndarray) -> None:
        """More pairs, and which of them changed a function."""
        self.count += len(updates)
        self.updated += int(changed.sum())
        self.losses = (self.losses + updates.loss[-MOST_LOSSES:].tolist())[-MOST_LOSSES:]
        for t in np.flatnonzero(changed)[-MOST_LOSSES:]:
            self.bits.update(updates.bits(t).tolist())

    def learned(self) -> dict[str, Any]:
        """The event `learned`."""
        bits = {str(bit): times for bit, times in sorted(self.bits.items())}
        return {"losses": self.losses, "updated": self.updated, "count": self.count, "bits": bits}
