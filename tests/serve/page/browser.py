"""A real browser for the tests of the page."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.needs import missing

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS = 30  #: That the page may take for anything, on a machine with other things to do.
PHONE = {"viewport": {"width": 375, "height": 740}, "has_touch": True, "is_mobile": True}

expect.set_options(timeout=1000 * SECONDS)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser of this machine; the test is skipped where there is none, unless it must run."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        missing("chromium or google-chrome on PATH", "`make servers` installs chromium where the system has it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visiting(browser: Browser, url: str, allowed: str = "(?!)", **options) -> Iterator[Page]:
    """The page at `url`, with `options` of Playwright's context (PHONE, color_scheme="dark").

    Nothing glides unless the options say so (reduced_motion="no-preference").
    At the end it must have asked nothing of another origin and have complained of nothing in its console, but for
    what `allowed`, a regular expression, finds.
    """
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options})
    page, complaints, asked = context.new_page(), [], []
    page.set_default_timeout(1000 * SECONDS)
    page.on("console", lambda one: complaints.append(one.text) if one.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    try:
        page.goto(url)
        yield page
        strangers = [one for one in asked if one.startswith("http") and urlsplit(one)[:2] != urlsplit(url)[:2]]
        assert not strangers, f"asked of another origin: {strangers}"
        complaints = [one for one in complaints if not re.search(allowed, one)]
        assert not complaints, f"said in the console: {complaints}"
    finally:
        context.close()


def wait_until(page: Page, question: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Waits until something is so. (Playwright's wait_for_function evaluates text, which the page's policy forbids.)"""
    end = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < end, f"not so within {seconds} seconds"
        page.wait_for_timeout(40)


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
