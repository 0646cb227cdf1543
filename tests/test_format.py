"""The file format: what goes in comes out, read or mapped, and writing takes little memory and is all or nothing."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies
from safetensors import safe_open

from onlinehash.errors import FormatError, InvalidInput
from onlinehash.io import atomic, container, format
from tests.edited_files import header_of, with_header
from tests.support import as_bytes, refused

CONTENT: dict[str, Any] = {
    "text": "ä\n",
    "numbers": [0, -1, 2**80, 0.1, 1e300, float("inf"), float("-inf")],
    "flags": [True, False, None],
    "nested": {"list": [{"array": np.arange(6, dtype=np.int64).reshape(2, 3)}, []], "empty": {}},
    "arrays": [
        np.zeros((0, 4), np.float32),
        np.array(3.5),
        np.array([True, False]),
        np.arange(5, dtype=np.uint8),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12.0)[::3],
        np.array([np.nan, np.inf]),
        np.arange(128, dtype=np.uint8).reshape(2, 1, 64),
        np.arange(3, dtype=np.float16),
    ],
}
BOTH_WAYS = pytest.mark.parametrize("mapped", [False, True], ids=["read", "mapped"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "thing.oh"
    format.write(path, "thing", CONTENT)
    return path


@BOTH_WAYS
def test_what_goes_in_comes_out(path: Path, mapped: bool) -> None:
    kind, content = format.read(path, mapped)
    assert kind == "thing"
    assert as_bytes(content) == as_bytes(CONTENT)


dtypes = st.sampled_from(list(container.NAMES)).flatmap(lambda dtype: st.sampled_from([dtype, dtype.newbyteorder(">")]))
steps = st.sampled_from([slice(None), slice(None, None, -1), slice(None, None, 2), slice(1, None)])


@given(
    array=numpy_strategies.arrays(dtypes, numpy_strategies.array_shapes(min_dims=0, max_dims=4, min_side=0)),
    step=steps,
    turned=st.booleans(),
)
def test_any_array_comes_back(array: np.ndarray, step: slice, turned: bool, tmp_path_factory: Any) -> None:
    """Of any shape, byte order and layout, also in pieces of a few items."""
    if array.ndim:
        array = array[..., step]
    if turned:
        array = array.T
    path = tmp_path_factory.getbasetemp() / "any.oh"
    piece, container.PIECE = container.PIECE, 24
    try:
        format.write(path, "thing", {"x": array})
    finally:
        container.PIECE = piece
    for mapped in (False, True):
        found = format.read(path, mapped)[1]["x"]
        assert found.dtype == array.dtype.newbyteorder("<")
        assert found.shape == array.shape
        assert found.tobytes() == array.astype(found.dtype).tobytes()


def test_what_cannot_be_written_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    for value in (
        object(),
        {1, 2},
        np.array(["a"]),
        np.array([None]),
        np.zeros(2, np.longdouble),
        b"bytes",
        {"$array": "x"},
        [{"$float": "inf"}],
    ):
        assert isinstance(refused(format.write, tmp_path / "a", "thing", {"x": value}), InvalidInput)
        assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ the file


def test_the_safetensors_library_reads_it(path: Path) -> None:
    with safe_open(path, framework="numpy") as file:
        assert json.loads(file.metadata()["onlinehash"])["kind"] == "thing"
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    expected = {f"arrays.{i}": array for i, array in enumerate(CONTENT["arrays"])}
    expected["arrays.4"] = expected["arrays.4"].T
    expected["nested.list.0.array"] = CONTENT["nested"]["list"][0]["array"]
    assert as_bytes(found) == as_bytes(expected)


def test_a_mapped_file_is_not_read(path: Path) -> None:
    """Its arrays are read-only views of it, and their bytes are not compared with the checksum."""
    _, content = format.read(path, mmap=True)
    array = content["arrays"][7]
    assert not array.flags.writeable
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)
    data = bytearray(path.read_bytes())
    at = data.index(CONTENT["arrays"][7].tobytes())
    data[at] = 99
    path.write_bytes(data)
    assert format.read(path, mmap=True)[1]["arrays"][7][0, 0, 0] == 99


# ------------------------------------------------------------------ all or nothing


def test_no_file_and_no_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.oh", tmp_path):
        assert isinstance(refused(format.read, path), InvalidInput)
    for path in (tmp_path / "none" / "a.oh", tmp_path):
        assert isinstance(refused(format.write, path, "thing", {}), InvalidInput)


@pytest.mark.parametrize(
    ("error", "seen"), [(KeyboardInterrupt(), KeyboardInterrupt), (OSError(28, "No space left"), InvalidInput)]
)
def test_writing_is_all_or_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, error: Any, seen: Any) -> None:
    """A crash while writing leaves the old file, and no litter."""
    before = path.read_bytes()

    def crash(*args: Any) -> None:
        raise error

    monkeypatch.setattr(atomic, "sync_file", crash)
    with pytest.raises(seen):
        format.write(path, "thing", {"x": 1})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_file_and_folder_are_on_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file before it gets its name, and then the folder, which holds the name."""
    events: list[Any] = []
    replace, sync_file = os.replace, atomic.sync_file

    def note_replace(source: Any, target: Any) -> None:
        events.append("replace")
        replace(source, target)

    def note_sync(descriptor: int) -> None:
        events.append(os.fstat(descriptor).st_ino)
        sync_file(descriptor)

    monkeypatch.setattr(os, "replace", note_replace)
    monkeypatch.setattr(atomic, "sync_file", note_sync)
    format.write(path, "thing", {"x": 1})
    assert events == [path.stat().st_ino, "replace", path.parent.stat().st_ino]


@pytest.mark.parametrize("supported", [True, False])
def test_the_drives_cache_is_emptied_where_the_system_can(
    path: Path, monkeypatch: pytest.MonkeyPatch, supported: bool
) -> None:
    """As on macOS, whose `fsync` does not; some of its file systems refuse."""
    calls: list[Any] = []

    def control(descriptor: int, command: int) -> None:
        calls.append(command)
        if not supported:
            raise OSError(45, "Operation not supported")

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync"))
    format.write(path, "thing", {"x": 1})
    assert calls == ([51] if supported else [51, "fsync"]) * 2


def test_a_name_that_occurs_twice_in_the_header_is_refused() -> None:
    """Which of the two values counts would be a guess, and the checksum is that of the last."""
    header, rest = header_of(format.to_bytes("thing", {"payloads": [{"a": 1}]}))
    text = header["__metadata__"]["onlinehash"]
    assert text.count('{"a": 1}') + text.count('{"a":1}') == 1
    for once in ('{"a": 1}', '{"a":1}'):
        text = text.replace(once, '{"a": 2, "a": 1}')
    header["__metadata__"]["onlinehash"] = text
    with pytest.raises(FormatError, match="or has a name twice"):
        format.from_bytes(with_header(header, rest), "the body")
