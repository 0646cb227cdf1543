"""The file format: what goes in comes out, and what is no such file gets one clear sentence."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save as save_tensors

from onlinehash import format
from onlinehash.errors import FormatError, InvalidInput
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
    ],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "thing.oh"
    format.write(path, "thing", CONTENT)
    return path


def sentence(path: Path) -> str:
    error = refused(format.read, path)
    assert isinstance(error, FormatError)
    return str(error)


def header_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The safetensors header and the bytes of the arrays."""
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def with_header(header: dict[str, Any], rest: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + rest


def test_what_goes_in_comes_out(path: Path) -> None:
    kind, content = format.read(path)
    assert kind == "thing"
    assert as_bytes(content) == as_bytes(CONTENT)


def test_the_layout_of_arrays_comes_back(path: Path) -> None:
    """Products round by the layout of their factors."""
    _, content = format.read(path)
    assert content["arrays"][4].flags.f_contiguous
    assert not content["arrays"][4].flags.c_contiguous
    assert content["nested"]["list"][0]["array"].flags.c_contiguous


def test_nan_comes_back(tmp_path: Path) -> None:
    format.write(tmp_path / "a", "thing", {"x": float("nan")})
    assert np.isnan(format.read(tmp_path / "a")[1]["x"])


def test_numpy_scalars_and_tuples_become_plain(tmp_path: Path) -> None:
    format.write(tmp_path / "a", "thing", {"x": (np.float32(0.5), np.int8(3), np.bool_(True), np.str_("a"))})
    assert format.read(tmp_path / "a")[1] == {"x": [0.5, 3, True, "a"]}


def test_it_is_a_safetensors_file_with_a_json_header(path: Path) -> None:
    header, _ = header_of(path.read_bytes())
    ours = json.loads(header["__metadata__"]["onlinehash"])
    assert ours["format"] == format.FORMAT == 1
    assert ours["kind"] == "thing"
    assert ours["content"]["numbers"][5] == {"$float": "inf"}
    assert ours["content"]["nested"]["list"][0]["array"] == {"$array": "nested.list.0.array"}
    assert "nested.list.0.array" in header


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, 1j, np.array(["a"]), np.array([1j]), np.array([None]), b"bytes", np.datetime64(0, "s")]
)
def test_what_cannot_be_written_is_refused_and_nothing_is_left(value: Any, tmp_path: Path) -> None:
    assert isinstance(refused(format.write, tmp_path / "a", "thing", {"x": value}), InvalidInput)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 9, 100, 0.3, 0.6, 0.9, -64, -8, -1])
def test_truncated(path: Path, keep: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    assert "truncated or of another kind" in sentence(path)


def test_longer_than_it_should_be(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")
    assert "truncated or of another kind" in sentence(path)


@pytest.mark.parametrize(
    "data",
    [b"", b"PK\x03\x04" + bytes(100), b"\x80\x04\x95", b"{}", bytes(8), bytes(1000), b"\xff" * 1000, "naïve".encode()],
)
def test_foreign_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    sentence(path)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"format": "pt"},
        {"onlinehash": "no json"},
        {"onlinehash": "3"},
        {"onlinehash": "[]"},
        {"onlinehash": "null"},
        {"onlinehash": "{}"},
        {"onlinehash": '{"format": 1}'},
    ],
)
def test_foreign_safetensors(path: Path, metadata: Any) -> None:
    path.write_bytes(save_tensors({"weights": np.ones(3)}, metadata))
    assert "a file of something else" in sentence(path)


def test_foreign_safetensors_of_types_that_numpy_lacks(path: Path) -> None:
    header = {"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}
    path.write_bytes(with_header(header, bytes(4)))
    sentence(path)


@pytest.mark.parametrize("number", [2, 99, 0, "1", None])
def test_another_format(path: Path, number: Any) -> None:
    header, rest = header_of(path.read_bytes())
    ours = json.loads(header["__metadata__"]["onlinehash"])
    ours["format"] = number
    header["__metadata__"]["onlinehash"] = json.dumps(ours)
    path.write_bytes(with_header(header, rest))
    assert f"has format {number}, and this version of onlinehash reads format 1" in sentence(path)


@pytest.mark.parametrize(("field", "value"), [("kind", "other"), ("content", {}), ("checksum", "0" * 64), ("kind", [])])
def test_a_tampered_header(path: Path, field: str, value: Any) -> None:
    header, rest = header_of(path.read_bytes())
    ours = json.loads(header["__metadata__"]["onlinehash"])
    ours[field] = value
    header["__metadata__"]["onlinehash"] = json.dumps(ours)
    path.write_bytes(with_header(header, rest))
    assert "was changed after it was written" in sentence(path)


def test_a_tampered_value_in_the_header(path: Path) -> None:
    data = path.read_bytes()
    assert data.count(b"1e+300") == 1
    path.write_bytes(data.replace(b"1e+300", b"2e+300"))
    assert "was changed after it was written" in sentence(path)


def test_a_tampered_array(path: Path) -> None:
    """One bit of any byte of any array."""
    data = path.read_bytes()
    _, arrays = header_of(data)
    for at in range(len(data) - len(arrays), len(data), 7):
        changed = bytearray(data)
        changed[at] ^= 1
        path.write_bytes(changed)
        assert "was changed after it was written" in sentence(path)


def test_arrays_that_changed_places(path: Path) -> None:
    header, rest = header_of(path.read_bytes())
    header["arrays.3"], header["arrays.2"] = header["arrays.2"], header["arrays.3"]
    path.write_bytes(with_header(header, rest))
    sentence(path)


def test_a_header_that_names_an_array_that_is_not_there(path: Path) -> None:
    plain = {"x": {"$array": "gone"}}
    ours = {"format": 1, "kind": "thing", "content": plain, "checksum": format._checksum("thing", plain, {})}
    path.write_bytes(save_tensors({}, {"onlinehash": json.dumps(ours)}))
    assert "incomplete" in sentence(path)


def test_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none.oh", tmp_path):
        assert isinstance(refused(format.read, path), InvalidInput)


def test_no_folder(tmp_path: Path) -> None:
    assert isinstance(refused(format.write, tmp_path / "none" / "a.oh", "thing", {}), InvalidInput)


def test_a_folder_in_the_way(tmp_path: Path) -> None:
    assert isinstance(refused(format.write, tmp_path, "thing", {}), InvalidInput)


def test_writing_is_all_or_nothing(path: Path, monkeypatch: Any) -> None:
    """A crash while writing leaves the old file, and no litter."""
    before = path.read_bytes()

    def crash(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(KeyboardInterrupt):
        format.write(path, "thing", {"x": 1})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_writing_replaces(path: Path) -> None:
    format.write(str(path), "other", {"x": 1})
    assert format.read(str(path)) == ("other", {"x": 1})


def test_the_file_has_the_permissions_of_a_new_file(path: Path) -> None:
    plain = path.with_name("plain")
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode
