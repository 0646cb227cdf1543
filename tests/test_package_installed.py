"""The distribution: what is in it, and that it works from an installation that nobody can write to."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.needs import missing

pytestmark = pytest.mark.long  # it builds both, and installs one

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "onlinehash"


@dataclass(frozen=True)
class Built:
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Both distributions, the wheel made from the sdist, as a package index would get them."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)])
    return Built(*folder.glob("*.whl"), *folder.glob("*.tar.gz"))


def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return done


# ------------------------------------------------------------------ what is in it


def test_the_wheel_holds_the_package_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        named = {name for name in archive.namelist() if ".dist-info/" not in name}
    there = {
        str(path.relative_to(SOURCE.parent))
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert named == there
    for data in ("experiments/plans/beta.toml", "serve/page/main.js", "py.typed"):
        assert f"onlinehash/{data}" in named


def test_the_sdist_is_enough_to_test_and_small_enough_to_send(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        named = {name.partition("/")[2] for name in archive.getnames()}
    workflows = [str(path.relative_to(ROOT)) for path in ROOT.glob(".github/workflows/*.yml")]
    assert workflows
    files = ("pyproject.toml", "Makefile", "LICENSE", "README.md", "tests/conftest.py", "docs/conf.py")
    for needed in (*files, *workflows):
        assert needed in named
    assert not [name for name in named if name.startswith("docs/results") or name.endswith((".nbi", ".nbc", ".pyc"))]
    assert built.sdist.stat().st_size < 5e6


def test_the_metadata_is_accepted_and_links_lead_somewhere(built: Built) -> None:
    run([sys.executable, "-m", "twine", "check", "--strict", str(built.wheel), str(built.sdist)])
    with zipfile.ZipFile(built.wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    description = metadata.get_payload(decode=True).decode()  # type: ignore[union-attr]
    targets = re.findall(r"\]\(([^)]+)\)", description)
    assert len(targets) > 10
    assert not [target for target in targets if not target.startswith("https://")]
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", description)
    assert pictures
    for picture in pictures:
        assert (ROOT / picture.partition("/main/")[2]).is_file()
    assert metadata["Author"] == "The onlinehash authors"
    assert "Programming Language :: Python :: 3.11" in metadata.get_all("Classifier", [])


# ------------------------------------------------------------------ and that it works


@dataclass(frozen=True)
class Installed:
    """An environment that cannot be written, a home that cannot, and a folder to work in."""

    environment: Path
    home: Path
    work: Path

    @property
    def temporary(self) -> Path:
        return self.work / "temporary"

    def command(self, *arguments: str) -> list[str]:
        """A command of the environment. Permissions do not bind root, so it runs without root's capabilities."""
        bound = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
        return [*bound, str(self.environment / "bin" / arguments[0]), *arguments[1:]]

    def variables(self) -> dict[str, str]:
        dropped = ("PYTHONPATH", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "ONLINEHASH_TOKEN", "COVERAGE_PROCESS_START")
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        return {**kept, "HOME": str(self.home), "TMPDIR": str(self.temporary), "OPENBLAS_NUM_THREADS": "1"}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(self.command(*arguments), env=self.variables(), cwd=self.work)


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The wheel in an environment of its own, which borrows its dependencies from this one."""
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        missing("setpriv", "util-linux has it, and any user but root can do without it")
    folder = tmp_path_factory.mktemp("installed")
    found = Installed(folder / "environment", folder / "home", folder / "work")
    run([sys.executable, "-m", "venv", "--without-pip", str(found.environment)])
    python = str(found.environment / "bin" / "python")
    run([sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", str(built.wheel)])
    [packages] = found.environment.glob("lib/python*/site-packages")
    borrowed = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "borrowed.pth").write_text("\n".join(borrowed))
    found.home.mkdir()
    found.temporary.mkdir(parents=True, mode=0o700)
    closed = [found.home, *(path for path in found.environment.rglob("*") if path.is_dir()), found.environment]
    for path in closed:
        path.chmod(0o555)
    yield found
    for path in reversed(closed):
        path.chmod(0o755)


USE = """
import numpy as np
from onlinehash import FlatIndex, OnlineHashing

X = np.random.default_rng(0).standard_normal((200, 16)).astype(np.float32)
learner = OnlineHashing(16, random_state=0).partial_fit_pairs(X[::2], X[1::2], np.arange(100) % 2 == 0)
index = FlatIndex(learner.encode(X), encoder=learner.snapshot())
print(*index.search(X[:3], k=1).distances.ravel())
"""


def test_kernels_are_kept_in_a_private_temporary_folder(installed: Installed) -> None:
    assert installed.run("python", "-c", USE).stderr == ""
    [folder] = installed.temporary.glob("onlinehash-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    kept = sorted(folder.rglob("*.nbc"))
    assert kept
    installed.run("python", "-c", USE)
    assert sorted(folder.rglob("*.nbc")) == kept
