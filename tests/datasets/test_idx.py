"""idx, plain and compressed."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from onlinehash import datasets
from onlinehash.datasets import idx
from onlinehash.errors import FormatError, InvalidInput
from tests.datasets.writing import idx_bytes, write_mnist


@pytest.mark.parametrize("compressed", [True, False])
def test_mnist(tmp_path, compressed):
    images, labels = write_mnist(tmp_path / "mnist", compressed=compressed)
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


def test_numbers_are_big_endian(tmp_path):
    (tmp_path / "a.idx").write_bytes(b"\0\0\x0c\x01\0\0\0\x02\0\0\x01\0\xff\xff\xff\xff")
    assert idx.read(tmp_path / "a.idx").tolist() == [256, -1]


WHOLE = idx_bytes(np.zeros((3, 4, 4), np.uint8))


@pytest.mark.parametrize("ending", [".idx", ".gz"])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (WHOLE[:-1], "is truncated"),
        (WHOLE + b"x", "is too long"),
        (WHOLE[:9], "is truncated: the lengths of its 3 axes are missing"),
        (b"\x89PNG" + WHOLE, "expected an idx file"),
        (b"", "expected an idx file"),
        (WHOLE[:4] + b"\xff" * 12 + WHOLE[16:], "is truncated|would unpack to"),  # 2**96 values are promised
    ],
    ids=["cut", "long", "header", "foreign", "empty", "huge"],
)
def test_files_that_are_not_what_they_claim(tmp_path, data, message, ending):
    path = tmp_path / f"a{ending}"
    path.write_bytes(gzip.compress(data) if ending == ".gz" else data)
    with pytest.raises((FormatError, InvalidInput), match=message):
        idx.read(path)


def test_a_broken_gzip(tmp_path):
    whole = gzip.compress(WHOLE)
    for data in (whole[:-12], b"no gzip at all", whole[:20] + b"\xff\xff" + whole[22:]):
        (tmp_path / "a.gz").write_bytes(data)
        with pytest.raises(FormatError, match="is not a sound gzip file"):
            idx.read(tmp_path / "a.gz")
