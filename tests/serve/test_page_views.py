"""Watch, the map and Compare in a real browser, while the model learns."""

import json
import re
import urllib.request

import numpy as np
import pytest
from playwright.sync_api import expect

from onlinehash import LiveIndex, OnlineHashing
from onlinehash.serve import background
from tests.serve.browser import PHONE, overflow, visiting, wait_until

pytestmark = pytest.mark.long

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


def at_rest(page, selector):
    """The picture once it no longer changes."""
    seen = [None]

    def rests():
        seen.append(picture(page, selector))
        page.wait_for_timeout(250)
        return seen[-1] is not None and seen[-1] == seen[-2]

    wait_until(page, rests, 30)
    return seen[-1]


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


def test_the_mean_loss_is_what_was_learned(browser, small):
    with visiting(browser, f"{small}/#watch") as page:
        page.wait_for_selector(".chart")
        page.wait_for_timeout(300)
        losses = teach(small, 50)["loss"]
        loss = chart(page, "Loss per pair")
        expect(loss.locator(".chart-last")).to_have_text(f"{np.mean(losses):.2f}")
        loss.locator("canvas").focus()
        page.keyboard.press("Home")
        expect(loss.locator(".chart-readout")).to_have_text(f"pair 1: {losses[0]:.2f}")
        page.keyboard.press("ArrowRight")
        expect(loss.locator(".chart-readout")).to_have_text(f"pair 2: {np.mean(losses[:2]):.2f}")
        expect(loss.locator("canvas")).to_have_attribute("aria-label", re.compile("from pair 1 to pair 50"))


def test_charts_keep_what_came_while_another_tab_was_open(browser, small):
    with visiting(browser, f"{small}/#watch") as page:
        page.wait_for_selector(".chart")
        page.click("#tab-map")
        page.wait_for_selector(".map-canvas")
        teach(small, 30)
        page.wait_for_timeout(400)
        page.click("#tab-watch")
        label = chart(page, "Loss per pair").locator("canvas")
        expect(label).to_have_attribute("aria-label", re.compile("from pair 1 to pair 30"))


def test_the_teacher_moves_the_charts(browser, demo):
    with visiting(browser, f"{demo}/#watch") as page:
        page.wait_for_selector(".chart")
        post(demo, "/v1/teacher", {"running": True, "pairs_per_second": 50})
        expect(chart(page, "Loss per pair").locator(".chart-last")).to_have_text(re.compile(r"\d"))
        first = picture(page, ".chart canvas")
        wait_until(page, lambda: picture(page, ".chart canvas") != first)
        post(demo, "/v1/teacher", {"running": False, "pairs_per_second": 50})
        expect(chart(page, "mAP on held-out queries").locator(".chart-last")).to_have_text(re.compile(r"^0\.\d{3}$"))


def test_the_map_moves_after_a_refresh_and_says_how_neighbours_agree(browser, small):
    with visiting(browser, f"{small}/#map", reduced_motion="no-preference") as page:
        expect(page.locator(".map-agreement")).to_contain_text("of the 10 nearest codes carry the same kind")
        assert page.locator(".legend button").all_inner_texts() == ["<b>0</b>", "<b>1</b>", "<b>2</b>"]
        share = page.text_content(".map-agreement strong")
        before = at_rest(page, ".map-canvas")
        teach(small, 300)
        wait_until(page, lambda: picture(page, ".map-canvas") != before)
        expect(page.locator(".map-agreement")).to_contain_text("since you opened the map")
        assert int(page.text_content(".map-agreement strong").rstrip(" %")) > int(share.rstrip(" %"))
        assert at_rest(page, ".map-canvas") != before


def test_the_map_is_used_with_keys_and_mouse(browser, small):
    with visiting(browser, f"{small}/#map") as page:
        whole = at_rest(page, ".map-canvas")
        page.click(".legend button >> nth=1")
        wait_until(page, lambda: picture(page, ".map-canvas") != whole)
        page.click(".legend button >> nth=1")
        page.keyboard.press("Shift+Tab")
        while page.evaluate("document.activeElement.tagName") != "CANVAS":
            page.keyboard.press("Shift+Tab")
        card = page.locator(".map-card .card")
        expect(card).to_be_visible()
        first = card.get_attribute("data-id")
        for key in ("+", "+", "ArrowLeft", "ArrowLeft", "ArrowUp"):
            page.keyboard.press(key)
        wait_until(page, lambda: card.get_attribute("data-id") != first)
        chosen = card.get_attribute("data-id")
        page.keyboard.press("Enter")
        expect(page.locator("#tab-search")).to_have_attribute("aria-selected", "true")
        expect(page.locator(f"#search [data-id='{chosen}']").first).to_be_visible()


def test_without_labels_clusters_have_the_colours(browser):
    rng = np.random.default_rng(1)
    index = LiveIndex(OnlineHashing(16, random_state=0))
    index.add([f"item {i}" for i in range(40)], rng.normal(size=(40, 8)))
    with background(index) as url, visiting(browser, f"{url}/#map") as page:
        expect(page.locator(".legend button")).to_have_count(8)
        expect(page.locator(".map-agreement")).to_be_hidden()
        wait_until(page, lambda: picture(page, ".map-canvas") is not None)


def test_compare_shows_four_methods_that_differ_and_follows_the_teacher(browser, demo):
    unknown = "Failed to load resource"
    with visiting(browser, f"{demo}/#compare", allowed=unknown) as page:
        columns = page.locator(".compare-column")
        expect(columns).to_have_count(4)
        titles = page.eval_on_selector_all("h3", "all => all.map((one) => one.firstChild.data)")
        assert titles == ["No feedback", "Blended", "OH", "MMOH"]
        expect(page.locator(".compare-hit")).to_have_count(48)
        expect(columns.first.locator(".compare-facts")).to_have_text("32 bits an item · no feedback")
        expect(page.locator(".compare-exact")).to_have_text(
            re.compile(r"exact cosine: 2,048 bits an item, mAP 0\.\d{3}$")
        )
        for text in columns.locator(".compare-share").all_inner_texts():
            assert re.match(r"\d+ of 12 same digit", text.replace("\n", " "))
        post(demo, "/v1/teacher", {"running": True, "pairs_per_second": 200})
        wait_until(page, lambda: len({tuple(found(column)) for column in columns.all()}) == 4, 20)
        post(demo, "/v1/teacher", {"running": False, "pairs_per_second": 50})
        query = page.input_value("#compare-id")
        page.click("text=Next")
        wait_until(page, lambda: page.input_value("#compare-id") == str((int(query) + 1) % 1500))
        page.fill("#compare-id", "987654321")
        page.keyboard.press("Enter")
        expect(page.locator("#compare .trouble")).to_contain_text("987654321")
        page.fill("#compare-id", "3")
        page.keyboard.press("Enter")
        expect(page.locator("#compare .trouble")).to_be_empty()
        expect(page.locator(".compare-query .card")).to_have_attribute("data-id", "3")
        wait_until(page, lambda: all(len(found(column)) == 12 and "3" not in found(column) for column in columns.all()))


def found(column):
    return column.locator(".compare-hit .card").evaluate_all("cards => cards.map((card) => card.dataset.id)")


@pytest.mark.parametrize("view", ["watch", "map", "compare"])
def test_views_fit_on_a_phone(browser, demo, view):
    with visiting(browser, f"{demo}/#{view}", **PHONE) as page:
        page.wait_for_selector({"watch": ".chart", "map": ".legend button", "compare": ".compare-hit"}[view])
        page.wait_for_timeout(200)
        assert overflow(page) <= 0
