"""The report: everything is in it, it follows the results, and the same results give the same bytes."""

import re
from dataclasses import replace

import pytest

from onlinehash.experiments.claims import judged
from onlinehash.experiments.plan import read_plan
from onlinehash.experiments.reproduction import write_reproduction
from onlinehash.experiments.rows import Row, Rows
from tests.experiments.made_up import made_up, named_sets

NAMES = ("beta", "online", "time-bits")


@pytest.fixture(scope="module")
def found():
    sets = named_sets("photo-tourism", "gist1m", "labelled")
    return [(plan, made_up(plan, sets)) for plan in map(read_plan, NAMES)]


def written(folder, found, others=()):
    rows = Rows(row for _, rows in found for row in rows)
    page = folder / "docs" / "reproduce.md"
    write_reproduction(page, found, judged(rows), others, folder / "docs" / "figures" / "experiments")
    return page.read_text("utf-8")


@pytest.fixture(scope="module")
def text(found, tmp_path_factory):
    return written(tmp_path_factory.mktemp("report"), found)


def test_everything_is_in_it(found, text):
    for plan, rows in found:
        assert f"## {plan.title}\n" in text
        assert plan.question in text
        assert f"(figures/experiments/{plan.name}.svg)" in text
        assert f"onlinehash experiment run {plan.name} --data data/" in text
        for line in rows.distinct("line"):
            assert f"| {line} |" in text
    claims = judged(Rows(row for _, rows in found for row in rows))
    rows = re.findall(r"^\| (\d+) \| (.*) \| \*\*([a-z ]+)\*\* \|  \|$", text, re.MULTILINE)
    assert [(int(number), verdict) for number, _, verdict in rows] == [
        (k, claim.verdict) for k, claim in enumerate(claims, 1)
    ]
    for (_, middle, _), claim in zip(rows, claims, strict=True):
        assert middle.replace("<br>", "\n") == f"{claim.text} | {claim.measured}"
        assert claim.rule in text
        assert claim.source in text
    assert len({claim.verdict for claim in claims}) >= 3


def test_stand_ins_are_named_as_such(text):
    assert "stand-ins" in text
    assert "| `photo_tourism_gist512` | Photo Tourism | 5,000 | 60 | 98,000 : 6,000 | 512 | labels | 10.0% |" in text
    assert "| `mnist` | itself |" in text
    assert "- `gist960_30k`: Colour GIST" in text
    assert "- `cifar10_deep512`:" not in text


def test_the_same_results_give_the_same_bytes_and_others_do_not(found, tmp_path):
    plan, rows = found[0]
    text = written(tmp_path / "once", found[:1])
    assert written(tmp_path / "again", found[:1]) == text
    values = [dict(look, map=look["map"] + 0.1) for look in rows[0].result.checkpoints]
    changed = Row(rows[0].cell, replace(rows[0].result, checkpoints=values))
    assert written(tmp_path / "other", [(plan, Rows([changed, *rows[1:]]))]) != text


@pytest.mark.long
def test_curves_are_shown_where_they_are_drawn(found, text, tmp_path):
    assert "precision-recall.svg" not in text
    folder = tmp_path / "docs" / "figures" / "experiments"
    folder.mkdir(parents=True)
    (folder / "online-precision-recall.svg").write_text("<svg/>")
    drawn = written(tmp_path, found)
    assert "(figures/experiments/online-precision-recall.svg)" in drawn
    assert "beta-precision-recall" not in drawn


def test_machines_are_told_where_results_know_them(found, text, tmp_path):
    assert "Times were measured on" not in text
    plan, rows = found[2]
    known = [
        Row(row.cell, replace(row.result, facts=row.result.facts | {"machine": f"a CPU of {2020 + row.seed % 2}"}))
        for row in rows
    ]
    assert "Times were measured on: a CPU of 2020; a CPU of 2021." in written(tmp_path, [(plan, Rows(known))])


def test_cells_of_tables_stay_cells(found, tmp_path):
    claims = [replace(claim, text="a | b") for claim in judged(found[0][1])]
    write_reproduction(tmp_path / "page.md", found[:1], claims, [], tmp_path)
    text = (tmp_path / "page.md").read_text("utf-8")
    assert text.count("| a \\| b |") == len(claims)
