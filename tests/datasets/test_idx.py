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


def test_one_file_with_the_labels_beside_it(tmp_path):
    images, labels = write_mnist(tmp_path)
    found = datasets.load(tmp_path / "t10k-images-idx3-ubyte.gz")
    assert np.array_equal(found.X, images[6:].reshape(3, -1))
    assert np.array_equal(found.y, labels[6:])
    given = datasets.load(
        tmp_path / "t10k-images-idx3-ubyte.gz",
        labels=(tmp_path / "t10k-labels-idx1-ubyte.gz").rename(tmp_path / "l.gz"),
    )
    assert given.fingerprint == found.fingerprint
    assert datasets.load(tmp_path / "t10k-images-idx3-ubyte.gz").y is None
    with pytest.raises(InvalidInput, match="the labels of mnist are not in"):
        idx.read_mnist(tmp_path, "mnist")
    with pytest.raises(InvalidInput, match="holds labels, not images"):
        datasets.load(tmp_path / "train-labels-idx1-ubyte.gz")


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
