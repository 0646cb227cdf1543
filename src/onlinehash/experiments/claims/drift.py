"""The claim about drift: who recovers when the world changes?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onlinehash.experiments.claims.levels import Level, level_of, on_one_set
from onlinehash.experiments.claims.verdicts import Claim, Missing, Verdict, together, word
from onlinehash.experiments.rows import Row, Rows

PLANS = ("drift-sudden-rotated", "drift-gradual-rotated", "drift-sudden-meaning", "drift-gradual-meaning")
ADAPTS, STAYS = "OH", ("OSH", "ITQ", "SDH")
#: Recovered is who has won back this share of what the change took.
RECOVERED = 0.5


@dataclass(frozen=True)
class Course:
    """mAP before the change, right after it with the functions of before, and at the end."""

    before: Level
    after: Level
    end: Level

    @property
    def fell(self) -> bool:
        return self.before.above(self.after)

    @property
    def share(self) -> float:
        """Of what the change took, how much was won back?"""
        return (self.end.mean - self.after.mean) / (self.before.mean - self.after.mean)

    @property
    def recovered(self) -> bool:
        return self.end.above(self.after) and self.share >= RECOVERED

    def __str__(self) -> str:
        course = f"{self.before.mean:.3f} → {self.after.mean:.3f} → {self.end.mean:.3f} (± {self.end.spread:.3f}"
        return f"{course}, {self.share:.0%} won back)" if self.fell else f"{course}, no fall)"


def course_of(rows: Rows, line: str) -> Course:
    """Means over the seeds."""
    looks = [_three_looks(row) for row in rows.of(line=line)]
    if not looks:
        raise Missing(f"of {line}")
    return Course(*(level_of(values, "") for values in zip(*looks, strict=True)))


def _three_looks(row: Row) -> tuple[float, float, float]:
    """The look after the change is the one to which no pair was learned."""
    looks: list[dict[str, Any]] = row.result.checkpoints
    change = next((k for k in range(1, len(looks)) if looks[k]["pairs"] == looks[k - 1]["pairs"]), None)
    if change is None:
        raise Missing("with a look right after the change")
    return looks[change - 1]["map"], looks[change]["map"], looks[-1]["map"]


def OH_adapts(rows: Rows) -> Verdict:
    parts, missing = [], []
    for plan in PLANS:
        try:
            here = on_one_set(rows, plan, "cifar10")
            parts.append(_of_plan(here, plan))
        except Missing as error:
            missing.append(str(error))
    if not parts:
        raise Missing(missing[0])
    return together(parts, *missing)


def _of_plan(rows: Rows, plan: str) -> Verdict:
    """OH recovers, or lost nothing; the others, where they lost something, do not recover."""
    ours = course_of(rows, ADAPTS)
    others = {line: course_of(rows, line) for line in STAYS}
    adapts = ours.recovered if ours.fell else not ours.before.above(ours.end)
    stay = [not course.recovered for course in others.values() if course.fell]
    told = ", ".join(f"{line} {course}" for line, course in {ADAPTS: ours, **others}.items())
    kind = plan.removeprefix("drift-").replace("-", ", ")
    return Verdict(f"{kind}: {told}", word(adapts and all(stay), adapts or (len(stay) > 0 and all(stay))))


CLAIMS = (
    Claim(
        "drift",
        "OH adapts when the data drift; batch and sketch methods do not.",
        "Introduction",
        "For each kind of drift: OH wins back at least half of what the change took (or lost nothing), and OSH, ITQ "
        "and SDH do not, as far as they lost something; in part where only one of the two holds.",
        PLANS,
        OH_adapts,
    ),
)
