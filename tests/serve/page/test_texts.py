"""The page of a service that embeds: a query is typed, results are marked, and the order changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from onlinehash import LiveIndex
from onlinehash.serve import background
from tests.serve.page.browser import SECONDS, visiting

NOTES = [
    *({"title": f"Boat {n}", "text": f"A boat on the lake, number {n}", "kind": "boat"} for n in range(8)),
    *({"title": f"Ship {n}", "text": f"A ship at sea, number {n}", "kind": "ship"} for n in range(8)),
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
