"""The reproduction report: a Markdown page made from results alone, the same text for the same results.

`reproduction.md` beside this file has the words that do not depend on them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from onlinehash.experiments import claims_map
from onlinehash.experiments.claims import Judged
from onlinehash.experiments.claims_map import ReadOtherwise
from onlinehash.experiments.plan import Plan
from onlinehash.experiments.rows import Row, Rows
from onlinehash.experiments.tables import table
from onlinehash.io import atomic

#: What the sets are that we used in the place of the paper's.
STAND_INS = {
    "photo_tourism_gist512": "GIST of 64 x 64 grey patches of Notre Dame. Which patches show the same point was "
    "inferred from their likeness (about 88 % agree with an independent check); mostly two patches show one. Exact "
    "search by the cosine has an mAP of 0.857 here.",
    "gist512_22k": "GIST of small photographs, a part of CIFAR-10.",
    "gist960_30k": "Colour GIST in the layout of GIST1M, of small photographs.",
    "cifar10_deep512": "CIFAR-10 itself, but other features: of an ImageNet network, reduced to 512 numbers. For the "
    "80 million Tiny Images stand rows halfway between two of different classes, as many as there are images.",
}


def write_reproduction(
    path: str | os.PathLike[str],
    plans_and_rows: Sequence[tuple[Plan, Rows]],
    judged_claims: Sequence[Judged],
    others: Sequence[ReadOtherwise],
    figures_folder: str | os.PathLike[str],
) -> None:
    """The page; figures are linked by where they are from it. `others` are the readings that were run besides."""
    page = Path(path)
    figures = Path(os.path.relpath(figures_folder, page.parent)).as_posix()
    sections = []
    for plan, rows in plans_and_rows:
        has_curves = (Path(figures_folder) / f"{plan.name}-precision-recall.svg").exists()
        sections.append(_section(plan, rows, figures, has_curves))
    counts = Counter(claim.verdict for claim in judged_claims)
    text = Template(files("onlinehash.experiments").joinpath("reproduction.md").read_text(encoding="utf-8")).substitute(
        sets="\n".join(_sets([row for _, rows in plans_and_rows for row in rows])),
        verdicts=f"{len(judged_claims)} claims: {', '.join(f'{n} {verdict}' for verdict, n in counts.most_common())}",
        map="\n".join(_map(judged_claims, others, figures)),
        readings="\n".join(_readings(others)),
        claims="\n".join(_claims(judged_claims, others)),
        decisions="\n".join(_decisions(judged_claims)),
        plans="\n".join(sections),
    )
    page.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(page) as file:
        file.write(text.encode())


def _sets(rows: Sequence[Row]) -> Iterator[str]:
    """The sets as they were used, and what each stands for."""
    headings = ("set", "stands for", "searched", "queries", "split", "inputs", "truth", "similar pairs")
    yield _line(headings)
    yield _line(["---"] * len(headings))
    for title in dict.fromkeys(row.data for row in rows):
        yield _line(_set_cells([row for row in rows if row.data == title]))
    yield ""
    names = dict.fromkeys(row.cell.set.name for row in rows)
    yield from (f"- `{name}`: {STAND_INS[name]}" for name in names if name in STAND_INS)
    machines = dict.fromkeys(str(row.result.facts["machine"]) for row in rows if "machine" in row.result.facts)
    if machines:
        yield f"\nTimes were measured on: {'; '.join(machines)}."


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
    turning = sum(bool(claims_map.turned(claim, others)) for claim in claims)
    yield f"![Verdict on each claim, by reading; the table below says the same]({figures}/{claims_map.NAME}.svg)\n"
    yield f"{turning} of {len(claims)} verdicts turn under one of these readings (in bold). ✓ confirmed, ◐ in part,"
    yield "✗ not confirmed, – not tested; nothing where a reading does not touch a claim.\n"
    head, *lines = claims_map.as_lines(claims, others)
    yield _line(head)
    yield _line(["---"] * len(head))
    yield from map(_line, lines)
    yield ""
    for other in others:
        name, plans = other.reading.name, " ".join(plan.name for plan, _ in other.plans_and_rows)
        yield f"- *{other.reading.title}*: {other.reading.why} (`onlinehash experiment run {plans} --reading {name}`)"


def _readings(others: Sequence[ReadOtherwise]) -> Iterator[str]:
    """What was measured under each."""
    for other in others:
        yield f"### {other.reading.title[0].upper()}{other.reading.title[1:]}\n"
        yield f"{other.reading.why}\n"
        for plan, rows in other.plans_and_rows:
            yield f"{plan.title}:\n"
            yield f"{table(plan, rows).as_markdown()}\n"


def _claims(claims: Sequence[Judged], others: Sequence[ReadOtherwise]) -> Iterator[str]:
    yield _line(["#", "claim", "what we measured", "verdict", "turns with"])
    yield _line(["---"] * 5)
    for number, claim in enumerate(claims, 1):
        measured = claim.measured.replace("\n", "<br>")
        turns = "<br>".join(
            f"{other.reading.title}: {other.verdict(claim)}" for other in claims_map.turned(claim, others)
        )
        yield _line([str(number), claim.text, measured, f"**{claim.verdict}**", turns])


def _decisions(claims: Sequence[Judged]) -> Iterator[str]:
    for number, claim in enumerate(claims, 1):
        yield f"{number}. *{claim.source}* ({', '.join(claim.plans)}). {claim.rule}"


def _line(cells: Sequence[str]) -> str:
    """Of a Markdown table."""
    bar = "\\|"
    return f"| {' | '.join(cell.replace('|', bar) for cell in cells)} |"


def _section(plan: Plan, rows: Rows, figures: str, has_curves: bool) -> str:
    pictures = [f"![{plan.title}]({figures}/{plan.name}.svg)\n"]
    if has_curves:
        pictures.append(f"![{plan.title}: precision and recall]({figures}/{plan.name}-precision-recall.svg)\n")
    return "\n".join(
        [
            f"## {plan.title}\n",
            f"{plan.question} Source: {plan.source}.\n",
            *pictures,
            table(plan, rows).as_markdown(),
            f"\n    onlinehash experiment run {plan.name} --data data/\n",
        ]
    )
