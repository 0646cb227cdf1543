"""idx, plain and compressed."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from onlinehash import datasets
from onlinehash.datasets import idx
from onlinehash.errors import FormatError, InvalidInput
from tests.datasets.writing import idx_bytes, write_mnist


def test_mnist(tmp_path):
    images, labels = write_mnist(tmp_path / "mnist")
    found = datasets.load("mnist", folder=tmp_path)
    assert (found.name, found.X.shape, found.X.dtype) == ("mnist", (9, 784), np.float32)
    assert np.array_equal(found.X, images.reshape(9, -1))
    assert np.array_equal(found.y, labels)
    assert len(datasets.load("mnist", folder=tmp_path, rows=2).y) == 2


WHOLE = idx_bytes(np.zeros((3, 4, 4), np.uint8))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (WHOLE[:-1], "is truncated"),
        (WHOLE + b"x", "is too long"),
        (b"\x89PNG" + WHOLE, "expected an idx file"),
        (WHOLE[:4] + b"\xff" * 12 + WHOLE[16:], "is truncated|would unpack to"),  # 2**96 values are promised
    ],
    ids=["cut", "long", "foreign", "huge"],
)
def test_files_that_are_not_what_they_claim(tmp_path, data, message):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(data))
    with pytest.raises((FormatError, InvalidInput), match=message):
        idx.read(path)
