"""Filters on an index that follows: the same as brute force, whatever is changed, and asked of the database once."""

from __future__ import annotations

import itertools
import json
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from onlinehash import MultiModelOnlineHashing, OnlineHashing, PostgresIndex, refresh
from onlinehash.index.flat import FlatIndex
from onlinehash.live.payloads import Payloads
from onlinehash.stores import filtered
from onlinehash.stores import index as stores
from onlinehash.stores.index import StoreIndex
from tests.stores.conftest import Home
from tests.stores.memory_backend import MemoryBackend, Tables

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a stream of few similar pairs warns

WIDTH = 4
VALUES: list[Any] = [
    None, True, False, 0, 1, 1.0, 0.1, 7, -7, 2**53 + 1, 10**40, "red", "", "é", "a\0b", "\ud800", 'quote"', "50%_\\",
    "\\u0000", [], [1, "red"], [[7]], [None], {}, {"b": "red"}, {"b": [7, "\0"]}, {"b": {"c": 1}},
]  # fmt: skip
FIELDS = ["a", "a.b", "é", 'x"\\%', "missing"]


def vectors(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def payload(rng: np.random.Generator, n: int) -> dict[str, Any] | None:
    """One with any of the fields, and a number that it shares with few others."""
    if rng.random() < 0.1:
        return None
    chosen = {field: VALUES[rng.integers(len(VALUES))] for field in FIELDS[:4] if rng.random() < 0.6}
    return chosen | {"n": n, "of_20": n % 20, "far": 0 if rng.random() < 0.97 else 1}


def wheres(rng: np.random.Generator, n: int) -> list[dict[str, Any]]:
    """Some of any kind, and some that few pass or none."""

    def condition() -> Any:
        value = VALUES[rng.integers(len(VALUES))]
        kind = rng.integers(8)
        if kind == 0:
            return {"exists": bool(rng.integers(2))}
        if kind == 1:
            return {"!=": value}
        if kind == 2:
            return {("<", "<=", ">", ">=")[rng.integers(4)]: (0, 5, 0.1, 2**60, "m")[rng.integers(5)]}
        if kind == 3:
            return {"in": [value, VALUES[rng.integers(len(VALUES))]]}
        return [value] if isinstance(value, list | dict) else value

    some = [{FIELDS[rng.integers(len(FIELDS))]: condition() for _ in range(rng.integers(1, 3))} for _ in range(n)]
    return [*some, {"n": int(rng.integers(60))}, {"of_20": 7}, {"far": 1}, {"n": -1}, {"of_20": {">": 2}}]


def check(reader: StoreIndex, writer: StoreIndex, held: list[tuple[int, Any]], where: Any, seed: int) -> None:
    """The reader answers as a look at all payloads and codes does."""
    reader.reload()
    encoder, queries = writer.encoder, vectors(2, seed)
    assert encoder is not None
    texts = [None if one is None else json.dumps(one) for _, one in held]
    mask, layout = Payloads(texts).mask(where), writer._reader.backend.layout
    brute = FlatIndex(writer.codes, ids=[id for id, _ in held], fusion=layout.fusion, encoder=encoder)
    for k in (3, 30):
        found, expected = reader.search(queries, k, where), brute.search(queries, k, among=mask)
        assert np.array_equal(found.ids, expected.ids), where
        assert np.array_equal(found.distances, expected.distances)
    radius = int(brute.search(queries[0], 12).distances[-1])
    near: Any = reader.within(queries[0], radius, where)
    assert np.array_equal(near.ids, brute.within(queries[0], radius, among=mask).ids)  # type: ignore[union-attr]
    best, other = reader.find(queries, 3, where), writer.find(queries, 3, where)
    assert np.array_equal(best.ids, other.ids)
    assert np.array_equal(best.distances, other.distances)
    assert set(best.ids.ravel().tolist()) <= {held[i][0] for i in np.flatnonzero(mask)}


def check_program(writer: StoreIndex, reader: StoreIndex, seed: int, n_steps: int, n_wheres: int) -> None:
    """Any changes, with the same filters and others between them."""
    rng, numbers = np.random.default_rng(seed), itertools.count()
    held: dict[int, Any] = {}

    def add(n: int) -> None:
        new = {number: payload(rng, number) for number in itertools.islice(numbers, n)}
        writer.add(list(new), vectors(n, int(rng.integers(1000))), payloads=list(new.values()))
        held.update(new)

    add(60)
    same = wheres(rng, n_wheres)
    for step in range(n_steps):
        for where in (*same, *wheres(rng, 1)):
            check(reader, writer, list(held.items()), where, step)
        some = rng.choice(list(held), int(rng.integers(1, 9)), replace=False).tolist()
        for action in rng.permutation(5)[: rng.integers(1, 4)]:
            if action == 0:
                add(int(rng.integers(1, 12)))
            elif action == 1:
                held |= {id: payload(rng, int(rng.integers(60))) for id in some}
                writer.update(some, payloads=[held[id] for id in some])
            elif action == 2:
                writer.update(some, vectors(len(some), step))
            elif action == 3 and len(held) > 40:
                writer.remove(some)
                for id in some:
                    del held[id]
                some = list(held)[:2]
            elif action == 4:
                writer.learn_pairs(vectors(6, step), vectors(6, step + 9), np.arange(6) % 2 == 0)
                writer.refresh()


def learner(kind: str) -> Any:
    if kind == "one":
        return OnlineHashing(n_bits=12, burn_in=10, random_state=0)
    return MultiModelOnlineHashing(n_bits=8, n_models=3, fusion=kind, burn_in=10, random_state=0)


def opened(of: Tables, follow: bool = False) -> StoreIndex:
    return StoreIndex(MemoryBackend(of), follow=follow)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few items are enough for all that is done where there are many."""
    monkeypatch.setattr(filtered, "AMONG", (4, 12, 20))
    monkeypatch.setattr(filtered, "WINDOW", 16)
    monkeypatch.setattr(filtered, "CHANGED", 6)
    monkeypatch.setattr(stores, "LEAST_DEAD", 20)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("kind", "seed"), [("one", 0), ("min", 1)])
def test_it_finds_what_brute_force_finds(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtered, "MANY", 0 if seed else filtered.MANY)
    of = Tables.create(learner(kind), refresh.by_hand())
    with opened(of) as writer, opened(of, follow=True) as reader:
        check_program(writer, reader, seed, n_steps=3, n_wheres=4)


@pytest.mark.usefixtures("small")
def test_it_finds_what_brute_force_finds_in_postgres(stock_home: Home) -> None:
    home, policy = stock_home, refresh.by_hand()
    with (
        closing(PostgresIndex.create(home.address, learner("one"), policy, **home.options)) as writer,
        closing(PostgresIndex.open(home.address, policy, schema=home.schema, follow=True)) as reader,
    ):
        check_program(writer, reader, seed=3, n_steps=2, n_wheres=3)
