"""`Ids` against a dictionary, what it refuses, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from onlinehash.errors import FormatError, InvalidInput, OnlineHashError, UnknownId
from onlinehash.index import keys
from onlinehash.index.ids import Ids
from onlinehash.index.ids_kernels import empty_table, has_room, mix, text_hash
from onlinehash.io import format
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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([5, -3, 7], [5, -3, 7]),
        ((LOWEST, 0, LARGEST), [LOWEST, 0, LARGEST]),
        (np.array([5, 3], np.uint8), [5, 3]),
        (np.array([5, LARGEST], np.uint64), [5, LARGEST]),
        (np.array([5, 3], ">i4"), [5, 3]),
        (np.arange(10)[::-3], [9, 6, 3, 0]),
        ([np.int8(5), 3, np.uint64(4)], [5, 3, 4]),
        (range(3, 7), [3, 4, 5, 6]),
        (pandas.Series([5, 3]), [5, 3]),
        (pandas.Series([5, 3], dtype="Int64"), [5, 3]),
        (["b", "", "a\0", "a", "ü", "日本", "🦀"], ["b", "", "a\0", "a", "ü", "日本", "🦀"]),
        (("5", "05"), ["5", "05"]),
        (np.array(["b", "äöü"]), ["b", "äöü"]),
        (np.array(["b", "a"], object), ["b", "a"]),
        (np.array(["b", "äöü"], np.dtypes.StringDType()), ["b", "äöü"]),
        (pandas.Series(["b", "ä"]), ["b", "ä"]),
        (pandas.Series(["b", "ä"], dtype="string"), ["b", "ä"]),
    ],
)
def test_integers_and_strings_come_back(given: Any, expected: list[Any]) -> None:
    ids = Ids.of(given, len(expected))
    assert all_of(ids) == expected
    assert ids.find(given).tolist() == list(range(len(expected)))
    for position, id in enumerate(expected):
        assert ids.find(id).tolist() == [position]
        assert id in ids
    kinds = {type(id) for id in all_of(ids)}
    assert kinds == {type(expected[0])}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([1, 2, 1], "1 occurs twice"),
        ([3, 2, LARGEST, 2], "2 occurs twice"),
        (["b", "a", "b"], "'b' occurs twice"),
        ([1.0, 2.0], "got float"),
        ([1, 2.0], "got float and int"),
        (np.array([1.0, 2.0]), "got float64"),
        ([True, False], "got bool"),
        ([2, True], "got bool and int"),
        (np.array([True, False]), "got bool"),
        (["1", 2], "got int and str"),
        (np.array([1, "a"], object), "got int and str"),
        ([1, None], "got NoneType and int"),
        (["a", None], "got NoneType and str"),
        (pandas.Series(["a", None], dtype="string"), "got NAType and str"),
        ([b"a", b"b"], "got bytes"),
        (np.array([b"a", b"b"]), "got bytes_"),
        (np.array([1, 2], "m8[s]"), "got timedelta64"),
        ([np.timedelta64(1), np.timedelta64(2)], "got timedelta64"),
        ([1, LARGEST + 1], str(LARGEST + 1)),
        ([LOWEST - 1, 1], str(LOWEST - 1)),
        ([1, 10**100], "1000"),
        (np.array([1, LARGEST + 1], np.uint64), str(LARGEST + 1)),
        ([np.uint64(LARGEST + 1), 1], str(LARGEST + 1)),
        (["a", "b\ud800"], "surrogate"),
        ([1, 2, 3], "one for each item, got 3"),
        ([1], "one for each item, got 1"),
        ([], "one for each item, got 0"),
        ([[1, 2]], "sequence"),
        ([[1], [2]], "sequence"),
        ([[1], [2, 3]], "got list"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], "sequence"),
        (np.array([[1], [2]]), "sequence"),
        ("ab", "sequence"),
        (7, "sequence"),
        ({1, 2}, "sequence"),
    ],
)
def test_what_cannot_be_an_id_is_refused(given: Any, says: str) -> None:
    n = 2 if "twice" not in says else len(given)
    error = refused(Ids.of, given, n)
    assert isinstance(error, InvalidInput)
    assert says in str(error)
    for ids in (Ids.of([7, 9], 2), Ids.of(["x", "y"], 2)):
        unchanged(ids, ids.extend, given, n)


def test_input_is_copied() -> None:
    given = np.array([4, 2])
    ids = Ids.of(given, 2)
    given[:] = 0
    assert all_of(ids) == [4, 2]
    positions = np.arange(2)
    numbered = Ids.of(None, 2)
    numbered.at(positions)[:] = 7
    assert positions.tolist() == [0, 1]


@pytest.mark.parametrize("given", [None, [40, 20, 30, 10], ["d", "", "üü", "a"]])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (1, 10), (2, 0), (2, 3, 4)])
def test_ids_come_in_the_shape_of_the_positions(given: Any, shape: tuple[int, ...]) -> None:
    positions = np.random.default_rng(0).integers(0, 4, shape)
    got = Ids.of(given, 4).at(positions)
    every = np.array(given if given is not None else range(4), object)
    assert isinstance(got, np.ndarray)
    assert got.shape == shape
    assert got.dtype == (object if given is not None and given[0] == "d" else np.int64)
    assert got.tolist() == np.asarray(every[positions], object).tolist()


# ------------------------------------------------------------------ finding


@pytest.mark.parametrize(
    ("given", "unknown"),
    [(None, 4), (None, -1), ([10, 30, 20, 7], 11), ([10, 20, 30, 40], 41), ([10, 20, 30, 40], 9), (list("abcd"), "e")],
)
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


@pytest.mark.parametrize("given", [None, [10, 30, 20], ["a", "b", ""]])
def test_what_is_no_id_is_not_found(given: Any) -> None:
    ids = Ids.of(given, 3)
    first = all_of(ids)[0]
    other: Any = "0" if first != "a" else 0
    assert isinstance(refused(ids.find, other), UnknownId)
    for odd in (
        other,
        None,
        0.0,
        10.0,
        True,
        LARGEST + 1,
        b"a",
        [first],
        (first,),
        np.array([first]),
        "\ud800",
        object(),
    ):
        assert odd not in ids
    assert isinstance(refused(ids.find, [first, first]), InvalidInput)
    assert f"the id {first!r} occurs twice" in str(refused(ids.find, [first, all_of(ids)[1], first]))
    for odd in (None, 0.0, True, [first, None], [[first]], LARGEST + 1, {first}):
        assert isinstance(refused(ids.find, odd), InvalidInput)
    assert ids.find([]).tolist() == []


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


def test_tables_are_wide_enough() -> None:
    for n in (0, 1, 9, 10, 11, 1000, 2**20):
        table = empty_table(n)
        assert has_room(table, n)
        assert len(table) <= max(16, 16 * n / 5)
        assert not has_room(table, len(table) * 5 // 8 + 1)
    assert empty_table(100).dtype == np.uint32


def test_threads_may_find_at_once() -> None:
    given = np.random.default_rng(0).permutation(20_000)
    for ids in (Ids.of(given, 20_000), Ids.of([str(id) for id in given], 20_000)):
        asked = ids.at(np.arange(20_000))
        with ThreadPoolExecutor(8) as pool:
            for found in pool.map(ids.find, [asked] * 8):
                assert np.array_equal(found, np.arange(20_000))


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


def test_numbers_end() -> None:
    ids = Ids.of([LARGEST - 1], 1)
    assert "no 64-bit integers" in str(unchanged(ids, ids.extend, None, 2))
    ids.extend(None, 1)
    assert all_of(ids) == [LARGEST - 1, LARGEST]
    ids.extend(None, 0)
    unchanged(ids, ids.extend, None, 1)
    again = Ids.from_state(ids.state(), 2)
    unchanged(again, again.extend, None, 1)
    ids.extend([LOWEST], 1)
    assert ids.find([LOWEST, LARGEST]).tolist() == [2, 1]


def test_strings_are_not_numbered_on() -> None:
    ids = Ids.of(["a"], 1)
    assert "string ids cannot be numbered" in str(unchanged(ids, ids.extend, None, 1))


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


@pytest.mark.parametrize("given", [None, [10, 20, 30], [30, 10, 20], ["a", "", "c"]])
def test_known_ids_are_refused_until_forgotten(given: Any) -> None:
    ids = Ids.of(given, 3)
    first, second, third = all_of(ids)
    new: Any = "new" if isinstance(first, str) else 77
    assert repr(second) in str(unchanged(ids, ids.extend, [new, second], 2))
    assert new not in ids
    ids.forget(np.array([1, 2]))
    assert isinstance(unchanged(ids, ids.find, second), UnknownId)
    ids.extend([new, second], 2)
    assert ids.find([first, new, second]).tolist() == [0, 3, 4]
    assert third not in ids
    unchanged(ids, ids.extend, [second], 1)
    ids.keep(np.array([0, 3, 4]))
    assert all_of(ids) == [first, new, second]
    ids.extend([third], 1)
    assert ids.find([third, first]).tolist() == [3, 0]


@pytest.mark.parametrize("given", [None, [*range(20, 0, -1)], [*range(20)], [str(k) for k in range(20)]])
def test_a_copy_lives_apart(given: Any) -> None:
    ids = Ids.of(given, 20)
    before = all_of(ids)
    first, mine, *its = (77, 66, 55, 44) if isinstance(before[0], int) else ("x", "y", "z", "w")
    ids.extend([first], 1)  # now there is room, and a table, neither of which must be shared
    ids.forget(np.array([0]))
    assert first in ids
    twin = ids.copy()
    twin.extend(its, 2)
    ids.extend([mine], 1)
    ids.forget(np.array([5]))
    ids.extend([before[5]], 1)
    twin.forget(np.array([1]))
    assert all_of(ids) == [*before, first, mine, before[5]]
    assert all_of(twin) == [*before, first, *its]
    assert ids.find([mine, before[5], before[1]]).tolist() == [21, 22, 1]
    assert twin.find([*its, before[5]]).tolist() == [21, 22, 5]
    assert not any(id in ids for id in (*its, before[0]))
    assert not any(id in twin for id in (mine, *before[:2]))


def test_a_state_stays_as_it_is() -> None:
    for given in (None, [9, 8, 7], ["b", "a", "c"]):
        ids = Ids.of(given, 3)
        ids.forget(np.array([0]))
        state = ids.state()
        before = as_bytes(state)
        other = Ids.from_state(state, 3)
        for one in (ids, other):
            one.forget(np.array([1]))
            one.extend(one.at(np.array([0])), 1)
        assert as_bytes(state) == before
        assert as_bytes(ids.state()) == as_bytes(other.state())


@pytest.mark.parametrize("given", [None, [8, 7, 9], ["b", "a", "c"]])
def test_the_dead_that_are_kept_stay_dead(given: Any) -> None:
    ids = Ids.of(given, 3)
    first, dead, last = all_of(ids)
    ids.forget(np.array([1]))
    ids.keep(np.array([1, 2]))
    assert all_of(ids) == [dead, last]
    assert ids.find(last).tolist() == [1]
    assert first not in ids
    assert dead not in ids


# ------------------------------------------------------------------ files


def test_states_of_files_are_used_as_they_are(tmp_path: Any) -> None:
    given = np.random.default_rng(0).permutation(1000)
    for ids in (Ids.of(None, 1000), Ids.of(given, 1000), Ids.of([f"{id}ß" for id in given], 1000)):
        ids.forget(np.array([3, 999]))
        format.write(tmp_path / "ids", "ids", ids.state())
        _, state = format.read(tmp_path / "ids", mmap=True)
        loaded = Ids.from_state(state, 1000)
        for name in {"numbers", "data", "offsets"} & set(state):
            assert np.shares_memory(loaded.state()[name], state[name])
        asked = ids.at(np.delete(np.arange(1000), [3, 999]))
        assert loaded.find(asked).tolist() == ids.find(asked).tolist()
        assert ids.at(np.array([3]))[0] not in loaded
        loaded.forget(np.array([5]))
        loaded.extend(ids.at(np.array([3])), 1)
        assert loaded.find(ids.at(np.array([3]))).tolist() == [1000]
        assert ids.at(np.array([5]))[0] in ids
        assert ids.at(np.array([5]))[0] not in loaded


def test_many_numbers_cost_nothing() -> None:
    many = 10**12  # more than fit into memory
    ids = Ids.from_state(Ids.of(None, many).state(), many)
    assert ids.find([many - 1, 0]).tolist() == [many - 1, 0]
    ids.extend(None, many)
    ids.copy().extend([2 * many], 1)
    assert ids.at(np.array([2 * many - 1])).tolist() == [2 * many - 1]
    assert ids.nbytes == 0


NUMBERS = {"kind": "integers", "next": 8, "numbers": np.array([7, 5, 6])}
TEXTS = {"kind": "strings", "next": 0, "data": np.frombuffer(b"abc", np.uint8), "offsets": np.array([0, 1, 1, 3])}


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"kind": "integers", "next": 4},
        {"kind": "floats", "next": 4},
        {"kind": ["range"], "next": 4},
        {"kind": "range"},
        {"kind": "range", "next": 2},
        {"kind": "range", "next": LARGEST + 2},
        {"kind": "range", "next": "3"},
        {"kind": "range", "next": 3.0},
        {"kind": "range", "next": 3, "dead": np.zeros(2, bool)},
        {"kind": "range", "next": 3, "dead": np.zeros(3, np.uint8)},
        {"kind": "range", "next": 3, "dead": [False] * 3},
        NUMBERS | {"numbers": np.arange(4)},
        NUMBERS | {"numbers": np.arange(3.0)},
        NUMBERS | {"numbers": np.arange(3, dtype=np.int32)},
        NUMBERS | {"numbers": np.arange(3)[:, None]},
        NUMBERS | {"numbers": [0, 1, 2]},
        NUMBERS | {"next": None},
        NUMBERS | {"next": True},
        TEXTS | {"offsets": np.array([0, 1, 3])},
        TEXTS | {"offsets": np.array([0, 1, 1, 4])},
        TEXTS | {"offsets": np.array([0, 1, 1, 2])},
        TEXTS | {"offsets": np.array([1, 1, 1, 3])},
        TEXTS | {"offsets": np.array([0, 2, 1, 3])},
        TEXTS | {"offsets": np.array([0, -1, 1, 3])},
        TEXTS | {"offsets": np.array([0, 1, 1, -1])},
        TEXTS | {"offsets": np.array([0.0, 1, 1, 3])},
        TEXTS | {"data": np.zeros(3, np.int8)},
        TEXTS | {"data": np.zeros((1, 3), np.uint8)},
        TEXTS | {"data": b"abc"},
    ],
)
def test_states_that_do_not_fit_are_refused(state: dict[str, Any]) -> None:
    assert isinstance(refused(Ids.from_state, state, 3), FormatError)


def test_sound_states_are_taken() -> None:
    assert all_of(Ids.from_state(NUMBERS, 3)) == [7, 5, 6]
    ids = Ids.from_state(TEXTS | {"offsets": np.array([0, 1, 2, 3])}, 3)
    ids.extend([""], 1)  # no bytes, after those that cannot be written to
    assert all_of(ids) == ["a", "b", "c", ""]
    strided = NUMBERS | {"numbers": np.array([7, 0, 5, 0, 6])[::2]}
    assert Ids.from_state(strided, 3).find([6, 7]).tolist() == [2, 0]


def test_wrong_bytes_of_files_are_noticed_when_they_are_met() -> None:
    twice = Ids.from_state(NUMBERS | {"numbers": np.array([7, 5, 7])}, 3)
    assert isinstance(refused(twice.find, 5), FormatError)
    assert isinstance(refused(twice.extend, [1], 1), FormatError)
    bytes_ = Ids.from_state(TEXTS | {"data": np.array([97, 255, 98], np.uint8)}, 3)
    assert isinstance(refused(bytes_.at, np.arange(3)), FormatError)


# ------------------------------------------------------------------ costs


@pytest.mark.parametrize("kind", ["integers", "rising integers", "strings"])
def test_memory_stays_near_the_ids(kind: str) -> None:
    n = 100_000
    numbers = np.random.default_rng(0).permutation(n) + 1
    given: Any = numbers if kind != "rising integers" else np.sort(numbers)
    own = 8 * n
    if kind == "strings":
        given = [f"item {number}" for number in numbers]
        own += sum(map(len, given))
    ids = Ids.of(given, n)
    assert own <= ids.nbytes <= 1.01 * own
    ids.find(given)
    assert ids.nbytes <= (1.01 * own if kind == "rising integers" else own + 16 * n)
    for k in range(200):
        ids.extend([given[k] * 2 if kind == "strings" else int(numbers.max()) + 1 + k], 1)
    assert ids.nbytes <= 1.6 * own + 16 * n
    ids.keep(np.arange(0, n, 2))
    assert ids.nbytes <= 0.51 * own


def test_a_million_ids() -> None:
    given = np.random.default_rng(0).permutation(1_000_000) * 3
    texts = [f"item {id}" for id in given[:300_000]]
    ids = Ids.of(given, len(given))
    assert np.array_equal(ids.find(given[::-1]), np.arange(len(given))[::-1])
    ids.extend(given + 1, len(given))
    strings = Ids.of(texts, len(texts))
    assert np.array_equal(strings.find(texts), np.arange(len(texts)))


def test_adding_one_by_one_is_cheap() -> None:
    copied = []
    array = np.empty(0, np.int64)
    for n in range(3000):
        larger = keys.appended(array, n, np.array([n]))
        copied += [n] if larger is not array else []
        array = larger
    assert array[:3000].tolist() == list(range(3000))
    assert sum(copied) < 4 * 3000


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
