"""Tables: hand-worked numbers and marks, and the three forms."""

import json
from dataclasses import replace

import numpy as np
import pytest

from onlinehash.experiments.comparisons import comparisons, holm
from onlinehash.experiments.plan import read_plan
from onlinehash.experiments.rows import Row, Rows
from onlinehash.experiments.tables import table
from tests.experiments.made_up import made_up, named_sets


def rows_with(plan, values, sets=("cifar10",)):
    """Rows whose queries have these values: by contestant, or by contestant and seed."""

    def told(row):
        given = values[row.line]
        given = np.array(given[row.seed] if isinstance(given, dict) else given, float)
        looks = [*row.result.checkpoints[:-1], row.result.final | {"map": float(np.nanmean(given))}]
        return replace(row.result, per_query=given, checkpoints=looks)

    return Rows(Row(row.cell, told(row)) for row in made_up(plan, named_sets(*sets)))


def entries(made, contestant):
    """The cells of a contestant's first line, less its names."""
    return next(line[2:] for line in made.lines if line[1].text == contestant)


BASE = np.linspace(0.2, 0.6, 40)
NOISE = 0.02 * np.cos(np.arange(40))


def test_marks_tell_better_and_worse_from_chance():
    plan = replace(read_plan("online"), contestants=("KLSH", "MLH", "OH", "MMOH"), values=(32, 64), seeds=2)
    given = {"OH": BASE, "KLSH": BASE - 0.1 + NOISE, "MLH": BASE + NOISE - NOISE.mean(), "MMOH": BASE + 0.1 + NOISE}
    made = table(plan, rows_with(plan, given))
    marks = {line[1].text: [entry.mark for entry in line[2:]] for line in made.lines}
    assert marks == {"KLSH": ["-", "-"], "MLH": ["", ""], "OH": ["", ""], "MMOH": ["+", "+"]}
    best = {line[1].text: [entry.best for entry in line[2:]] for line in made.lines}
    assert best == {"KLSH": [False] * 2, "MLH": [False] * 2, "OH": [False] * 2, "MMOH": [True] * 2}
    numbers = dict(entries(made, "KLSH")[0].numbers)
    assert numbers["difference"] == pytest.approx(NOISE.mean() - 0.1)
    assert 0 < numbers["p_value"] < 0.01
    rule = next(note for note in made.notes if "differs from OH" in note)
    assert "p < 0.01" in rule
    assert "Holm" in rule
    assert "6 comparisons" in rule


def test_seeds_that_ask_other_queries_are_paired_seed_by_seed():
    plan = replace(read_plan("unseen"), contestants=("OH", "LSH"), values=(64,), seeds=2)
    oh, lsh = {0: BASE, 1: BASE[:25]}, {0: BASE - 0.2, 1: BASE[:25] - 0.1}
    found = comparisons(plan, rows_with(plan, {"OH": oh, "LSH": lsh}))
    assert found["LSH", 64].difference == pytest.approx(-(40 * 0.2 + 25 * 0.1) / 65)
    assert found["LSH", 64].mark == "-"


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_three_forms_tell_the_same():
    plan = replace(read_plan("models"), values=(1, 4), seeds=2)
    made = table(plan, made_up(plan, named_sets("labelme", "cifar10")))
    text, markdown, document = made.as_text(), made.as_markdown(), json.loads(json.dumps(made.as_document()))
    assert document["plan"] == "models"
    assert document["headings"] == list(made.headings)
    for line, told in zip(made.lines, document["lines"], strict=True):
        for entry, cell in zip(line, told, strict=True):
            assert entry.text in text
            assert entry.text in markdown
            assert cell["text"] == entry.text
            assert cell.get("best", False) == entry.best
    best = next(entry for line in made.lines for entry in line if entry.best)
    assert f"{best.text}*" in text
    assert f"**{best.text}**" in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {len(made.headings) + 1}
    assert len(rows) == len(made.lines) + 2
    starts = {line.index("±") for line in text.splitlines() if "MMOH" in line and "±" in line}
    assert len(starts) == 1


def test_references_come_last_and_are_neither_best_nor_tested():
    plan = replace(read_plan("models"), values=(1, 4), seeds=2)
    rows = made_up(plan, named_sets("cifar10"), references=True)
    for row in rows.of(is_reference=True):
        row.result.final["map"] = 0.99
    made = table(plan, rows)
    assert [line[1].text for line in made.lines] == ["MMOH", "MMOH, sum", "Float", "ITQ"]
    assert [entry.text for entry in made.lines[2][2:]] == ["0.990", "0.990"]
    assert not any(entry.best or entry.mark for line in made.lines[2:] for entry in line)
    assert any(entry.best for line in made.lines[:2] for entry in line)
    alone = table(plan, made_up(plan, named_sets("cifar10")))
    assert made.lines[:2] == alone.lines
    assert any("as many bits as all models have" in note for note in made.notes)
