"""The batches of CIFAR-10, which are pickles: plain data is read, and nothing is ever run."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from onlinehash import datasets
from onlinehash.datasets import cifar, pickles
from onlinehash.errors import FormatError
from tests.datasets.writing import write_batch

rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, (5, 32, 32, 3), np.uint8)
LABELS = [3, 0, 9, 1, 200]


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_batch(tmp_path, protocol):
    images, labels = cifar.read_batch(write_batch(tmp_path / "data_batch_1", IMAGES, LABELS, protocol))
    assert np.array_equal(images, IMAGES)
    assert labels.tolist() == LABELS


def test_all_batches(tmp_path):
    for k, name in enumerate(cifar.BATCHES):
        write_batch(tmp_path / name, IMAGES[k % 5 : k % 5 + 1], [k])
    found = datasets.load("cifar-10", folder=tmp_path)
    assert found.y.tolist() == [0, 1, 2, 3, 4, 5]
    assert np.array_equal(found.X, IMAGES[[0, 1, 2, 3, 4, 0]].reshape(6, -1))
    assert datasets.load(tmp_path / "test_batch").y.tolist() == [5]


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize(
    "content",
    [
        Evil(),
        {b"data": Evil()},
        os.system,
        np.array([Evil()]),
    ],
    ids=["call", "in a dict", "function", "objects"],
)
def test_what_is_no_plain_data_is_refused(tmp_path, monkeypatch, content, protocol):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        FormatError, match=r"^a file: expected a pickle of plain data, got .*; nothing of it was run\.$"
    ):
        pickles.read(pickle.dumps(content, protocol), "a file")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02cos\nsystem\n(U\x08echo hiq\x00tR.",
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00rot\x86R.",
        b"\x80\x02cnumpy\ndtype\nU\x01OK\x00K\x01\x87R.",
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\n\x85R.",
        b"\x80\x02]N\x81.",
        b"\x80\x02]]b.",
        b"\x80\x02c_codecs\nencode\nN}U\x03badK\x01s\x86b.",
        b"\x80\x02Nr\xff\xff\xff\x7f.",
    ],
    ids=["system", "codec", "object dtype", "other class", "new", "build", "attributes", "a memo of 32 GB"],
)
def test_hand_made_attacks(data):
    with pytest.raises(FormatError):
        pickles.read(data, "a file")
    assert not any(hasattr(known, "bad") for known in pickles.KNOWN.values())
