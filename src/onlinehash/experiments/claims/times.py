"""Claims about training time: compared within one plan, and beside each time the operations that a method asks for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from onlinehash.experiments.claims.costs import STRAIGHT, cost_told, flops_told, straightness
from onlinehash.experiments.claims.levels import Grid, Level, grid_of, level, on_one_set
from onlinehash.experiments.claims.verdicts import (
    CONFIRMED,
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
from onlinehash.experiments.rows import FEWEST, Rows

LINES = ("OH", "AdaptHash", "MLH", "MMOH", "OSH", "LEGO")
PAPERS_SET = "photo-tourism"
#: A ratio is "about" another when they are within this factor; within the second it is so in part.
ABOUT, ROUGHLY = 1.5, 3.0
#: "Much", "considerably": at least so many times.
MUCH = 1.5
#: "Only slightly": less than doubled while the code grew eight times; and half of that growth.
SLIGHTLY, HALF_IN_PROPORTION = 2.0, 4.0
FLAT = 0.10
#: "Only a small part" of the bits, those of all models of MMOH, of which the paper and its plans have four.
A_SMALL_PART, N_MODELS = 0.1, 4


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


def lego_takes_much_more(rows: Rows) -> Verdict:
    here = on_one_set(rows, "time-samples", PAPERS_SET)
    lego = level(here, "seconds", line="LEGO")
    others = {line: level(here, "seconds", line=line) for line in LINES if line != "LEGO"}
    n = sum(_is_much_less(time, lego) for time in others.values())
    ratios = ", ".join(f"{lego.mean / time.mean:.2f} of {line}" for line, time in others.items())
    return counted(f"LEGO takes {cost_told(here.of(line='LEGO'))}; its time over that {ratios}", n, len(others))


def _is_much_less(time: Level, other: Level) -> bool:
    return other.above(time) and other.mean >= MUCH * time.mean


def _times_as_long(here: Rows, line: str, other: str, papers: float, is_longer: bool = True) -> Verdict:
    """Does the first take about so many times as long as the second, and longer if it should?"""
    ours, theirs = level(here, "seconds", line=line), level(here, "seconds", line=other)
    found = ours.mean / theirs.mean
    told = f"{line} / {other} = {found:.2f} ({cost_told(here.of(line=line))}, {cost_told(here.of(line=other))})"
    apart, is_so = max(found / papers, papers / found), ours.above(theirs) or not is_longer
    return Verdict(told, word(is_so and apart <= ABOUT, is_so and apart <= ROUGHLY))


def ratio(*pairs: tuple[str, str, float], is_longer: bool = True) -> Callable[[Rows], Verdict]:
    """A judge: after all samples, does the first take about so many times as long as the second?"""

    def judge(rows: Rows) -> Verdict:
        here = on_one_set(rows, "time-samples", PAPERS_SET)
        return all_of((partial(_times_as_long, here, *pair, is_longer) for pair in pairs), between="\n")

    return judge


def mlh_and_mmoh_take_twice(rows: Rows) -> Verdict:
    """The same at each length."""
    here = on_one_set(rows, "time-bits", PAPERS_SET)

    def of_pair(line: str, other: str) -> Verdict:
        grid = grid_of(here, line, other)
        found = {r: _times_as_long(here.of(value=r), line, other, 2.0) for r in grid.values}
        right = sum(verdict.right for verdict in found.values())
        ratios = ", ".join(
            f"{level(here, 'seconds', line=line, value=r).mean / level(here, 'seconds', line=other, value=r).mean:.2f}"
            for r in (grid.values[0], grid.values[-1])
        )
        told = f"{line} / {other} = {ratios} at {grid.values[0]} and {grid.values[-1]} bits"
        is_all = all(verdict.verdict == CONFIRMED for verdict in found.values()) and not grid.lacking
        return Verdict(told, at_most_in_part(by_count(right, len(found)), not is_all), right, len(found))

    pairs = [(line, other) for line in ("MLH", "MMOH") for other in ("OH", "AdaptHash")]
    return all_of((partial(of_pair, *pair) for pair in pairs), between="\n")


def three_take_least(rows: Rows) -> Verdict:
    here = on_one_set(rows, "time-samples", PAPERS_SET)

    def of_line(line: str) -> Verdict:
        ours = level(here, "seconds", line=line)
        less = [other for other in ("MLH", "OSH", "LEGO") if level(here, "seconds", line=other).above(ours)]
        told = f"{line} {cost_told(here.of(line=line))}, less than {', '.join(less) or 'none of them'}"
        return counted(told, len(less), 3)

    return all_of((partial(of_line, line) for line in ("OH", "AdaptHash", "MMOH")), between="\n")


def mmoh_updates_few_bits(rows: Rows) -> Verdict:
    here = on_one_set(rows, "time-bits", PAPERS_SET)

    def less_than(other: str) -> Verdict:
        grid = grid_of(here, "MMOH", other)
        times = [[level(here, "seconds", line=line, value=r) for line in ("MMOH", other)] for r in grid.values]
        n = sum(_is_much_less(ours, theirs) for ours, theirs in times)
        ratios = ", ".join(f"{times[k][1].mean / times[k][0].mean:.1f} at {grid.values[k]}" for k in (0, -1))
        told = f"{other} / MMOH: {ratios}; MMOH takes much less at {n} of {grid}"
        return counted(told, n, len(times), len(grid.lacking))

    def few_bits() -> Verdict:
        values = grid_of(here, "MMOH").values
        shares = [_share_moved(here.of(line="MMOH", value=r)) for r in values]
        n = sum(share <= A_SMALL_PART for share in shares)
        told = f"of its bits a pair updates {shares[0]:.1%} at {values[0]}, {shares[-1]:.1%} at {values[-1]}"
        return counted(told, n, len(shares))

    return all_of([partial(less_than, "LEGO"), partial(less_than, "OSH"), few_bits], between="\n")


def _share_moved(rows: Rows) -> float:
    """The share of all bits, of all models, that a pair updates, pairs that update none included."""
    moved, pairs = (level(rows, what).mean for what in ("bits_moved", "pairs"))
    n_bits: int = rows[0].result.setting.n_bits
    return moved / (pairs * n_bits * N_MODELS)


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

    grid = grid_of(here, "LEGO").where(lambda r: r >= 24, "of LEGO, from 24 bits on")
    first, *others = (level(here, "seconds", line="LEGO", value=r) for r in grid.values)
    n = sum(other.near(first, FLAT) for other in others)
    told = f"{_ends(here, 'LEGO', grid)} (x {_growth(here, 'LEGO', grid):.2f}), the same at {n} of {len(others)}"
    return counted(told, n, len(others), len(grid.lacking))


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
        "time-lego-most",
        "LEGO-LSH's time grows much faster with the samples than that of all others.",
        TIME,
        "It takes at least 1.5 times as long as each of the others, and longer by more than the 95 % interval over the "
        "runs; in part where so in at least half of these comparisons.",
        ("time-samples",),
        lego_takes_much_more,
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
        "time-three",
        "The times of OH, AdaptHash and MMOH grow most slowly with the samples.",
        TIME,
        "Each of the three takes less time than MLH, OSH and LEGO-LSH, by more than the 95 % interval over the runs; "
        "in part where so in at least half of these comparisons.",
        ("time-samples",),
        three_take_least,
    ),
    Claim(
        "time-adapthash",
        "AdaptHash takes slightly more time than OH.",
        TIME,
        "More, and at most 1.5 times as much; in part up to three times as much.",
        ("time-samples",),
        ratio(("AdaptHash", "OH", 1.0)),
    ),
    Claim(
        "time-mlh-mmoh",
        "MLH and MMOH take about twice the time of OH and AdaptHash, whatever the code length.",
        TIME,
        "At every length: they take longer, and the ratio is within a factor of 1.5 of two; a length counts half where "
        "it is within a factor of 3, and the claim holds in part where these make half of all.",
        ("time-bits",),
        mlh_and_mmoh_take_twice,
    ),
    Claim(
        "time-mmoh-mlh",
        "MMOH and MLH take about the same time.",
        TIME,
        "The ratio is between 1 / 1.5 and 1.5; in part where between 1 / 3 and 3.",
        ("time-samples",),
        ratio(("MMOH", "MLH", 1.0), is_longer=False),
    ),
    Claim(
        "time-osh",
        "OSH takes about four times the time of OH and AdaptHash, and twice that of MMOH and MLH.",
        TIME,
        WITHIN,
        ("time-samples",),
        ratio(("OSH", "OH", 4.0), ("OSH", "AdaptHash", 4.0), ("OSH", "MMOH", 2.0), ("OSH", "MLH", 2.0)),
    ),
    Claim(
        "time-lego",
        "LEGO-LSH takes about ten times the time of MMOH and MLH.",
        TIME,
        WITHIN,
        ("time-samples",),
        ratio(("LEGO", "MMOH", 10.0), ("LEGO", "MLH", 10.0)),
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
        "At all lengths within 10 % of the time at 24 bits; in part where so at least at half of them.",
        ("time-bits",),
        lego_is_flat,
    ),
    Claim(
        "time-few-bits",
        "MMOH takes much less time than LEGO-LSH and OSH, as a pair updates only a small part of its bits.",
        TIME,
        "At every length: they take at least 1.5 times as long, and longer by more than the 95 % interval over the "
        "runs, and a pair updates at most a tenth of the bits of all models of MMOH; in part where so in at least half "
        "of these comparisons.",
        ("time-bits",),
        mmoh_updates_few_bits,
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
