"""The page of a service that embeds: a query is typed, results are marked, and the order changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from onlinehash import LiveIndex
from onlinehash.serve import background
from tests.serve.browser import PHONE, SECONDS, overflow, visiting

pytestmark = pytest.mark.long

LONG = "A ferry crosses the strait every hour. " * 12
NOTES = [
    *({"title": f"Boat {n}", "text": f"A boat on the lake, number {n}", "kind": "boat"} for n in range(8)),
    *({"title": f"Ship {n}", "text": f"A ship at sea, number {n}", "kind": "ship"} for n in range(8)),
    {"title": "The ferry", "text": LONG, "kind": "ship"},
    {"text": "A note without a title", "kind": "note"},
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    index = LiveIndex(n_bits=32, embed="lexical")
    index.add_texts([note["text"] for note in NOTES], payloads=NOTES)
    with background(index, label="kind") as url:
        yield url


def ask(page: Page, text: str) -> None:
    page.fill("[aria-label='text to search for']", text)
    page.keyboard.press("Enter")
    expect(page.locator(".stand .card .words")).to_have_text(text, timeout=1000 * SECONDS)


def shown(page: Page) -> list[int]:
    return page.eval_on_selector_all(".neighbours .card", "cards => cards.map((card) => JSON.parse(card.dataset.id))")


def test_three_marks_change_the_order_of_a_typed_query(browser: Browser, url: str) -> None:
    with visiting(browser, url) as page:
        page.wait_for_selector(".offered .card.text")
        ask(page, "number of a vessel on the lake")
        before = shown(page)
        assert NOTES[before[0]]["kind"] == "boat"
        for n in range(3):  # ships were meant
            id = next(id for id in shown(page) if NOTES[id]["kind"] == ("ship" if n else "boat"))
            marked = page.locator(f".neighbours .card[data-id='{id}'] [aria-pressed=true]")
            if marked.count():
                id = next(i for i in shown(page) if i != id and NOTES[i]["kind"] == "ship")
            page.click(f".neighbours .card[data-id='{id}'] [data-similar={str(bool(n)).lower()}]")
            expect(page.locator(".said li")).to_have_count(n + 1, timeout=1000 * SECONDS)
            expect(page.locator(".busy")).to_have_count(0, timeout=1000 * SECONDS)
        after = shown(page)
        assert after != before
        assert NOTES[after[0]]["kind"] == "ship"
        expect(page.locator(".order")).to_have_text("by their vectors and 3 pairs")
        said = page.locator(".said li.in-words").first
        assert "number of a vessel on the lake" in said.inner_text()
        assert "Ship" in said.inner_text()


def test_what_answers_next_must_know_of_the_mark(browser: Browser, url: str) -> None:
    """Whichever replica that is; and if it cannot, as the service began anew, the page goes on without."""
    with visiting(browser, url, allowed="503") as page:
        page.wait_for_selector(".offered .card.text")
        ask(page, "a boat at sea")
        answers = {}
        page.on("response", lambda answer: answers.update({answer.request.url.rpartition("/")[2]: answer}))
        page.locator(".neighbours .card [data-similar=true]").first.click()
        expect(page.locator(".said li")).to_have_count(1, timeout=1000 * SECONDS)
        expect(page.locator(".busy")).to_have_count(0, timeout=1000 * SECONDS)
        ask(page, "a ship on the lake")
        expect(page.locator(".busy")).to_have_count(0, timeout=1000 * SECONDS)
        epoch = answers["learn"].all_headers()["onlinehash-epoch"]
        assert int(epoch) > 0
        assert answers["find"].request.all_headers()["onlinehash-at-least"] == epoch
        behind = {"status": 503, "json": {"error": "Behind", "message": "not yet."}}
        page.route("**/v1/find", lambda route: route.fulfill(**behind) if is_asked(route) else route.continue_())
        ask(page, "a note")
        expect(page.locator(".neighbours .card").first).to_contain_text("A note", timeout=1000 * SECONDS)


def is_asked(route: Route) -> bool:
    return "onlinehash-at-least" in route.request.headers


@pytest.mark.parametrize("options", [{}, PHONE], ids=["wide", "phone"])
def test_cards_of_texts(browser: Browser, url: str, options: dict) -> None:
    with visiting(browser, url, **options) as page:
        page.wait_for_selector(".offered .card.text")
        ask(page, "ferry across the strait")
        card = page.locator(".neighbours .card", has_text="The ferry")
        expect(card.locator(".title")).to_have_text("The ferry")
        expect(card.locator(".label")).to_have_text("ship")
        folded = card.locator(".words").bounding_box()["height"]
        card.locator(".more").click()
        expect(card.locator(".more")).to_have_text("less")
        unfolded = card.locator(".words").bounding_box()
        assert unfolded["height"] > 1.5 * folded
        bits = card.locator(".bits").bounding_box()
        assert bits["width"] * bits["height"] < 0.2 * unfolded["width"] * unfolded["height"]
        assert overflow(page) == 0
        page.locator(".neighbours .card .pick").first.click()  # an item is a query, too
        expect(page.locator(".stand .card[data-id]")).to_have_count(1, timeout=1000 * SECONDS)


@pytest.mark.parametrize("blank", ["", "   "])
def test_a_search_for_nothing_says_what_to_do(browser: Browser, url: str, blank: str) -> None:
    with visiting(browser, url) as page:
        page.wait_for_selector(".offered .card.text")
        ask(page, "a boat")
        before = shown(page)
        page.fill("[aria-label='text to search for']", blank)
        page.keyboard.press("Enter")
        expect(page.locator(".line span").first).to_have_text("Type a text to search for.")
        assert shown(page) == before
        page.fill("[aria-label='id of an item']", blank)
        page.keyboard.press("Enter")
        expect(page.locator(".line span").first).to_have_text("Type the id of an item to search from.")


def test_cards_of_items_that_say_nothing(browser: Browser) -> None:
    """They show their id, or what else their payload holds, and no names of fields without a value."""
    index = LiveIndex(n_bits=16, embed="lexical")
    payloads = [{"text": ""}, {"text": " \n"}, {"text": "", "price": 5}, {"text": "words", "title": " "}]
    index.add_texts(["one", "two", "three", "four"], ["a", "b", "c", "d"], payloads)
    with background(index) as url, visiting(browser, url) as page:
        page.wait_for_selector(".offered .card")
        looks = {id: page.locator(f".offered .card[data-id='\"{id}\"'] .look") for id in "abcd"}
        assert {id: look.inner_text().split() for id, look in looks.items()} == {
            "a": ["a"], "b": ["b"], "c": ["price", "5"], "d": ["words"],
        }  # fmt: skip
        assert page.locator(".offered .card.text").count() == 1
        assert page.locator(".offered .title").count() == 0


def test_a_service_without_an_embedder_has_no_box(browser: Browser) -> None:
    index = LiveIndex(n_bits=16)
    index.add(None, [[1.0, 0.0], [0.0, 1.0]])
    with background(index) as url, visiting(browser, url) as page:
        page.wait_for_selector(".offered .card")
        assert page.locator("[aria-label='text to search for']").count() == 0
