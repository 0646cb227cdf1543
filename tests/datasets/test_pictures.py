"""Bitmaps, Photo Tourism and Tiny Images."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from onlinehash import datasets
from onlinehash.datasets import gist, photo_tourism, tiny_images
from onlinehash.datasets.photo_tourism import read_bitmap
from onlinehash.errors import FormatError, InvalidInput
from tests.datasets.writing import write_bmp, write_patches

rng = np.random.default_rng(0)
PICTURE = rng.integers(0, 256, (1024, 1024), np.uint8)


@pytest.mark.parametrize("bits", [8, 24])
@pytest.mark.parametrize("top_down", [False, True])
def test_a_bitmap(tmp_path, bits, top_down):
    assert np.array_equal(read_bitmap(write_bmp(tmp_path / "a.bmp", PICTURE, bits, top_down)), PICTURE)


def test_our_files_are_what_others_read(tmp_path):
    with Image.open(io.BytesIO(write_bmp(tmp_path / "a.bmp", PICTURE).read_bytes())) as picture:
        assert np.array_equal(np.asarray(picture.convert("L")), PICTURE)


def test_the_palette_and_colours_count(tmp_path):
    data = bytearray(write_bmp(tmp_path / "a.bmp", PICTURE).read_bytes())
    data[54 : 54 + 4] = bytes([255, 0, 0, 0])  # what was black is blue
    (tmp_path / "a.bmp").write_bytes(data)
    picture = PICTURE.copy()
    picture[picture == 0] = 29
    assert np.array_equal(read_bitmap(tmp_path / "a.bmp"), picture)


@pytest.mark.parametrize(
    ("at", "new", "message"),
    [
        (0, b"PK", "not a readable BMP picture"),
        (28, b"\x05", "not a readable BMP picture"),
        (30, b"\x09", "not a readable BMP picture"),
        (18, b"\xff\xff\xff\x0f", "not a readable BMP picture .Image size .274877905920 pixels. exceeds limit"),
        (18, b"\xff\x00\x00\x00", "expected 1024 x 1024 pixels, got 255 x 1024"),
        (10, b"\xff\xff\x00\x00", "not a readable BMP picture"),
    ],
    ids=["magic", "bits", "packed", "huge", "narrow", "short"],
)
def test_bitmaps_that_are_not_what_they_claim(tmp_path, at, new, message):
    data = bytearray(write_bmp(tmp_path / "a.bmp", PICTURE).read_bytes())
    data[at : at + len(new)] = new
    (tmp_path / "a.bmp").write_bytes(data)
    with pytest.raises(FormatError, match=message):
        read_bitmap(tmp_path / "a.bmp")


def test_patches_and_their_points(tmp_path):
    patches, points = write_patches(tmp_path / "notredame", 300)
    found = photo_tourism.read_patches(tmp_path / "notredame")
    assert np.array_equal(found.images, patches)
    assert np.array_equal(found.points, points)
    loaded = datasets.load("photo-tourism-notredame", folder=tmp_path, rows=20)
    assert loaded.X.shape == (20, 512)
    assert np.array_equal(loaded.X, gist.describe(patches[:20]))
    assert np.array_equal(loaded.y, points[:20])


def test_patches_that_are_not_all_there(tmp_path):
    write_patches(tmp_path, 300, bits=24)
    (tmp_path / "patches0001.bmp").unlink()
    with pytest.raises(InvalidInput, match=r"no such file: .*patches0001\.bmp"):
        photo_tourism.read_patches(tmp_path)
    write_bmp(tmp_path / "patches0000.bmp", PICTURE[:5, :7])
    with pytest.raises(FormatError, match="expected 1024 x 1024 pixels"):
        photo_tourism.read_patches(tmp_path)
    (tmp_path / "info.txt").write_text("1 0\nx 0\n")
    with pytest.raises(FormatError, match=r"info\.txt, line 2: expected 1 or 2 whole numbers, got 'x 0'"):
        photo_tourism.read_points(tmp_path)
    (tmp_path / "info.txt").write_text("")
    with pytest.raises(FormatError, match="is empty"):
        photo_tourism.read_points(tmp_path)


def test_matches(tmp_path):
    (tmp_path / "m50.txt").write_text("0 7 0 3 7 0 0\n1 7 0 2 8 0 0\n")
    found = photo_tourism.read_matches(tmp_path / "m50.txt")
    assert (found.first.tolist(), found.second.tolist(), found.similar.tolist()) == ([0, 1], [3, 2], [True, False])
    (tmp_path / "m50.txt").write_text("0 7 0 3 7 0 0\n1 7 0\n")
    with pytest.raises(FormatError, match="line 2: expected 6 or 7 whole numbers"):
        photo_tourism.read_matches(tmp_path / "m50.txt")


def test_tiny_images_are_stored_column_by_column(tmp_path):
    images = rng.integers(0, 256, (6, 32, 32, 3), np.uint8)
    path = tmp_path / "tiny_images.bin"
    path.write_bytes(b"".join(image.tobytes(order="F") for image in images))
    found = datasets.TinyImages(path)
    assert len(found) == 6
    assert np.array_equal(found.images([4, 0]), images[[4, 0]])
    assert np.array_equal(found.images(slice(2, 4)), images[2:4])
    loaded = datasets.load("tiny-images-80m", folder=tmp_path, rows=2)
    assert np.array_equal(loaded.X, images[:2].reshape(2, -1))
    with pytest.raises(InvalidInput, match="rows from 0 to 5, got -1 to 6"):
        found.images([-1, 6])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match="images of 3072 bytes each, got 18,431 bytes"):
        datasets.TinyImages(path)


def test_all_tiny_images_at_once_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tiny_images, "N_IMAGES", 1)
    (tmp_path / "tiny_images.bin").write_bytes(bytes(3072))
    with pytest.raises(InvalidInput, match="give rows=N"):
        datasets.load(tmp_path / "tiny_images.bin")
