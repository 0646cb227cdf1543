"""The generated reference leaves nothing out: names, commands, options, routes, metrics, errors, variables."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from docutils import nodes
from docutils.utils import new_document

import onlinehash
from onlinehash.cli.app import app
from tests.doc_modules import ROOT, doc_module

reference_pages, docstrings, conf = (doc_module(name) for name in ("reference_pages", "docstrings", "conf"))


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference_pages.pages()


def test_every_public_name_has_an_entry(pages: dict[str, str]) -> None:
    names = [*onlinehash.__all__, "PostgresIndex", "MilvusIndex"]
    assert len(names) > 40
    listed = set(re.findall(r"^\| \[`(\w+)`\]\((\w+)\.md\)", pages["api/index.md"], flags=re.MULTILINE))
    assert not [name for name in names if (name, name) not in listed]
    assert not [name for name in names if f"onlinehash.{name}" not in pages[f"api/{name}.md"]]
    for name in names:
        room = getattr(onlinehash, name)
        if isinstance(room, ModuleType):
            inside = reference_pages.room_names(room)
            assert inside
            assert not [one for one in inside if f":: onlinehash.{name}.{one}\n" not in pages[f"api/{name}.md"]]


def test_every_listed_name_says_what_it_is(pages: dict[str, str]) -> None:
    rows = re.findall(r"^\| \[`(\w+)`\]\(\w+\.md\) \|(.*)\|$", pages["api/index.md"], flags=re.MULTILINE)
    assert not [name for name, words in rows if len(words.split()) < 2]


def test_every_command_and_option_has_an_entry(pages: dict[str, str]) -> None:
    sections = dict(re.findall(r"^## `(.*?)`\n(.*?)(?=^## |\Z)", pages["commands.md"], re.MULTILINE | re.DOTALL))
    waiting: list[tuple[str, Any]] = [("onlinehash", typer.main.get_command(app))]
    n_options = 0
    while waiting:
        name, command = waiting.pop()
        text = sections.pop(name)
        options = [option for parameter in command.params for option in parameter.opts if option.startswith("-")]
        assert not [option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", text)], name
        n_options += len(options)
        waiting += [(f"{name} {part}", inner) for part, inner in getattr(command, "commands", {}).items()]
    assert not sections
    assert n_options > 100


def test_every_route_and_metric_has_an_entry(pages: dict[str, str]) -> None:
    document, metrics = reference_pages.from_a_service()
    routes = [f"{method.upper()} {path}" for path, found in document["paths"].items() for method in found]
    assert len(routes) > 30
    assert not [route for route in routes if f"## `{route}`\n" not in pages["routes.md"]]
    assert not re.findall(r"^\| `.*\|\s*\|$", pages["routes.md"], flags=re.MULTILINE)  # fields that say nothing
    assert pages["routes.md"].count("\nAnswer: 2") == len(routes)
    names = re.findall(r"^# TYPE (\w+)", metrics, flags=re.MULTILINE)
    assert len(names) > 10
    missing = [name for name in names if f"`{name}`" not in pages["metrics.md"]]
    assert not [name for name in missing if not name.endswith("_created")]  # when a counter began: no figure of ours


def test_every_error_has_an_entry(pages: dict[str, str]) -> None:
    from onlinehash import errors

    named = [name for name, thing in vars(errors).items() if isinstance(thing, type) and issubclass(thing, Exception)]
    assert len(named) > 10
    for name in named:
        cls = getattr(errors, name)
        row = re.search(rf"^\| `{name}` \|.*\| (\d+) \| (\d+) \|$", pages["errors.md"], flags=re.MULTILINE)
        assert row, name
        assert (int(row[1]), int(row[2])) == (cls.http_status, cls.exit_code)


def test_every_environment_variable_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    names = set(re.findall(r"ONLINEHASH_[A-Z_]+", source))
    assert len(names) >= 3
    assert not [name for name in names if f"`{name}`" not in page]


def test_pages_that_did_not_change_keep_their_time(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.md").write_text("same")
    (tmp_path / "gone.md").write_text("of a name that is no more")
    before = (tmp_path / "b" / "c.md").stat().st_mtime_ns
    reference_pages.write(tmp_path, {"a.md": "new", "b/c.md": "same"})
    assert {path.name for path in tmp_path.rglob("*.md")} == {"a.md", "c.md"}
    assert (tmp_path / "b" / "c.md").stat().st_mtime_ns == before


def test_docstrings_become_markup() -> None:
    text = "A `Learner` of `W` from |x|:\n\n    R = |D|\n\nCounts n_pairs_ and `a b`.\n\n>>> 2 * 3\n6"
    wanted = "A `Learner` of ``W`` from \\|x\\|:\n\n::\n\n    R = |D|\n\nCounts n_pairs\\_ and ``a b``.\n\n>>> 2 * 3\n6"
    assert docstrings.converted(text.split("\n")) == wanted.split("\n")
    text = "A source.\n\nrows: how many;\n    never split\nid : a column"
    wanted = "A source.\n\n* ``rows``: how many;\n  never split\n* ``id``: a column"
    assert docstrings.converted(text.split("\n")) == wanted.split("\n")
    text = "A learner that keeps its codes needs no\nrefresh: its encoder is replaced at once."
    assert docstrings.converted(text.split("\n")) == text.split("\n")


def test_a_tutorial_becomes_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conf, "DOCS", tmp_path / "docs")
    page = tmp_path / "docs" / "tutorials" / "page.md"
    page.parent.mkdir(parents=True)
    page.with_name("a.svg").write_text("<svg/>")
    page.write_text(
        "# Title\n\n[There](../how-to/x.md#y) and [that](../../LICENSE).\n\n"
        "```python\nprint(1)\n```\n\n```text\n1\n```\n"
        "\nMore.\n\n```python\nx = 2\n```\n\n![A line.](a.svg)\n"
        "\n```python\nshow()\n```\n\nHere, this printed:\n\n```text\n3\n```\n\nThe end.\n"
    )
    made = conf.notebook(page)
    words = f"# Title\n\n[There]({conf.html_baseurl}how-to/x.html#y) and [that]({conf.REPOSITORY}/LICENSE)."
    assert [(cell["cell_type"], cell["source"]) for cell in made["cells"]] == [
        ("markdown", words),
        ("code", "print(1)"),
        ("markdown", "More."),
        ("code", "x = 2"),
        ("code", "show()"),
        ("markdown", "Here, this printed.\n\nThe end."),
    ]
    printed, drawn, shown = (made["cells"][k]["outputs"] for k in (1, 3, 4))
    assert [output["text"] for output in printed + shown] == ["1\n", "3\n"]
    assert [output["data"] for output in drawn] == [{"image/svg+xml": "<svg/>", "text/plain": "A line."}]
    assert len({cell["id"] for cell in made["cells"]}) == 6


def test_long_tables_of_results_are_folded() -> None:
    def folded(header: str, n_rows: int) -> str:
        doctree, table = new_document("page"), nodes.table()
        for cells in [header.split(), *[["a", "b"]] * n_rows]:
            table += nodes.row("", *(nodes.entry("", nodes.paragraph("", cell)) for cell in cells))
        doctree += [table, nodes.bullet_list("", nodes.list_item("", nodes.paragraph("", "a note")))]
        conf.fold(None, doctree, "page")
        return " ".join(node.astext() if isinstance(node, nodes.raw) else node.tagname for node in doctree)

    long = conf.LONG_TABLE + 1
    assert folded("set contestant", long) == (
        f"<details><summary>The table: {long} rows</summary> table bullet_list </details>"
    )
    assert folded("set contestant", long - 1) == folded("status when", long) == "table bullet_list"


def test_wide_tables_and_lines_are_set_smaller() -> None:
    doctree = new_document("page")
    for n_columns in (conf.COLUMNS, conf.COLUMNS + 1):
        table = nodes.table()
        texts = ["word " * conf.WORDY, *["0.123"] * (n_columns - 1)]
        table += nodes.row("", *(nodes.entry("", nodes.paragraph("", text)) for text in texts))
        doctree += table
    doctree += [nodes.literal_block("", "short"), nodes.literal_block("", "short\n" + "x" * (conf.LINE + 1))]
    conf.mark_sizes(None, doctree, "page")
    assert [table["classes"] for table in doctree.findall(nodes.table)] == [[], ["many"]]
    assert [cell["classes"] for cell in doctree.findall(nodes.entry)][:2] == [["words"], []]
    assert [block["classes"] for block in doctree.findall(nodes.literal_block)] == [[], ["wide"]]
