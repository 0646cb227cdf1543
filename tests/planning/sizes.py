"""Little to measure with."""

from onlinehash.planning import measurements

TINY = measurements.Sizes(
    small=1 << 17,
    middle=1 << 18,
    large=1 << 19,
    rows=4000,
    durable_rows=6000,
    radius=3,
    queries=64,
    repeats=1,
    patience=0,
)
