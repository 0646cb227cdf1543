"""Figures: what they say, that they are a pure function of the rows, and that lines can be told apart."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from onlinehash.errors import InvalidInput, MissingExtra
from onlinehash.experiments import figures, toml
from onlinehash.experiments.plan import plans, read_plan
from onlinehash.experiments.rows import Rows
from onlinehash.experiments.series import curves, series, shown
from onlinehash.experiments.styles import FAMILIES, OTHERS, styles_in_order, styles_of
from tests.experiments.made_up import made_up, named_sets, not_ready_at_first
from tests.support import mostly_long

#: One of each kind: along values, categories, looks, values as lines, a theorem.
KINDS = ("models", "centring", "incremental", "loss", "theorem")


def small(name, **changes):
    """A plan with few runs."""
    return replace(read_plan(name), seeds=2, **changes)


def words(path):
    """All texts of an SVG, in their order."""
    return [re.sub(r"\s+", " ", text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text("utf-8"))]


@pytest.mark.parametrize("name", KINDS)
def test_a_figure_names_its_sets_lines_and_units(tmp_path, name):
    plan = small(name)
    sets = named_sets("photo-tourism", "cifar10")
    rows = made_up(plan, sets)
    png, svg = figures.draw(plan, rows, tmp_path / "deep" / "er")
    assert [png.name, svg.name] == [f"{name}.png", f"{name}.svg"]
    assert png.read_bytes().startswith(b"\x89PNG")
    told = " ".join(words(svg))
    assert plan.title in told
    assert plan.drawing.y_label in told
    assert all(word in told for word in plan.drawing.x_label.split())
    assert "mean and standard deviation over 2 seeds" in told
    for data in rows.distinct("data"):
        assert all(word in told for word in data.split())
    labels = ["C = 0.00001", "C = 10"] if name == "loss" else rows.distinct("line")
    assert all(told.count(label) for label in labels)


def test_units_are_part_of_every_label_that_has_one():
    for plan in plans(["all"]):
        label = f"{plan.drawing.x_label} {plan.drawing.y_label}"
        assert re.search(r"bits|pairs|\(s|mAP|√R|share", label), plan.name


def test_the_same_rows_give_the_same_bytes(tmp_path):
    plan = small("models")
    rows = made_up(plan, named_sets("cifar10"))
    first = [path.read_bytes() for path in figures.draw_all(plan, rows, tmp_path / "a")]
    again = [path.read_bytes() for path in figures.draw_all(plan, made_up(plan, named_sets("cifar10")), tmp_path / "b")]
    assert first == again


def test_panels_are_laid_out_for_one_to_six_sets():
    plan = small("beta", values=(0.4, 0.5))
    rows = made_up(plan)
    titles = rows.distinct("data")
    for n in range(1, 7):
        some = Rows(row for row in rows if row.data in titles[:n])
        axes = figures.figure(plan, some).axes
        assert sum(axis.axison for axis in axes) == n


@pytest.mark.parametrize("name", mostly_long(["time-samples", "storage", "stream", "online"], {"online"}))
def test_the_legend_fits_below_and_covers_nothing(name):
    plan = replace(read_plan(name), seeds=1)
    plan = replace(plan, values=plan.values[-1:])
    for n in (1, 2):
        sets = named_sets("photo-tourism", "labelme")[:n] if name != "stream" else named_sets("cifar10", "labelled")[:n]
        picture = figures.figure(plan, made_up(plan, sets))
        picture.draw_without_rendering()
        legend = picture.legends[0].get_window_extent()
        assert legend.x0 >= 0
        assert legend.x1 <= picture.bbox.x1
        assert all(axes.get_tightbbox().y0 > legend.y1 for axes in picture.axes if axes.axison)


def test_lines_are_means_over_seeds_with_their_standard_deviation():
    plan = small("models", values=(1, 4))
    rows = made_up(plan, named_sets("cifar10"))
    for line in series(plan, rows):
        for k, value in enumerate((1, 4)):
            measured = [row.result.final["map"] for row in rows if (row.line, row.value) == (line.label, value)]
            assert len(measured) == 2
            assert line.mean[k] == pytest.approx(sum(measured) / 2)
            assert line.spread[k] == pytest.approx(abs(measured[0] - measured[1]) / 2**0.5)


def test_values_that_are_not_done_yet_are_left_out(tmp_path):
    plan = small("models", values=(1, 2, 4))
    rows = Rows(row for row in made_up(plan, named_sets("cifar10")) if (row.line, row.value) != ("MMOH", 2))
    assert [line.x for line in series(plan, rows)] == [(1, 4), (1, 2, 4)]
    assert len(figures.draw(plan, rows, tmp_path)) == 2


def test_two_looks_after_the_same_pairs_stay_two_points():
    plan = small("drift-sudden-rotated", contestants=("OH",))
    rows = made_up(plan, named_sets("cifar10"))
    for row in rows:
        row.result.checkpoints.insert(5, row.result.checkpoints[4] | {"map": 0.01})
    (line,) = series(plan, rows)
    assert line.x[4] == line.x[5]
    assert line.mean[5] == pytest.approx(0.01)
    assert len(line.x) == len(line.mean) == 11


def test_lines_have_gaps_where_a_method_was_not_ready(tmp_path):
    plan = small("incremental", contestants=("OH", "MMOH", "LSH"))
    rows = not_ready_at_first(plan, {("OH", 0): 1, ("OH", 1): 2, ("MMOH", 0): 99, ("MMOH", 1): 99})
    looks = [look["pairs"] for look in rows[0].result.checkpoints]
    assert [line.label for line in series(plan, rows)] == ["OH", "LSH"]  # who was never ready has no line
    (axes,) = figures.figure(plan, rows).axes
    drawn = {line.get_label(): line for line in axes.lines}
    assert list(drawn["OH"].get_xdata()) == looks
    assert list(np.isnan(drawn["OH"].get_ydata())) == [True] + [False] * (len(looks) - 1)
    assert not np.isnan(drawn["LSH"].get_ydata()).any()
    assert len(figures.draw(plan, rows, tmp_path)) == 2


def test_curves_are_drawn_at_64_bits_where_contestants_are_compared(tmp_path):
    plan = small("kernel", values=(16, 64), contestants=("OH", "OH, linear"))
    rows = made_up(plan, named_sets("cifar10"))
    paths = figures.draw_curves(plan, rows, tmp_path, ("svg",))
    assert [path.name for path in paths] == ["kernel-precision-recall.svg"]
    told = " ".join(words(paths[0]))
    assert "64 bits" in told
    assert "recall" in told
    first = curves(rows, 64)[0]
    kept = [row.result.facts["curve"] for row in rows.of(line="OH", value=64)]
    assert first.mean == pytest.approx(np.mean(kept, axis=0))
    assert (
        figures.draw_curves(small("beta"), made_up(small("beta", values=(0.4,)), named_sets("cifar10")), tmp_path) == []
    )


def test_the_default_is_marked_where_a_plan_varies_it(tmp_path):
    for name, values, marks in (("beta", (0.4, 0.5), 2), ("anchors", (50, 300), 2), ("kernel", (16, 64), 0)):
        plan = small(name, values=values)
        rows = made_up(plan, named_sets("labelme", "cifar10"))
        assert words(figures.draw(plan, rows, tmp_path, ("svg",))[0]).count("default") == marks


def test_lines_differ_without_colours():
    everybody = [*FAMILIES.values(), *OTHERS]
    assert len({(style.marker, style.dashes) for style in everybody}) == len(everybody)
    for plan in plans(["all"]):
        found = styles_of(plan.contestants).values()
        assert len({(style.marker, style.dashes, style.hollow) for style in found}) == len(plan.contestants)
        assert len({(style.colour, style.hollow, style.dashes) for style in found}) == len(plan.contestants)
    greys = [sum(int(s.colour[i : i + 2], 16) for i in (1, 3, 5)) for s in styles_in_order(list("abcdefg")).values()]
    assert greys == sorted(set(greys), reverse=True)


def test_every_known_contestant_has_a_look_of_its_own_and_strangers_get_one():
    assert {label.partition(",")[0] for label in toml.read("_contestants")} <= set(FAMILIES)
    found = styles_of(["OH", "mine", "yours", "OH, linear"])
    assert found["OH"].width > max(found["mine"].width, found["yours"].width)
    assert found["mine"] != found["yours"]
    assert found["OH, linear"].colour == found["OH"].colour


def test_a_contestant_looks_the_same_in_whatever_order_and_company():
    known = [label for label in toml.read("_contestants") if label.partition(",")[0] in FAMILIES]
    together = styles_of(known)
    assert all(styles_of([label]) == {label: together[label]} for label in known)
    assert styles_of(known[::-1]) == together
    assert not together["OH"].hollow
    assert together["OH, linear"].hollow
    for family in FAMILIES:
        ours = [style for label, style in together.items() if label.partition(",")[0] == family]
        assert len(set(ours)) == len(ours)


@pytest.mark.parametrize(
    ("value", "text"), [(16, "16"), (20_000, "20,000"), (0.1, "0.1"), (1e-5, "0.00001"), (10.0, "10"), ("none", "none")]
)
def test_values_are_written_as_people_do(value, text):
    assert shown(value) == text


def test_without_results_or_matplotlib_one_sentence_says_what_to_do(tmp_path, monkeypatch):
    plan = small("beta", values=(0.4,))
    with pytest.raises(InvalidInput, match="onlinehash experiment run beta"):
        figures.draw(plan, Rows([]), tmp_path)
    rows = made_up(plan, named_sets("cifar10"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"onlinehash\[plot\]"):
        figures.draw(plan, rows, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_zero_is_left_out_of_a_logarithmic_axis():
    plan = small("loss", values=(0.1, 1.0))
    plan = replace(plan, drawing=replace(plan.drawing, log_y=True))
    rows = made_up(plan, named_sets("photo-tourism"))
    for row in rows:
        row.result.checkpoints[0]["loss"] = 0.0
    (axes,) = figures.figure(plan, rows).axes
    (line,) = [line for line in axes.lines if line.get_label() == "C = 0.1"]
    drawn = line.get_ydata()
    assert np.isnan(drawn[0])
    assert min(drawn[1:]) > 0
    assert axes.get_ylim()[0] > 0


@pytest.mark.parametrize(("level", "is_drawn"), [(0.5, True), (0.99, False)])
def test_references_are_drawn_unless_they_would_squeeze_the_others(tmp_path, level, is_drawn):
    plan = small("beta", values=(0.4, 0.5))
    rows = made_up(plan, named_sets("cifar10"), references=True)
    for row in rows:
        row.result.final["map"] = level if row.line == "Float" else 0.5 + 0.02 * (row.value == 0.5)
    picture = figures.figure(plan, rows)
    (axes,) = picture.axes
    assert ("Float" in {line.get_label() for line in axes.lines}) == is_drawn
    assert ("↑ Float 0.99" in {text.get_text() for text in axes.texts}) != is_drawn
    low, high = axes.get_ylim()
    assert high - low <= figures.MOST_GROWTH * figures.LEAST_SPAN + 1e-9
    legend = picture.legends[0]
    assert "without feedback: Float and ITQ" in legend.get_title().get_text()
