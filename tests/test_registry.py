"""Methods by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from onlinehash import LSH, MultiModelOnlineHashing, OnlineHashing
from onlinehash.errors import UnknownMethod
from onlinehash.learners import registry
from tests.support import refused


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("OnlineHashing", OnlineHashing),
        ("OH", OnlineHashing),
        ("mmoh", MultiModelOnlineHashing),
    ],
)
def test_names_and_aliases(name: str, cls: type) -> None:
    assert registry.find(name) is cls


def test_an_unknown_name_is_answered_with_the_one_that_may_have_been_meant() -> None:
    error = refused(registry.find, "mihahs")
    assert isinstance(error, UnknownMethod)
    assert str(error) == "there is no method 'mihahs'; did you mean MIHash? `onlinehash methods` lists all."
    assert str(refused(registry.find, "?")) == "there is no method '?'; `onlinehash methods` lists all."


def test_others_register_by_an_entry_point(monkeypatch: Any) -> None:
    theirs = EntryPoint("OURS", "onlinehash.learners.locality_sensitive:LSH", "onlinehash.learners")

    def entry_points(group: str) -> list[EntryPoint]:
        return [theirs] if group == "onlinehash.learners" else []

    monkeypatch.setattr(registry, "entry_points", entry_points)
    assert registry.find("ours") is LSH
    assert list(registry.methods())[-1].aliases == ("OURS",)
