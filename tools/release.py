"""Check that the tree can be released, and print the commands that release it. Nothing is tagged or pushed.

    make release               on main, before the tag: print how to set it
    make release TAG=v1.2.3    where the tag is checked out, as the release workflow does

First everything that is quick is looked at, and all that is wrong is said at once; then `make lint test long dist`
runs.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

#: A heading of CHANGELOG.md that can be released: a version and the day.
RELEASED = re.compile(r"(\d+\.\d+\.\d+\S*) \((\d{4}-\d\d-\d\d)\)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tag", help="the tag that is checked out, where there is one already")
    tag = parser.parse_args().tag or None
    root = Path.cwd()
    wrong = [*versions(root), *repository(root, tag)]
    for sentence in wrong:
        print(f"release: {sentence}", file=sys.stderr)
    if wrong or subprocess.run(["make", "lint", "docs", "test", "long", "dist"], cwd=root).returncode:
        print("release: not ready", file=sys.stderr)
        return 1
    version = declared(root)["pyproject.toml"]
    if tag:
        print(f"{tag} can be published; what to upload is in dist/.")
    else:
        print("Ready. To release:\n")
        print(f'    git tag --annotate v{version} --message "onlinehash {version}"')
        print(f"    git push origin main v{version}")
    return 0


def declared(root: Path) -> dict[str, str | None]:
    """The version that each file declares; None where it declares none."""
    heading, citation = top_heading(root), (root / "CITATION.cff").read_text()
    released = RELEASED.fullmatch(heading)
    return {
        "pyproject.toml": tomllib.loads((root / "pyproject.toml").read_text())["project"].get("version"),
        "src/onlinehash/__init__.py": _found(r'^__version__ = "(.+)"$', root / "src" / "onlinehash" / "__init__.py"),
        "CITATION.cff": _found(r"^version: (\S+)$", citation),
        "CHANGELOG.md": released[1] if released else None,
    }


def versions(root: Path) -> Iterator[str]:
    """What is wrong with versions and dates, a sentence each."""
    heading = top_heading(root)
    released = RELEASED.fullmatch(heading)
    if not released:
        yield f'the top heading of CHANGELOG.md must be like "## 1.2.3 (2026-01-31)", but is "## {heading}"'
    found = declared(root)
    if released and len(set(found.values())) > 1:
        listed = ", ".join(f"{version or 'none'} in {file}" for file, version in found.items())
        yield f"the versions differ: {listed}"
    day = _found(r"^date-released: '?([\d-]+)'?$", (root / "CITATION.cff").read_text())
    if released and day != released[2]:
        yield f"CITATION.cff has {day or 'no date'} as date-released, CHANGELOG.md {released[2]}"


def repository(root: Path, tag: str | None) -> Iterator[str]:
    """What is wrong with the state of the repository, a sentence each."""
    version = declared(root)["pyproject.toml"]
    if git(root, "status", "--porcelain"):
        yield "the working tree has changes that are not committed"
    if tag is None:
        branch = git(root, "branch", "--show-current") or "no branch"
        if branch != "main":
            yield f"releases are made from main, but {branch} is checked out"
        if git(root, "tag", "--list", f"v{version}"):
            yield f"the tag v{version} exists already"
        return
    if tag != f"v{version}":
        yield f"the tag is {tag}, but the version is {version}"
    if git(root, "rev-parse", "HEAD") != git(root, "rev-parse", "--verify", "--quiet", f"refs/tags/{tag}^{{commit}}"):
        yield f"{tag} is not what is checked out"
    if not git(root, "branch", "--all", "--contains", "HEAD", "--list", "main", "origin/main"):
        yield "what is checked out is not on main"


def top_heading(root: Path) -> str:
    """The first heading of the second level in the changelog."""
    return _found(r"^## (.+)$", (root / "CHANGELOG.md").read_text()) or ""


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True).stdout.strip()


def _found(pattern: str, text: str | Path) -> str | None:
    match = re.search(pattern, text.read_text() if isinstance(text, Path) else text, flags=re.MULTILINE)
    return match[1] if match else None


if __name__ == "__main__":
    sys.exit(main())
