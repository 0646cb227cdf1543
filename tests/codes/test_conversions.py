"""Codes in the layouts of others, against those others: NumPy's packbits, FAISS, pgvector."""

from __future__ import annotations

import importlib
import platform
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash import Codes
from onlinehash.codes import fused_distances
from tests.codes.drawn import Drawn, drawn
from tests.needs import must_run

#: Machines on which FAISS (1.15) loses 256 for every so many bytes of two codes that differ in all their bits.
FAISS_WRAPS_ON, WRAPPED_BYTES = ("aarch64", "arm64"), 32


@pytest.fixture(scope="module")
def others() -> Any:
    """Imports a library; where it cannot be installed its tests are skipped, unless they must run."""

    def find(name: str) -> Any:
        return importlib.import_module(name) if must_run() else pytest.importorskip(name)

    return find


@given(case=drawn(), bitorder=st.sampled_from(["big", "little"]))
def test_packbits(case: Drawn, bitorder: Any) -> None:
    codes, packed = Codes.from_bits(case.bits, case.n_models), np.packbits(case.bits, axis=1, bitorder=bitorder)
    assert np.array_equal(codes.to_packbits(bitorder), packed)
    assert Codes.from_packbits(packed, case.n_bits, case.n_models, bitorder) == codes
    unpacked = np.unpackbits(codes.to_packbits(bitorder), axis=1, count=codes.n_columns, bitorder=bitorder)
    assert np.array_equal(unpacked, case.bits)


@given(case=drawn((1, 65)))
def test_faiss(case: Drawn, others: Any) -> None:
    """It finds the distances that we find, and keeps our bytes."""
    faiss = others("faiss")
    codes = Codes.from_bits(case.bits, case.n_models)
    queries = Codes.from_bits(~case.bits[:3], case.n_models)
    index = faiss.IndexBinaryFlat(8 * codes.to_faiss().shape[1])
    index.add(codes.to_faiss())
    distances, positions = index.search(queries.to_faiss(), len(codes))
    expected = fused_distances(queries, codes, "sum").astype(np.int64)
    if platform.machine() in FAISS_WRAPS_ON:
        differ = queries.to_faiss()[:, None] ^ codes.to_faiss()
        whole = differ[..., : differ.shape[2] // WRAPPED_BYTES * WRAPPED_BYTES]
        lost = (whole.reshape(*whole.shape[:2], -1, WRAPPED_BYTES) == 255).all(axis=3).sum(axis=2)
        expected -= 256 * lost
    assert np.array_equal(distances, np.sort(expected, axis=1))
    assert np.array_equal(np.take_along_axis(expected, positions, axis=1), distances)
    kept = faiss.vector_to_array(index.xb).reshape(len(codes), -1)
    assert Codes.from_faiss(kept, case.n_bits, case.n_models) == codes


@given(case=drawn((1, 65)))
def test_pgvector(case: Drawn, others: Any) -> None:
    bit = others("pgvector").Bit
    codes = Codes.from_bits(case.bits, case.n_models)
    theirs = [bit(row) for row in case.bits]
    assert codes.to_pgvector() == [value.to_text() for value in theirs]
    assert [bit(text).to_list() for text in codes.to_pgvector()] == case.bits.tolist()
    assert Codes.from_pgvector(theirs, case.n_models) == codes
    assert Codes.from_pgvector(codes.to_pgvector(), case.n_models) == codes
    assert Codes.from_pgvector((text for text in codes.to_pgvector()), case.n_models) == codes


def test_no_codes_at_all() -> None:
    codes = Codes.from_bits(np.zeros((0, 12), bool), 2)
    assert codes.to_pgvector() == []
    assert codes.to_faiss().shape == codes.to_packbits().shape == (0, 2)
    assert Codes.from_faiss(codes.to_faiss(), 6, 2) == codes


@given(case=drawn())
def test_layouts_of_other_stores(case: Drawn) -> None:
    """Signed and hexadecimal bytes are those of packbits; products of signs tell distances."""
    codes = Codes.from_bits(case.bits, case.n_models)
    packed = np.packbits(case.bits, axis=1)
    assert codes.to_int8().dtype == np.int8
    assert np.array_equal(codes.to_int8().view(np.uint8), packed)
    assert [bytes.fromhex(text) for text in codes.to_hex()] == [row.tobytes() for row in packed]
    signs = codes.to_signs()
    assert signs.dtype == np.float32
    assert np.array_equal(codes.n_columns - 2 * fused_distances(codes, codes, "sum").astype(int), signs @ signs.T)
