"""Watch, the map and Compare in a real browser, while the model learns."""

import json
import re
import urllib.request

import numpy as np
import pytest
from playwright.sync_api import expect

from onlinehash import LiveIndex, OnlineHashing
from onlinehash.serve import background
from tests.serve.page.browser import visiting

N_ITEMS = 150


@pytest.fixture
def small():
    """A service of three clouds of points, with labels and without pictures; nothing has been learned."""
    rng = np.random.default_rng(0)
    y = np.arange(N_ITEMS) % 3
    X = (rng.normal(size=(3, 16))[y] + 0.9 * rng.normal(size=(N_ITEMS, 16))).astype(np.float32)
    index = LiveIndex(OnlineHashing(16, random_state=0))
    index.add(np.arange(N_ITEMS), X, [{"kind": f"<b>{label}</b>"} for label in y.tolist()])
    with background(index, label="kind") as url:
        yield url


def post(url, path, body):
    data = json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def teach(url, n, seed=0):
    """Pairs of the small service, told by their labels; then a refresh."""
    a, b = np.random.default_rng(seed).integers(N_ITEMS, size=(2, n))
    b = np.where(a == b, (b + 1) % N_ITEMS, b)
    similar = (a % 3 == b % 3).tolist()
    return post(url, "/v1/learn", {"id_a": a.tolist(), "id_b": b.tolist(), "similar": similar, "refresh": True})


def chart(page, title):
    return page.locator(".chart", has=page.get_by_text(title, exact=True))


def picture(page, selector):
    """What is drawn on a canvas; None while nothing is."""
    page.wait_for_selector(selector)
    return page.eval_on_selector(
        selector,
        """canvas => {
            const { width, height } = canvas;
            const blank = Object.assign(document.createElement("canvas"), { width, height });
            const drawn = canvas.toDataURL();
            return drawn === blank.toDataURL() ? null : drawn;
        }""",
    )


def test_charts_wait_for_the_first_pair_and_then_move(browser, small):
    with visiting(browser, f"{small}/#watch") as page:
        loss = chart(page, "Loss per pair")
        expect(page.locator(".view-hint")).to_contain_text("Nothing has been learned yet")
        expect(loss.locator(".chart-last")).to_have_text("–")
        expect(chart(page, "Codes behind, in pairs").locator(".chart-last")).to_have_text("0")
        before = picture(page, ".chart canvas")
        teach(small, 40)
        expect(page.locator(".view-hint")).to_be_hidden()
        expect(loss.locator(".chart-last")).to_have_text(re.compile(r"^\d+\.\d\d$"))
        expect(chart(page, "Update rate").locator(".chart-last")).to_have_text(re.compile(r"^\d+ %$"))
        expect(chart(page, "Bits moved").locator(".chart-last")).to_have_text(re.compile(r"^\d+ of 16$"))
        assert picture(page, ".chart canvas") != before
