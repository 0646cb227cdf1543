"""GIST against its definition, and what must hold for any picture."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash.datasets import gist
from onlinehash.errors import InvalidInput, InvalidParameter
from tests.reference.gist import gist as slow

rng = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(2, 16, 16), (1, 17, 17), (1, 16, 16, 3)], ids=["grey", "odd", "colour"])
def test_the_definition(shape):
    images = rng.integers(0, 256, shape, np.uint8)
    found = gist.describe(images)
    assert found.shape == (len(images), 960 if len(shape) == 4 else 512)
    np.testing.assert_allclose(found, [slow(image) for image in images], rtol=1e-4, atol=1e-6)


def blocks(descriptor):
    """(scale, orientation, row, column) of a grey descriptor."""
    return descriptor.reshape(4, 8, 4, 4)


def grating(angle, cycles=0.3 / 1.85, side=64):
    rows, columns = np.mgrid[:side, :side]
    wave = np.cos(2 * np.pi * cycles * (columns * np.cos(angle) + rows * np.sin(angle)))
    return (128 + 100 * wave)[None]


def test_a_constant_image_has_nothing():
    assert gist.describe(np.full((1, 32, 32), 77, np.uint8)).max() < 1e-5


@pytest.mark.parametrize("quarter", [0, 2, 4, 6])
def test_a_grating_has_its_energy_at_its_scale_and_orientation(quarter):
    energy = blocks(gist.describe(grating(-np.pi * quarter / 8))[0]).mean(axis=(2, 3))
    assert np.unravel_index(np.argmax(energy), energy.shape) == (1, quarter)
    turned = blocks(gist.describe(grating(-np.pi * quarter / 8 + np.pi / 2))[0]).mean(axis=(2, 3))
    assert np.unravel_index(np.argmax(turned), turned.shape) == (1, (quarter + 4) % 8)


def test_blocks_are_places():
    picture = np.full((1, 64, 64), 128.0)
    picture[0, 16:32, 48:] = grating(0.0)[0, :16, :16]
    energy = blocks(gist.describe(picture)[0]).sum(axis=(0, 1))
    assert np.unravel_index(np.argmax(energy), (4, 4)) == (1, 3)


def test_brightness_changes_little_and_the_subject_much():
    def likeness(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    first = 60 + rng.integers(0, 60, (64, 64)) + 0.4 * grating(0.5)[0]
    a, brighter, lighter, other = gist.describe(np.stack([first, first + 60, first * 1.5, first.T]))
    assert likeness(a, brighter) > 0.995
    assert np.linalg.norm(a - lighter) < 0.01 * np.linalg.norm(a)  # a factor goes with the logarithm
    assert likeness(a, other) < 0.9


def test_an_image_alone_is_as_among_others():
    images = rng.integers(0, 256, (40, 32, 32, 3), np.uint8)
    together = gist.describe(images, jobs=2)
    np.testing.assert_allclose(together[[0, 39]], [gist.describe(images[k : k + 1])[0] for k in (0, 39)], rtol=1e-5)
    grey = np.repeat(images[:1, :, :, :1], 3, axis=3)
    red, green, _ = gist.describe(grey).reshape(3, 320)  # FFTs and BLAS round a channel by its place in the batch
    np.testing.assert_allclose(green, red, rtol=1e-5)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((32, 32)), "expected images"),
        (np.zeros((2, 32, 32, 2)), "expected images"),
        (np.zeros((2, 32, 30)), "expected square images of at least 16 pixels per side, got 32 x 30"),
        (np.zeros((2, 8, 8)), "got 8 x 8"),
        (np.full((1, 16, 16), -1), "pixels from 0 to 255"),
        (np.full((1, 16, 16), np.nan), "pixels from 0 to 255"),
    ],
    ids=["one", "two colours", "oblong", "small", "negative", "nan"],
)
def test_what_is_no_image(images, message):
    with pytest.raises(InvalidInput, match=message):
        gist.describe(images)
    with pytest.raises(InvalidParameter, match="jobs"):
        gist.describe(np.zeros((1, 16, 16)), jobs=0)
