"""tools/release.py, on a tree made up for it: what can be released, and every reason why not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "tools" / "release.py"

FILES = {
    "pyproject.toml": '[project]\nname = "onlinehash"\nversion = "1.2.3"\n',
    "src/onlinehash/__init__.py": '"""A package."""\n\n__version__ = "1.2.3"\n',
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.3\ndate-released: 2026-01-31\n",
    "CHANGELOG.md": "# Changes\n\n## 1.2.3 (2026-01-31)\n\n- You can.\n\n## 1.2.2 (2025-12-01)\n\n- You could.\n",
    "Makefile": "lint docs test long dist:\n\t@echo made $@\n",
}


def git(root: Path, *arguments: str) -> None:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *author, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A committed tree on main that can be released."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--initial-branch", "main")
    commit(tmp_path)
    return tmp_path


def commit(root: Path) -> None:
    git(root, "add", ".")
    git(root, "commit", "--message", "Change something")


def replace(root: Path, name: str, old: str, new: str) -> None:
    text = (root / name).read_text()
    assert old in text
    (root / name).write_text(text.replace(old, new, 1))
    commit(root)


def release(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], cwd=root, capture_output=True, text=True)


def refusals(root: Path, *arguments: str) -> list[str]:
    """What the script says is wrong; it must not have gone on to `make`."""
    done = release(root, *arguments)
    assert done.returncode == 1
    assert "made" not in done.stdout
    *sentences, last = done.stderr.splitlines()
    assert last == "release: not ready"
    return [sentence.removeprefix("release: ") for sentence in sentences]


def test_a_tree_in_order(tree):
    done = release(tree)
    assert (done.returncode, done.stderr) == (0, "")
    assert "made lint\nmade docs\nmade test\nmade long\nmade dist\n" in done.stdout
    assert 'git tag --annotate v1.2.3 --message "onlinehash 1.2.3"' in done.stdout
    assert "git push origin main v1.2.3" in done.stdout
    assert not subprocess.run(["git", "tag"], cwd=tree, capture_output=True, text=True).stdout


@pytest.mark.parametrize("name", ["pyproject.toml", "src/onlinehash/__init__.py", "CITATION.cff", "CHANGELOG.md"])
def test_a_version_that_differs(tree, name):
    replace(tree, name, "1.2.3", "1.3.0")
    (sentence,) = refusals(tree)
    assert sentence.startswith("the versions differ: ")
    assert f"1.3.0 in {name}" in sentence


@pytest.mark.parametrize("heading", ["Unreleased (1.2.3)", "Unreleased", "1.2.3"])
def test_a_changelog_without_version_and_date(tree, heading):
    replace(tree, "CHANGELOG.md", "1.2.3 (2026-01-31)", heading)
    (sentence,) = refusals(tree)
    assert sentence.endswith(f'but is "## {heading}"')


def test_a_citation_of_another_day(tree):
    replace(tree, "CITATION.cff", "2026-01-31", "2026-01-30")
    assert refusals(tree) == ["CITATION.cff has 2026-01-30 as date-released, CHANGELOG.md 2026-01-31"]


def test_changes_that_are_not_committed(tree):
    (tree / "new.py").write_text("")
    assert refusals(tree) == ["the working tree has changes that are not committed"]


def test_another_branch(tree):
    git(tree, "switch", "--create", "side")
    assert refusals(tree) == ["releases are made from main, but side is checked out"]


def test_a_tag_that_exists(tree):
    git(tree, "tag", "v1.2.3")
    assert refusals(tree) == ["the tag v1.2.3 exists already"]


def test_everything_is_said_at_once(tree):
    git(tree, "switch", "--create", "side")
    replace(tree, "CITATION.cff", "1.2.3", "1.3.0")
    assert len(refusals(tree)) == 2


@pytest.mark.parametrize("target", ["lint", "docs", "test", "long", "dist"])
def test_a_target_that_fails(tree, target):
    replace(tree, "Makefile", "\t@echo made $@", f"\t@test $@ != {target}")
    done = release(tree)
    assert done.returncode == 1
    assert done.stderr.endswith("release: not ready\n")
    assert "git tag" not in done.stdout


def test_a_tag_that_is_checked_out(tree):
    git(tree, "tag", "--annotate", "v1.2.3", "--message", "x")
    git(tree, "switch", "--detach", "v1.2.3")
    done = release(tree, "--tag", "v1.2.3")
    assert (done.returncode, done.stderr) == (0, "")
    assert "v1.2.3 can be published" in done.stdout
    assert "git tag" not in done.stdout


def test_a_tag_of_another_version(tree):
    git(tree, "tag", "v1.3.0")
    assert refusals(tree, "--tag", "v1.3.0") == ["the tag is v1.3.0, but the version is 1.2.3"]


def test_a_tag_that_is_not_checked_out(tree):
    git(tree, "tag", "v1.2.3")
    (tree / "new.py").write_text("")
    commit(tree)
    assert refusals(tree, "--tag", "v1.2.3") == ["v1.2.3 is not what is checked out"]


def test_a_tag_beside_main(tree):
    git(tree, "switch", "--create", "side")
    (tree / "new.py").write_text("")
    commit(tree)
    git(tree, "tag", "v1.2.3")
    assert refusals(tree, "--tag", "v1.2.3") == ["what is checked out is not on main"]


def test_this_tree_declares_one_version(monkeypatch):
    """The changelog may be ahead of it, until a release."""
    monkeypatch.syspath_prepend(SCRIPT.parent)
    import release

    found = release.declared(ROOT)
    found.pop("CHANGELOG.md")
    assert None not in found.values()
    assert len(set(found.values())) == 1
