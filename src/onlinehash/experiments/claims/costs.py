"""Times and operations as verdicts report them, and whether a cost grows linearly."""

from __future__ import annotations

import math

import numpy as np

from onlinehash.experiments.claims.levels import level
from onlinehash.experiments.claims.verdicts import Missing
from onlinehash.experiments.rows import Rows

#: A cost is a straight line when one explains this share of its variance (R²).
STRAIGHT = 0.99


def straightness(x: np.ndarray, y: np.ndarray) -> float:
    """R² of the straight line through the points: the share of their variance that it explains.

    Through two points there always is one, so that they decide nothing.
    """
    if len(x) < 3:
        raise Missing("at three sizes or more")
    rest = y - np.polyval(np.polyfit(x, y, 1), x)
    return float(1 - rest.var() / y.var()) if y.var() > 0 else 1.0


def flops(rows: Rows) -> float:
    """Operations for a pair, NaN where they are not counted."""
    found = [row.result.facts.get("flops_per_pair") for row in rows]
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else math.nan


def flops_told(rows: Rows) -> str:
    """Thousands of operations per pair, as text; empty if they are not counted."""
    known = flops(rows)
    return "" if math.isnan(known) else f" [{known / 1e3:,.0f} kflop]"


def cost_told(rows: Rows) -> str:
    """Seconds with their spread over the runs, and the operations."""
    times = level(rows, "seconds")
    return f"{times.mean:.3g} ± {times.spread:.1g} s{flops_told(rows)}"
