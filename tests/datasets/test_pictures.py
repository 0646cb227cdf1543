"""Bitmaps, Photo Tourism and Tiny Images."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import datasets
from onlinehash.datasets import gist, photo_tourism
from onlinehash.datasets.photo_tourism import read_bitmap
from tests.datasets.writing import write_bmp, write_patches

rng = np.random.default_rng(0)
PICTURE = rng.integers(0, 256, (1024, 1024), np.uint8)


@pytest.mark.parametrize(("bits", "top_down"), [(8, False), (24, True)])
def test_a_bitmap(tmp_path, bits, top_down):
    assert np.array_equal(read_bitmap(write_bmp(tmp_path / "a.bmp", PICTURE, bits, top_down)), PICTURE)


def test_patches_and_their_points(tmp_path):
    patches, points = write_patches(tmp_path / "notredame", 300)
    found = photo_tourism.read_patches(tmp_path / "notredame")
    assert np.array_equal(found.images, patches)
    assert np.array_equal(found.points, points)
    loaded = datasets.load("photo-tourism-notredame", folder=tmp_path, rows=20)
    assert loaded.X.shape == (20, 512)
    assert np.array_equal(loaded.X, gist.describe(patches[:20]))
    assert np.array_equal(loaded.y, points[:20])
