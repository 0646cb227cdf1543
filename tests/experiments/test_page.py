"""The page: one sound HTML file that needs nothing else and tells all there is."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from onlinehash.experiments.figures import draw_all
from onlinehash.experiments.page import write_page
from onlinehash.experiments.plan import read_plan
from tests.experiments.made_up import made_up, named_sets

VERDICTS = ("confirmed", "confirmed in part", "not confirmed", "not tested", "confirmed")


@pytest.fixture(scope="module")
def plans_and_rows():
    kernel = replace(read_plan("kernel"), values=(16, 64), seeds=2, contestants=("OH", "MMOH"))
    loss = replace(read_plan("loss"), seeds=2)
    sets = named_sets("photo-tourism", "cifar10")
    return [(plan, made_up(plan, sets)) for plan in (kernel, loss)]


def written(folder, plans_and_rows, claims=()):
    """The page, after its figures, as text."""
    for plan, rows in plans_and_rows:
        draw_all(plan, rows, folder, ("svg",))
    write_page(folder / "index.html", plans_and_rows, claims)
    return (folder / "index.html").read_text("utf-8")


@pytest.fixture(scope="module")
def html(plans_and_rows, tmp_path_factory):
    claims = [
        SimpleNamespace(text=f"claim {k} < 1", source="section V", measured=f"`run {k}` & more", verdict=verdict)
        for k, verdict in enumerate(VERDICTS)
    ]
    return written(tmp_path_factory.mktemp("page"), plans_and_rows, claims)


def test_claims_have_their_verdicts_in_words(html):
    assert "5 claims, in our words: 2 confirmed, 1 confirmed in part, 1 not confirmed, 1 not tested." in html
    assert "claim 3 &lt; 1" in html
    assert "<code>run 2</code> &amp; more" in html
    assert html.count("✓ confirmed</td>") == 2


def test_every_figure_has_its_question_table_and_command(html, plans_and_rows):
    for plan, rows in plans_and_rows:
        section = html[html.index(f'<section id="{plan.name}">') :].split("</section>")[0]
        assert plan.question in section
        assert plan.source in section
        assert f"onlinehash experiment run {plan.name} --data" in section
        assert f"onlinehash experiment figure {plan.name}</code>" in section
        assert f"{rows[0].role}={rows[0].cell.set.path}" in section
        assert "standard deviation over the seeds" in section
    assert "photo_tourism_gist512 (for Photo Tourism), cifar10_deep512 (for CIFAR-10)" in html
    assert "stand-in" in html


def test_the_same_results_give_the_same_page(plans_and_rows, tmp_path):
    first, again = (written(tmp_path / name, plans_and_rows[1:]) for name in ("a", "b"))
    assert first == again
