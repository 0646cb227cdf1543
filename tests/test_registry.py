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
        ("oh", OnlineHashing),
        ("MultiModelOnlineHashing", MultiModelOnlineHashing),
        ("mmoh", MultiModelOnlineHashing),
        ("lsh", LSH),
    ],
)
def test_names_and_aliases(name: str, cls: type) -> None:
    assert registry.find(name) is cls


def test_an_unknown_name_is_answered_with_the_one_that_may_have_been_meant() -> None:
    error = refused(registry.find, "mihahs")
    assert isinstance(error, UnknownMethod)
    assert str(error) == "there is no method 'mihahs'; did you mean MIHash? `onlinehash methods` lists all."
    assert str(refused(registry.find, "?")) == "there is no method '?'; `onlinehash methods` lists all."


def test_names_are_unique_and_are_class_names() -> None:
    names = [name.lower() for method in registry.methods() for name in (method.name, *method.aliases)]
    assert len(names) == len(set(names))
    assert all(method.load().__name__ == method.name for method in registry.methods())


def test_others_register_by_an_entry_point(monkeypatch: Any) -> None:
    theirs = EntryPoint("OURS", "onlinehash.learners.locality_sensitive:LSH", "onlinehash.learners")

    def entry_points(group: str) -> list[EntryPoint]:
        return [theirs] if group == "onlinehash.learners" else []

    monkeypatch.setattr(registry, "entry_points", entry_points)
    assert registry.find("ours") is LSH
    assert list(registry.methods())[-1].aliases == ("OURS",)


@pytest.mark.parametrize("place", ["no_such_module:Hashing", "json:NoSuchHashing"])
def test_an_entry_point_that_cannot_be_loaded_is_told(monkeypatch: Any, place: str) -> None:
    theirs = EntryPoint("THEIRS", place, "onlinehash.learners")
    monkeypatch.setattr(registry, "entry_points", lambda group: [theirs])
    with pytest.raises(UnknownMethod, match=rf"cannot be imported from {place.split(':')[0]}: .*entry point"):
        registry.find("theirs")
