"""Claims about β, T and C."""

from __future__ import annotations

from onlinehash.experiments.claims.levels import (
    FOUR,
    LITTLE,
    Level,
    grid_of,
    level,
    on_set,
    over_sets,
    rising,
    title,
)
from onlinehash.experiments.claims.verdicts import (
    IN_PART,
    NOT_CONFIRMED,
    Claim,
    Missing,
    Verdict,
    at_most_in_part,
    together,
    word,
)
from onlinehash.experiments.rows import Rows

#: "Greatly": a share of the value.
GREATLY = 0.10
#: Steps cut short are few when fewer than this.
HALF = Level(0.5, 0.0, 0.0, 0)
#: A gain in mAP below this is none, even where it is more than the spread.
INSENSITIVE = 0.01


def beta_rises_then_falls(rows: Rows) -> Verdict:
    def of_set(rows: Rows) -> Verdict:
        grid = grid_of(rows, "OH")
        levels = {beta: level(rows, line="OH", value=beta) for beta in grid.values}
        best = max(levels, key=lambda beta: levels[beta].mean)
        least, most = min(levels), max(levels)
        rises, falls = levels[best].above(levels[least]), levels[best].above(levels[most])
        in_middle = any(0.4 <= beta <= 0.6 and levels[best].at_most(levels[beta]) for beta in levels)
        measured = f"{levels[least]} at {least:g}, best {levels[best]} at {best:g}, {levels[most]} at {most:g}"
        found = word(rises and falls and in_middle, rises or falls)
        return Verdict(measured, at_most_in_part(found, bool(grid.lacking)))

    return over_sets(rows, "beta", of_set)


def large_beta_updates_more(rows: Rows) -> Verdict:
    def of_set(rows: Rows) -> Verdict:
        most = grid_of(rows, "OH").values[-1]
        middle, last = (level(rows, "update_rate", line="OH", value=beta) for beta in (0.5, most))
        moved = [level(rows, "bits_moved", line="OH", value=beta).mean for beta in (0.5, most)]
        bits = [m / level(rows, "pairs", line="OH", value=0.5).mean for m in moved]
        measured = (
            f"update rate {middle} at 0.5, {last} at {most:g}; {bits[0]:.1f} and {bits[1]:.1f} functions moved a pair"
        )
        grows = last.above(middle)
        return Verdict(measured, word(grows and not last.near(middle, GREATLY), grows))

    return over_sets(rows, "beta", of_set)


def more_models_help(rows: Rows) -> Verdict:
    def of_line(rows: Rows, line: str) -> Verdict:
        grid = grid_of(rows, line)
        levels = [level(rows, line=line, value=T) for T in grid.values]
        return Verdict(f"{levels[0]} → {levels[-1]}", at_most_in_part(rising(levels), bool(grid.lacking)))

    def of_set(rows: Rows) -> Verdict:
        least, summed = of_line(rows, "MMOH"), of_line(rows, "MMOH, sum")
        only_sum = least.verdict == NOT_CONFIRMED and summed.verdict != NOT_CONFIRMED
        measured = f"{least.measured} (distances summed: {summed.measured})"
        return Verdict(measured, IN_PART if only_sum else least.verdict)

    return over_sets(rows, "models", of_set)


def models_by_set(rows: Rows) -> Verdict:
    gains = {}
    for role in FOUR:
        here = on_set(rows, "models", role)
        values = grid_of(here, "MMOH").values
        if values[0] == values[-1]:
            raise Missing(f"on {title(role)}, to compare")
        gains[role] = level(here, line="MMOH", value=values[-1]) - level(here, line="MMOH", value=values[0])
    few, many = ("photo-tourism", "cifar10"), ("labelme", "gist1m")
    as_much = [title(role) for role in few if not all(gains[other].above(gains[role]) for other in many)]
    told = ", ".join(f"{title(role)} {gain.mean:+.3f} ± {gain.error:.3f}" for role, gain in gains.items())
    parts = [
        Verdict(f"gain from T = 1 to the most models: {told}", word(gains["cifar10"].is_small(INSENSITIVE))),
        Verdict(
            f"LabelMe and GIST1M do not both gain more than {' and '.join(as_much)}"
            if as_much
            else "LabelMe and GIST1M gain most",
            word(not as_much),
        ),
    ]
    return together(parts)


def C_grows_then_stays(rows: Rows) -> Verdict:
    def of_set(rows: Rows) -> Verdict:
        small, medium, large, largest = (level(rows, line="OH", value=C) for C in (1e-5, 1e-2, 1e-1, 10.0))
        grows = medium.above(small) and medium.mean - small.mean >= GREATLY * small.mean
        stays = largest.near(large, LITTLE)
        measured = f"{small} at 1e-5, {medium} at 0.01, {large} at 0.1, {largest} at 10"
        return Verdict(measured, word(grows and stays, grows or stays))

    return over_sets(rows, "margin", of_set)


def C_above_changes_nothing(rows: Rows) -> Verdict:
    def of_set(rows: Rows) -> Verdict:
        levels = [level(rows, line="OH", value=C) for C in (0.1, 1.0, 10.0)]
        same = all(other.near(levels[0], LITTLE) for other in levels[1:])
        capped = level(rows, "capped_share", line="OH", value=0.1)
        beyond = level(rows, "capped_share", line="OH", value=1.0)
        measured = (
            f"{' / '.join(map(str, levels))} at 0.1 / 1 / 10; cut short {capped.mean:.1%} / {beyond.mean:.1%} / …"
        )
        few = HALF.above(capped)
        return Verdict(measured, word(same and few, same or few))

    return over_sets(rows, "margin", of_set)


CLAIMS = (
    Claim(
        "beta",
        "With growing β mAP first rises, and falls when β goes beyond about 0.5.",
        "Effect of Dissimilarity Ratio Threshold β",
        "On a set: the best β is better than the smallest and the largest, and the best is not better than some "
        "β of 0.4 to 0.6; in part where only one end is worse, or the best lies elsewhere.",
        ("beta",),
        beta_rises_then_falls,
    ),
    Claim(
        "beta-updates",
        "Too large a β makes the model update too often.",
        "Effect of Dissimilarity Ratio Threshold β",
        "On a set: the share of pairs that update is higher at the largest β than at 0.5, by more than a tenth; in "
        "part where it is higher by less.",
        ("beta",),
        large_beta_updates_more,
    ),
    Claim(
        "models",
        "More models help.",
        "Effect of the Number of Multiple Models T",
        "On a set: MMOH with the most models is better than with one, and no further model makes it worse; in part "
        "where a step makes it worse, or only summed distances gain.",
        ("models",),
        more_models_help,
    ),
    Claim(
        "models-sets",
        "CIFAR-10 is insensitive to T; LabelMe and GIST1M gain most from more models.",
        "Effect of the Number of Multiple Models T",
        "Two parts: on CIFAR-10 the gain is at most 0.01 either way, or not apart from none with a standard error of "
        "at most that; the gains on LabelMe and GIST1M are both higher than those on both other sets.",
        ("models",),
        models_by_set,
    ),
    Claim(
        "C",
        "mAP grows greatly from C = 1e-5 to 1e-2, and little above 0.1.",
        "Effect of Margin Parameter C",
        "On a set: it grows by at least a tenth from 1e-5 to 1e-2, and from 0.1 to 10 it changes by no more than 5 %, "
        "or not at all with a standard error of at most that; in part where one of the two holds.",
        ("margin",),
        C_grows_then_stays,
    ),
    Claim(
        "C-capped",
        "C above 0.1 changes nothing, because most steps are below it.",
        "Effect of Margin Parameter C",
        "On a set: mAP at C = 1 and 10 is within 5 % of that at 0.1, or not apart with a standard error of at most "
        "that, and C = 0.1 cuts fewer than half of the steps short; in part where one of the two holds.",
        ("margin",),
        C_above_changes_nothing,
    ),
)
