"""The page's first view in a real browser: open, search, mark, and see the ranking change."""

import io
import re

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from onlinehash import LiveIndex, OnlineHashing, RbfAnchors
from onlinehash.demo import digits
from onlinehash.serve import background
from onlinehash.serve.pictures import Pixels
from tests.serve.browser import PHONE, overflow, visiting, wait_until
from tests.serve.services import Process

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


def by_codes_only(page):
    """Order by codes alone, once the neighbours are there."""
    page.click(".alone input")
    expect(page.locator(".order")).to_contain_text("codes")


def mark_until_the_codes_change_the_ranking(page, mark):
    """Marks neighbour after neighbour: a pair whose codes agree already teaches nothing. Gives what was said last."""
    for n in range(1, 7):
        before = ids(page)
        mark(n)
        story = marked(page, n)
        if ids(page) != before:
            assert re.search(r"loss [\d.]+, moved [1-9]\d* of 32 bits", story)
            assert "at the next refresh" not in story
            return story
    raise AssertionError("six marks changed nothing")


def drag(page, start, end):
    """One press from the middle of an element to that of another."""
    (x, y), (to_x, to_y) = map(middle, (start, end))
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(to_x, to_y, steps=4)
    page.mouse.up()


def middle(element):
    box = element.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.fixture(scope="module")
def paper():
    """Where digits are served with the paper's learner, which learns from each mark at once."""
    data = digits.load(0, n_pairs=1)
    learner = OnlineHashing(32, features=RbfAnchors(300), burn_in=len(data.X_base), random_state=0)
    index = LiveIndex(learner)
    index.add(None, data.X_base, [{"digit": int(label)} for label in data.y_base])
    with background(index, label="digit", pictures=Pixels(8, 8, scale=1)) as url:
        yield url


def test_a_mark_waits_for_others_and_counts_when_it_is_told_to(browser, demo):
    with visiting(browser, demo) as page:
        page.wait_for_selector(".offered img[src]")
        search_from(page, 3)
        found(page)
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


@pytest.mark.long
def test_the_mark_that_fills_a_chunk_says_so(browser, demo):
    with visiting(browser, demo) as page:
        search_from(page, 5)
        found(page)
        page.request.post(f"{demo}/v1/flush")
        ids_a, ids_b = list(range(31)), list(range(31, 62))
        page.request.post(f"{demo}/v1/learn", data={"id_a": ids_a, "id_b": ids_b, "similar": [False] * 31})
        page.click(".neighbours li:nth-child(2) [data-similar=true]")
        story = marked(page, 1)
        assert re.search(r"learned with the pairs before it, moved \d+ of 32 bits|no hash function has moved", story)
        expect(page.locator(".line .now")).to_be_hidden()


@pytest.mark.long
def test_that_codes_agree_is_said_where_they_do(browser, paper):
    with visiting(browser, paper) as page:
        search_from(page, 3)
        found(page)
        vector = page.request.post(f"{paper}/v1/items/get", data={"ids": [3], "vectors": True}).json()["items"][0][
            "vector"
        ]
        twin = page.request.post(f"{paper}/v1/items", data={"vectors": [vector]}).json()["ids"][0]
        search_from(page, 3)
        expect(page.locator(f".neighbours .card[data-id='{twin}']")).to_have_count(1)
        page.click(f".neighbours li:has(.card[data-id='{twin}']) [data-similar=true]")
        assert "the hash functions already agree" in marked(page, 1)


def test_a_mark_changes_the_order_at_once(browser, demo):
    """Also while the pair waits for its chunk, and without a refresh."""
    with visiting(browser, demo) as page:
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


@pytest.mark.long
def test_what_is_shown_is_what_find_or_search_gives(browser, demo):
    with visiting(browser, demo) as page:
        search_from(page, 30)
        found(page)
        for path, digits, choose in (("find", 2, None), ("search", 0, by_codes_only)):
            if choose is not None:
                choose(page)
            answer = page.request.post(f"{demo}/v1/{path}", data={"id": 30, "k": N_SHOWN + 1}).json()
            both = zip(answer["ids"], answer["distances"], strict=True)
            hits = [(id, distance) for id, distance in both if id != 30][:N_SHOWN]
            wait_until(page, lambda hits=hits: ids(page) == [id for id, _ in hits])
            assert texts(page, ".neighbours .distance") == [f"{distance:.{digits}f}" for _, distance in hits]


@pytest.mark.long
def test_a_mark_changes_the_codes(browser, paper):
    with visiting(browser, paper, reduced_motion="no-preference") as page:
        page.wait_for_selector(".offered img[src]")
        page.click(".offered li:nth-child(3) .pick")
        found(page)
        by_codes_only(page)
        mark_until_the_codes_change_the_ranking(
            page, lambda n: page.click(f".neighbours li:nth-child({n}) [data-similar=false]")
        )
        assert page.locator(".neighbours .change").count() > 0
        assert page.locator(".neighbours .bits .moved").count() == N_SHOWN
        distances = [int(text) for text in texts(page, ".neighbours .distance")]
        assert distances == sorted(distances)
        labels = page.eval_on_selector_all(".neighbours .bits", "all => all.map((one) => one.ariaLabel)")
        assert [int(re.search(r"(\d+) differ", label).group(1)) for label in labels] == distances


@pytest.mark.long
def test_how_many_show_the_same_digit(browser, demo):
    with visiting(browser, demo) as page:
        search_from(page, 1236)
        found(page)
        same = texts(page, ".neighbours .label").count(page.text_content(".stand .label"))
        assert page.text_content(".agreement") == f"{same} of {N_SHOWN} show the same digit"


@pytest.mark.long
def test_by_keys_alone(browser, paper):
    with visiting(browser, paper) as page:
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
        mark_until_the_codes_change_the_ranking(
            page, lambda n: (page.keyboard.press("ArrowRight"), page.keyboard.press("d"))
        )
        assert focused(".neighbours .card")
        page.keyboard.press("Home")
        assert focused(".neighbours li:first-child .card")
        nearest = ids(page)[0]
        page.keyboard.press("Enter")
        wait_until(page, lambda: ids(page, ".stand .card") == [nearest])


def test_a_pair_that_waits_for_the_feature_map_counts(browser):
    """There are no codes to search by, but two of the items on offer can be dragged together."""
    index = LiveIndex(OnlineHashing(n_bits=8, features=RbfAnchors(20), random_state=0))
    index.add(None, np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32))
    with background(index) as url, visiting(browser, url) as page:
        page.wait_for_selector(".offered .card")
        drag(page, *(page.locator(f".offered li:nth-child({place}) .card") for place in (1, 3)))
        page.click(".choice button:text-is('similar')")
        expect(page.locator(".line")).to_contain_text(
            "You said similar: counted; the hash functions learn it once there are enough items (1 pair waiting)"
        )
        assert index.learner.pair_metric_.n_pairs == 1


@pytest.mark.long
def test_a_mark_changes_the_order_though_readers_answer(browser, tmp_path):
    """A reader has what the writer learned a moment later; the page waits for it."""
    data = digits.load(0, n_pairs=1)
    with LiveIndex(path=tmp_path / "items", n_bits=32) as index:
        index.add(None, data.X_base)
    with (
        Process(tmp_path / "items", "--readers", 2, log=tmp_path / "log") as process,
        visiting(browser, process.url) as page,
    ):
        search_from(page, 21)
        found(page)
        for n in range(1, 6):
            wrong = ids(page)[0]
            page.click(".neighbours li:nth-child(1) [data-similar=false]")
            assert " new" in marked(page, n)
            assert wrong not in ids(page)
            assert page.text_content(".order") == f"by their vectors and {n} pair{'s' * (n > 1)}"


@pytest.mark.long
def test_two_cards_dragged_together(browser, demo):
    with visiting(browser, demo) as page:
        search_from(page, 7)
        found(page)
        drag(page, *(page.locator(f".neighbours li:nth-child({place}) img") for place in (2, 5)))
        two = ids(page, ".choice .card")
        assert two == [ids(page)[1], ids(page)[4]]
        with page.expect_request("**/v1/learn") as learned:
            page.click(".choice button:text-is('not similar')")
        told = {"id_a": two[0], "id_b": two[1], "similar": False, "refresh": False}
        assert learned.value.post_data_json == told
        marked(page, 1)


@pytest.mark.long
def test_a_picture_finds_its_like_and_can_be_taught(browser, demo):
    with visiting(browser, demo) as page:
        page.wait_for_selector(".offered img[src]")
        file = io.BytesIO()
        Image.fromarray(np.pad(np.full((24, 4), 255, np.uint8), ((4, 4), (14, 14)))).save(file, "png")
        page.set_input_files(
            "input[type=file]", {"name": "one.png", "mimeType": "image/png", "buffer": file.getvalue()}
        )
        found(page)
        assert page.text_content(".stand .name") == "one.png"
        with page.expect_request("**/v1/learn") as learned:
            page.click(".neighbours li:first-child [data-similar=true]")
        assert len(learned.value.post_data_json["a"]) == len(learned.value.post_data_json["b"]) == 64
        marked(page, 1)


@pytest.mark.long
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


@pytest.mark.long
def test_dark(browser, demo):
    with visiting(browser, demo, color_scheme="dark") as page:
        search_from(page, 3)
        found(page)
        for element, is_dark in (("body", True), (".neighbours .card", True), ("h1", False)):
            name = "backgroundColor" if is_dark else "color"
            colour = page.eval_on_selector(element, f"one => getComputedStyle(one).{name}")
            assert (max(map(int, re.findall(r"\d+", colour)[:3])) < 60) == is_dark


@pytest.mark.long
def test_the_cards_follow_the_teacher(browser, demo):
    with visiting(browser, demo) as page:
        search_from(page, 11)
        found(page)
        before = ids(page)
        page.click("#teacher button")
        wait_until(page, lambda: ids(page) != before)
        assert page.locator(".spark").count() == 1
        page.click("#teacher button[aria-pressed=true]")
        page.wait_for_selector("#teacher button[aria-pressed=false]")


@pytest.mark.long
def test_an_unknown_id_is_one_quiet_line(browser, demo):
    with visiting(browser, demo, allowed="404") as page:
        search_from(page, 99_999_999)
        expect(page.locator(".line")).to_contain_text("99999999")


@pytest.mark.long
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


@pytest.mark.long
def test_an_index_that_is_empty_and_then_not_ready(browser):
    index = LiveIndex(OnlineHashing(n_bits=8, features=RbfAnchors(20), random_state=0))
    with background(index) as url, visiting(browser, url, "409") as page:
        expect(page.locator(".line")).to_contain_text("nothing here yet")
        vectors = np.random.default_rng(0).normal(size=(40, 3)).tolist()
        page.request.post(f"{url}/v1/items", data={"vectors": vectors[:3]})
        search_from(page, 1)
        expect(page.locator(".line")).to_contain_text("Not ready yet")
        page.request.post(f"{url}/v1/items", data={"vectors": vectors})
        page.request.post(f"{url}/v1/refresh", data={})
        found(page)


@pytest.mark.long
def test_nothing_to_mark_where_nothing_may_be_changed(browser, tmp_path):
    with LiveIndex(OnlineHashing(n_bits=8, random_state=0), path=tmp_path / "index") as index:
        index.add(None, np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32))
    reader = LiveIndex.open(tmp_path / "index", read_only=True)
    with background(reader, read_only=True) as url, visiting(browser, url) as page:
        search_from(page, 4)
        found(page)
        assert page.locator("[data-similar]").count() == 0
        assert "read only" in page.text_content("#served")
