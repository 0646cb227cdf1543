"""The page's first view in a real browser: open, search, mark, and see the ranking change."""

import numpy as np
from playwright.sync_api import expect

from onlinehash import LiveIndex, OnlineHashing
from onlinehash.serve import background
from tests.serve.page.browser import PHONE, overflow, visiting, wait_until

N_SHOWN = 12


def search_from(page, id):
    page.wait_for_selector(".offered .card")
    page.fill("[aria-label='id of an item']", str(id))
    page.keyboard.press("Enter")


def found(page):
    """Wait until the neighbours are there."""
    expect(page.locator(".neighbours .bits")).to_have_count(N_SHOWN)


def ids(page, cards=".neighbours .card"):
    return page.eval_on_selector_all(cards, "cards => cards.map((card) => JSON.parse(card.dataset.id))")


def texts(page, selector):
    return page.eval_on_selector_all(selector, "all => all.map((one) => one.textContent)")


def marked(page, n):
    """What the page says after the n-th mark, once the neighbours are shown anew."""
    expect(page.locator(".said li")).to_have_count(n)
    expect(page.locator(".line")).to_contain_text("You said")
    expect(page.locator(".busy")).to_have_count(0)
    return page.text_content(".line")


def middle(element):
    box = element.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_mark_waits_for_others_and_counts_when_it_is_told_to(browser, demo):
    with visiting(browser, demo) as page:
        page.wait_for_selector(".offered img[src]")
        search_from(page, 3)
        found(page)
        page.request.post(f"{demo}/v1/flush")  # what other tests have marked
        waiting = page.request.get(f"{demo}/v1/stats").json()["waiting"]
        for n in (1, 2):
            page.click(f".neighbours li:nth-child({n}) [data-similar=false]")
            story = marked(page, n)
            assert "counted, " in story
            assert f"the hash functions learn it after {32 - waiting - n} more pair" in story
            assert "agree" not in story
        assert [text.strip() for text in texts(page, ".said li > span:last-child .soft")] == ["counted"] * 2
        before = page.request.get(f"{demo}/v1/stats").json()
        page.click("text=Learn now")
        expect(page.locator(".line")).to_contain_text("Learned: no pair waits any more")
        expect(page.locator(".line .now")).to_be_hidden()
        after = page.request.get(f"{demo}/v1/stats").json()
        assert (before["waiting"], after["waiting"]) == (waiting + 2, 0)
        assert after["serial"] > before["serial"]  # the codes are those of what was learned
        assert (before["n_pairs"], after["behind"]["bits"]) == (after["n_pairs"], 0)


def test_a_mark_changes_the_order_at_once(browser, demo):
    """Also while the pair waits for its chunk, and without a refresh."""
    with visiting(browser, demo) as page:
        page.request.post(f"{demo}/v1/flush")  # so that the pair waits, whatever other tests have marked
        search_from(page, 21)
        found(page)
        serial = page.request.get(f"{demo}/v1/stats").json()["serial"]
        pairs = [page.request.post(f"{demo}/v1/find", data={"id": 21}).json()["ranked_by"]["pairs"]]
        wrong = ids(page)[0]
        with page.expect_request("**/v1/learn") as learned:
            page.click(".neighbours li:nth-child(1) [data-similar=false]")
        story = marked(page, 1)
        assert learned.value.post_data_json["refresh"] is False
        assert wrong not in ids(page)
        moved, fresh = (sum(map(kind, texts(page, ".neighbours .change"))) for kind in (is_move, "new".__eq__))
        assert fresh >= 1
        assert f"counted, {f'{moved} moved, ' if moved else ''}{fresh} new" in story
        pairs.append(page.request.post(f"{demo}/v1/find", data={"id": 21}).json()["ranked_by"]["pairs"])
        assert pairs[1] == pairs[0] + 1
        assert page.text_content(".order") == f"by their vectors and {pairs[1]} pair{'s' * (pairs[1] > 1)}"
        assert page.request.get(f"{demo}/v1/stats").json()["serial"] == serial


def is_move(text):
    return text != "new"


def test_by_keys_alone(browser, demo):
    with visiting(browser, demo) as page:
        page.wait_for_selector(".offered img[src]")

        def focused(selector):
            return page.evaluate("selector => document.activeElement.matches(selector)", selector)

        def tab_to(selector):
            for _ in range(60):
                if focused(selector):
                    return
                page.keyboard.press("Tab")
            raise AssertionError(f"60 presses of Tab did not reach {selector}")

        tab_to("[role=tab]")
        page.keyboard.press("ArrowRight")
        assert focused("#tab-watch[aria-selected=true]")
        page.keyboard.press("ArrowLeft")
        assert focused("#tab-search[aria-selected=true]")
        tab_to(".offered .pick")
        page.keyboard.press("Enter")
        found(page)
        tab_to(".alone input")
        page.keyboard.press("Space")
        expect(page.locator(".order")).to_contain_text("codes")
        tab_to(".neighbours .card")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("d")
        marked(page, 1)
        assert focused(".neighbours .card")
        page.keyboard.press("Home")
        assert focused(".neighbours li:first-child .card")
        nearest = ids(page)[0]
        page.keyboard.press("Enter")
        wait_until(page, lambda: ids(page, ".stand .card") == [nearest])


def test_on_a_phone(browser, demo):
    with visiting(browser, demo, **PHONE) as page:
        page.wait_for_selector(".offered img[src]")
        assert overflow(page) == 0
        page.tap(".offered li:nth-child(2) .pick")
        found(page)
        page.tap(".neighbours li:nth-child(2) [data-similar=false]")
        marked(page, 1)
        assert overflow(page) == 0
        # A finger that rests on a card takes it along; one that moves at once would scroll.
        finger = page.context.new_cdp_session(page)
        cards = page.locator(".neighbours li img")
        cards.nth(2).scroll_into_view_if_needed()
        (x, y), (to_x, to_y) = middle(cards.nth(2)), middle(cards.nth(3))
        finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        page.wait_for_selector(".ghost")
        finger.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [{"x": to_x, "y": to_y}]})
        finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        assert ids(page, ".choice .card") == ids(page)[2:4]


def test_payloads_are_text_and_a_token_is_asked_for(browser):
    index = LiveIndex(OnlineHashing(n_bits=12, random_state=0))
    names = [f"a/<b>{i}</b>?#%" for i in range(5)]
    index.add(names, np.eye(5, dtype=np.float32), [{"<img src=x>": "<script>no()</script>", "kind": "<i>"}] * 5)
    with (
        background(index, token="only-this-one", label="kind") as url,
        visiting(browser, url, "401") as page,
    ):
        for token in ("not-this-one", "only-this-one"):
            page.wait_for_selector("#token[open]")
            page.fill("#token-field", token)
            page.keyboard.press("Enter")
        search_from(page, names[2])
        expect(page.locator(".neighbours .card")).to_have_count(4)
        assert ids(page, ".stand .card") == [names[2]]
        assert sorted(ids(page)) == sorted(set(names) - {names[2]})
        assert texts(page, ".stand .field") == ["<img src=x><script>no()</script>"]
        assert page.locator(".card :is(script, b b, i)").count() == 0
        expect(page.locator("#connection.open")).to_have_count(1)


def test_nothing_to_mark_where_nothing_may_be_changed(browser, tmp_path):
    with LiveIndex(OnlineHashing(n_bits=8, random_state=0), path=tmp_path / "index") as index:
        index.add(None, np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32))
    reader = LiveIndex.open(tmp_path / "index", read_only=True)
    with background(reader, read_only=True) as url, visiting(browser, url) as page:
        search_from(page, 4)
        found(page)
        assert page.locator("[data-similar]").count() == 0
        assert "read only" in page.text_content("#served")
