"""Claims about mAP against code length: among the online methods, and beside the batch methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from onlinehash.experiments.claims.levels import FOUR, LITTLE, Grid, Level, grid_of, level, over_sets, rising
from onlinehash.experiments.claims.verdicts import Claim, Missing, Verdict, all_of, at_most_in_part, counted, word
from onlinehash.experiments.rows import FEWEST, Rows

#: The paper's other online methods, of which its figure leaves out AdaptHash; others in the plan are not part of its
#: claims.
RIVALS = ("LEGO", "MLH", "SSBC", "OSH", "AdaptHash")
#: The paper exempts Photo Tourism from the order of the methods.
BUT_PHOTO_TOURISM = tuple(role for role in FOUR if role != "photo-tourism")
#: "As codes get longer": the longest two of the plans.
LONG = 96
SUPERVISED = ("KSH", "FastHash", "SDH")

Judge = Callable[[Rows], Verdict]


def improves_with_bits(rows: Rows) -> Verdict:
    def of_line(rows: Rows, line: str) -> Verdict:
        grid = grid_of(rows, line)
        levels = [level(rows, line=line, value=r) for r in grid.values]
        return Verdict(
            f"{line} {levels[0]} → {levels[-1]}{_not_run(grid)}", at_most_in_part(rising(levels), bool(grid.lacking))
        )

    return over_sets(rows, "online", lambda rows: all_of(partial(of_line, rows, line) for line in ("OH", "MMOH")))


def first_and_second(rows: Rows) -> Verdict:
    def of_set(rows: Rows) -> Verdict:
        grid = grid_of(rows, "MMOH", "OH", *RIVALS).where(lambda r: r > 32, "above 32 bits")
        n_first = n_second = 0
        for r in grid.values:
            found = {line: level(rows, line=line, value=r) for line in ("MMOH", "OH", *RIVALS)}
            n_first += all(found["MMOH"].above(found[line]) for line in ("OH", *RIVALS))
            n_second += all(found["OH"].above(found[line]) for line in RIVALS) and found["MMOH"].above(found["OH"])
        ranked = sorted(found, key=lambda line: -found[line].mean)
        order = ", ".join(f"{line} {found[line]}" for line in ranked)
        measured = f"MMOH first at {n_first} and OH second at {n_second} of {grid} (at {grid.values[-1]}: {order})"
        return counted(measured, n_first + n_second, 2 * len(grid.values), len(grid.lacking))

    return over_sets(rows, "online", of_set, BUT_PHOTO_TOURISM)


def lego_equals_OH(rows: Rows) -> Verdict:
    def of_set(rows: Rows) -> Verdict:
        grid = grid_of(rows, "LEGO", "OH").where(lambda r: r > 32, "above 32 bits")
        pairs = _pairs(rows, grid, "LEGO", "OH")
        n = sum(lego.near(oh, LITTLE) for lego, oh in pairs)
        higher, lower = _for_and_against(pairs)
        measured = f"alike at {n} of {grid}, LEGO above OH at {higher}, below at {lower}; LEGO and OH"
        return counted(f"{measured} {_ends(grid, pairs)}", n, len(pairs), len(grid.lacking))

    return over_sets(rows, "online", of_set, ["photo-tourism"])


def above(plan: str, line: str, others: Sequence[str], wanted: Sequence[str] = FOUR, more_bits_than: int = 0) -> Judge:
    """A judge: is the line higher than each of the others at every length (above one)?"""

    def of_pair(rows: Rows, other: str) -> Verdict:
        grid = grid_of(rows, line, other).where(lambda r: r > more_bits_than, f"above {more_bits_than} bits")
        pairs = _pairs(rows, grid, line, other)
        higher, lower = _for_and_against(pairs)
        measured = f"above {other} at {higher}, below at {lower} of {grid} ({_ends(grid, pairs)})"
        return counted(measured, higher, len(pairs), len(grid.lacking))

    def judge(rows: Rows) -> Verdict:
        return over_sets(rows, plan, lambda rows: all_of(partial(of_pair, rows, other) for other in others), wanted)

    return judge


def with_longer_codes(line: str, others: Sequence[str], wanted: Sequence[str] = FOUR) -> Judge:
    """A judge: is the line higher than each of the others with long codes?"""

    def of_pair(rows: Rows, other: str) -> Verdict:
        grid = grid_of(rows, line, other)
        pairs = _pairs(rows, grid, line, other)
        at_all, _ = _for_and_against(pairs)
        long = grid.where(lambda r: r >= LONG, f"from {LONG} bits on")
        at_long, against = _for_and_against(_pairs(rows, long, line, other))
        lengths = " and ".join(map(str, long.values))
        of_long = f"at {lengths} bits above at {at_long} and below at {against} of {len(long.values)}"
        measured = f"above {other} at {at_all} of {grid}; {of_long}"
        return counted(f"{measured} ({_ends(grid, pairs)})", at_long, len(long.values), len(grid.lacking))

    def judge(rows: Rows) -> Verdict:
        return over_sets(rows, "online", lambda rows: all_of(partial(of_pair, rows, other) for other in others), wanted)

    return judge


def gap_grows(plan: str, line: str, others: Sequence[str], wanted: Sequence[str] = FOUR) -> Judge:
    """A judge: does the line lead each of the others at the longest code, and by more than at the shortest?"""

    def of_pair(rows: Rows, other: str) -> Verdict:
        grid = grid_of(rows, line, other)
        if len(grid.values) < 2:
            raise Missing("to compare")
        ends = grid.values[0], grid.values[-1]
        first, last = (level(rows, line=line, value=r) - level(rows, line=other, value=r) for r in ends)
        measured = f"over {other} {first.mean:+.3f} at {ends[0]} bits, {last.mean:+.3f} at {ends[1]}{_not_run(grid)}"
        grows = last.above(first)
        found = at_most_in_part(word(grows and last.sign > 0, grows), bool(grid.lacking))
        return Verdict(f"{measured} (± {(last - first).error:.3f})", found)

    def judge(rows: Rows) -> Verdict:
        return over_sets(rows, plan, lambda rows: all_of(partial(of_pair, rows, other) for other in others), wanted)

    return judge


def mmoh_above_the_untaught(rows: Rows) -> Verdict:
    untaught, others = ("KLSH", "ITQ"), [role for role in FOUR if role != "gist1m"]
    parts = (
        above("batch", "MMOH", untaught, others),
        above("batch", "MMOH", untaught, ["gist1m"], more_bits_than=16),
    )
    return all_of((partial(part, rows) for part in parts), between="\n")


def supervised_ahead(rows: Rows) -> Verdict:
    def best_at(rows: Rows, r: int) -> tuple[str, Level] | None:
        """Among those that have enough runs at a length."""
        found = {
            line: level(rows, line=line, value=r) for line in SUPERVISED if len(rows.of(line=line, value=r)) >= FEWEST
        }
        return max(found.items(), key=lambda item: item[1].mean) if found else None

    def of_set(rows: Rows) -> Verdict:
        ours = grid_of(rows, "OH", "MMOH")
        found = {r: top for r in ours.values if (top := best_at(rows, r)) is not None}
        if not found:
            raise Missing(f"of at least {FEWEST} runs of a supervised batch method")
        grid = Grid(list(found), [*ours.lacking, *(r for r in ours.values if r not in found)])
        ahead = behind = 0
        for r, (_, best) in found.items():
            oh, mmoh = (level(rows, line=line, value=r) for line in ("OH", "MMOH"))
            ahead += best.above(oh) and best.above(mmoh)
            behind += oh.above(best) or mmoh.above(best)
        told = f"at {r}: {found[r][0]} {best}, MMOH {mmoh}, OH {oh}"
        measured = f"ahead at {ahead}, behind at {behind} of {grid} ({told})"
        return counted(measured, ahead, len(found), len(grid.lacking))

    return over_sets(rows, "batch", of_set, [role for role in FOUR if role != "gist1m"])


def _pairs(rows: Rows, grid: Grid, line: str, other: str) -> list[tuple[Level, Level]]:
    return [(level(rows, line=line, value=r), level(rows, line=other, value=r)) for r in grid.values]


def _for_and_against(pairs: Sequence[tuple[Level, Level]]) -> tuple[int, int]:
    """In how many the first is higher, and in how many the second."""
    return sum(a.above(b) for a, b in pairs), sum(b.above(a) for a, b in pairs)


def _ends(grid: Grid, pairs: Sequence[tuple[Level, Level]]) -> str:
    """Both at the shortest and at the longest length."""
    places = dict.fromkeys((0, len(pairs) - 1))
    return ", ".join(f"{pairs[k][0]} and {pairs[k][1]} at {grid.values[k]}" for k in places)


def _not_run(grid: Grid) -> str:
    return f", {len(grid.lacking)} lengths not run" if grid.lacking else ""


AT_EVERY_LENGTH = (
    "On every set, at every length: higher by more than the 95 % interval over the seeds; in part where so in at least "
    "half of these comparisons."
)
AT_THE_LONGEST = (
    "On each set, with codes of 96 bits and more: higher by more than the 95 % interval over the seeds; in part where "
    "so in at least half of these comparisons."
)
LEAD_GROWS = (
    "On a set, for each of the others: it is higher at the longest code, and its lead there is above that at the "
    "shortest, by more than the 95 % interval over the seeds each; in part where only the lead grows."
)

CLAIMS = (
    Claim(
        "bits",
        "OH and MMOH get better with longer codes.",
        "Comparison with Related Online Methods, mAP",
        "On a set, for each of the two: the longest code is better than the shortest, and no step to a longer code "
        "makes it worse; in part where only the ends compare so.",
        ("online",),
        improves_with_bits,
    ),
    Claim(
        "ranks",
        "Above 32 bits MMOH is the best of the online methods and OH the second, except on Photo Tourism.",
        "Comparison with Related Online Methods, mAP",
        "On each of the other sets, at every length above 32 bits: MMOH is higher than all others, and OH than all but "
        "MMOH, which is higher; in part where at least half of these hold. Among LEGO, MLH, SSBC, OSH, AdaptHash, OH "
        "and MMOH.",
        ("online",),
        first_and_second,
    ),
    Claim(
        "lego-equal",
        "Above 32 bits LEGO-LSH equals OH on Photo Tourism.",
        "Comparison with Related Online Methods, mAP",
        "At every such length: within 5 % of each other; in part where so at least at half of them.",
        ("online",),
        lego_equals_OH,
    ),
    Claim(
        "mmoh-osh-mlh",
        "As codes get longer, MMOH is above OSH and MLH on all sets.",
        "Comparison with Related Online Methods, mAP",
        AT_THE_LONGEST,
        ("online",),
        with_longer_codes("MMOH", ("OSH", "MLH")),
    ),
    Claim(
        "mmoh-lego",
        "As codes get longer, MMOH is above LEGO-LSH on LabelMe, GIST1M and CIFAR-10.",
        "Comparison with Related Online Methods, mAP",
        AT_THE_LONGEST,
        ("online",),
        with_longer_codes("MMOH", ("LEGO",), BUT_PHOTO_TOURISM),
    ),
    Claim(
        "mmoh-lead",
        "On CIFAR-10 the lead of MMOH over the methods it is compared with grows with the code length.",
        "Comparison with Related Online Methods, mAP",
        LEAD_GROWS + " The others are LEGO, MLH, SSBC, OSH and AdaptHash, not OH.",
        ("online",),
        gap_grows("online", "MMOH", RIVALS, ("cifar10",)),
    ),
    Claim(
        "least-margin",
        "Flipping the bits of least margin suits the passive-aggressive step.",
        "Introduction, changes over the conference version",
        AT_EVERY_LENGTH + " Compared with as many wrong bits at random, and with those of largest margin; similar "
        "pairs leave no choice, as all their wrong bits flip.",
        ("selection",),
        above("selection", "OH", ("OH, random bits", "OH, largest margins")),
    ),
    Claim(
        "oh-klsh",
        "OH beats KLSH on all sets at all lengths.",
        "Comparison to Batch Mode Methods",
        AT_EVERY_LENGTH,
        ("batch",),
        above("batch", "OH", ("KLSH",)),
    ),
    Claim(
        "oh-klsh-gap",
        "The lead of OH over KLSH grows with the code length.",
        "Comparison to Batch Mode Methods",
        LEAD_GROWS,
        ("batch",),
        gap_grows("batch", "OH", ("KLSH",)),
    ),
    Claim(
        "oh-itq",
        "OH beats ITQ above 32 bits on all sets.",
        "Comparison to Batch Mode Methods",
        AT_EVERY_LENGTH,
        ("batch",),
        above("batch", "OH", ("ITQ",), more_bits_than=32),
    ),
    Claim(
        "mmoh-klsh-itq",
        "MMOH is above KLSH and ITQ; on GIST1M above 16 bits.",
        "Comparison to Batch Mode Methods",
        AT_EVERY_LENGTH,
        ("batch",),
        mmoh_above_the_untaught,
    ),
    Claim(
        "mmoh-gist1m",
        "MMOH is above KSH and FastHash on GIST1M, above 16 bits.",
        "Comparison to Batch Mode Methods",
        AT_EVERY_LENGTH,
        ("batch",),
        above("batch", "MMOH", ("KSH", "FastHash"), ("gist1m",), more_bits_than=16),
    ),
    Claim(
        "supervised",
        "On the other sets supervised batch methods are ahead of OH and MMOH.",
        "Comparison to Batch Mode Methods",
        "On every set, at every length: the best of KSH, FastHash and SDH, as far as they were run, is higher than "
        "both; in part where so in at least half of these comparisons.",
        ("batch",),
        supervised_ahead,
    ),
)
