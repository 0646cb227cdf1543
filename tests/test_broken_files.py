"""What is no file of ours, or one no more, gets one clear sentence, and no memory because it asks for some."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save as save_tensors

from onlinehash.errors import FormatError
from onlinehash.io import format
from tests.edited_files import edit, header_of
from tests.support import as_bytes, refused

CONTENT: dict[str, Any] = {
    "numbers": [0, 0.1, 1e300, float("inf")],
    "texts": {"one": "ä", "none": None},
    "arrays": [
        np.arange(128, dtype=np.uint8),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 4), np.float32),
        np.array([True, False]),
    ],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "thing.oh"
    format.write(path, "thing", CONTENT)
    return path


def sentence(path: Path) -> str:
    """The file is refused, read or mapped, in the same words."""
    errors = [refused(format.read, path, mapped) for mapped in (False, True)]
    assert all(type(error) is FormatError for error in errors)
    assert str(errors[0]) == str(errors[1])
    return str(errors[0])


# ------------------------------------------------------------------ foreign, truncated


def test_truncated_or_too_long(path: Path) -> None:
    data = path.read_bytes()
    for other in (data[:7], data[:8], data[:100], data[: len(data) // 2], data[:-64], data[:-1], data + b"more"):
        path.write_bytes(other)
        assert "is not an onlinehash file, or it is truncated" in sentence(path)


def test_a_file_of_another_kind_is_called_what_it_is(path: Path) -> None:
    for write, words in (
        (lambda file: np.save(file, np.eye(3)), "is a NumPy array, not a model, an index or codes saved by"),
        (lambda file: np.savez(file, X=np.eye(3)), "is a zip archive, such as an npz file, not a model"),
        (lambda file: pickle.dump([1, 2], file), "is a pickle, not a model"),
    ):
        with path.open("wb") as file:
            write(file)
        assert words in sentence(path)


def test_foreign_bytes_and_strange_headers(path: Path) -> None:
    headers = (
        b"[]",
        b"null",
        b"{}}",
        b"\xff{}",
        b"[" * 100_000,
        b'{"a": ' * 100_000,
        b'{"__metadata__": {"onlinehash": 3}}',
        b'{"__metadata__": {"onlinehash": "' + b"[" * 100_000 + b'"}}',
        b'{"\\ud800": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}',
    )
    for data in (b"", bytes(1000), b"\xff" * 1000, *(struct.pack("<Q", len(text)) + text for text in headers)):
        path.write_bytes(data)
        sentence(path)
    for metadata in (None, {"format": "pt"}, {"onlinehash": "no json"}, {"onlinehash": "[]"}, {"onlinehash": "{}"}):
        path.write_bytes(save_tensors({"weights": np.ones(3)}, metadata))
        assert "is not an onlinehash file" in sentence(path)


def test_another_format(path: Path) -> None:
    edit(path, lambda entries, ours: ours.update(format=99))
    assert "has format 99, and this version of onlinehash reads format 1" in sentence(path)


# ------------------------------------------------------------------ changed


def test_a_tampered_array(path: Path) -> None:
    """One bit of any byte of any array; a mapped file's are not looked at."""
    data = path.read_bytes()
    _, arrays = header_of(data)
    for at in range(len(data) - len(arrays), len(data), 7):
        changed = bytearray(data)
        changed[at] ^= 1
        path.write_bytes(changed)
        assert "was changed after it was written" in str(refused(format.read, path))
        format.read(path, mmap=True)


# ------------------------------------------------------------------ hostile, with sums that are right


def test_an_entry_that_lies(path: Path) -> None:
    data = path.read_bytes()
    for entry in (
        {"shape": [2**62]},
        {"shape": [0, 2**62, 2**62]},
        {"shape": [-1, -128]},
        {"shape": ["128"]},
        {"dtype": "O"},
        {"data_offsets": [0]},
        {"data_offsets": [-128, 0]},
        {"data_offsets": [64, 192]},
        {"data_offsets": [0, 2**40], "shape": [2**40]},
    ):
        path.write_bytes(data)
        edit(path, lambda entries, ours, entry=entry: entries["arrays.0"].update(entry), sums=True)
        with little_memory():
            assert "is not an onlinehash file, or it is truncated" in sentence(path)


# ------------------------------------------------------------------ anything


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()


def read_or_refused(path: Path, mapped: bool) -> Any:
    """What the file holds, or None after one clear sentence."""
    try:
        return format.read(path, mapped)
    except FormatError as error:
        message = str(error)
        assert message.endswith("."), message
        assert "\n" not in message, message
        return None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broken") / "thing.oh"


@given(data=st.data())
def test_any_truncation(data: Any, place: Path) -> None:
    format.write(place, "thing", CONTENT)
    whole = place.read_bytes()
    place.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    sentence(place)


@given(flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=3))
def test_any_changed_bytes(flips: list[tuple[int, int]], place: Path) -> None:
    """Refused, or without a meaning (a space that became another)."""
    format.write(place, "thing", CONTENT)
    changed = bytearray(place.read_bytes())
    for at, mask in flips:
        changed[at % len(changed)] ^= mask
    place.write_bytes(changed)
    with little_memory():
        found = read_or_refused(place, mapped=False)
        read_or_refused(place, mapped=True)
    assert found is None or as_bytes(found) == as_bytes(("thing", CONTENT))


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([-1, 0, 1, 2, 64, 128, 2**31, 2**40, 2**63, 2**64, 10**30, 0.5, float("nan"), "U8", "F64", "x"])
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["$array", "$float", "dtype", "shape", "data_offsets"]), inner, max_size=3)
    ),
    max_leaves=5,
)


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every container in nested lists and dictionaries, with a key of it."""
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [place for key in keys for place in [(tree, key), *places(tree[key])]]


@given(data=st.data(), sums=st.booleans())
def test_any_edit_of_the_header(data: Any, sums: bool, place: Path) -> None:
    """Also by somebody who computes the sums anew."""
    format.write(place, "thing", CONTENT)

    def change(entries: dict[str, Any], ours: dict[str, Any]) -> None:
        for _ in range(data.draw(st.integers(1, 3))):
            inside, key = data.draw(st.sampled_from(places(entries) + places(ours)))
            if data.draw(st.booleans()):
                inside[key] = data.draw(anything)
            else:
                del inside[key]

    edit(place, change, sums=sums)
    with little_memory():
        for mapped in (False, True):
            read_or_refused(place, mapped)


def test_what_the_edits_are_made_from_can_be_read(path: Path) -> None:
    """So that each of them is refused for its edit."""
    for sums in (False, True):
        edit(path, lambda entries, ours: None, sums=sums)
        for mapped in (False, True):
            assert as_bytes(format.read(path, mapped)[1]) == as_bytes(CONTENT)
