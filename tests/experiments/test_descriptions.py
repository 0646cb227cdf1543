"""What a figure shows, in words, is what its lines say."""

from onlinehash.experiments.descriptions import described, described_curves
from onlinehash.experiments.plan import read_plan
from onlinehash.experiments.series import series
from tests.experiments.made_up import made_up, named_sets

SETS = ("photo-tourism", "gist1m", "labelled")


def made(name):
    plan = read_plan(name)
    return plan, made_up(plan, named_sets(*SETS))


def test_of_many_lines_it_says_who_ends_where():
    plan, rows = made("online")
    words = described(plan, rows)
    assert words.startswith(f"{plan.title}: {plan.drawing.y_label} against {plan.drawing.x_label}. ")
    for data in rows.distinct("data"):
        lines = series(plan, rows.of(data=data))
        ends = sorted(lines, key=lambda line: line.mean[-1])
        part = words.partition(f"On {data}, at 128, ")[2]
        assert part.startswith(f"{ends[-1].label} is highest with {ends[-1].mean[-1]:.3g} (from ")
        assert f"{ends[0].label} is lowest with {ends[0].mean[-1]:.3g} (from " in part


def test_of_one_line_it_says_how_it_goes():
    plan, rows = made("beta")
    (line,) = series(plan, rows.of(data=rows[0].data))
    top = line.mean.argmax()
    assert (
        f"On {rows[0].data}, OH goes from {line.mean[0]:.3g} at 0.1 to {line.mean[-1]:.3g} at 0.9; "
        f"it is highest, {line.mean[top]:.3g}, at {line.x[top]}."
    ) in described(plan, rows)


def test_names_on_the_axis_are_part_of_who_it_is():
    plan, rows = made("centring")
    assert "OH with " in described(plan, rows)


def test_curves_are_compared_in_their_middle():
    plan, rows = made("online")
    words = described_curves(plan, rows)
    assert "precision against recall at 64 bits" in words
    assert words.count("at a recall of 0.5, ") == len(rows.distinct("data"))


def test_nothing_in_it_ends_the_text_of_a_picture():
    for name in ("online", "theorem", "time-bits"):
        assert not {"[", "]"} & {*described(*made(name))}
