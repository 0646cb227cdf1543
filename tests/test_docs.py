"""The Python of README and docs is executed."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WRITTEN = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "generated" not in page.parts]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *WRITTEN]

#: Where a page has PostgreSQL; the tests have one elsewhere.
POSTGRES = "127.0.0.1:5432/postgres"

#: Neither the README nor the first tutorial: each takes seconds.
TAKE_LONG = {
    "drift.md",
    "experiments.md",
    "kernel-supervised.md",
    "live-index.md",
    "pictures.md",
    "stores.md",
    "text-search.md",
}

#: Calls that print, and pages whose texts are those of the library of one Python.
PRINTS, OF_A_VERSION = r"\b(print|show)\(", {"text-search.md": (3, 11)}


def blocks(page: Path) -> list[tuple[str, str | None]]:
    """The Python of a page, block by block, with what the page says that it prints: at once, or after one line."""
    pattern = r"^```python\n(.*?)^```\n(?:\n(?:[^\n]+:\n\n)?```text\n(.*?)^```)?"
    found = re.findall(pattern, page.read_text(), flags=re.MULTILINE | re.DOTALL)
    is_checked = page.name not in OF_A_VERSION or sys.version_info[:2] == OF_A_VERSION[page.name]
    return [(code, printed if printed and is_checked and re.search(PRINTS, code) else None) for code, printed in found]


def runnable(page: Path) -> object:
    """A page to be run; `make docs-test` and `make long` run those that take long, too."""
    name = page.relative_to(ROOT).as_posix()
    return pytest.param(page, id=name, marks=[pytest.mark.long] if page.name in TAKE_LONG else [])


@pytest.mark.parametrize("page", [runnable(page) for page in PAGES if blocks(page)])
def test_python_of_a_page_runs(page, tmp_path, monkeypatch, request, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for number, (code, printed) in enumerate(blocks(page), 1):
        if POSTGRES in code:
            code = code.replace(POSTGRES, new_database(request.getfixturevalue("postgres_server")))
        exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)
        out = capsys.readouterr().out
        counts = 0.2 if page.name in OF_A_VERSION else 0.0  # as each build of Python has a few other texts
        assert printed is None or alike(out, printed, counts), f"{page.name}, block {number} prints:\n{out}"


def new_database(server) -> str:
    """The host, port and name of a database of its own."""
    import psycopg

    with psycopg.connect(server.address(), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS of_a_page WITH (FORCE)")
        connection.execute("CREATE DATABASE of_a_page")
    return f"127.0.0.1:{server.port}/of_a_page"


def alike(out: str, printed: str, counts: float = 0.0) -> bool:
    """The same words, and numbers that differ by no more than another processor's rounding may make of them.

    `counts` is the share by which whole numbers from a hundred on may differ.
    """
    words, wanted = out.split(), printed.split()
    return len(words) == len(wanted) and all(same_word(*both, counts) for both in zip(words, wanted, strict=True))


def same_word(word: str, wanted: str, counts: float) -> bool:
    if word == wanted:
        return True
    if word.isdigit() and wanted.isdigit() and int(wanted) >= 100:
        return math.isclose(int(word), int(wanted), rel_tol=counts)
    try:
        return "." in wanted and math.isclose(float(word.strip(",")), float(wanted.strip(",")), abs_tol=0.0301)
    except ValueError:
        return False
