"""Payloads and filters, against a slow and obvious evaluation over dicts."""

import json
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinehash.errors import InvalidInput
from onlinehash.live import filters
from onlinehash.live.payloads import MAX_BYTES, Payloads

# Few values, so that filters meet them; with all that is nearly equal: True, 1, 1.0, "1", and integers beyond float64.
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 2, 2.5, -0.5, "", "1", "a", "b", 2**53, 2**53 + 1, 10**400])
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.sampled_from("ab"), SCALARS, max_size=2))
PAYLOADS = st.none() | st.dictionaries(st.sampled_from(["a", "b", "c", "a.b"]), VALUES, max_size=3)
FIELDS = st.sampled_from(["a", "b", "a.b", "b.a", "z"])
FUNCTIONS = [lambda value: isinstance(value, int), lambda value: bool(value), lambda value: str(value) > "1"]
BOUNDS = SCALARS.filter(lambda value: value is not None and not isinstance(value, bool))
OPERATORS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("<", "<=", ">", ">="), BOUNDS),
        "!=": VALUES,
        "in": st.lists(VALUES, max_size=3),
        "exists": st.booleans(),
    },
).filter(bool)
CONDITIONS = st.one_of(SCALARS, st.lists(VALUES, max_size=3), OPERATORS, st.sampled_from(FUNCTIONS))
FILTERS = st.dictionaries(FIELDS, CONDITIONS, max_size=2)


def equal(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all(equal(a[key], b[key]) for key in a)
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def has(value, wanted):
    return equal(value, wanted) or (isinstance(value, list) and any(equal(element, wanted) for element in value))


def kind(value):
    return "text" if isinstance(value, str) else "number" if type(value) in (int, float) else None


def holds(found, name, operand):
    """One operator on what was found: a list of the value, or of nothing."""
    if name == "exists":
        return bool(found) == operand
    if name == "!=":
        return not (found and has(found[0], operand))
    if not found:
        return False
    if name == "in":
        return any(has(found[0], wanted) for wanted in operand)
    if kind(found[0]) is None or kind(found[0]) != kind(operand):
        return False
    return {"<": found[0] < operand, "<=": found[0] <= operand, ">": found[0] > operand, ">=": found[0] >= operand}[
        name
    ]


def find(payload, field):
    if payload is None:
        return []
    if field in payload:
        return [payload[field]]
    first, _, rest = field.partition(".")
    inner = payload.get(first)
    return [inner[rest]] if isinstance(inner, dict) and rest in inner else []


def admits(payload, where):
    for field, condition in where.items():
        found = find(payload, field)
        if callable(condition):
            good = bool(found) and condition(found[0])
        elif isinstance(condition, dict):
            good = all(holds(found, name, operand) for name, operand in condition.items())
        else:
            good = holds(found, "in", condition if isinstance(condition, list) else [condition])
        if not good:
            return False
    return True


def filled(objects):
    return Payloads(Payloads.checked(objects, len(objects)))


@settings(max_examples=60)
@given(st.lists(PAYLOADS, max_size=12), FILTERS)
def test_a_mask_is_the_obvious_evaluation(objects, where):
    mask = filled(objects).mask(where)
    assert mask.dtype == np.bool_
    assert mask.tolist() == [admits(payload, where) for payload in objects]


ABSENT = object()
NEARLY = [True, 1, 1.0, "1", 2**53, 2**53 + 1, float(2**53), 10**400, None, [1], [True, [1]], {"b": 1}, ABSENT]


CASES = [
    ({"a": True}, [True, [True, [1]]]),
    ({"a": 1}, [1, 1.0, [1]]),
    ({"a": 2**53}, [2**53, float(2**53)]),
    ({"a": float(2**53)}, [2**53, float(2**53)]),
    ({"a": None}, [None]),
    ({"a": ["1", 10**400]}, ["1", 10**400]),
    ({"a": [[1.0]]}, [[1], [True, [1]]]),
    ({"a": {"in": [{"b": 1.0}]}}, [{"b": 1}]),
    ({"a": {">": 2**53}}, [2**53 + 1, 10**400]),
    ({"a": {">=": 2**53 + 1}}, [2**53 + 1, 10**400]),
    ({"a": {"<": 10**400, ">": 1}}, [2**53, 2**53 + 1, float(2**53)]),
    ({"a": {"<=": "1"}}, ["1"]),
    ({"a": {"!=": 1, "exists": True}}, [True, *NEARLY[3:9], [True, [1]], {"b": 1}]),
    ({"a": {"exists": False}}, [ABSENT]),
    ({"a": lambda value: type(value) is float}, [1.0, float(2**53)]),
    ({"a.b": 1}, [{"b": 1}]),
]


def test_values_that_are_nearly_equal():
    payloads = filled([{} if value is ABSENT else {"a": value} for value in NEARLY])
    for where, admitted in CASES:
        found = [NEARLY[position] for position in np.flatnonzero(payloads.mask(where))]
        assert list(map(repr, found)) == list(map(repr, admitted)), where


@given(st.data())
def test_masks_follow_all_changes(data):
    model = data.draw(st.lists(PAYLOADS, max_size=5))
    payloads = filled(model)
    for _ in range(data.draw(st.integers(1, 6))):
        where = data.draw(FILTERS)
        assert payloads.mask(where).tolist() == [admits(payload, where) for payload in model]
        change = data.draw(st.sampled_from(["append", "put", "keep"]))
        chosen = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=len(model), max_size=len(model))))
        if change == "append":
            new = data.draw(st.lists(PAYLOADS, max_size=4))
            payloads.append(Payloads.checked(new, len(new)))
            model = model + new
        elif change == "put":
            new = data.draw(st.lists(PAYLOADS, min_size=len(chosen), max_size=len(chosen)))
            payloads.put(chosen, Payloads.checked(new, len(new)))
            for position, payload in zip(chosen, new, strict=True):
                model[position] = payload
        else:
            payloads.keep(chosen)
            model = [model[position] for position in chosen]
        assert len(payloads) == len(model)
        assert [payloads.at(i) for i in range(len(model))] == model
    for where in ({}, {"a": 1}, {"a.b": {"!=": True}}, {"b": {">": 0}}):
        assert payloads.mask(where).tolist() == [admits(payload, where) for payload in model]


@given(PAYLOADS)
def test_what_goes_in_comes_out(payload):
    payloads = filled([payload])
    assert equal(payloads.at(0), payload)
    assert payloads.at(0) is not payloads.at(0) or payload is None
    assert payloads.text(0) == (None if payload is None else json.dumps(payload, separators=(",", ":")))


def circular():
    payload = {}
    payload["itself"] = payload
    return payload


def test_payloads_that_json_would_change_are_refused():
    for payload in (
        {"a": float("nan")},
        {"a": [1, {"b": -float("inf")}]},
        {"a": {1: 2}},
        {None: 2},
        {"a": (1, 2)},
        {"a": np.float32("nan")},
        {"a": np.ones(2)},
        {"a": b"x"},
        circular(),
        {"a": 10**5000},
        {"a": "x" * (MAX_BYTES - 7)},
        [1],
        "a",
    ):
        with pytest.raises(InvalidInput, match="payload 1"):
            Payloads.checked([None, payload], 2)
    for payloads, n in (({"a": 1}, 2), ([None], 2), ("ab", 2), (7, 1)):
        with pytest.raises(InvalidInput, match="expected a"):
            Payloads.checked(payloads, n)


def test_filters_that_say_nothing_known_are_refused():
    for where in (
        [],
        {1: 2},
        {"a": {}},
        {"a": {"==": 1}},
        {"a": {"<": None}},
        {"a": {">=": True}},
        {"a": {"in": "ab"}},
        {"a": {"exists": 1}},
        {"a": float("nan")},
        {"a": (1, 2)},
    ):
        with pytest.raises(InvalidInput, match="expected"):
            Payloads().mask(where)


def test_readers_see_each_change_whole_or_not_at_all():
    """Each append adds as many of one kind as of the other, each put turns all around; so does no state in between."""
    pair = [['{"a":0,"b":1}', '{"a":1,"b":0}'], ['{"a":1,"b":0}', '{"a":0,"b":1}']]
    payloads, stop, wrong = Payloads(pair[0]), threading.Event(), []

    def read():
        while not stop.is_set():
            for where in ({"a": 0}, {"a": 0, "b": 1}, {"a": {"<": 1}}, {"a": {"!=": 1}, "b": lambda value: value == 1}):
                mask = payloads.mask(where)
                if len(mask) % 2 or mask.sum() * 2 != len(mask):
                    wrong.append((where, mask))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for round in range(300):
        payloads.append(pair[round % 2])
        payloads.append([f'{{"a":0,"b":1,"c":{round}}}', '{"a":1,"b":0}'])
        payloads.put(np.array([0, 1]), pair[round % 2])
        if round % 50 == 49:
            payloads.keep(np.arange(len(payloads) // 4 * 2))
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong


# ------------------------------------------------------------------ what a filter may cost


def test_a_filter_beyond_the_limits_is_refused():
    payloads = filled([{"a": 1}, {"a": [2]}, {"a": -1}])
    assert payloads.mask({"a": list(range(filters.MAX_VALUES - 1))}).tolist() == [True, True, False]
    for where, message in (
        ({f"f{i}": 1 for i in range(filters.MAX_FIELDS + 1)}, "at most 64 fields"),
        ({"a": list(range(filters.MAX_VALUES + 1))}, "at most 100000 values in all"),
        ({"a": {"in": [{"b": [0] * 60_000}, {"b": [0] * 60_000}]}}, "at most 100000 values in all"),
    ):
        with pytest.raises(InvalidInput, match=message):
            payloads.mask(where)


@given(st.lists(PAYLOADS, min_size=1, max_size=5), st.lists(PAYLOADS, max_size=3), FILTERS, st.integers(0, 3))
def test_columns_follow_changes_that_are_made_while_they_are_made(model, new, where, n_late):
    model, payloads, left = list(model), filled(model), [n_late]

    def change():
        if left[0]:
            left[0] -= 1
            payloads.append(Payloads.checked(new, len(new)))
            payloads.put(np.array([0]), Payloads.checked([{"a": left[0]}], 1))
            model.extend(new)
            model[0] = {"a": left[0]}
            if left[0] == 1:
                payloads.keep(np.arange(1, len(model)))
                payloads.append([None])
                model[:] = [*model[1:], None]

    payloads.mask(filters.checked(where, change))
    assert payloads.mask(where).tolist() == [admits(payload, where) for payload in model]
