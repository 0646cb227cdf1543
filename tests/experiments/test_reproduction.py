"""The report: everything is in it, it follows the results, and the same results give the same bytes."""

import re

import pytest

from onlinehash.experiments.claims import judged
from onlinehash.experiments.plan import read_plan
from onlinehash.experiments.reproduction import write_reproduction
from onlinehash.experiments.rows import Rows
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
