"""Which data an experiment runs on: files, folders of files, or what is there for everybody."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onlinehash import datasets
from onlinehash.errors import InvalidInput
from onlinehash.experiments.roles import NamedSet, role_of, roles

#: The digits that come with scikit-learn, once by their labels and once by their neighbours.
EVERYBODYS = ("cifar10=digits", "gist1m=digits")


def find_sets(sources: Sequence[str]) -> list[NamedSet]:
    """Each source is FILE, ROLE=FILE, a folder, or `digits`; none at all stands for the digits in two roles."""
    return [named_set(path, role) for path, role in paths(sources)]


def paths(sources: Sequence[str]) -> list[tuple[str, str | None]]:
    """Files and the roles asked for; a folder stands for all npz files in it."""
    found: list[tuple[str, str | None]] = []
    for source in sources or EVERYBODYS:
        role, equals, path = source.partition("=")
        if not equals or role not in roles():
            role, path = "", source
        if Path(path).is_dir():
            files = sorted(Path(path).glob("*.npz"))
            if not files:
                raise InvalidInput(f"the folder {path} has no npz files.")
            found += [(str(file), role or None) for file in files]
        else:
            found.append((path, role or None))
    return found


def named_set(path: str, role: str | None) -> NamedSet:
    """The set of a file, and what it is used for."""
    data = datasets.load(path)
    return NamedSet(path, data.name, data.fingerprint, role_of(data, role))
