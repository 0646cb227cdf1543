"""The report: everything is in it, it follows the results, and the same results give the same bytes."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from onlinehash.experiments.claims import judged
from onlinehash.experiments.lacking import lacking
from onlinehash.experiments.plan import cells, read_plan
from onlinehash.experiments.readings import known_readings
from onlinehash.experiments.reproduction import write_reproduction
from onlinehash.experiments.rows import Row, Rows
from tests.experiments.made_up import made_up, named_sets

NAMES = ("beta", "online", "time-bits")


@pytest.fixture(scope="module")
def found():
    sets = named_sets("photo-tourism", "gist1m", "labelled")
    return [(plan, made_up(plan, sets)) for plan in map(read_plan, NAMES)]


def written(folder, found, others=(), left=()):
    rows = Rows(row for _, rows in found for row in rows)
    page = write_reproduction(
        folder / "docs" / "reproduce", found, judged(rows), others, left, folder / "docs" / "figures" / "experiments"
    )
    return {path.stem: path.read_text("utf-8") for path in page.parent.iterdir()}


@pytest.fixture(scope="module")
def pages(found, tmp_path_factory):
    return written(tmp_path_factory.mktemp("report"), found)


def test_every_experiment_has_a_page(found, pages):
    for plan, rows in found:
        text = pages[plan.name]
        assert text.startswith(f"# {plan.title}\n")
        assert plan.question in text
        assert f"(../figures/experiments/{plan.name}.svg)" in text
        assert f"onlinehash experiment run {plan.name} --data data/" in text
        for line in rows.distinct("line"):
            assert f"| {line} |" in text
        assert f"| [{plan.title}]({plan.name}.md) | {plan.question} |" in pages["index"]
    listed = re.search(r"^```\{toctree\}\n:hidden:\n\n(.*?)\n```$", pages["index"], re.MULTILINE | re.DOTALL)
    assert {*listed[1].split("\n")} == {*pages} - {"index"}


def test_every_claim_is_judged(found, pages):
    claims = judged(Rows(row for _, rows in found for row in rows))
    parts = re.split(r"^## ", pages["claims"], flags=re.MULTILINE)[1:]
    for number, (part, claim) in enumerate(zip(parts, claims, strict=True), 1):
        assert part.startswith(f"{number}. {claim.text.rstrip('.')}\n\n**{claim.verdict.capitalize()}**. ")
        assert all(f"- {line}\n" in part for line in claim.measured.split("\n"))
        assert f"*Rule:* {claim.rule}\n" in part
        assert claim.source in part
        assert {*re.findall(r"\]\(([\w-]+)\.md\)", part)} == {*claim.plans} & {*NAMES}  # pages that were written
    assert len({claim.verdict for claim in claims}) >= 3


def test_the_seeds_of_a_verdict_are_told(found, pages):
    plan, rows = found[0]
    fewer = Rows(row for row in rows if row.seed or row.value != plan.values[0])
    assert judged(fewer)[0].seeds == (4, 5)
    first, last = (next(claim for claim in judged(found[k][1]) if claim.plans == (NAMES[k],)) for k in (0, 2))
    assert (first.seeds, last.seeds) == ((5, 5), (10, 10))
    assert "Measured by [beta](beta.md) with 5 seeds;" in pages["claims"]
    assert "Measured by [time-bits](time-bits.md) with 10 seeds;" in pages["claims"]


def test_stand_ins_are_named_as_such(pages):
    assert "stand-ins" in pages["index"]
    text = pages["method"]
    assert "| `photo_tourism_gist512` | Photo Tourism | 5,000 | 60 | 98,000 : 6,000 | 512 | labels | 10.0% |" in text
    assert "| `mnist` | itself |" in text
    assert "- `gist960_30k`: Colour GIST" in text
    assert "- `cifar10_deep512`:" not in text


def test_the_same_results_give_the_same_bytes_and_others_do_not(found, tmp_path):
    plan, rows = found[0]
    pages = written(tmp_path / "once", found[:1])
    assert written(tmp_path / "again", found[:1]) == pages
    values = [dict(look, map=look["map"] + 0.1) for look in rows[0].result.checkpoints]
    changed = Row(rows[0].cell, replace(rows[0].result, checkpoints=values))
    other = written(tmp_path / "other", [(plan, Rows([changed, *rows[1:]]))])
    assert other[plan.name] != pages[plan.name]


@pytest.mark.long
def test_curves_are_shown_where_they_are_drawn(found, pages, tmp_path):
    assert not any("precision-recall.svg" in text for text in pages.values())
    folder = tmp_path / "docs" / "figures" / "experiments"
    folder.mkdir(parents=True)
    (folder / "online-precision-recall.svg").write_text("<svg/>")
    drawn = written(tmp_path, found)
    assert "(../figures/experiments/online-precision-recall.svg)" in drawn["online"]
    assert "precision-recall" not in drawn["beta"]


def test_machines_are_told_where_results_know_them(found, pages, tmp_path):
    assert "Times were measured on" not in pages["method"]
    plan, rows = found[2]
    known = [
        Row(row.cell, replace(row.result, facts=row.result.facts | {"machine": f"a CPU of {2020 + row.seed % 2}"}))
        for row in rows
    ]
    assert plan.alone
    text = written(tmp_path, [(plan, Rows(known))])["method"]
    assert "Times were measured on: a CPU of 2020; a CPU of 2021." in text
    assert "Times were measured on" not in written(tmp_path, [(replace(plan, alone=False), Rows(known))])["method"]


def test_what_was_not_run_is_told_with_its_command(found, pages, tmp_path):
    assert "Everything that the plans and readings ask for was run." in pages["index"]
    plan, sets = read_plan("batch").under(known_readings()["pairs"]), named_sets("gist1m")
    own = [cell for cell in cells(plan, sets) if cell.line in ("KLSH", "OH", "MMOH")]  # not batch methods
    done = {cell.setting.name for cell in own if cell.line == "OH" and cell.seed}
    some, all_done = lacking(plan, sets, done), lacking(plan, sets, {cell.setting.name for cell in own})
    assert (some.n, some.n_asked, all_done.n) == (len(own) - len(done), len(own), 0)
    text = written(tmp_path, found[:1], left=[some, all_done])["index"]
    lines = re.findall(r"^\| five times as many pairs \|.*$", text, flags=re.MULTILINE)
    command = "`onlinehash experiment run batch --reading pairs --data data/`"
    assert lines == [f"| five times as many pairs | {plan.title} | 14 of 18 | KLSH 6, OH 2, MMOH 6 | {command} |"]


def test_the_origin_of_the_numbers_is_told(found, pages, tmp_path):
    assert "none rests on fewer than 5 seeds" in pages["method"]
    plan, rows = found[0]
    some = [
        Row(row.cell, replace(row.result, facts=row.result.facts | ({"version": "0.1.0"} if row.seed else {})))
        for row in rows
        if row.seed in (0, 1)
    ]
    text = written(tmp_path, [(plan, Rows(some))])["method"]
    half = len(some) // 2
    assert f"come from {2 * half} runs, and none rests on fewer than 2 seeds." in text
    assert f"\n{half} record version 0.1.0.\n" in text
    assert f"\n{half} older ones record no version.\n" in text
    assert f"{2 * half} were made on a machine that they do not name." in text


def test_no_kept_number_rests_on_fewer_than_three_seeds():
    text = (Path(__file__).parents[2] / "docs/explanation/reproduce/method.md").read_text("utf-8")
    assert int(re.search(r"none rests on fewer than (\d+) seeds", text)[1]) >= 3


def test_rivals_in_their_better_form_are_named():
    text = (Path(__file__).parents[2] / "docs/explanation/reproduce/reading-better-rivals.md").read_text("utf-8")
    assert re.search(r"^- Stand-ins on photo_tourism.*\*OSH, linear\* for OSH", text, re.M)


def test_cells_of_tables_stay_cells(found, tmp_path):
    plans = [(replace(plan, question="a | b"), rows) for plan, rows in found[:1]]
    text = written(tmp_path, plans)["index"]
    assert text.count("| a \\| b |") == len(plans)
