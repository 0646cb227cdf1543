"""Tables: hand-worked numbers and marks, and the three forms."""

import json
from dataclasses import replace

import numpy as np
import pytest

from onlinehash.experiments.comparisons import FLIPS_PER_COMPARISON, LEVEL, comparisons, holm
from onlinehash.experiments.plan import read_plan
from onlinehash.experiments.rows import Row, Rows
from onlinehash.experiments.table_forms import measured, range_of, thinned
from onlinehash.experiments.tables import table
from tests.experiments.made_up import made_up, named_sets, not_ready_at_first


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


def test_without_oh_the_first_contestant_is_the_rival():
    plan = replace(read_plan("models"), values=(4,), seeds=1)
    made = table(plan, rows_with(plan, {"MMOH": BASE, "MMOH, sum": BASE + 0.1 + NOISE}))
    assert [line[2].mark for line in made.lines] == ["", "+"]
    assert any("differs from MMOH " in note for note in made.notes)


def test_queries_to_which_nothing_is_relevant_are_left_out_of_the_test():
    plan = replace(read_plan("models"), values=(4,), seeds=1)
    with_gaps = np.where(np.arange(40) < 10, np.nan, BASE)
    found = comparisons(plan, rows_with(plan, {"MMOH": with_gaps, "MMOH, sum": BASE + 0.1}))
    assert found["MMOH, sum", 4].difference == pytest.approx(0.1)


def test_seeds_that_ask_other_queries_are_paired_seed_by_seed():
    plan = replace(read_plan("unseen"), contestants=("OH", "LSH"), values=(64,), seeds=2)
    oh, lsh = {0: BASE, 1: BASE[:25]}, {0: BASE - 0.2, 1: BASE[:25] - 0.1}
    found = comparisons(plan, rows_with(plan, {"OH": oh, "LSH": lsh}))
    assert found["LSH", 64].difference == pytest.approx(-(40 * 0.2 + 25 * 0.1) / 65)
    assert found["LSH", 64].mark == "-"


def test_results_that_were_shortened_are_compared_by_the_first_queries():
    plan = replace(read_plan("models"), values=(4,), seeds=2)
    found = comparisons(plan, rows_with(plan, {"MMOH": {0: BASE, 1: BASE[:20]}, "MMOH, sum": BASE + NOISE}))
    assert found["MMOH, sum", 4].difference == pytest.approx(NOISE[:20].mean())


def test_many_comparisons_can_still_reach_the_level():
    n = 60
    plan = replace(read_plan("online"), contestants=("OH", "KLSH"), values=tuple(range(1, n + 1)), seeds=1)
    found = comparisons(plan, rows_with(plan, {"OH": BASE, "KLSH": BASE - 0.1 + NOISE}))
    assert {one.mark for one in found.values()} == {"-"}
    assert len(found) == n
    assert (
        FLIPS_PER_COMPARISON * LEVEL > 1
    )  # the least p-value times the comparisons is below the level, for any number


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_one_contestant_alone_has_its_best_value_marked_and_no_test():
    plan = replace(read_plan("beta"), values=(0.2, 0.4, 0.6), seeds=1)
    rows = made_up(plan, named_sets("cifar10"))
    made = table(plan, rows)
    (line,) = made.lines
    highest = max((0.2, 0.4, 0.6), key=lambda value: rows.of(value=value).mean("map"))
    assert [entry.best for entry in line[2:]] == [value == highest for value in (0.2, 0.4, 0.6)]
    assert not any("differs" in note for note in made.notes)


def test_every_table_tells_what_it_was_measured_on():
    for name in ("models", "incremental", "loss", "time-samples", "theorem"):
        plan = replace(read_plan(name), seeds=2)
        rows = made_up(plan, named_sets("photo-tourism", "cifar10"))
        told = table(plan, rows).notes[-1]
        assert told.startswith(rows[-1].data)
        assert f"{rows[-1].result.final['pairs']:,} pairs, 10 % similar" in told
        assert ("60 queries, a base of 5,000" in told) == (rows[-1].result.per_query is not None)
        assert "2 seeds (0, 1)" in told


def test_looks_along_a_stream_are_columns_and_only_the_last_is_tested():
    plan = replace(read_plan("drift-sudden-rotated"), contestants=("LSH", "OH"), seeds=2)
    rows = rows_with(plan, {"OH": BASE, "LSH": BASE - 0.1 + NOISE})
    for row in rows:
        row.result.checkpoints.insert(5, row.result.checkpoints[4] | {"map": 0.01})
    made = table(plan, rows)
    pairs = ["2,000", "6,000", "10,000", "10,000", "12,000", "16,000", "20,000"]
    assert [heading.split()[0] for heading in made.headings[2:]] == pairs
    assert made.headings[5] == "10,000 pairs, just changed"
    cells = entries(made, "LSH")
    assert cells[3].text.startswith("0.010")
    assert [cell.mark for cell in cells] == [""] * 6 + ["-"]


def test_values_stand_under_their_own_look_where_a_method_was_not_ready_at_first():
    plan = replace(read_plan("drift-sudden-rotated"), contestants=("LSH", "OH"), seeds=2)
    plan = replace(plan, conditions={**plan.conditions, "checkpoints": 5})
    rows = not_ready_at_first(plan, {("OH", 0): 1, ("OH", 1): 2})
    made = table(plan, rows)
    assert len(made.headings[2:]) == len(rows[0].result.checkpoints) == 5
    first, second = (row.result.checkpoints for row in rows.of(line="OH"))
    told = entries(made, "OH")
    assert told[0].text == "–"
    assert told[1].text == f"{first[1]['map']:.3f}"  # of the one seed that was ready
    for k in (2, 3, 4):
        assert dict(told[k].numbers)["mean"] == pytest.approx((first[k]["map"] + second[k]["map"]) / 2)
        assert dict(told[k].numbers)["spread"] == pytest.approx(abs(first[k]["map"] - second[k]["map"]) / 2**0.5)
    assert all(cell.text != "–" for cell in entries(made, "LSH"))
    assert sum(note.startswith("–: not ready") for note in made.notes) == 1
    assert not any(note.startswith("–") for note in table(plan, not_ready_at_first(plan, {})).notes)


def test_sets_of_other_sizes_have_their_pairs_in_the_headings():
    plan = replace(read_plan("stream"), contestants=("LSH", "OH"), seeds=1)
    rows = made_up(plan, named_sets("cifar10", "labelled"))
    for row in rows.of(role="labelled"):
        for look in row.result.checkpoints:
            look["pairs"] //= 2
    assert table(plan, rows).headings[-1] == "5,000 to 10,000 pairs"


def test_the_rule_of_the_marks_tells_how_many_queries_were_compared():
    plan = replace(read_plan("models"), values=(4,), seeds=1)
    with_gaps = np.where(np.arange(40) < 10, np.nan, BASE)
    rows = rows_with(plan, {"MMOH": with_gaps, "MMOH, sum": BASE + NOISE})
    for row in rows:
        row.result.facts["n_queries"] = 40
    made = table(plan, rows)
    assert any("sign-flip test over 30 queries, corrected" in note for note in made.notes)
    assert "30 to 40 queries" in made.notes[-1]  # a mean is over those to which something is relevant
    for row in rows:
        row.result.facts["n_queries"] = 1000
    made = table(plan, rows)
    assert any("test over 30 queries (the first ones; means are over all), corrected" in note for note in made.notes)
    assert "1,000 queries" in made.notes[-1]


def test_who_has_fewer_seeds_or_values_is_named():
    plan = replace(read_plan("online"), contestants=("LSH", "OH", "MMOH"), values=(16, 32, 64), seeds=3)
    done = {"LSH": lambda row: row.value == 32, "OH": lambda row: True, "MMOH": lambda row: row.seed < 2}
    rows = Rows(row for row in made_up(plan, named_sets("gist1m", "cifar10")) if done[row.line](row))
    told = table(plan, Rows(row for row in rows if (row.role, row.seed) != ("gist1m", 2))).notes[-2:]
    assert told[0].endswith("; 2 seeds (0, 1); LSH: nothing measured at 16, 64 bits.")
    assert told[1].endswith("; 3 seeds (0, 1, 2), but MMOH 2; LSH: nothing measured at 16, 64 bits.")
    told = table(plan, rows.of(line="OH")).notes[-1]
    assert told.endswith("; 3 seeds (0, 1, 2); nothing measured of LSH, MMOH.")
    plan = replace(read_plan("models"), values=(1, 4), seeds=1)
    rows = Rows(row for row in made_up(plan, named_sets("cifar10")) if (row.line, row.value) != ("MMOH", 1))
    assert table(plan, rows).notes[-1].endswith("; 1 seed (0); MMOH: nothing measured at n_models = 1.")


def test_parameters_that_were_chosen_are_named():
    plan = replace(read_plan("online"), contestants=("OH", "OSH"), values=(16, 32), seeds=2)
    rows = made_up(plan, named_sets("cifar10"))
    for row in rows.of(line="OH"):
        row.result.facts["chosen"] = {"C": 0.001 if (row.value, row.seed) == (16, 0) else 0.01}
    told = "; 2 seeds (0, 1); C chosen for OH: 0.001 in 1 run, 0.01 in 3 runs."
    assert table(plan, rows).notes[-1].endswith(told)


def test_who_learns_from_a_sample_is_named():
    plan = replace(read_plan("batch"), contestants=("OH", "KSH", "FastHash"), values=(32,), seeds=1)
    told = "KSH learns from 2,000 rows, FastHash from 2,000, or from all if there are fewer."
    assert told in table(plan, made_up(plan, named_sets("cifar10"))).notes
    plan = replace(plan, contestants=("OH", "FastSupervisedHashing"))
    told = "FastSupervisedHashing learns from 20,000 rows, or from all if there are fewer."
    assert told in table(plan, made_up(plan, named_sets("cifar10"))).notes
    plan = replace(plan, contestants=("OH", "ITQ"))
    assert not any("learns from" in note for note in table(plan, made_up(plan, named_sets("cifar10"))).notes)


def test_beside_every_time_is_what_it_took():
    plan = replace(read_plan("time-bits"), contestants=("OH", "MLH"), values=(16, 64), seeds=1)

    def told(row):
        seconds = {"OH": 0.4, "MLH": 1.0}[row.line]
        facts = row.result.facts | {"flops_per_pair": {"OH": 5000, "MLH": 2500}[row.line]}
        return replace(row.result, checkpoints=[row.result.final | {"seconds": seconds}], facts=facts)

    made = table(plan, Rows(Row(row.cell, told(row)) for row in made_up(plan, named_sets("photo-tourism"))))
    # 0.4 s for 40,000 pairs are 10 µs each; 5,000 operations in 10 µs are half an operation per ns
    lines = {(line[1].text, line[2].text): [entry.text for entry in line[3:]] for line in made.lines}
    assert lines["OH", "16"] == ["0.4", "10", "5,000", "1.00", "1.00", "0.50"]
    assert lines["MLH", "64"] == ["1", "25", "2,500", "2.50", "0.50", "0.10"]
    units = (
        "time (s)",
        "µs per pair",
        "operations per pair",
        "× time of OH",
        "× operations of OH",
        "operations per ns",
    )
    assert made.headings[3:] == units


def test_a_method_whose_operations_are_not_counted_has_a_dash():
    plan = replace(read_plan("time-samples"), contestants=("OH", "MLH"), seeds=1)
    rows = made_up(plan, named_sets("photo-tourism"))
    for row in rows.of(line="MLH"):
        row.result.facts["flops_per_pair"] = None
    made = table(plan, rows)
    assert [line[2].text for line in made.lines[:4]] == ["10,000", "20,000", "30,000", "40,000"]
    assert {line[5].text for line in made.lines[4:]} == {"–"}


def test_the_theorem_has_its_numbers():
    plan = replace(read_plan("theorem"), seeds=1)
    rows = made_up(plan, named_sets("gist1m"))
    made = table(plan, rows)
    final = rows[0].result.final
    told = [dict(entry.numbers)["mean"] for entry in made.lines[0][2:]]
    assert told == [final[name] for name in ("smallest_C", "F2", "largest_R", "capped_share", "loss")]


def test_losses_of_values_are_lines_and_the_least_is_best():
    plan = replace(read_plan("loss"), seeds=2)
    made = table(plan, made_up(plan, named_sets("photo-tourism")))
    assert [line[1].text for line in made.lines][::6] == ["C = 0.00001", "C = 10"]
    assert [line[-1].best for line in made.lines] == [False] * 6 + [True]


def test_where_all_are_equal_nobody_is_best():
    plan = replace(read_plan("models"), values=(4,), seeds=1)
    made = table(plan, rows_with(plan, {"MMOH": BASE, "MMOH, sum": BASE}))
    assert [(line[2].best, line[2].mark) for line in made.lines] == [(False, ""), (False, "")]


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


@pytest.mark.parametrize(
    ("mean", "spread", "text"),
    [
        (0.01712, 0.00034, "0.01712 ± 0.00034"),
        (31591.3, 948.7, "31,591 ± 949"),
        (12.0, 0.0, "12"),
        (4321.0, 0, "4,321.000"),
    ],
)
def test_a_spread_has_two_digits(mean, spread, text):
    assert measured(mean, spread).text == text


def test_small_helpers():
    assert thinned(10, 6) == [1, 3, 5, 7, 9]
    assert thinned(3, 6) == [0, 1, 2]
    assert thinned(0, 6) == []
    assert range_of([2, 80], "{:.0f}") == "2 to 80"
    assert range_of([], "{}") == "–"


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
