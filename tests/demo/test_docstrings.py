"""The texts of `onlinehash serve --demo text`: what modules of the standard library say of themselves."""

from __future__ import annotations

import sys

import pytest

from onlinehash.demo import docstrings
from onlinehash.serve import demo


@pytest.fixture
def few_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them take seconds to read."""
    monkeypatch.setattr(sys, "stdlib_module_names", frozenset({"json", "csv", "queue", "_weakref", "math", "this"}))


def test_what_is_read(few_modules: None) -> None:
    found = docstrings.load()
    assert found == docstrings.load()
    assert {one.module for one in found} == {"json", "csv", "queue"}
    titles = {one.title: one.text for one in found}
    assert titles["queue.Queue.put(item, block, timeout)"].startswith("Put an item into the queue.")
    assert "json.decoder.JSONDecoder" in titles
    assert not [title for title in titles if "._" in title]
    assert len({one.text for one in found}) == len(found)
    assert all(docstrings.SHORTEST <= len(one.text) <= docstrings.LONGEST + 4 for one in found)


def test_the_service_of_the_demo(few_modules: None) -> None:
    service = demo.text_service()
    try:
        index = service.index
        assert (service.about()["embed"], service.about()["label"], service.about()["demo"]) == (
            "lexical@2",
            "module",
            True,
        )
        hits = index.find_text("put an item into a queue", k=3)
        assert [payload["module"] for payload in index.payloads_of(hits.ids.tolist())] == ["queue"] * 3
        assert {part is None for part in (service.quality, service.comparison, service.teacher)} == {False}
    finally:
        service.close()
