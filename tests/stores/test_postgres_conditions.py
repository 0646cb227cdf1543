"""Filters in SQL let everything through that passes in Python, and not much else."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from onlinehash.live import filters
from onlinehash.live.payloads import Payloads
from onlinehash.stores.postgres.conditions import condition as condition_of
from onlinehash.stores.postgres.connections import connect
from tests.servers import PostgresServer

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 1.0, 0.1, -0.0, 1e-7, 5, 5.5, 2**53 - 1, 2**53, 2**53 + 1, float(2**53), 1e23, 10**23,
    99999999999999991611392, 10**40, 1e300, 5e-324, "", "1", "true", "null", "red", "é", "\u4e2d", "\U0001f600", "a\0b",
    "\ud800", 'quote"', "back\\slash", "\\u0000", "line\nbreak", "%s", "$.x", [], [1], [True], ["red", 5], [[1]],
    [None], {}, {"b": 1}, {"b": {"c": "red"}}, [{"b": 1}], {"c": [1, 2]},
]  # fmt: skip
FIELDS = ["a", "a.b", "a.b.c", "", ".", "a b", 'a"', "a\\", "é", "a\0", "\ud800", "$", "%s"]


def conditions() -> list[Any]:
    compared = [
        {name: value} for name in ("<", "<=", ">", ">=") for value in (0, 1, 0.1, 5, 2**53, 1e23, 10**23, "red", "é")
    ]
    lists = [[1, "red"], [], [True, None], [10**40, 5], [[1], 5], ["a\0b", 5]]
    others = [{"exists": True}, {"exists": False}, {"!=": 1}, {">": 0, "<": 6}, {"in": [1], "exists": True}]
    values = [value for value in VALUES if not isinstance(value, dict)]
    return [*values, *lists, *compared, *others, lambda value: value == 1]


PAYLOADS: list[dict[str, Any] | None] = [
    None,
    {},
    *({field: value} for field in FIELDS for value in VALUES[::3]),
    *({"a": value} for value in VALUES),
    *({"a": {"b": value}} for value in VALUES),
    *({"a.b": value, "a": {"b": 1}} for value in VALUES[:12]),
    {"a": 1, "other": "\0"},
    {"a": 2, "\ud800": 1},
]
SIMPLE: list[dict[str, Any]] = [
    *({"a": condition} for condition in (1, "red", True, None, [1, "red"], {"exists": True}))
]
WHERES: list[dict[str, Any]] = [
    *SIMPLE,
    *({field: condition} for field in ("a", "a.b") for condition in conditions()),
    *({field: condition} for field in FIELDS for condition in (1, "red", {"exists": True}, {"<": 5})),
    {"a": 1, "a.b": {"exists": False}},
    {"a.b": 1, "a": {"exists": True}},
]


@pytest.fixture(scope="module")
def admitted(stock: PostgresServer) -> dict[int, set[int]]:
    """Which payloads the database lets through, for each filter."""
    texts = [None if payload is None else json.dumps(payload) for payload in PAYLOADS]
    found: dict[int, set[int]] = {}
    with connect(stock.address()) as connection, connection.transaction():
        connection.execute("CREATE TEMPORARY TABLE held (position integer, payload text)")
        with connection.cursor() as cursor, cursor.copy("COPY held FROM STDIN") as copy:
            for row in enumerate(texts):
                copy.write_row(row)
        for number, where in enumerate(WHERES):
            condition, parameters = condition_of(filters.checked(where).tests)
            rows = connection.execute(f"SELECT position FROM held WHERE {condition} AND %s", [*parameters, True])
            found[number] = set(itertools.chain.from_iterable(rows))
    return found


def test_all_that_pass_are_let_through(admitted: dict[int, set[int]]) -> None:
    payloads = Payloads([None if payload is None else json.dumps(payload) for payload in PAYLOADS])
    for number, where in enumerate(WHERES):
        passing = set(payloads.mask(where).nonzero()[0].tolist())
        assert passing <= admitted[number], (where, [PAYLOADS[one] for one in passing - admitted[number]])


def test_what_is_simple_is_answered_exactly(admitted: dict[int, set[int]]) -> None:
    payloads = Payloads([None if payload is None else json.dumps(payload) for payload in PAYLOADS])
    odd = {
        number
        for number, payload in enumerate(PAYLOADS)
        if any(text in json.dumps(payload) for text in ("\\u0000", "\\ud"))
    }
    for number, where in enumerate(SIMPLE):
        passing = set(payloads.mask(where).nonzero()[0].tolist())
        assert admitted[number] - odd == passing - odd
