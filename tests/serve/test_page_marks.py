"""Twenty clicks on the page, in a real browser: the query's results get better, those of others do not get worse."""

import numpy as np
import pytest
from playwright.sync_api import expect

from onlinehash import LiveIndex
from onlinehash.demo import digits
from onlinehash.serve import background
from onlinehash.serve.pictures import Pixels
from tests.serve.browser import visiting
from tests.support import thorough

N_QUERIES, N_CLICKS, N_JUDGED, N_OTHERS = thorough(1, 10), 20, 10, 200


def handwritten():
    """The digits, as the demo serves them."""
    data = digits.load(0, n_pairs=1)
    return data.X_base, data.y_base, Pixels(8, 8, scale=1)


def wordlike(n=2_000, n_topics=20, n_words=300):
    """Vectors as of texts: weights of words above zero, few of them, and topics that share most of their words."""
    rng = np.random.default_rng(7)
    frequency = 1 / np.arange(1, n_words + 1)
    topics = np.array([rng.dirichlet(200 * frequency / frequency.sum()) for _ in range(n_topics)])
    y = rng.integers(n_topics, size=n)
    counts = np.stack([rng.multinomial(60, topics[topic]) for topic in y])
    return np.sqrt(counts).astype(np.float32), y, None


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.parametrize("world", [handwritten, wordlike])
def test_twenty_clicks_improve_a_query_and_spoil_no_other(browser, world):
    X, y, pictures = world()
    X, others, y, y_others = X[:-N_OTHERS], X[-N_OTHERS:], y[:-N_OTHERS], y[-N_OTHERS:]
    index = LiveIndex(n_bits=32)
    index.add(None, X, [{"kind": int(label)} for label in y])

    def right(ids, label):
        return float(np.mean(y[np.asarray(ids)[:N_JUDGED]] == label))

    def share_of_others():
        """Of queries that nobody marks and that are no items."""
        found = index.find(others, N_JUDGED).ids
        return float(np.mean(y[found] == y_others[:, None]))

    some = np.random.default_rng(3).choice(len(X), 300, replace=False)
    found = index.find(X[some], N_JUDGED + 1).ids
    hard = some[np.argsort([right(ids[1:], label) for ids, label in zip(found, y[some], strict=True)])]
    queries = hard[: 3 * N_QUERIES : 3].tolist()  # where there is something to improve

    others_before, before, after = share_of_others(), [], []
    with background(index, label="kind", pictures=pictures) as url, visiting(browser, url) as page:
        page.wait_for_selector(".offered .card")
        for query in queries:
            page.fill("[aria-label='id of an item']", str(query))
            page.keyboard.press("Enter")
            expect(page.locator(f".stand .card[data-id='{query}']")).to_have_count(1)
            expect(page.locator(".neighbours .card")).to_have_count(12)
            shown = _shown(page)
            before.append(right(shown, y[query]))
            marked_wrong = click_twenty(page, y, query)
            after.append(right(_shown(page), y[query]))
            assert not set(_shown(page)[:N_JUDGED]) & marked_wrong, "what was marked as wrong has not gone"
        others_after = share_of_others()
    gains = np.subtract(after, before)
    print(f"\n{world.__name__}: {np.mean(before):.3f} -> {np.mean(after):.3f}, worst {gains.min():+.1f}; others "
          f"{others_before:.3f} -> {others_after:.3f}")  # fmt: skip
    assert gains.mean() >= 0.2
    assert gains.min() >= 0
    assert others_after >= others_before - 0.01


def click_twenty(page, y, query):
    """Marks what is shown, from the first on, as often as that or until all of it is marked; gives the wrong ones."""
    said, wrong = set(), set()
    n_before = page.locator(".said li").count()
    for n in range(1, N_CLICKS + 1):
        id = next(id for id in _shown(page) if id not in said)
        similar = bool(y[id] == y[query])
        said.add(id)
        if not similar:
            wrong.add(id)
        page.click(f".neighbours .card[data-id='{id}'] [data-similar={str(similar).lower()}]")
        expect(page.locator(".said li")).to_have_count(n_before + n)
        expect(page.locator(".busy")).to_have_count(0)
        if all(id in said for id in _shown(page)):
            break  # nothing is left to click
    return wrong


def _shown(page):
    return page.eval_on_selector_all(".neighbours .card", "cards => cards.map((card) => JSON.parse(card.dataset.id))")
