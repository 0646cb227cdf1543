"""Other processes, as the system knows them: the same on Linux and on macOS."""

from __future__ import annotations

import psutil


def is_alive(pid: int) -> bool:
    """Does a process run? One that ended and that nobody asked for its exit code does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def children(pid: int) -> list[int]:
    """The processes that one started and that still run; none if it does not run itself."""
    try:
        found = [child.pid for child in psutil.Process(pid).children()]
    except psutil.NoSuchProcess:
        return []
    return [child for child in found if is_alive(child)]


def n_connections(pid: int) -> int:
    """TCP sockets that a process has open."""
    return len(psutil.Process(pid).net_connections("tcp"))
