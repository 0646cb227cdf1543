"""The claim about drift: who recovers when the world changes?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from onlinehash.experiments.claims.levels import Level, level_of, on_one_set
from onlinehash.experiments.claims.verdicts import Claim, Missing, Verdict, all_of, word
from onlinehash.experiments.rows import Row, Rows

PLANS = ("drift-sudden-rotated", "drift-gradual-rotated", "drift-sudden-meaning", "drift-gradual-meaning")
#: With anchors that stay what they were when the world changes, and without.
ADAPTS, STAYS = ("OH", "OH, linear"), ("OSH", "ITQ", "SDH")
#: Recovered is who has won back this share of what the change took.
RECOVERED = 0.5
#: Where drift is gradual, old and new come mixed from this share of the pairs on.
MIXING = 1 / 3


@dataclass(frozen=True)
class Course:
    """mAP in the old world before it begins to change, at the first look into the new one, and at the end."""

    before: Level
    after: Level
    end: Level

    @property
    def fell(self) -> bool:
        return self.before.above(self.after)

    @property
    def share(self) -> Level:
        """The share of the loss in mAP that was recovered."""
        return (self.end - self.after).times(1 / (self.before.mean - self.after.mean))

    @property
    def recovered(self) -> bool:
        return self.fell and self.share.sign > 0 and self.share.mean >= RECOVERED

    @property
    def lost_nothing(self) -> bool:
        return not self.fell and self.before.at_most(self.after) and self.before.at_most(self.end)

    def __str__(self) -> str:
        course = f"{self.before.mean:.3f} → {self.after.mean:.3f} → {self.end.mean:.3f} (± {self.end.spread:.3f}"
        return f"{course}, {round(100 * self.share.mean)}% won back)" if self.fell else f"{course}, no fall)"


def course_of(rows: Rows, line: str, is_gradual: bool) -> Course:
    """Means over the seeds."""
    looks = {row.seed: _three_looks(row, is_gradual) for row in rows.of(line=line)}
    runs = ({seed: values[k] for seed, values in looks.items()} for k in range(3))
    return Course(*(level_of(some, f"of {line}") for some in runs))


def _three_looks(row: Row, is_gradual: bool) -> tuple[float, float, float]:
    """The first look into the new world is the one to which no pair was learned."""
    looks: list[dict[str, Any]] = row.result.checkpoints
    change = next((k for k in range(1, len(looks)) if looks[k]["pairs"] == looks[k - 1]["pairs"]), None)
    if change is None:
        raise Missing("with a look right after the change")
    last_of_old = looks[-1]["pairs"] * MIXING if is_gradual else looks[change]["pairs"]
    before = [look for look in looks[:change] if look["pairs"] <= last_of_old]
    if not before:
        raise Missing("with a look before the change begins")
    return before[-1]["map"], looks[change]["map"], looks[-1]["map"]


def OH_adapts(rows: Rows) -> Verdict:
    return all_of((partial(_of_plan, rows, plan) for plan in PLANS), between="\n")


def _of_plan(rows: Rows, plan: str) -> Verdict:
    here = on_one_set(rows, plan, "cifar10")
    return all_of((partial(_of_line, here, plan, line) for line in ADAPTS), between="\n")


def _of_line(here: Rows, plan: str, line: str) -> Verdict:
    """That somebody fell is what shows that there was anything to adapt to."""
    is_gradual = "gradual" in plan
    ours = course_of(here, line, is_gradual)
    others = {other: course_of(here, other, is_gradual) for other in STAYS}
    fallen = [course for course in others.values() if course.fell]
    adapts = len(fallen) > 0 and (ours.recovered or ours.lost_nothing)
    stay = all(course.share.mean < RECOVERED for course in fallen)
    is_ahead = ours.fell and len(fallen) > 0 and all(ours.share.above(course.share) for course in fallen)
    told = ", ".join(f"{who} {course}" for who, course in {line: ours, **others}.items())
    kind = plan.removeprefix("drift-").replace("-", ", ")
    return Verdict(f"{kind}: {told}", word(adapts and stay, adapts or is_ahead))


CLAIMS = (
    Claim(
        "drift",
        "OH adapts when the data drift; batch and sketch methods do not.",
        "Introduction and Related Work",
        "For each kind of drift, with the kernel and without: at least one of OSH, ITQ and SDH falls, and none that "
        "does wins back half of what the change took, but OH does; that OH does not fall counts only because others "
        "do. ITQ and SDH are fitted once, before the change. In part where another wins back half, too, or where OH "
        "wins back less, but more than every other. Compared are the last look before the change begins, the first "
        "into the new world, and the end.",
        PLANS,
        OH_adapts,
    ),
)
