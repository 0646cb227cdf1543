"""Pictures to vectors and back; files that are hostile, huge or broken are refused."""

from __future__ import annotations

import io
import struct
import zlib
from base64 import b64encode
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from onlinehash import png
from onlinehash.datasets import gist
from onlinehash.errors import InvalidInput, OnlineHashError
from onlinehash.index.api import Item
from onlinehash.serve.errors import NotFound, TooLarge
from onlinehash.serve.pictures import MEDIA_TYPES, FromPayload, Gist, Pixels, decoded, parse
from tests.serve.hostile import blamed, mutated, peak

RNG = np.random.default_rng(0)


def saved(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def header_only(width: int, height: int) -> bytes:
    """A PNG that says how large it is, and has next to nothing in it."""
    data = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    idat = zlib.compress(b"\0" * 1000)
    chunks = ((b"IHDR", data), (b"IDAT", idat), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(text)) + kind + text + struct.pack(">I", zlib.crc32(kind + text)) for kind, text in chunks
    )


PHOTO = Image.fromarray(RNG.integers(0, 256, (20, 24, 3)).astype(np.uint8))
SOUND = [saved(PHOTO), saved(PHOTO.convert("L")), saved(PHOTO, "JPEG"), saved(PHOTO, "WEBP"), saved(PHOTO.convert("P"))]


# ------------------------------------------------------------------ pixels


@given(arrays.arrays(np.uint8, (8, 5)))
def test_pixels_come_back(grey: np.ndarray):
    grey[0, :] = 0  # no paper
    pictures = Pixels(8, 5, scale=16.0)
    vector = grey.reshape(-1) / np.float32(255) * np.float32(16)
    found = pictures.vector_of(pictures.png_of(vector))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, vector)


def test_the_middle_is_cut_out_of_another_shape():
    grey = np.zeros((4, 8), np.uint8)
    grey[:, :2], grey[1:3, 3:5] = 77, 255
    assert (Pixels(4, 4).vector_of(png.written(grey)).reshape(4, 4) * 255).round().tolist() == grey[:, 2:6].tolist()


def test_every_format_and_mode_is_read():
    for kind, mode in (("PNG", "1"), ("PNG", "L"), ("PNG", "LA"), ("PNG", "P"), ("PNG", "RGBA"), ("JPEG", "CMYK"),
                       ("JPEG", "L"), ("WEBP", "RGBA")):  # fmt: skip
        assert Pixels(20, 24).vector_of(saved(PHOTO.convert(mode), kind)).shape == (480,)


# ------------------------------------------------------------------ other kinds


def test_gist_describes_the_picture_at_its_side():
    image = RNG.integers(0, 256, (32, 32, 3)).astype(np.uint8)
    data = saved(Image.fromarray(image))
    np.testing.assert_array_equal(Gist(colour=True).vector_of(data), gist.describe(image[None])[0])
    grey = np.asarray(Image.fromarray(image).convert("L"))
    np.testing.assert_array_equal(Gist().vector_of(data), gist.describe(grey[None])[0])
    assert Gist(side=64).vector_of(data).shape == (512,)
    assert Gist().picture_of(Item(1, np.zeros(512), None)) is None


def test_a_payload_gives_its_picture_as_it_is():
    for data, kind in zip((SOUND[0], SOUND[2], SOUND[3]), MEDIA_TYPES, strict=True):
        uri = f"data:{kind};base64,{b64encode(data).decode()}"
        assert FromPayload("face").picture_of(Item(1, np.zeros(2), {"face": uri})) == (data, kind)
    with pytest.raises(NotFound):
        FromPayload("face").vector_of(SOUND[0])


def test_anything_else_in_a_payload_is_no_picture():
    for value in (
        None,
        "https://example.org/a.png",
        "data:image/png;base64,!!!!",
        "data:image/png;base64," + b64encode(b"<script>").decode(),
        "data:image/png;base64," + b64encode(SOUND[2]).decode(),
        "data:image/svg+xml;base64," + b64encode(b"<svg/>").decode(),
        "data:text/html;base64," + b64encode(SOUND[0]).decode(),
    ):
        assert FromPayload("face").picture_of(Item(1, np.zeros(2), {"face": value})) is None
    assert FromPayload("face").picture_of(Item(1, np.zeros(2), None)) is None


def test_parse():
    assert parse("8x6") == Pixels(8, 6, 1.0)
    assert parse("8x8:16") == Pixels(8, 8, 16.0)
    assert (parse("gist"), parse("gist-colour"), parse("gist:64")) == (Gist(False), Gist(True), Gist(False, 64))
    assert parse("payload:a:b") == FromPayload("a:b")
    assert parse("8x6").about() == {"kind": "pixels", "height": 8, "width": 6}
    for text in ("", "8x", "0x8", "8x8:", "8x8:nan", "99999x1", "gist:1", "gist:x", "payload:"):
        with pytest.raises(InvalidInput):
            parse(text)


# ------------------------------------------------------------------ hostile files


def test_large_pictures_are_refused_by_their_header():
    def refused() -> None:
        for size in ((4097, 1), (1, 4097), (20_000, 20_000), (2**31 - 1, 2**31 - 1)):
            with pytest.raises(InvalidInput):
                decoded(header_only(*size))

    assert peak(refused) < 1_000_000


def test_other_formats_and_broken_files_are_refused():
    others = [saved(PHOTO, kind) for kind in ("GIF", "BMP", "TIFF", "PPM")]
    cut = [data[: len(data) // 2] for data in SOUND]
    for data in (b"", b"\0" * 100, b"<svg/>", header_only(100, 100), *others, *cut):
        with pytest.raises(InvalidInput):
            decoded(data)
    with pytest.raises(TooLarge):
        decoded(bytes(16 * 2**20 + 1))


@given(st.binary(max_size=100) | mutated(SOUND))
def test_any_bytes_end_in_a_vector_or_a_4xx(data: bytes):
    try:
        vector = Pixels(4, 4).vector_of(data)
    except OnlineHashError as error:
        blamed(error)
    else:
        assert vector.shape == (16,)
        assert ((vector >= 0) & (vector <= 1)).all()
