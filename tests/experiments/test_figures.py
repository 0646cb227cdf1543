"""Figures: what they say, that they are a pure function of the rows, and that lines can be told apart."""

import re
import sys
from dataclasses import replace

import pytest

from onlinehash.errors import InvalidInput, MissingExtra
from onlinehash.experiments import figures
from onlinehash.experiments.plan import read_plan
from onlinehash.experiments.rows import Rows
from onlinehash.experiments.series import series
from tests.experiments.made_up import made_up, named_sets


def small(name, **changes):
    """A plan with few runs."""
    return replace(read_plan(name), seeds=2, **changes)


def words(path):
    """All texts of an SVG, in their order."""
    return [re.sub(r"\s+", " ", text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text("utf-8"))]


@pytest.mark.parametrize("name", ["models", "loss"])
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


def test_the_same_rows_give_the_same_bytes(tmp_path):
    plan = small("models")
    rows = made_up(plan, named_sets("cifar10"))
    first = [path.read_bytes() for path in figures.draw_all(plan, rows, tmp_path / "a")]
    again = [path.read_bytes() for path in figures.draw_all(plan, made_up(plan, named_sets("cifar10")), tmp_path / "b")]
    assert first == again


def test_lines_are_means_over_seeds_with_their_standard_deviation():
    plan = small("models", values=(1, 4))
    rows = made_up(plan, named_sets("cifar10"))
    for line in series(plan, rows):
        for k, value in enumerate((1, 4)):
            measured = [row.result.final["map"] for row in rows if (row.line, row.value) == (line.label, value)]
            assert len(measured) == 2
            assert line.mean[k] == pytest.approx(sum(measured) / 2)
            assert line.spread[k] == pytest.approx(abs(measured[0] - measured[1]) / 2**0.5)


def test_without_results_or_matplotlib_one_sentence_says_what_to_do(tmp_path, monkeypatch):
    plan = small("beta", values=(0.4,))
    with pytest.raises(InvalidInput, match="onlinehash experiment run beta"):
        figures.draw(plan, Rows([]), tmp_path)
    rows = made_up(plan, named_sets("cifar10"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"\[plot\]"):
        figures.draw(plan, rows, tmp_path)
    assert list(tmp_path.iterdir()) == []
