"""The reproduction report: Markdown pages made from results alone, the same text for the same results.

`reproduction_pages` beside this file has the words that do not depend on them.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from onlinehash.experiments import claims_map
from onlinehash.experiments.claims import Judged
from onlinehash.experiments.claims_map import ReadOtherwise
from onlinehash.experiments.descriptions import described, described_curves
from onlinehash.experiments.lacking import Lacking
from onlinehash.experiments.plan import Plan
from onlinehash.experiments.rows import Row, Rows
from onlinehash.experiments.table_forms import range_of
from onlinehash.experiments.tables import table
from onlinehash.io import atomic

#: The plan that has the reference for figures of mAP.
UNTAUGHT = "untaught"
#: What the sets are that we used in the place of the paper's.
STAND_INS = {
    "photo_tourism_gist512": "GIST of 64 x 64 grey patches of Notre Dame. Which patches show the same point was "
    "inferred from their likeness (about 88 % agree with an independent check); mostly two patches show one.",
    "gist512_22k": "GIST of small photographs, a part of CIFAR-10.",
    "gist960_30k": "Colour GIST in the layout of GIST1M, of small photographs.",
    "cifar10_deep512": "CIFAR-10 itself, but other features: of an ImageNet network, reduced to 512 numbers. For the "
    "80 million Tiny Images stand rows halfway between two of different classes, as many as there are images.",
}


def write_reproduction(
    folder: str | os.PathLike[str],
    plans_and_rows: Sequence[tuple[Plan, Rows]],
    judged_claims: Sequence[Judged],
    others: Sequence[ReadOtherwise],
    left: Sequence[Lacking],
    figures_folder: str | os.PathLike[str],
) -> Path:
    """Write the pages into a folder, and return the first one.

    others: the readings that were run besides. left: what was not run, of all that could be.
    """
    figures = Path(os.path.relpath(figures_folder, folder)).as_posix()
    counts = Counter(claim.verdict for claim in judged_claims)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in claims_map.SIGNS if counts[verdict])
    verdicts = f"{len(judged_claims)} claims: {told}"
    run = {plan.name for plan, _ in plans_and_rows}
    pages = {
        "method": _filled(
            "method",
            sets="\n".join(_sets(plans_and_rows)),
            origin="\n".join(_origin([*plans_and_rows, *itertools.chain(*(other.plans_and_rows for other in others))])),
        ),
        "claims": _filled("claims", verdicts=verdicts, claims="\n".join(_claims(judged_claims, others, run))),
    }
    for plan, rows in plans_and_rows:
        has_curves = (Path(figures_folder) / f"{plan.name}-precision-recall.svg").exists()
        pages[plan.name] = _experiment(plan, rows, figures, has_curves)
    for other in others:
        pages[_page_of(other)] = "\n".join(_reading(other))
    pages["index"] = _filled(
        "index",
        verdicts=verdicts,
        map="\n".join(_map(judged_claims, others, figures)),
        experiments="\n".join(
            _line([f"[{plan.title}]({plan.name}.md)", plan.question, plan.source]) for plan, _ in plans_and_rows
        ),
        readings="\n".join(_readings(others)),
        left="\n".join(_left(left)),
        pages="\n".join(pages),
    )
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        with atomic.replacing(Path(folder) / f"{name}.md") as file:
            file.write(text.encode())
    return Path(folder) / "index.md"


def _filled(name: str, **values: str) -> str:
    words = files("onlinehash.experiments").joinpath("reproduction_pages", f"{name}.md")
    return Template(words.read_text(encoding="utf-8")).substitute(values)


def _sets(plans_and_rows: Sequence[tuple[Plan, Rows]]) -> Iterator[str]:
    """The sets as they were used, what each stands for, and the machines of the plans that are about time."""
    rows = [row for _, rows in plans_and_rows for row in rows]
    timed = [row.result.facts for plan, rows in plans_and_rows if plan.alone for row in rows]
    headings = ("set", "stands for", "searched", "queries", "split", "inputs", "truth", "similar pairs")
    yield _line(headings)
    yield _line(["---"] * len(headings))
    for title in dict.fromkeys(row.data for row in rows):
        yield _line(_set_cells([row for row in rows if row.data == title]))
    yield ""
    names = dict.fromkeys(row.cell.set.name for row in rows)
    yield from (f"- `{name}`: {STAND_INS[name]}" for name in names if name in STAND_INS)
    machines = dict.fromkeys(str(facts["machine"]) for facts in timed if "machine" in facts)
    if machines:
        yield f"\nTimes were measured on: {'; '.join(machines)}."


def _origin(plans_and_rows: Sequence[tuple[Plan, Rows]]) -> Iterator[str]:
    """How many seeds the numbers rest on, and which versions made them."""
    least = min((min(rows.seeds_of_places()) for _, rows in plans_and_rows), default=0)
    results = {row.cell.setting.name: row.result for _, rows in plans_and_rows for row in rows}
    runs = {name: result.facts for name, result in results.items()}
    hours = sum(result.final.get("seconds", 0.0) for result in results.values()) / 3600
    yield f"The numbers of these pages come from {len(runs):,} runs, and none rests on fewer than {least} seeds."
    yield f"Learning, without encoding and search, took {hours:.1f} hours of one core in all."
    for version, n in Counter(facts.get("version") for facts in runs.values()).most_common():
        yield f"{n:,} record version {version}." if version else f"{n:,} older ones record no version."
    kinds = Counter(_architecture(facts) for facts in runs.values())
    yield ", ".join(f"{n:,} were made {kind}" for kind, n in kinds.most_common()) + "."


def _architecture(facts: Mapping[str, Any]) -> str:
    """Of the machine that made a run."""
    machine = str(facts.get("machine", ""))
    if not machine:
        return "on a machine that they do not name"
    return "on ARM" if "aarch64" in machine or "arm64" in machine else "on x86-64"


def _set_cells(rows: Sequence[Row]) -> list[str]:
    """Of one set; sizes are those of the plain protocol."""
    role = rows[0].cell.set.role
    plain = [row for row in rows if row.result.setting.conditions.get("protocol") == "retrieval"] or rows
    asked = next((row.result.facts for row in plain if "n_queries" in row.result.facts), {})
    shares = [row.result.facts["similar_share"] for row in plain if row.plan != "share"] or [float("nan")]
    return [
        f"`{rows[0].cell.set.name}`",
        "itself" if role.name in ("labelled", "unlabelled") else role.title,
        f"{asked['n_base']:,}" if asked else "",
        f"{asked['n_queries']:,}" if asked else "",
        f"{role.split[0]:,} : {role.split[1]:,}",
        f"{rows[0].result.facts['n_features']:,}",
        role.truth,
        f"{sum(shares) / len(shares):.1%}",
    ]


def _map(claims: Sequence[Judged], others: Sequence[ReadOtherwise], figures: str) -> Iterator[str]:
    if not others:
        yield "No other reading was run."
        return
    reread = claims_map.reread(claims, others)
    turning = sum(bool(claims_map.turned(claim, others)) for claim in claims)
    told = f"{turning} of the {len(reread)} that were judged under another reading turn"
    yield f"![Verdicts on {len(claims)} claims; {told}. The table below has them.]({figures}/{claims_map.NAME}.svg)\n"
    yield f"There are {len(claims)} claims, and {told}. ✓ confirmed, ◐ in part, ✗ not confirmed, – not run; nothing"
    yield "where the experiments of a claim are not part of a reading. Readings have fewer lengths, and some of them"
    yield "fewer seeds. A verdict counts as turned only if it differs from what the plan finds by all its runs, and"
    yield "also from what it finds by these lengths and seeds (outlined in the picture, in bold in the table).\n"
    head, *lines = claims_map.as_lines(claims, others)
    yield _line(head)
    yield _line(["---"] * len(head))
    for claim, (number, *cells) in zip(claims, lines, strict=True):
        place = re.sub(r"[^\w\- ]", "", _heading(int(number), claim).lower()).replace(" ", "-")
        yield _line([f"[{number}](claims.md#{place})", *cells])


def _readings(others: Sequence[ReadOtherwise]) -> Iterator[str]:
    """What was measured under each has a page."""
    if others:
        yield "## Under other readings\n"
        yield _line(["reading", "why it is fair", "measured"])
        yield _line(["---"] * 3)
    for other in others:
        measured = ", ".join(plan.title for plan, _ in other.plans_and_rows)
        yield _line([f"[{_title_of(other)}]({_page_of(other)}.md)", other.reading.why, measured])
    yield ""


def _left(left: Sequence[Lacking]) -> Iterator[str]:
    """Reading by reading, and what runs it."""
    some = [one for one in left if one.n]
    if not some:
        yield "Everything that the plans and readings ask for was run."
        return
    yield "On the sets that stand for the paper's, these runs are left; what is done is not run again.\n"
    yield _line(["reading", "experiment", "runs left", "of which methods", "command"])
    yield _line(["---"] * 5)
    for one in some:
        whom = "all" if one.n == one.n_asked else ", ".join(f"{label} {n}" for label, n in one.by_line.items())
        runs = f"{one.n:,} of {one.n_asked:,}"
        yield _line([one.plan.reading.title, one.plan.title, runs, whom, f"`{one.command}`"])


def _reading(other: ReadOtherwise) -> Iterator[str]:
    """The page of a reading."""
    plans = " ".join(plan.name for plan, _ in other.plans_and_rows)
    yield f"# {_title_of(other)}\n\n{other.reading.why} [The map of claims](index.md) shows which verdicts turn.\n"
    for plan, rows in other.plans_and_rows:
        yield f"## {plan.title}\n"
        yield f"{table(plan, rows).as_markdown()}\n"
        yield from _stand_ins(rows)
    yield f"    onlinehash experiment run {plans} --reading {other.reading.name} --data data/\n"


def _stand_ins(rows: Rows) -> Iterator[str]:
    """Who ran in the place of others: set by set, where that differs."""
    told = {data: "; ".join(_instead(rows.of(data=data))) or "nobody" for data in rows.distinct("data")}
    if len({*told.values()}) == 1:
        told = {"all sets": next(iter(told.values()))}
    if {*told.values()} != {"nobody"}:
        yield from (f"- Stand-ins on {data}: {some}." for data, some in told.items())
        yield ""


def _instead(rows: Rows) -> Iterator[str]:
    """On one set: who ran for whom, and for which values, if not for all."""
    for line in rows.distinct("line"):
        places = {row.value: row.cell.who for row in rows.of(line=line)}
        for who in dict.fromkeys(who for who in places.values() if who != line):
            some = ", ".join(str(value) for value, one in places.items() if one == who)
            where = "" if {*places.values()} == {who} else f" at {' and '.join(some.rsplit(', ', 1))}"
            yield f"*{who}* for {line}{where}"


def _page_of(other: ReadOtherwise) -> str:
    return f"reading-{other.reading.name}"


def _title_of(other: ReadOtherwise) -> str:
    return f"{other.reading.title[0].upper()}{other.reading.title[1:]}"


def _claims(claims: Sequence[Judged], others: Sequence[ReadOtherwise], run: Container[str]) -> Iterator[str]:
    for number, claim in enumerate(claims, 1):
        yield f"## {_heading(number, claim)}\n"
        turns = [f"{other.verdict(claim)} under *{other.reading.title}*" for other in claims_map.turned(claim, others)]
        verdict = "; ".join([f"**{claim.verdict[0].upper()}{claim.verdict[1:]}**", *turns])
        plans = ", ".join(f"[{name}]({name}.md)" if name in run else name for name in claim.plans)
        seeds = range_of(claim.seeds, "{}")
        yield f"{verdict}. Measured by {plans} with {seeds} seeds; the paper's section is *{claim.source}*.\n"
        yield from (f"- {line}" for line in claim.measured.split("\n"))
        yield f"\n*Rule:* {claim.rule}\n"


def _heading(number: int, claim: Judged) -> str:
    return f"{number}. {claim.text.rstrip('.')}"


def _line(cells: Sequence[str]) -> str:
    """Of a Markdown table."""
    bar = "\\|"
    return f"| {' | '.join(cell.replace('|', bar) for cell in cells)} |"


def _beside(plan: Plan) -> str:
    """Where floats and codes without feedback are, if the same queries were asked of the same base."""
    is_same = plan.conditions["protocol"] == "retrieval" and "distractors" not in plan.conditions
    if not is_same or plan.drawing.y != "map" or plan.name == UNTAUGHT:
        return ""
    return f" [What is found without feedback]({UNTAUGHT}.md), by floats and by ITQ, on the same sets."


def _experiment(plan: Plan, rows: Rows, figures: str, has_curves: bool) -> str:
    """The page of a plan."""
    pictures = [f"![{described(plan, rows)}]({figures}/{plan.name}.svg)\n"]
    if has_curves:
        pictures.append(f"![{described_curves(plan, rows)}]({figures}/{plan.name}-precision-recall.svg)\n")
    return "\n".join(
        [
            f"# {plan.title}\n",
            f"{plan.question} Source: {plan.source}. [How it was measured](method.md).{_beside(plan)}\n",
            *pictures,
            table(plan, rows).as_markdown(),
            f"\n    onlinehash experiment run {plan.name} --data data/\n",
        ]
    )
