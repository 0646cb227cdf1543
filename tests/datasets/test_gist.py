"""GIST against its definition, and what must hold for any picture."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash.datasets import gist
from tests.reference.gist import gist as slow

rng = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(1, 17, 17), (1, 16, 16, 3)], ids=["grey", "colour"])
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


@pytest.mark.parametrize("quarter", [0, 6])
def test_a_grating_has_its_energy_at_its_scale_and_orientation(quarter):
    energy = blocks(gist.describe(grating(-np.pi * quarter / 8))[0]).mean(axis=(2, 3))
    assert np.unravel_index(np.argmax(energy), energy.shape) == (1, quarter)
    turned = blocks(gist.describe(grating(-np.pi * quarter / 8 + np.pi / 2))[0]).mean(axis=(2, 3))
    assert np.unravel_index(np.argmax(turned), turned.shape) == (1, (quarter + 4) % 8)
