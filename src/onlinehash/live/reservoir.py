"""A uniform sample of a stream, of fixed size."""

from __future__ import annotations

import numpy as np

from onlinehash import checks


class Reservoir:
    """Up to `size` rows of all that came, each equally likely to be among them (Vitter's algorithm R).

    Rows may have several parts, such as the two points of a pair and its label, which stay together. The same seed and
    stream give the same sample, however the stream is cut. With a `horizon` rows are forgotten: the sample is drawn
    from about the last `horizon` rows, an older one being the less likely to be left, for streams that drift.
    """

    def __init__(self, size: int, seed: int, horizon: int | None = None) -> None:
        checks.parameters(
            "Reservoir",
            {"size": size, "seed": seed, "horizon": horizon},
            {
                "size": checks.integer(1),
                "seed": checks.integer(0),
                "horizon": checks.either(checks.one_of(None), checks.integer(size)),
            },
        )
        self.size, self.horizon = size, horizon
        self.n_seen = 0
        self._rng = np.random.default_rng(seed)
        self._kept: tuple[np.ndarray, ...] = ()

    def __len__(self) -> int:
        return min(self.n_seen, self.size)

    def append(self, *parts: np.ndarray) -> None:
        """Add rows: arrays of equal length, with the same number and kinds of parts as the first ones."""
        n = len(parts[0])
        if not self._kept:
            self._kept = tuple(np.zeros((self.size, *part.shape[1:]), part.dtype) for part in parts)
        counts = np.arange(self.n_seen + 1, self.n_seen + n + 1)
        choices = counts if self.horizon is None else np.minimum(counts, self.horizon)
        places = (self._rng.random(n) * choices).astype(np.int64)  # one number a row, in whatever portions they come
        places = np.where(counts <= self.size, counts - 1, places)
        (chosen,) = np.nonzero(places < self.size)
        for kept, part in zip(self._kept, parts, strict=True):
            kept[places[chosen]] = part[chosen]  # of several rows for one place the last stays
        self.n_seen += n

    def arrays(self) -> tuple[np.ndarray, ...]:
        """The rows kept, as a copy of each part; nothing at all before the first came."""
        return tuple(kept[: len(self)].copy() for kept in self._kept)
