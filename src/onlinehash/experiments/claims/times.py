"""Claims about training time: compared within one plan, and beside each time the operations that a method asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from onlinehash.experiments.claims.costs import STRAIGHT, cost_told, flops_told, straightness
from onlinehash.experiments.claims.levels import FEWEST, Grid, grid_of, level, on_one_set
from onlinehash.experiments.claims.verdicts import (
    Claim,
    Missing,
    Verdict,
    all_of,
    at_most_in_part,
    by_count,
    counted,
    together,
    word,
)
from onlinehash.experiments.rows import Rows

LINES = ("OH", "AdaptHash", "MLH", "MMOH", "OSH", "LEGO")
PAPERS_SET = "photo-tourism"
#: A ratio is "about" another when they are within this factor; within the second it is so in part.
ABOUT, ROUGHLY = 1.5, 3.0
#: "Only slightly": less than doubled while the code grew eight times; and half of that growth.
SLIGHTLY, HALF_IN_PROPORTION = 2.0, 4.0
FLAT = 0.10


def linear_in_samples(rows: Rows) -> Verdict:
    here = on_one_set(rows, "time-samples", PAPERS_SET)

    def of_line(line: str) -> Verdict:
        looks = [[(look["pairs"], look["seconds"]) for look in row.result.checkpoints] for row in here.of(line=line)]
        if len(looks) < FEWEST:
            raise Missing(f"of at least {FEWEST} runs of {line}")
        pairs, seconds = np.mean(looks, axis=0).T
        explained = straightness(pairs, seconds)
        told = (
            f"{line} {seconds[-1]:.3g} s for {pairs[-1]:,.0f} pairs{flops_told(here.of(line=line))}, R² {explained:.3f}"
        )
        return Verdict(told, word(explained >= STRAIGHT))

    return all_of((partial(of_line, line) for line in LINES), between="\n")


def OH_is_fastest(rows: Rows) -> Verdict:
    here = on_one_set(rows, "time-samples", PAPERS_SET)
    times = {line: level(here, "seconds", line=line) for line in LINES}
    others = [line for line in LINES if line != "OH"]
    n = sum(times[line].above(times["OH"]) for line in others)
    is_beaten = any(times["OH"].above(times[line]) for line in others)
    told = ", ".join(f"{line} {cost_told(here.of(line=line))}" for line in LINES)
    return Verdict(told, word(n == len(others), 2 * n >= len(others) and not is_beaten))


def ratio(pairs: Sequence[tuple[str, str, float]]) -> Callable[[Rows], Verdict]:
    """A judge: does the first take about so many times as long as the second?"""

    def of_pair(here: Rows, line: str, other: str, papers: float) -> Verdict:
        ours, theirs = level(here, "seconds", line=line), level(here, "seconds", line=other)
        found = ours.mean / theirs.mean
        told = f"{line} / {other} = {found:.2f} ({cost_told(here.of(line=line))}, {cost_told(here.of(line=other))})"
        apart, is_more = max(found / papers, papers / found), ours.above(theirs)
        return Verdict(told, word(is_more and apart <= ABOUT, is_more and apart <= ROUGHLY))

    def judge(rows: Rows) -> Verdict:
        here = on_one_set(rows, "time-samples", PAPERS_SET)
        return all_of((partial(of_pair, here, *pair) for pair in pairs), between="\n")

    return judge


def about_the_same(line: str, other: str) -> Callable[[Rows], Verdict]:
    """A judge: do two methods take about the same time?"""

    def judge(rows: Rows) -> Verdict:
        here = on_one_set(rows, "time-samples", PAPERS_SET)
        ours, theirs = level(here, "seconds", line=line), level(here, "seconds", line=other)
        found = ours.mean / theirs.mean
        told = f"{line} / {other} = {found:.2f} ({cost_told(here.of(line=line))}, {cost_told(here.of(line=other))})"
        apart = max(found, 1 / found)
        return Verdict(told, word(apart <= ABOUT, apart <= ROUGHLY))

    return judge


def ssbc_takes_longest(rows: Rows) -> Verdict:
    apart, others = (on_one_set(rows, plan, PAPERS_SET) for plan in ("time-apart", "time-bits"))
    ours = {r: level(apart, "seconds", line="SSBC", value=r) for r in grid_of(apart, "SSBC").values}

    def of_line(line: str) -> Verdict:
        lengths = [r for r in grid_of(others, line).values if r in ours]
        theirs = {r: level(others, "seconds", line=line, value=r) for r in lengths}
        n = sum(ours[r].above(theirs[r]) for r in lengths)
        ratios = ", ".join(f"{ours[r].mean / theirs[r].mean:.1f} at {r}" for r in (lengths[0], lengths[-1]))
        return counted(f"SSBC / {line}: {ratios}; longer at {n} of {len(lengths)} lengths", n, len(lengths))

    return all_of((partial(of_line, line) for line in LINES), between="\n")


def adapt_hash_slightly_more(rows: Rows) -> Verdict:
    here = on_one_set(rows, "time-samples", PAPERS_SET)
    ours, theirs = level(here, "seconds", line="AdaptHash"), level(here, "seconds", line="OH")
    found = ours.mean / theirs.mean
    told = f"AdaptHash / OH = {found:.2f} ({cost_told(here.of(line='AdaptHash'))}, {cost_told(here.of(line='OH'))})"
    is_more = ours.above(theirs)
    return Verdict(told, word(is_more and found <= ABOUT, is_more and found <= ROUGHLY))


def slight_growth_with_bits(rows: Rows) -> Verdict:
    here = on_one_set(rows, "time-bits", PAPERS_SET)

    def of_line(line: str) -> Verdict:
        grid = grid_of(here, line)
        if len(grid.values) < 2:
            raise Missing(f"of {line}, to compare")
        growth = _growth(here, line, grid)
        found = word(growth < SLIGHTLY, growth < HALF_IN_PROPORTION)
        return Verdict(f"{line} {_ends(here, line, grid)} (x {growth:.2f})", at_most_in_part(found, bool(grid.lacking)))

    return all_of((partial(of_line, line) for line in LINES if line != "LEGO"), between="\n")


def lego_is_flat(rows: Rows) -> Verdict:
    here = on_one_set(rows, "time-bits", PAPERS_SET)

    def of_line(line: str) -> Verdict:
        grid = grid_of(here, line).where(lambda r: r >= 24, f"of {line}, above 24 bits")
        first, *others = (level(here, "seconds", line=line, value=r) for r in grid.values)
        n = sum(other.near(first, FLAT) for other in others)
        told = f"{line} {_ends(here, line, grid)} (x {_growth(here, line, grid):.2f}), the same at {n} of {len(others)}"
        return counted(told, n, len(others), len(grid.lacking))

    return all_of((partial(of_line, line) for line in ("LEGO", "LEGO, linear")), between="\n")


def mmoh_and_mlh_cross(rows: Rows) -> Verdict:
    here = on_one_set(rows, "time-bits", PAPERS_SET)
    grid = grid_of(here, "MMOH", "MLH")
    times = {r: tuple(level(here, "seconds", line=line, value=r) for line in ("MMOH", "MLH")) for r in grid.values}
    below, beyond = [r for r in times if r < 64], [r for r in times if r > 64]
    if not below or not beyond:
        raise Missing("below and above 64 bits")
    slower = sum(times[r][0].above(times[r][1]) for r in below)
    faster = sum(times[r][1].above(times[r][0]) for r in beyond)
    ratios = ", ".join(f"{times[r][0].mean / times[r][1].mean:.2f} at {r}" for r in times)
    told = f"MMOH / MLH: {ratios}; slower at {slower} of {len(below)} below 64 bits"
    halves = [
        Verdict(told, by_count(slower, len(below))),
        Verdict(f"faster at {faster} of {len(beyond)} above", by_count(faster, len(beyond))),
    ]
    return together(halves, *(f"at {r} bits" for r in grid.lacking))


def _growth(here: Rows, line: str, grid: Grid) -> float:
    """How many times the time of the shortest code the longest takes."""
    first, last = (level(here, "seconds", line=line, value=grid.values[k]).mean for k in (0, -1))
    return last / first


def _ends(here: Rows, line: str, grid: Grid) -> str:
    """Time and operations at the shortest and at the longest length."""
    ends = ", ".join(f"{cost_told(here.of(line=line, value=grid.values[k]))} at {grid.values[k]}" for k in (0, -1))
    return f"{ends}, {len(grid.lacking)} lengths not run" if grid.lacking else ends


WITHIN = "It takes longer, and the ratio is within a factor of 1.5 of the paper's; in part where within a factor of 3."
TIME = "Comparison with Related Online Methods, training time"

CLAIMS = (
    Claim(
        "time-linear",
        "Accumulated training time grows linearly with the samples.",
        TIME,
        "For each method a straight line explains at least 99 % of the variance of the time (R²).",
        ("time-samples",),
        linear_in_samples,
    ),
    Claim(
        "time-least",
        "OH takes the least time.",
        TIME,
        "All others take longer by more than the 95 % interval over the runs; in part where at least half of them do, "
        "and none takes less.",
        ("time-samples",),
        OH_is_fastest,
    ),
    Claim(
        "time-adapthash",
        "AdaptHash takes slightly more time than OH.",
        TIME,
        "More, and at most 1.5 times as much; in part up to three times as much.",
        ("time-samples",),
        adapt_hash_slightly_more,
    ),
    Claim(
        "time-mlh-mmoh",
        "MLH and MMOH take about twice the time of OH.",
        TIME,
        WITHIN,
        ("time-samples",),
        ratio((("MLH", "OH", 2.0), ("MMOH", "OH", 2.0))),
    ),
    Claim(
        "time-mmoh-mlh",
        "MMOH and MLH take about the same time.",
        TIME,
        "The ratio is between 1 / 1.5 and 1.5; in part where between 1 / 3 and 3.",
        ("time-samples",),
        about_the_same("MMOH", "MLH"),
    ),
    Claim(
        "time-osh",
        "OSH takes about four times the time of OH, and twice that of MMOH and MLH.",
        TIME,
        WITHIN,
        ("time-samples",),
        ratio((("OSH", "OH", 4.0), ("OSH", "MMOH", 2.0), ("OSH", "MLH", 2.0))),
    ),
    Claim(
        "time-lego",
        "LEGO-LSH takes about ten times the time of MMOH and MLH.",
        TIME,
        WITHIN,
        ("time-samples",),
        ratio(tuple((lego, other, 10.0) for lego in ("LEGO", "LEGO, linear") for other in ("MMOH", "MLH"))),
    ),
    Claim(
        "time-ssbc",
        "SSBC takes longer than any other method.",
        TIME,
        "At every length, it takes longer than each of the others, by more than the 95 % interval over the runs; in "
        "part where so in at least half of these comparisons. SSBC is our reconstruction of its paper.",
        ("time-apart", "time-bits"),
        ssbc_takes_longest,
    ),
    Claim(
        "time-bits",
        "Training time grows only slightly with the code length (LEGO-LSH aside).",
        TIME,
        "For each method: from the shortest to the longest code (eight times as long) it less than doubles; in part "
        "where it less than quadruples.",
        ("time-bits",),
        slight_growth_with_bits,
    ),
    Claim(
        "time-lego-flat",
        "LEGO-LSH's time does not change above 24 bits.",
        TIME,
        "With the kernel and without: at all lengths within 10 % of the time at 24 bits, or not apart with a standard "
        "error of at most that; in part where so at least at half of them.",
        ("time-bits",),
        lego_is_flat,
    ),
    Claim(
        "time-crossing",
        "MMOH is slower than MLH below 64 bits, and faster above.",
        TIME,
        "Two parts: slower at all lengths below 64, faster at all above, by more than the 95 % interval over the runs "
        "each; a part holds by half where it does at least at half of its lengths.",
        ("time-bits",),
        mmoh_and_mlh_cross,
    ),
)
