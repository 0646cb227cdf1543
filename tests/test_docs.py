"""README and docs are executed, and nothing public goes undocumented."""

from __future__ import annotations

import inspect
import math
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

import onlinehash
from onlinehash import LiveIndex, bulk, parallel
from onlinehash.learners import registry
from tests.servers import PostgresServer

ROOT = Path(__file__).parent.parent
WRITTEN = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "generated" not in page.parts]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *WRITTEN]
LEARNERS = "\n".join(page.read_text() for page in sorted((ROOT / "docs" / "reference" / "learners").glob("*.md")))
LEARNERS_TABLE = (ROOT / "docs" / "reference" / "learners" / "index.md").read_text()
LIVE_INDEX = (ROOT / "docs" / "reference" / "live-index.md").read_text()
POLICIES = (ROOT / "docs" / "explanation" / "live-index.md").read_text()
TEXT = "\n".join(page.read_text() for page in PAGES)


#: Where a page has PostgreSQL; the tests start one elsewhere.
POSTGRES = "127.0.0.1:5432"


#: Neither the README nor the first tutorial.
TAKE_LONG = {
    "bulk.md",
    "drift.md",
    "experiments.md",
    "kernel-supervised.md",
    "live-index.md",
    "milvus.md",
    "parallel.md",
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


@pytest.fixture(scope="module")
def postgres():
    with PostgresServer() as server:
        yield f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("page", [runnable(page) for page in PAGES if blocks(page)])
def test_python_of_a_page_runs(page, tmp_path, monkeypatch, request, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for number, (code, printed) in enumerate(blocks(page), 1):
        if POSTGRES in code:
            code = code.replace(POSTGRES, request.getfixturevalue("postgres"))
        exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)
        out = capsys.readouterr().out
        counts = 0.2 if page.name in OF_A_VERSION else 0.0  # as each build of Python has a few other texts
        assert printed is None or alike(out, printed, counts), f"{page.name}, block {number} prints:\n{out}"


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


def test_output_is_compared():
    assert alike("right: 0.91 of 10\n", "right: 0.90 of 10\n")
    assert not alike("right: 0.81 of 10", "right: 0.90 of 10")
    assert not alike("right: 0.90 of 11", "right: 0.90 of 10")
    assert not alike("0.90", "0.90 right")
    assert not alike("3372 texts", "3384 texts")
    assert alike("3372 texts, 245", "3384 texts, 219", 0.2)
    assert not alike("3372 texts, 345", "3384 texts, 219", 0.2)


ROOMS = [
    onlinehash,
    onlinehash.datasets,
    onlinehash.embed,
    onlinehash.evaluate,
    onlinehash.feedback,
    onlinehash.refresh,
    onlinehash.streams,
    bulk,
    parallel,
]


@pytest.mark.parametrize("room", ROOMS, ids=lambda m: m.__name__)
def test_every_public_name_is_documented(room):
    missing = [name for name in public_names(room) if not re.search(rf"\b{name}\b", TEXT)]
    assert not missing


def public_names(room: ModuleType) -> list[str]:
    """What a room says it has, or what a module defines."""
    defined = [name for name, thing in vars(room).items() if getattr(thing, "__module__", None) == room.__name__]
    return getattr(room, "__all__", [name for name in defined if not name.startswith("_")])


def test_all_of_the_live_index_is_on_its_page():
    names = [name for name in dir(LiveIndex) if not name.startswith("_")]
    names += [name for cls in (LiveIndex, LiveIndex.open) for name in inspect.signature(cls).parameters]
    assert len(names) > 40
    assert not [name for name in names if not re.search(rf"`[^`\n]*\b{name}\b", LIVE_INDEX)]


def test_every_policy_is_on_the_page_of_the_live_index():
    found = {name: getattr(onlinehash.refresh, name) for name in public_names(onlinehash.refresh)}
    policies = {name: thing for name, thing in found.items() if hasattr(thing, "due")}
    assert len(policies) >= 7
    for name, policy in policies.items():
        parameters = ", ".join(inspect.signature(policy).parameters)
        call = re.search(rf"^\| `refresh\.{name}\(([^`]*)\)` \|", POLICIES, flags=re.MULTILINE)
        assert call, name
        assert re.sub(r"=\w+", "", call[1]) == parameters


@pytest.mark.parametrize("method", registry.METHODS, ids=lambda m: m.name)
def test_every_learner_and_parameter_is_documented(method):
    cls = method.load()
    assert re.search(rf"^# .*\b{method.name}\b", LEARNERS, flags=re.MULTILINE)
    assert re.search(rf"^\| \[{method.name}\]", LEARNERS_TABLE, flags=re.MULTILINE)
    parameters = list(inspect.signature(cls).parameters)
    assert not [name for name in parameters if not re.search(rf"\b{name}\b", inspect.getdoc(cls))]
    assert not [name for name in parameters if f"`{name}`" not in LEARNERS]


def test_every_extra_is_on_the_page_of_installing():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "how-to" / "install.md").read_text(), flags=re.MULTILINE)
    assert set(re.findall(r"`(.*?)`", " ".join(table))) == set(extras) - {"docs", "dev"}


def test_pages_are_of_readable_length():
    """Words outside code and tables; the claims are a list of 40 to look up in, and have a map."""
    for page in WRITTEN:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        n_words = sum(len(line.split()) for line in text.split("\n") if not line.startswith("|"))
        assert n_words < 3000 or page.parts[-2:] == ("reproduce", "claims.md"), f"{page.name} has {n_words} words"


def test_no_line_of_a_page_is_a_comment():
    """The site leaves out a line that begins with a percent sign, as a wrapped number may make it do."""
    for page in WRITTEN:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert not re.findall(r"^\s*%.*", text, flags=re.MULTILINE), page.name


def test_pages_begin_with_what_the_reader_will_know():
    pages = [page for part in ("tutorials", "how-to", "explanation") for page in (ROOT / "docs" / part).glob("*.md")]
    assert len(pages) > 50
    without = [page for page in pages if not re.search(r"\bAfter (this|it|these)\b", page.read_text()[:800])]
    assert {page.name for page in without} == {"index.md"}


def test_readme_counts_the_claims_as_their_page_does():
    page = (ROOT / "docs" / "explanation" / "reproduce" / "index.md").read_text()
    counted = re.search(r"(\d+) claims: (\d+) confirmed, (\d+) confirmed in part, (\d+) not confirmed", page)
    told = re.search(
        r"of (\d+) claims of the paper, (\d+) were confirmed, (\d+) partly and (\d+) not",
        " ".join((ROOT / "README.md").read_text().split()),
    )
    assert counted is not None
    assert told is not None
    assert told.groups() == counted.groups()


def test_every_picture_has_a_text_alternative():
    found = [(page.name, words) for page in PAGES for words in re.findall(r"!\[([^\]]*)\]\(", page.read_text())]
    assert len(found) > 40
    assert not [(page, words) for page, words in found if len(words.split()) < 2]


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_links_to_sections_lead_somewhere():
    sections = {page.resolve(): {slug(title) for title in titles(page)} for page in PAGES}
    for page in PAGES:
        for target, section in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text()):
            there = (page.parent / target).resolve() if target else page.resolve()
            assert section in sections[there], f"{page.name} links to {target}#{section}"


def test_links_to_others_are_well_formed():
    """`make docs-links` follows them; this needs no network."""
    files = [*PAGES, ROOT / "CITATION.cff", *(ROOT / "src").rglob("*.py")]
    links = [
        (path.name, link)
        for path in files
        for link in re.findall(r"https?://[^\s\"'`<>|)\]}]+", path.read_text())
        if not re.match(r"https?://(127\.|\.|[A-Za-z]+(?![\w.-])|\{|\[|[\w.-]*example)", link)
    ]
    assert len(links) > 10
    for name, link in links:
        host = urlsplit(link).netloc
        assert re.fullmatch(r"(?:[a-z0-9-]+\.)+[a-z]{2,}", host), f"{name}: {link}"
        assert not re.search(r"doi\.org/(?!10\.\d{4,}/\S)|arxiv\.org/(?!abs/\d{4}\.\d{4,5}$)", link), f"{name}: {link}"


def test_pages_that_the_code_mentions_exist():
    files = [path for folder in ("src", "tests", "benchmarks", "deploy") for path in (ROOT / folder).rglob("*.*")]
    mentions = [
        (path.relative_to(ROOT).as_posix(), page)
        for path in [*files, ROOT / "Makefile", *PAGES]
        if path.suffix in (".py", ".toml", ".md", ".service", "")
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text())
    ]
    assert len(mentions) > 20
    assert not [mention for mention in mentions if not (ROOT / mention[1]).is_file()]


def titles(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)


def slug(title: str) -> str:
    """The name that a page's reader gives a section."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
