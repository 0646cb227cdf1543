"""The engine that runs beside this process for a file: started with the first who opens it, stopped with the last."""

from __future__ import annotations

import re
import socket
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from onlinehash import checks
from onlinehash.errors import InvalidInput, MissingExtra, ServiceUnavailable

#: Seconds that it may take to start.
_PATIENCE = 60.0

_users: Counter[str] = Counter()
_lock = threading.Lock()


def checked(path: str) -> str:
    """The file of an engine, if it can be one."""
    file = Path(path).absolute().resolve()
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,36}", file.name) or not file.parent.is_dir():
        raise InvalidInput(
            expected="a file in a folder that is there, with a name of at most 36 letters, digits and ._- for Milvus",
            got=checks.shown(path),
        )
    return str(file)


def start(file: str) -> str:
    """Where the client finds the engine of a file."""
    with _lock:
        servers = _servers()
        where: str | None = servers.start_and_get_uri(file)
        if where is None:
            raise ServiceUnavailable(
                expected=f"Milvus to open {file}",
                got="no engine for it",
                hint="close it in the process that has it open",
            )
        if not _users[file] and not _answers(where.removeprefix("unix:")):
            servers.release_server(file)
            raise ServiceUnavailable(expected=f"Milvus to open {file} in {_PATIENCE:.0f} seconds", got="no answer")
        _users[file] += 1
        return where


def stop(file: str) -> None:
    """Release the engine; the last release stops it."""
    with _lock:
        _users[file] -= 1
        if not _users[file]:
            _servers().release_server(file)


def _answers(path: str) -> bool:
    """Whether it listens; it says that it has started before it does."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(path) == 0:
                return True
        time.sleep(0.02)
    return False


def _servers() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it asks pkg_resources for its version, which setuptools warns of
            from milvus_lite.server_manager import server_manager_instance
    except ImportError:
        raise MissingExtra("An index in a file of Milvus", "milvus-lite (with setuptools<81)", "milvus") from None
    return server_manager_instance
