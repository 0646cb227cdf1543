"""`onlinehash experiment`: run plans, draw their figures, print their tables, verify kept results, write the report."""

from __future__ import annotations

import dataclasses
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onlinehash.cli import output
from onlinehash.errors import InvalidInput
from onlinehash.experiments import RESULTS, runner, sources, verification
from onlinehash.experiments import plan as planning
from onlinehash.experiments.plan import Plan
from onlinehash.experiments.readings import OURS, Reading, find_readings, known_readings
from onlinehash.experiments.results import Store, existing
from onlinehash.experiments.roles import NamedSet, roles, told_apart
from onlinehash.experiments.rows import Rows, rows_to_speak_of
from onlinehash.numeric.threads import cpu_count
from onlinehash.progress import progress_bar

if TYPE_CHECKING:
    from onlinehash.experiments.claims import Judged
    from onlinehash.experiments.claims_map import ReadOtherwise

#: Plans whose precision-recall curves are in the report.
WITH_CURVES = ("online", "batch")
#: Plans that have nothing to do with the paper, and a page of their own: docs/explanation/feedback.md.
ELSEWHERE = ("feedback-random", "feedback-uniform", "feedback-shown", "feedback-clicks", "feedback-noise")


def show_plans(as_json: bool) -> None:
    """Print all plans and the question that each answers."""
    known = planning.plans(["all"])
    if as_json:
        output.print_json([planning.as_document(plan) for plan in known])
        return
    output.print_columns([[plan.name, plan.title, plan.question] for plan in known])


def run(
    names: Sequence[str],
    data: Sequence[str],
    others: Sequence[str],
    readings: Sequence[str],
    quick: bool,
    seeds: int | None,
    workers: int | None,
    again: Sequence[str],
    results: str,
    as_json: bool,
) -> int:
    """Run what is not done yet; returns 1 if a run failed."""
    chosen = _under(planning.plans(names), find_readings(readings)) if readings else planning.plans(names)
    if quick:
        chosen = [plan.made_quick() for plan in chosen]
    if seeds is not None:
        chosen = [dataclasses.replace(plan, seeds=seeds) for plan in chosen]
    sets = sources.find_sets(data)
    store = Store(results)
    for label in again:
        planning.contestant(label)  # a name that nobody has is refused
    cells = [list(planning.cells(plan, sets, others)) for plan in chosen]
    skipped = {plan.name: _why_not(plan) for plan, some in zip(chosen, cells, strict=True) if not some}
    if not any(cells):
        raise InvalidInput(f"no data for {', '.join(skipped)}: {next(iter(skipped.values()))}.")
    jobs = [(cell, plan.alone) for plan, some in zip(chosen, cells, strict=True) for cell in some]
    tally = runner.run(jobs, store, workers or cpu_count(), again)
    if as_json:
        document = {
            "results": results,
            "done": tally.n_done,
            "found": tally.n_found,
            "skipped": skipped,
            "failures": tally.failures,
        }
        output.print_json(document)
        return 1 if tally.failures else 0
    print(f"{tally.n_done} runs done, {tally.n_found} found in {results}")
    for name, reason in skipped.items():
        print(f"skipped {name}: {reason}")
    messages = Counter(tally.failures.values())
    for label, message in tally.failures.items():
        if n := messages.pop(message, 0):
            output.warn(f"{label}{f' and {n - 1} more' if n > 1 else ''}: {message}", as_json)
    if not tally.failures:
        flags = "".join(f" --method {method!r}" for method in others)
        flags += "" if results == RESULTS else f" --results {results}"
        print(f"next: onlinehash experiment figure {' '.join(names)}{flags}")
    return 1 if tally.failures else 0


def _under(plans: Sequence[Plan], readings: Sequence[Reading]) -> list[Plan]:
    """Each plan under each of the readings that apply to it."""
    found = [plan.under(reading) for reading in readings for plan in plans if plan.name in reading.plans]
    if not found:
        known = ", ".join(f"{reading.name} ({' '.join(reading.plans)})" for reading in readings)
        raise InvalidInput(f"none of these plans is run under that reading; readings and their plans: {known}.")
    return found


def _why_not(plan: Plan) -> str:
    if plan.roles:
        return f"it is for the role {' or '.join(plan.roles)}; write --data {plan.roles[0]}=FILE"
    return "it needs labels; write --data labelled=FILE"


def figure(names: Sequence[str], others: Sequence[str], results: str, folder: str, as_json: bool) -> None:
    """Draw the figures of existing results, and write the page that shows them."""
    from onlinehash.experiments import claims, figures, page

    found = in_full_or_quick(planning.plans(names), existing(results), others)
    written = [path for plan, rows in found for path in figures.draw_all(plan, rows, folder)]
    index = Path(folder) / (
        "index.html" if list(names) == ["all"] else f"{'-'.join(plan.name for plan, _ in found)}.html"
    )
    page.write_page(index, found, claims.judged(_together(found)))
    if as_json:
        output.print_json({"figures": [str(path) for path in written], "page": str(index)})
    else:
        print(f"{len(written)} pictures and {index}")


def table(
    names: Sequence[str],
    others: Sequence[str],
    readings: Sequence[str],
    measure: str | None,
    markdown: bool,
    results: str,
    as_json: bool,
) -> None:
    """Print tables of existing results."""
    from onlinehash.experiments import tables

    chosen = planning.plans(names)
    if readings:
        chosen = _under(chosen, find_readings(readings))
    if measure is not None:
        chosen = [plan.showing(measure) for plan in chosen]
    found = in_full_or_quick(chosen, existing(results), others)
    made = [tables.table(plan, rows) for plan, rows in found]
    if as_json:
        output.print_json([one.as_document() for one in made])
    else:
        print("\n\n".join(one.as_markdown() if markdown else one.as_text() for one in made))


def claims(readings: Sequence[str], results: str, as_json: bool) -> None:
    """What was found for each claim of the paper, as the plans are or under readings."""
    from onlinehash.experiments.claims import judged

    store, chosen = existing(results), find_readings(readings)
    planned = _together(collect(_of_the_paper(), store))
    if readings:
        _show_read_otherwise(_read_otherwise(chosen, planned, store), results, as_json)
        return
    found = judged(planned)
    if as_json:
        output.print_json([dataclasses.asdict(claim) for claim in found])
        return
    for number, claim in enumerate(found, 1):
        _print_claim(number, claim, claim.verdict)


def _show_read_otherwise(others: Sequence[ReadOtherwise], results: str, as_json: bool) -> None:
    """Each claim under each reading, and as planned by the same lengths and seeds; numbers are those of all claims."""
    from onlinehash.experiments.claims import CLAIMS

    if not others:
        raise InvalidInput(
            f"no results under these readings in {results}; run `onlinehash experiment run all --reading NAME` first."
        )
    if as_json:
        output.print_json(
            [
                {"reading": other.reading.name, **dataclasses.asdict(claim), "planned": planned.verdict}
                for other in others
                for claim, planned in zip(other.judged, other.planned, strict=True)
            ]
        )
        return
    numbers = {claim.name: number for number, claim in enumerate(CLAIMS, 1)}
    for other in others:
        print(f"Under the reading {other.reading.name}: {other.reading.title}\n")
        for claim, planned in zip(other.judged, other.planned, strict=True):
            verdict = f"{claim.verdict}; as planned, by the same lengths and seeds: {planned.verdict}"
            _print_claim(numbers[claim.name], claim, verdict)


def _print_claim(number: int, claim: Judged, verdict: str) -> None:
    print(f"{number}. {claim.text}\n   {verdict}")
    print("\n".join(f"   {line}" for line in claim.measured.split("\n")), end="\n\n")


def _read_otherwise(readings: Iterable[Reading], planned: Rows, store: Store) -> list[ReadOtherwise]:
    """The claims under each of the readings that were run; `planned` are the rows of the plans as they are."""
    from onlinehash.experiments.claims import judged_alike, judged_under
    from onlinehash.experiments.claims_map import ReadOtherwise

    found = []
    for reading in readings:
        under = collect(_under(planning.plans(reading.plans), [reading]), store)
        if under:
            rows = _together(under)
            alike = judged_alike(reading, rows, planned)
            found.append(ReadOtherwise(reading, under, judged_under(reading, rows), alike))
    return found


def _of_the_paper() -> list[Plan]:
    """The plans of the reproduction."""
    return [plan for plan in planning.plans(["all"]) if plan.name not in ELSEWHERE]


def report(results: str, pages: str, folder: str, as_json: bool) -> None:
    """The reproduction report, from kept results."""
    from onlinehash.experiments import claims, claims_map, figures, reproduction
    from onlinehash.experiments.lacking import lacking

    store = existing(results)
    known = _of_the_paper()
    found = collect(known, store)
    written = [path for plan, rows in found for path in figures.draw(plan, rows, folder, ("svg",))]
    for plan, rows in found:
        if plan.name in WITH_CURVES:
            written += figures.draw_curves(plan, rows, folder, ("svg",))
    planned = _together(found)
    judged = claims.judged(planned)
    read_otherwise = _read_otherwise(known_readings().values(), planned, store)
    written += claims_map.draw(judged, read_otherwise, folder)
    asked = [*known, *_under(known, find_readings(["all"]))]
    stand_ins = _stand_ins(store)
    left = [lacking(plan, stand_ins, store) for plan in asked]
    page = reproduction.write_reproduction(pages, found, judged, read_otherwise, left, folder)
    if as_json:
        output.print_json({"page": str(page), "figures": [str(path) for path in written]})
    else:
        print(f"{page} and {len(written)} pictures")


def keep(results: str, folder: str, as_json: bool) -> None:
    """Add results, in compact form, to those in the folder."""
    path = Store(folder).keep(existing(results))
    size = path.stat().st_size
    if as_json:
        output.print_json({"file": str(path), "bytes": size})
    else:
        print(f"{path}, {size / 1e6:.1f} MB")


def verify(n_cells: int, seed: int, data: Sequence[str], results: str, as_json: bool) -> int:
    """Repeat some kept runs; returns 1 if one does not agree."""
    store = existing(results)
    at_hand = {named.fingerprint: named.path for named in sources.find_sets([*data, *sources.EVERYBODYS])}
    known = [plan for plan in planning.plans(["all"]) if not plan.alone]
    both = [*known, *(plan.made_quick() for plan in known), *_under(known, find_readings(["all"]))]
    candidates = [
        (plan, row) for plan, rows in collect(both, store) for row in rows if row.cell.setting.fingerprint in at_hand
    ]
    if not candidates:
        raise InvalidInput("no data to run the kept results again; name the files with --data.")
    missing = {result.setting.data for result in store if result.setting.fingerprint not in at_hand}
    if missing:
        output.warn(f"skipping runs on {', '.join(sorted(missing))}: name the files with --data.", as_json)
    chosen = verification.draw(candidates, n_cells, seed)
    comparisons = []
    with tempfile.TemporaryDirectory() as cache, progress_bar(len(chosen)) as show:
        for k, (plan, row) in enumerate(chosen):
            show(k, f"{k} of {len(chosen)}  {row.plan}: {row.line}, {row.data}")
            job = runner.Job(row.cell.setting, at_hand[row.cell.setting.fingerprint], cache, False, row.line)
            comparisons.append(verification.compare(plan, row, runner.execute(job)))
    _show_comparisons(comparisons, as_json)
    return 0 if all(one.agrees for one in comparisons) else 1


def _show_comparisons(comparisons: Sequence[verification.Comparison], as_json: bool) -> None:
    lines = [one.as_document() for one in comparisons]
    if as_json:
        output.print_json(lines)
        return
    cells = [[f"{value:.7g}" if isinstance(value, float) else str(value) for value in line.values()] for line in lines]
    output.print_columns([list(lines[0]), *cells])


# ------------------------------------------------------------------ from results back to the cells of plans


def collect(chosen: Sequence[Plan], store: Store, others: Sequence[str] = ()) -> list[tuple[Plan, Rows]]:
    """The rows that are there, plan by plan; sets, roles and seeds are those of the store."""
    n_seeds = 1 + max(result.setting.seed for result in store)
    ordered = _sets_of(store)
    every = [dataclasses.replace(plan, seeds=n_seeds) for plan in chosen]
    found = []
    for plan in every:
        cells = planning.cells(plan, ordered, others)
        of_ours = () if not plan.reading.name else planning.cells(plan.under(OURS), ordered, others)
        found.append((plan, rows_to_speak_of(cells, store, {cell.setting.name for cell in of_ours})))
    return [(plan, rows) for plan, rows in found if len(rows)]


def _sets_of(store: Store) -> list[NamedSet]:
    """The sets that were used, in the order of their roles."""
    known = roles()
    sets = {
        (s.fingerprint, s.role): NamedSet(s.data, s.data, s.fingerprint, known[s.role])
        for s in (result.setting for result in store)
        if s.role in known
    }
    return told_apart(sorted(sets.values(), key=lambda named: (list(known).index(named.role.name), named.name)))


def _stand_ins(store: Store) -> list[NamedSet]:
    """For each of the paper's sets the one that has most runs in its role."""
    from onlinehash.experiments.claims.levels import FOUR

    n_runs = Counter((result.setting.role, result.setting.fingerprint) for result in store)
    sets = _sets_of(store)
    of_roles = {role: [named for named in sets if named.role.name == role] for role in FOUR}
    return [
        max(some, key=lambda named: n_runs[named.role.name, named.fingerprint]) for some in of_roles.values() if some
    ]


def in_full_or_quick(chosen: Sequence[Plan], store: Store, others: Sequence[str]) -> list[tuple[Plan, Rows]]:
    """The same; a plan that was run quickly only is shown so."""
    found = []
    for plan in chosen:
        found += collect([plan], store, others) or collect([plan.made_quick()], store, others)
    if not found:
        names = " ".join(plan.name for plan in chosen)
        raise InvalidInput(f"no results of {names} in {store.folder}; run `onlinehash experiment run {names}` first.")
    return found


def _together(found: Sequence[tuple[Plan, Rows]]) -> Rows:
    return Rows(row for _, rows in found for row in rows)
