"""A program's calls that change files, written down or made to fail, by a library that is built here and preloaded.

`shim()` builds it; `run` runs a Python program under it, which calls `arm` when it is ready. What was written down is
read by `read_calls`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.needs import missing

SOURCE = Path(__file__).with_suffix(".c")


class FileCall(NamedTuple):
    """c create, w write, t truncate, s sync, n rename, u unlink (or rmdir), m mkdir."""

    kind: str
    path: str
    other: str = ""
    offset: int = 0
    data: bytes = b""


@cache
def shim() -> Path:
    """The library; on another system than Linux the test that asks for it is skipped."""
    if sys.platform != "linux":
        pytest.skip("calls of the C library are watched on Linux only")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        missing("C compiler")
    library = Path(tempfile.mkdtemp()) / "file_calls.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-lpthread"], check=True)
    return library


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A module of the tests, run as a program under the library."""
    environment = os.environ | {"LD_PRELOAD": str(shim()), "OPENBLAS_NUM_THREADS": "1"}
    run = [sys.executable, "-m", program, *arguments]
    root = Path(__file__).parents[2]
    return subprocess.run(run, cwd=root, env=environment, capture_output=True, text=True, check=False)


# ------------------------------------------------------------------ in the program


def arm(folder: Path, log: Path | None = None, number: int = -1, error: int = 0, kinds: str = "") -> None:
    """From now on, write down the calls below a folder; or let the one of this number fail, counted from now on."""
    library = ctypes.CDLL(None)
    arguments = str(folder).encode(), b"" if log is None else str(log).encode()
    library.file_calls_arm(*arguments, ctypes.c_long(number), error, kinds.encode())


def failed() -> str:
    """The call that failed since the last `arm`, if one did."""
    library = ctypes.CDLL(None)
    library.file_calls_failed.restype = ctypes.c_char_p
    found: bytes = library.file_calls_failed()
    return found.decode()


# ------------------------------------------------------------------ afterwards


def read_calls(log: Path) -> list[FileCall]:
    """What was written down, in order."""
    data, at, found = log.read_bytes(), 0, []
    while at < len(data):
        end = data.index(b"\n", at)
        kind, path, other, offset, length = data[at:end].decode().split("\t")
        at = end + 1
        content = data[at : at + int(length)] if kind == "w" else b""
        at += len(content)
        found.append(FileCall(kind, path, other, int(offset), content))
    return found
