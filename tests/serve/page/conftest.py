"""The browser of this machine, and handwritten digits for it to look at, which all tests of the page share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from onlinehash import LiveIndex
from onlinehash.demo import digits
from onlinehash.serve import background
from onlinehash.serve.pictures import Pixels
from tests.serve.page.browser import chromium


@pytest.fixture(scope="package")  # and not longer: in its thread an event loop runs, so that asyncio.run would fail
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="package")
def demo() -> Iterator[str]:
    """Where digits are served; tests leave marks there."""
    data = digits.load(0, n_pairs=1)
    index = LiveIndex(n_bits=32)
    index.add(None, data.X_base, [{"digit": int(label)} for label in data.y_base])
    with background(index, label="digit", pictures=Pixels(8, 8, scale=1)) as url:
        yield url
