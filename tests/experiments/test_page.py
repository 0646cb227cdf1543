"""The page: one sound HTML file that needs nothing else and tells all there is."""

import re
from base64 import b64encode
from dataclasses import replace
from types import SimpleNamespace

import pytest

from onlinehash.experiments.figures import draw_all
from onlinehash.experiments.page import write_page
from onlinehash.experiments.plan import read_plan
from tests.demo.test_demo import Page
from tests.experiments.made_up import made_up, named_sets

BANNER = "Quick results on small data"
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


def test_the_page_is_sound_and_needs_nothing_else(html):
    found = Page(html)
    assert found.open == []
    assert not {"script", "link", "iframe", "object"} & set(found.tags)
    assert all(re.match(r"data:image/svg\+xml;base64,|#", address) for address in found.addresses)
    assert not re.search(r"https?:|url\(|@import|\$[a-z]", html)
    for scheme in ("prefers-color-scheme: dark", "@media print", "max-width: 40rem", 'name="viewport"', 'lang="en"'):
        assert scheme in html


def test_every_picture_has_a_text_and_every_link_a_place(html):
    found = Page(html)
    assert len(found.alone) == 3  # two figures, and the precision-recall curves of one
    assert all(len(text) > 40 for text in found.alone)
    for address in found.addresses:
        if address.startswith("#"):
            assert f'id="{address[1:]}"' in html
    assert found.tags.count("h1") == 1
    assert all(f"<h2>{heading}</h2>" in html for heading in ("Influence of the kernel", "Figures"))


def test_claims_have_their_verdicts_in_words(html):
    assert "5 claims, in our words: 2 confirmed, 1 confirmed in part, 1 not confirmed, 1 not tested." in html
    assert "claim 3 &lt; 1" in html
    assert "<code>run 2</code> &amp; more" in html
    assert html.count("✓ confirmed</td>") == 2


def test_without_claims_there_is_no_table_of_them(plans_and_rows, tmp_path):
    assert "claims," not in written(tmp_path, plans_and_rows[1:])


def test_figures_are_the_files_that_were_written(plans_and_rows, tmp_path):
    told = written(tmp_path, plans_and_rows)
    svgs = [b64encode(path.read_bytes()).decode() for path in tmp_path.glob("*.svg")]
    assert len(svgs) == 3
    assert all(told.count(svg) == 1 for svg in svgs)


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


def test_sets_whose_file_is_unknown_are_named_as_such(tmp_path):
    plan = replace(read_plan("beta"), values=(0.4, 0.5), seeds=1)
    sets = [
        replace(named, path=path) for named, path in zip(named_sets("gist1m", "cifar10"), ("a", "digits"), strict=True)
    ]
    told = written(tmp_path, [(plan, made_up(plan, sets))])
    assert "experiment run beta --data gist1m=FILE_OF_a --data cifar10=digits\n" in told


def test_a_quick_plan_is_made_by_a_quick_command(tmp_path):
    plan = replace(read_plan("beta").made_quick(), values=(0.4, 0.5))
    told = written(tmp_path, [(plan, made_up(plan, named_sets("cifar10")))])
    assert "experiment run beta --quick --data cifar10=cifar10_deep512.npz" in told
    assert "experiment figure beta" in told


def test_quick_results_are_told_to_be_such_before_the_claims(html, plans_and_rows, tmp_path):
    assert BANNER not in html
    plan = replace(read_plan("beta").made_quick(), values=(0.4, 0.5))
    claim = SimpleNamespace(text="claim", source="section V", measured="this", verdict="confirmed")
    quick = (plan, made_up(plan, named_sets("cifar10")))
    told = written(tmp_path, [plans_and_rows[1], quick], [claim])
    assert told.count(BANNER) == 1
    assert told.index(BANNER) < told.index('<table class="claims">')


def test_the_same_results_give_the_same_page(plans_and_rows, tmp_path):
    first, again = (written(tmp_path / name, plans_and_rows[1:]) for name in ("a", "b"))
    assert first == again
