"""README and docs are executed, and nothing public goes undocumented."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import onlinehash
from onlinehash import LiveIndex, bulk, parallel
from onlinehash.learners import registry

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]
TEXT = "\n".join(page.read_text() for page in PAGES)


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def runnable(page: Path) -> object:
    """A page to be run; the one on scale-out starts processes and a database."""
    return pytest.param(page, id=page.name, marks=[pytest.mark.long] if page.name == "scale-out.md" else [])


@pytest.mark.parametrize("page", [runnable(page) for page in PAGES if blocks(page)])
def test_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks(page), 1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), namespace)


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
    page = (ROOT / "docs" / "live-index.md").read_text()
    names = [name for name in dir(LiveIndex) if not name.startswith("_")]
    names += [name for cls in (LiveIndex, LiveIndex.open) for name in inspect.signature(cls).parameters]
    assert len(names) > 40
    assert not [name for name in names if not re.search(rf"`[^`\n]*\b{name}\b", page)]


def test_every_policy_is_on_the_page_of_the_live_index():
    page = (ROOT / "docs" / "live-index.md").read_text()
    found = {name: getattr(onlinehash.refresh, name) for name in public_names(onlinehash.refresh)}
    policies = {name: thing for name, thing in found.items() if hasattr(thing, "due")}
    assert len(policies) >= 7
    for name, policy in policies.items():
        parameters = ", ".join(inspect.signature(policy).parameters)
        call = re.search(rf"^\| `refresh\.{name}\(([^`]*)\)` \|", page, flags=re.MULTILINE)
        assert call, name
        assert re.sub(r"=\w+", "", call[1]) == parameters


@pytest.mark.parametrize("method", registry.METHODS, ids=lambda m: m.name)
def test_every_learner_and_parameter_is_documented(method):
    cls = method.load()
    assert re.search(rf"^## .*\b{method.name}\b", (ROOT / "docs" / "learners.md").read_text(), flags=re.MULTILINE)
    parameters = list(inspect.signature(cls).parameters)
    assert not [name for name in parameters if not re.search(rf"\b{name}\b", inspect.getdoc(cls))]
    assert not [name for name in parameters if f"`{name}`" not in (ROOT / "docs" / "learners.md").read_text()]


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


def titles(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)


def slug(title: str) -> str:
    """The name that a page's reader gives a section."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
