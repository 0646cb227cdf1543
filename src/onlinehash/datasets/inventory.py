"""Which of the known sets are in a folder, and whether they are sound."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from onlinehash.datasets.catalogue import KNOWN, KnownFile, KnownSet, find
from onlinehash.errors import OnlineHashError
from onlinehash.progress import progress_bar

BLOCK_BYTES = 1 << 22


@dataclass
class Found:
    """A known set in a folder.

    `state` is "here", "in part", "damaged" or "not here"; `checked` says how the files were checked.

    Examples
    --------
    >>> from pathlib import Path
    >>> from onlinehash import datasets
    >>> found = {found.name: found for found in datasets.survey(Path())}
    >>> found["mnist"].state, found["mnist"].place, found["mnist"].problems
    ('not here', None, [])
    """

    name: str
    title: str
    address: str
    state: str = "not here"
    place: str | None = None
    bytes: int = 0
    checked: str | None = None
    problems: list[str] = field(default_factory=list)


def survey(folder: Path, verify: bool = False) -> list[Found]:
    """Look for every known data set in a folder.

    Parameters
    ----------
    folder : Path
    verify : bool, default=False
        Compare checksums, and read files for which none is published.

    Returns
    -------
    list of Found

    Examples
    --------
    >>> from pathlib import Path
    >>> from onlinehash import datasets
    >>> {found.state for found in datasets.survey(Path())}
    {'not here'}
    """
    return [_look_for(known, folder, verify) for known in KNOWN.values()]


def _look_for(known: KnownSet, folder: Path, verify: bool) -> Found:
    found = Found(known.name, known.title, known.address)
    archive = _find_archive(known, folder)
    if archive is not None and verify:
        _compare_checksum(*archive, found)
    place = known.place(folder)
    if place is None:
        if archive is not None:
            found.state = "damaged" if found.problems else "in part"
            found.problems = found.problems or [f"{archive[0].name} is here, but not unpacked"]
        return found
    found.place = str(place)
    missing = _look_at_files(known, place, verify, found)
    found.state = "damaged" if found.problems else "in part" if missing else "here"
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        found.problems.append(f"{', '.join(missing[:3])}{more} not here")
    return found


def _look_at_files(known: KnownSet, place: Path, verify: bool, found: Found) -> list[str]:
    """Note sizes, problems and how the files were checked; the names of those that are missing."""
    missing, all_have_sums = [], True
    try:
        files = (*known.files, *known.more_files(place))
    except OnlineHashError as error:
        found.problems.append(str(error))
        return []
    for file in files:
        there = find(place, file)
        if there is None:
            missing.append(file.name)
            continue
        path, form = there
        size = path.stat().st_size
        found.bytes += size
        all_have_sums &= form.md5 is not None
        if form.size is not None and size != form.size:
            found.problems.append(f"{path.name} has {size:,} bytes, not {form.size:,}")
        elif verify and form.md5 is not None:
            _compare_checksum(path, form, found)
    found.checked = "sizes, no published checksum" if not all_have_sums else "not verified"
    if verify and all_have_sums:
        found.checked = "checksums"
    elif verify and not missing and not found.problems and known.look is not None:
        found.checked = "content, no published checksum"
        try:
            known.look(place)
        except OnlineHashError as error:
            found.problems.append(str(error))
    return missing


def _find_archive(known: KnownSet, folder: Path) -> tuple[Path, KnownFile] | None:
    if known.archive is None:
        return None
    return next((there for place in (".", *known.places) if (there := find(folder / place, known.archive))), None)


def _compare_checksum(path: Path, file: KnownFile, found: Found) -> None:
    got = md5_of(path)
    if got != file.md5:
        found.problems.append(f"{path.name} has the MD5 {got}, not {file.md5}")


def md5_of(path: Path) -> str:
    """The MD5 of a file; published sums of data sets are MD5, which tells damage, not malice."""
    digest, done = hashlib.md5(usedforsecurity=False), 0
    with open(path, "rb") as file, progress_bar(path.stat().st_size) as show:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            done += len(block)
            show(done, f"verifying {path.name}")
    return digest.hexdigest()
