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


def test_a_version_that_differs(tree):
    name = "CITATION.cff"
    replace(tree, name, "1.2.3", "1.3.0")
    (sentence,) = refusals(tree)
    assert sentence.startswith("the versions differ: ")
    assert f"1.3.0 in {name}" in sentence
