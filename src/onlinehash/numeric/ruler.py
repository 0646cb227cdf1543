"""Margins: how far a hash function may move before a row's bit can change.

A bit is the sign of w.z - b. With c a fixed centre and R(z) = max(|z - c|, radius), a function that moves by dw and db
moves every row's w.z - b by at most

    |dw.z - db|  =  |dw.(z - c) - (db - dw.c)|  <=  R(z) drift,      drift = |dw| + |db - dw.c| / radius

so that a row whose |w.z - b| / R(z) is more than all drift since it was computed keeps its bit. A *mark* is a byte that
holds a lower bound of it, in units of the column:

    |w.z - b|  >=  (mark * unit - owed) R(z)         `owed`: drift that is not yet subtracted from marks, below a unit

A mark of zero is a doubt. All rounding here is towards doubt, and the last hundredth of a unit is never spent: it is
far more than what the canonical dot product (see `signs`) may be off, so that a bit without doubt is the one that
encoding gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onlinehash.numeric.signs import DOUBLE_EPS, norm_of, smallest_norm
from onlinehash.numeric.views import read_only

#: The largest mark: "so much, or more".
MOST = 255

#: Steps that leave nothing of any mark: of columns whose drift is too large, or has no bound.
ALL = MOST + 1

#: The mean margin in units: fine enough that rounding down costs little, coarse enough that few marks are `MOST`.
UNITS_OF_THE_MEAN = 48

#: Rows that a ruler is chosen by.
_SAMPLE = 512

#: What kernels want of a ruler: centre, scales of columns, radius, |c|, and the precision of rows.
Constants = tuple[np.ndarray, np.ndarray, float, float, float, float]

_RESERVE = 0.01
_DOWN, _UP = 1 - 1e-12, 1 + 1e-12


@dataclass(frozen=True, eq=False)
class Ruler:
    """What marks are measured by: centre and radius for all columns, unit and owed drift for each."""

    centre: np.ndarray
    radius: float
    units: np.ndarray
    owed: np.ndarray

    @classmethod
    def of(cls, Z: np.ndarray, W: np.ndarray, thresholds: np.ndarray, centre: np.ndarray | None) -> Ruler:
        """A ruler that suits rows like these; a centre that is the learner's mean makes db - dw.c vanish."""
        c = (Z.mean(axis=0, dtype=np.float64) if centre is None else centre).astype(Z.dtype)
        radius = float(_distances(Z, c).mean()) / 2
        radius = radius if 0 < radius < np.inf else 1.0
        ruler = cls(c, radius, np.ones(len(W)), np.zeros(len(W)))
        return ruler.renewed(Z, W, thresholds, np.arange(len(W)))

    def renewed(self, Z: np.ndarray, W: np.ndarray, thresholds: np.ndarray, columns: np.ndarray) -> Ruler:
        """The same with units chosen anew for some columns, whose marks must then all be made anew."""
        Z, W = Z.astype(np.float64), W[columns].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            reach = np.maximum(_distances(Z, self.centre), self.radius)[:, None]
            mean = (np.abs(Z @ W.T - thresholds[columns]) / reach).mean(axis=0)
            least = np.sqrt((W * W).mean(axis=1)) / 1000
            chosen = np.maximum(mean / UNITS_OF_THE_MEAN, least)
        units, owed = self.units.copy(), self.owed.copy()
        units[columns], owed[columns] = np.where((chosen > 0) & (chosen < np.inf), chosen, 1.0), 0.0
        return replace(self, units=units, owed=owed)

    def moved(
        self, W: np.ndarray, thresholds: np.ndarray, old_W: np.ndarray, old_thresholds: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, Ruler]:
        """How many units to subtract from the marks of columns whose functions moved, and the ruler afterwards."""
        W, old_W = (V[columns].astype(np.float64) for V in (W, old_W))
        b, old_b = thresholds[columns], old_thresholds[columns]
        units, width, c = self.units[columns], W.shape[1] + 2, self.centre.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            dW = W - old_W
            c_norm = float(np.linalg.norm(c)) * _UP
            length = np.linalg.norm(dW, axis=1) * (1 + width * DOUBLE_EPS) + 1e-150  # which squares may lose
            shift = np.abs((b - old_b) - dW @ c)
            shift += DOUBLE_EPS * (2 * width * length * c_norm + 4 * (np.abs(b) + np.abs(old_b)))
            drift = (self.owed[columns] + length + shift / self.radius) * _UP
            steps = np.floor(drift / units + _RESERVE)
            # What the canonical dot product may be off, with a factor of four to spare, in the units of a margin.
            small = (width * DOUBLE_EPS) ** 2 * np.linalg.norm(W, axis=1)
            off = 4 * (small + (small * c_norm + 1e-15 * np.abs(b) + width * np.finfo(np.float64).tiny) / self.radius)
            bounded = (steps < ALL) & (off < _RESERVE / 2 * units)
            owed = self.owed.copy()
            left = np.maximum(drift - steps * units, 0.0) + 1e-12 * drift
        owed[columns] = np.where(bounded, left, 0.0)
        return np.where(bounded, steps, ALL).astype(np.int64), replace(self, owed=owed)

    def constants(self, columns: np.ndarray) -> Constants:
        """What kernels want of it, for some columns."""
        limits = np.finfo(self.centre.dtype)
        smallest = smallest_norm(len(self.centre), self.centre.dtype)
        scales = np.stack([1 / self.units[columns] * _DOWN, self.owed[columns]])
        c_norm = norm_of(read_only(self.centre)) * (1 + len(self.centre) * float(limits.eps)) + smallest
        return read_only(self.centre), scales, self.radius, c_norm, float(limits.eps), smallest


def sample(Z: np.ndarray) -> np.ndarray:
    """Rows enough to choose a ruler by."""
    return Z[:: -(-len(Z) // _SAMPLE)]


def _distances(Z: np.ndarray, centre: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        distances: np.ndarray = np.linalg.norm(Z.astype(np.float64) - centre, axis=1)
    return distances
