"""fvecs, bvecs, ivecs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash import datasets
from onlinehash.datasets import vecs
from onlinehash.errors import FormatError
from tests.datasets.writing import write_texmex, write_vecs

KINDS = {".fvecs": "<f4", ".bvecs": "u1", ".ivecs": "<i4"}


@given(st.sampled_from(sorted(KINDS)), st.integers(1, 9), st.integers(1, 9), st.integers(1, 12) | st.none())
def test_what_was_written_is_read(tmp_path_factory, kind, n, d, rows):
    values = np.random.default_rng(n * d).integers(0, 256, (n, d)).astype(KINDS[kind])
    path = write_vecs(tmp_path_factory.mktemp("vecs") / f"a{kind}", values)
    found = vecs.read(path, rows)
    assert found.dtype == KINDS[kind]
    assert np.array_equal(found, values[:rows])


def test_a_task_of_four_files(tmp_path):
    parts = write_texmex(tmp_path / "gist1m", "gist")
    found = datasets.load("gist1m", folder=tmp_path)
    for array, name in ((found.X, "base"), (found.learning, "learn"), (found.queries, "query")):
        assert np.array_equal(array, parts[name])
    assert np.array_equal(found.neighbours, parts["groundtruth"])
    assert (found.name, found.metric) == ("gist1m", "euclidean")
    part = datasets.load("gist1m", folder=tmp_path, rows=8)
    assert len(part.X) == 8
    assert part.neighbours is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b[:-3], "is truncated: expected vectors of 24 bytes, got 21 bytes after the last"),
        (lambda b: b[:24] + b"\x04" + b[25:], "expected 5 as the dimension of every vector, got 4 for vector 1"),
    ],
    ids=["cut", "ragged"],
)
def test_files_that_are_not_what_they_claim(tmp_path, change, message):
    path = write_vecs(tmp_path / "a.fvecs", np.zeros((3, 5), np.float32))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FormatError, match=message):
        vecs.read(path)
