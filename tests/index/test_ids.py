"""`Ids` against a dictionary, what it refuses, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from onlinehash.errors import InvalidInput, OnlineHashError, UnknownId
from onlinehash.index.ids import Ids
from onlinehash.index.ids_kernels import mix, text_hash
from tests.support import as_bytes, refused

LOWEST, LARGEST = -(2**63), 2**63 - 1


def all_of(ids: Ids) -> list[Any]:
    return ids.at(np.arange(len(ids))).tolist()


def unchanged(ids: Ids, call: Callable[..., Any], *args: Any) -> OnlineHashError:
    """The call is refused, and nothing changed."""
    before = as_bytes(ids.state())
    error = refused(call, *args)
    assert as_bytes(ids.state()) == before
    return error


# ------------------------------------------------------------------ what can be an id


def test_integers_and_strings_come_back() -> None:
    cases: list[tuple[Any, list[Any]]] = [
        ((LOWEST, 0, LARGEST), [LOWEST, 0, LARGEST]),
        (np.array([5, 3], np.uint8), [5, 3]),
        (np.array([5, 3], ">i4"), [5, 3]),
        (np.arange(10)[::-3], [9, 6, 3, 0]),
        ([np.int8(5), 3, np.uint64(4)], [5, 3, 4]),
        (range(3, 7), [3, 4, 5, 6]),
        (pandas.Series([5, 3], dtype="Int64"), [5, 3]),
        (["b", "", "a\0", "a", "ü", "日本", "🦀"], ["b", "", "a\0", "a", "ü", "日本", "🦀"]),
        (np.array(["b", "äöü"]), ["b", "äöü"]),
        (pandas.Series(["b", "ä"], dtype="string"), ["b", "ä"]),
    ]
    for given, expected in cases:
        ids = Ids.of(given, len(expected))
        assert all_of(ids) == expected
        assert ids.find(given).tolist() == list(range(len(expected)))
        for position, id in enumerate(expected):
            assert ids.find(id).tolist() == [position]
            assert id in ids
        assert {type(id) for id in all_of(ids)} == {type(expected[0])}


def test_what_cannot_be_an_id_is_refused() -> None:
    cases: list[Any] = [
        [2, 2],
        ["b", "b"],
        [1, 2.0],
        [2, True],
        ["1", 2],
        ["a", None],
        [b"a", b"b"],
        np.array([1, 2], "m8[s]"),
        [1, LARGEST + 1],
        [LOWEST - 1, 1],
        np.array([1, LARGEST + 1], np.uint64),
        ["a", "b\ud800"],
        [1, 2, 3],
        [],
        [[1], [2, 3]],
        "ab",
        7,
        {1, 2},
    ]
    for given in cases:
        assert isinstance(refused(Ids.of, given, 2), InvalidInput)
        for ids in (Ids.of([7, 9], 2), Ids.of(["x", "y"], 2)):
            unchanged(ids, ids.extend, given, 2)


# ------------------------------------------------------------------ finding


@pytest.mark.parametrize(("given", "unknown"), [(None, 4), ([10, 30, 20, 7], 11), (list("abcd"), "e")])
def test_an_unknown_id_is_named(given: Any, unknown: Any) -> None:
    ids = Ids.of(given, 4)
    known = all_of(ids)
    for asked in (unknown, [unknown], [known[2], unknown, known[0]]):
        error = refused(ids.find, asked)
        assert isinstance(error, UnknownId)
        assert isinstance(error, KeyError)
        assert f"no item has id {unknown!r};" in str(error)
        assert str(error)[0] == "n", "a sentence, not the repr of one"
    assert unknown not in ids


def colliding_numbers(n: int) -> list[int]:
    return [k for k in range(100 * n) if int(mix(np.uint64(k))) % 64 == 5][:n]


def colliding_texts(n: int) -> list[str]:
    texts = [str(k) for k in range(100 * n)]
    return [t for t in texts if int(text_hash(np.frombuffer(t.encode(), np.uint8), 0, len(t))) % 64 == 5][:n]


@pytest.mark.parametrize("collide", [colliding_numbers, colliding_texts])
def test_ids_that_want_the_same_slot(collide: Callable[[int], list[Any]]) -> None:
    colliding = collide(30)[::-1]
    assert len(colliding) == 30
    ids = Ids.of(colliding[:20], 20)
    assert ids.find(colliding[:20][::-1]).tolist() == list(range(20))[::-1]
    assert all(id not in ids for id in colliding[20:])
    ids.forget(ids.find(colliding[5:15]))
    ids.extend(colliding[10:12], 2)
    ids.extend(colliding[20:], 10)
    assert ids.find(colliding[:5]).tolist() == [0, 1, 2, 3, 4]
    assert ids.find(colliding[10:12]).tolist() == [20, 21]
    assert ids.find(colliding[20:]).tolist() == list(range(22, 32))
    assert not any(id in ids for id in colliding[5:10] + colliding[12:15])


# ------------------------------------------------------------------ coming and going


def test_numbers_go_on_after_the_largest() -> None:
    ids = Ids.of([5, -3], 2)
    ids.extend(None, 2)
    assert all_of(ids) == [5, -3, 6, 7]
    ids.forget(np.array([3]))
    ids.keep(np.array([0, 1]))
    ids.extend(None, 1)
    assert all_of(ids) == [5, -3, 8]
    ids.extend([7, 100], 2)
    ids.extend(None, 1)
    assert all_of(ids) == [5, -3, 8, 7, 100, 101]
    negative = Ids.of([-9], 1)
    negative.extend(None, 1)
    assert all_of(negative) == [-9, -8]
    numbered = Ids.of(None, 3)
    numbered.keep(np.array([], np.int64))
    numbered.extend(None, 2)
    assert all_of(numbered) == [3, 4]


def test_the_first_ids_decide_the_kind() -> None:
    for empty in (Ids.of([], 0), Ids.of(None, 0), Ids.of(np.empty(0), 0), Ids.from_state(Ids.of([], 0).state(), 0)):
        for given, other in (([3, 1], ["x"]), (["x", "y"], [3])):
            ids = empty.copy()
            ids.extend([], 0)
            assert ids.find([]).tolist() == []
            assert given[0] not in ids
            ids.extend(given, 2)
            assert all_of(ids) == given
            assert "like those of the other items" in str(unchanged(ids, ids.extend, other, 1))
            ids.extend([], 0)
            ids.keep(np.array([], np.int64))
            unchanged(ids, ids.extend, other, 1)
    numbered = Ids.of(None, 2)
    unchanged(numbered, numbered.extend, ["a"], 1)


# ------------------------------------------------------------------ against a dictionary

numbers = st.one_of(st.integers(-3, 12), st.sampled_from([LOWEST, LOWEST + 1, 10**12]))
texts = st.one_of(st.sampled_from(["", "a", "b", "ab", "a\0", "ä", "日本", "🦀"]), st.text(max_size=3))


class AgainstADictionary(RuleBasedStateMachine):
    """Positions of living ids in a dictionary, and the ids of all positions in a list."""

    @initialize(kind=st.sampled_from(["none", "numbers", "texts", "empty"]), n=st.integers(0, 12), data=st.data())
    def begin(self, kind: str, n: int, data: st.DataObject) -> None:
        self.any_id = texts if kind == "texts" else numbers
        if kind == "none":
            self.every: list[Any] = list(range(n))
            self.ids = Ids.of(None, n)
        else:
            self.every = data.draw(st.lists(self.any_id, max_size=0 if kind == "empty" else 12, unique=True))
            self.ids = Ids.of(self.every, len(self.every))
        self.living = {id: position for position, id in enumerate(self.every)}
        self.largest = max(self.every, default=None) if self.any_id is numbers else None

    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        new = data.draw(st.lists(self.any_id, max_size=6))
        before = as_bytes(self.ids.state())
        if len(set(new)) < len(new) or any(id in self.living for id in new):
            assert isinstance(refused(self.ids.extend, new, len(new)), InvalidInput)
            assert as_bytes(self.ids.state()) == before
        else:
            self.ids.extend(new, len(new))
            self.added(new)

    @rule(n=st.integers(0, 4))
    def number_on(self, n: int) -> None:
        if self.any_id is texts and self.every and n:
            assert isinstance(unchanged(self.ids, self.ids.extend, None, n), InvalidInput)
        elif self.any_id is numbers:
            start = 0 if self.largest is None else self.largest + 1
            self.ids.extend(None, n)
            self.added(list(range(start, start + n)))

    def added(self, new: list[Any]) -> None:
        self.living |= {id: len(self.every) + i for i, id in enumerate(new)}
        self.every += new
        if self.any_id is numbers and new:
            self.largest = max(new) if self.largest is None else max(self.largest, *new)

    @precondition(lambda self: self.living)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        dying = data.draw(st.lists(st.sampled_from(sorted(self.living)), unique=True))
        found = self.ids.find(dying)
        assert found.tolist() == [self.living.pop(id) for id in dying]
        self.ids.forget(found)

    @rule()
    def keep_the_living(self) -> None:
        positions = sorted(self.living.values())
        self.ids.keep(np.array(positions, np.int64))
        self.every = [self.every[position] for position in positions]
        self.living = {id: position for position, id in enumerate(self.every)}

    @rule()
    def go_on_with_a_copy(self) -> None:
        old, self.ids = self.ids, self.ids.copy()
        old.extend([], 0)
        old.forget(np.arange(len(old)))

    @rule(mapped=st.booleans())
    def go_on_from_a_state(self, mapped: bool) -> None:
        state = self.ids.state()
        if not mapped:
            state = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in state.items()}
        self.ids = Ids.from_state(state, len(self.ids))

    @rule(data=st.data())
    def find(self, data: st.DataObject) -> None:
        asked = data.draw(st.lists(self.any_id, max_size=4))
        if not all(id in self.living for id in asked):
            assert isinstance(refused(self.ids.find, asked), UnknownId)
        elif len(set(asked)) < len(asked):
            assert type(refused(self.ids.find, asked)) is InvalidInput
        else:
            assert self.ids.find(asked).tolist() == [self.living[id] for id in asked]

    @rule(id=st.one_of(numbers, texts, st.none(), st.floats()))
    def contains(self, id: Any) -> None:
        assert (id in self.ids) == (not isinstance(id, float) and id in self.living)

    @invariant()
    def holds_the_ids(self) -> None:
        assert len(self.ids) == len(self.every)
        assert all_of(self.ids) == self.every
        assert self.ids.find(list(self.living)).tolist() == list(self.living.values())


TestAgainstADictionary = AgainstADictionary.TestCase
