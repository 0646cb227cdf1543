"""`onlinehash encode` gives the codes that the library gives, in every form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onlinehash
from onlinehash import Codes, MultiModelOnlineHashing, OnlineHashing
from tests.cli.running import Data, done, refused

DATA = Data.make()


@pytest.fixture
def learner() -> Any:
    return MultiModelOnlineHashing(11, n_models=3, random_state=0).partial_fit_pairs(DATA.A, DATA.B, DATA.similar)


@pytest.fixture
def files(tmp_path: Path, learner: Any) -> Iterator[tuple[Path, Path]]:
    onlinehash.save(learner, tmp_path / "model.oh")
    np.save(tmp_path / "x.npy", DATA.X)
    return tmp_path / "model.oh", tmp_path / "x.npy"


def text_of(learner: Any) -> list[str]:
    return ["".join("01"[int(bit)] for bit in row) for row in learner.transform(DATA.X)]


def test_files_of_codes(tmp_path: Path, files: tuple[Path, Path], learner: Any) -> None:
    codes, bits = learner.encode(DATA.X), learner.transform(DATA.X)
    out = done("encode", *files, "-o", tmp_path / "c.npy").out
    assert out.startswith("wrote 60 codes of 11 bits")
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), codes.to_faiss())
    done("encode", *files, "--bits", "-o", tmp_path / "b.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), bits)
    assert np.load(tmp_path / "b.npy").dtype == np.bool_
    done("encode", *files, "-o", tmp_path / "c.npz")
    with np.load(tmp_path / "c.npz") as arrays:
        rebuilt = Codes.from_faiss(arrays["packed"], int(arrays["n_bits"]), int(arrays["n_models"]))
    assert rebuilt == codes
    done("encode", *files, "--bits", "-o", tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as arrays:
        np.testing.assert_array_equal(arrays["bits"], bits)
    done("encode", *files, "-o", tmp_path / "c.txt")
    assert (tmp_path / "c.txt").read_text().splitlines() == text_of(learner)
    done("encode", *files, "-o", tmp_path / "c.oh")
    assert onlinehash.load(tmp_path / "c.oh") == codes


def test_text_and_json(files: tuple[Path, Path], learner: Any, tmp_path: Path) -> None:
    assert done("encode", *files).out.splitlines() == text_of(learner)
    document = done("encode", *files, "--json").document
    assert document == {
        "n": 60,
        "n_bits": 11,
        "n_models": learner.encode(DATA.X).n_models,
        "version": learner.version_,
        "codes": text_of(learner),
    }
    document = done("encode", *files, "--json", "-o", tmp_path / "c.npy").document
    assert document["output"] == str(tmp_path / "c.npy")


def test_files_that_are_not_ours(tmp_path: Path, files: tuple[Path, Path]) -> None:
    whole = files[0].read_bytes()
    (tmp_path / "half.oh").write_bytes(whole[: len(whole) // 2])
    code, message = refused("encode", tmp_path / "half.oh", files[1])
    assert code == 4
    assert "truncated" in message
    onlinehash.save(OnlineHashing(8), tmp_path / "fresh.oh")
    code, message = refused("encode", tmp_path / "fresh.oh", files[1])
    assert code == 3
    assert "because it has seen no data; continue with `onlinehash learn FILES --resume" in message
