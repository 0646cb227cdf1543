"""Claims about mAP against code length: among the online methods, and beside the batch methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onlinehash.experiments.claims.levels import FOUR, Level, level, over_sets, rising, values_of
from onlinehash.experiments.claims.verdicts import Claim, Missing, Verdict, by_count, together, word
from onlinehash.experiments.rows import Rows

#: The online methods of the paper's figure; others in the plan are not part of its claim.
RIVALS = ("LEGO", "MLH", "SSBC", "OSH", "AdaptHash")
SUPERVISED = ("KSH", "FastHash", "SDH")
#: Differences up to this share of the value are "very similar".
SIMILAR = 0.05

Judge = Callable[[Rows], Verdict]


def improves_with_bits(rows: Rows) -> Verdict:
    def of_line(rows: Rows, line: str) -> Verdict:
        levels = [level(rows, line=line, value=r) for r in values_of(rows, line)]
        return Verdict(f"{line} {levels[0]} → {levels[-1]}", rising(levels))

    return over_sets(rows, "online", lambda rows: together(of_line(rows, line) for line in ("OH", "MMOH")))


def first_and_second(rows: Rows) -> Verdict:
    def of_set(rows: Rows) -> Verdict:
        bits = [r for r in values_of(rows, "MMOH", "OH", *RIVALS) if r > 32]
        if not bits:
            raise Missing("above 32 bits")
        n_first = n_second = 0
        for r in bits:
            found = {line: level(rows, line=line, value=r) for line in ("MMOH", "OH", *RIVALS)}
            n_first += all(found["MMOH"].above(found[line]) for line in ("OH", *RIVALS))
            n_second += all(found["OH"].above(found[line]) for line in RIVALS) and found["MMOH"].above(found["OH"])
        ranked = sorted(found, key=lambda line: -found[line].mean)
        order = ", ".join(f"{line} {found[line]}" for line in ranked)
        measured = (
            f"MMOH first at {n_first} and OH second at {n_second} of {len(bits)} lengths (at {bits[-1]}: {order})"
        )
        return Verdict(measured, by_count(n_first + n_second, 2 * len(bits)))

    return over_sets(rows, "online", of_set)


def lego_equals_OH(rows: Rows) -> Verdict:
    def of_set(rows: Rows) -> Verdict:
        bits = values_of(rows, "LEGO", "OH")
        pairs = [(level(rows, line="LEGO", value=r), level(rows, line="OH", value=r)) for r in bits]
        n = sum(lego.near(oh, SIMILAR) for lego, oh in pairs)
        measured = f"alike at {n} of {len(bits)} lengths; LEGO and OH {_ends(bits, pairs)}"
        return Verdict(measured, by_count(n, len(bits)))

    return over_sets(rows, "online", of_set, ["photo-tourism"])


def above(plan: str, line: str, others: Sequence[str], wanted: Sequence[str] = FOUR, more_bits_than: int = 0) -> Judge:
    """A judge: is the line higher than each of the others at every length (above one)?"""

    def of_pair(rows: Rows, other: str) -> Verdict:
        bits = [r for r in values_of(rows, line, other) if r > more_bits_than]
        if not bits:
            raise Missing(f"above {more_bits_than} bits")
        pairs = [(level(rows, line=line, value=r), level(rows, line=other, value=r)) for r in bits]
        n = sum(ours.above(theirs) for ours, theirs in pairs)
        measured = f"above {other} at {n} of {len(bits)} lengths ({_ends(bits, pairs)})"
        return Verdict(measured, by_count(n, len(bits)))

    def judge(rows: Rows) -> Verdict:
        return over_sets(rows, plan, lambda rows: together(of_pair(rows, other) for other in others), wanted)

    return judge


def gap_grows(rows: Rows) -> Verdict:
    def of_set(rows: Rows) -> Verdict:
        bits = values_of(rows, "OH", "KLSH")
        first, last = (level(rows, line="OH", value=r) - level(rows, line="KLSH", value=r) for r in (bits[0], bits[-1]))
        measured = f"{first.mean:+.3f} at {bits[0]} bits, {last.mean:+.3f} at {bits[-1]}"
        return Verdict(f"{measured} (± {(last - first).error:.3f})", word(last.above(first)))

    return over_sets(rows, "batch", of_set)


def supervised_ahead(rows: Rows) -> Verdict:
    def of_set(rows: Rows) -> Verdict:
        lines = [line for line in SUPERVISED if len(rows.of(line=line))]
        if not lines:
            raise Missing("of a supervised batch method")
        bits = values_of(rows, "OH", "MMOH", *lines)
        n = 0
        for r in bits:
            found = {line: level(rows, line=line, value=r) for line in ("OH", "MMOH", *lines)}
            best = max(lines, key=lambda line: found[line].mean)
            n += found[best].above(found["MMOH"]) and found[best].above(found["OH"])
        told = f"{best} {found[best]}, MMOH {found['MMOH']}, OH {found['OH']}"
        return Verdict(f"ahead at {n} of {len(bits)} lengths (at {bits[-1]}: {told})", by_count(n, len(bits)))

    return over_sets(rows, "batch", of_set, [role for role in FOUR if role != "gist1m"])


def _ends(bits: Sequence[int], pairs: Sequence[tuple[Level, Level]]) -> str:
    """Both at the shortest and at the longest length."""
    return ", ".join(f"{pairs[k][0]} and {pairs[k][1]} at {bits[k]}" for k in dict.fromkeys((0, len(bits) - 1)))


AT_EVERY_LENGTH = "On a set, at every length: higher by more than two standard errors; in part where at some lengths."

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
        "Above 32 bits MMOH is the best of the online methods and OH the second.",
        "Comparison with Related Online Methods, mAP",
        "On a set, at every length above 32 bits: MMOH is higher than all others, and OH than all but MMOH; in part "
        "where it holds for one of them or at some lengths. Among LEGO, MLH, SSBC, OSH, AdaptHash, OH and MMOH.",
        ("online",),
        first_and_second,
    ),
    Claim(
        "lego-equal",
        "LEGO-LSH equals OH on Photo Tourism.",
        "Comparison with Related Online Methods, mAP",
        "At every length: within two standard errors or 5 % of each other; in part where at some lengths.",
        ("online",),
        lego_equals_OH,
    ),
    Claim(
        "mmoh-osh-mlh",
        "MMOH is above OSH and MLH on all sets.",
        "Comparison with Related Online Methods, mAP",
        AT_EVERY_LENGTH,
        ("online",),
        above("online", "MMOH", ("OSH", "MLH")),
    ),
    Claim(
        "mmoh-lego",
        "MMOH is above LEGO-LSH on LabelMe, GIST1M and CIFAR-10.",
        "Comparison with Related Online Methods, mAP",
        AT_EVERY_LENGTH,
        ("online",),
        above("online", "MMOH", ("LEGO",), ("labelme", "gist1m", "cifar10")),
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
        "On a set: the lead in mAP at the longest code is above that at the shortest by more than two standard errors.",
        ("batch",),
        gap_grows,
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
        "MMOH is above KLSH and ITQ everywhere.",
        "Comparison to Batch Mode Methods",
        AT_EVERY_LENGTH,
        ("batch",),
        above("batch", "MMOH", ("KLSH", "ITQ")),
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
        "On a set, at every length: the best of KSH, FastHash and SDH is higher than both; in part where at some.",
        ("batch",),
        supervised_ahead,
    ),
)
