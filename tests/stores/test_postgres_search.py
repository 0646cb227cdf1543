"""Search in PostgreSQL: every mode against the slow obvious way, on one server and on several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from onlinehash.stores.backend import Found, Head, Layout
from onlinehash.stores.postgres import creation, multi_index
from onlinehash.stores.postgres import search as searches
from onlinehash.stores.postgres.backend import PostgresBackend
from tests.stores.codes_of import away, clustered, opposite
from tests.stores.conftest import Home

N = 900
NOW = 3
ONE = Layout(64, 1, "min")


@contextmanager
def filled(home: Home, layout: Layout, codes: np.ndarray, search: str | None = None) -> Iterator[PostgresBackend]:
    """A backend with codes of which every seventh dies, some are replaced, and some are born too late."""
    options = home.options
    creation.create(home.address, options.pop("schema"), layout, Head(0, {}), {}, role=None, **options)
    backend = PostgresBackend(home.address, home.schema, search)
    places = np.arange(len(codes))
    with backend.changing() as change:
        change.add_items(1, places, _ids(places), np.zeros((len(codes), 1), np.float32), [_payload(p) for p in places])
        change.add_codes(1, places, _ids(places), np.roll(codes, 1, axis=0))
        change.end_codes(2, places)
        change.add_codes(2, places, _ids(places), codes)
        change.end_codes(NOW, places[::7])
        change.end_items(NOW, places[::7])
        later = places[1::7]
        change.end_codes(NOW + 1, later)
        change.add_codes(NOW + 1, later, _ids(later), opposite(layout, codes[later]))
        change.put_head(Head(NOW, {}))
    try:
        yield backend
    finally:
        backend.close()


def _ids(places: np.ndarray) -> list[str]:
    return [f"item {place}" for place in places]


def _payload(place: int) -> str | None:
    return None if place % 5 == 0 else f'{{"colour": "{"red" if place % 3 else "blue"}", "size": {place % 10}}}'


def expected(layout: Layout, codes: np.ndarray, code: np.ndarray, payloads: bool = False) -> list[Found]:
    """All that live, in order."""
    living = np.delete(np.arange(len(codes)), slice(None, None, 7))
    found = zip(away(layout, codes[living], code).tolist(), living.tolist(), strict=True)
    return [Found(d, p, f"item {p}", _payload(p) if payloads else None) for d, p in sorted(found)]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Look-ups look cheap, so that few items are enough for them; tells of each search whether they were it."""
    monkeypatch.setattr(multi_index, "LOOK_UP", 0.1)
    monkeypatch.setattr(multi_index, "FETCH", 0.2)
    monkeypatch.setattr(multi_index, "STATEMENT", 2.0)
    monkeypatch.setattr(multi_index, "FIRST", 8.0)
    monkeypatch.setattr(multi_index, "FEW", 10)
    answered: list[bool] = []

    def watched(search: Callable[..., Any]) -> Callable[..., Any]:
        def told(*arguments: Any) -> Any:
            found = search(*arguments)
            answered.extend(one is not None for one in found or [None])
            return found

        return told

    monkeypatch.setattr(multi_index, "nearest_all", watched(multi_index.nearest_all))
    monkeypatch.setattr(multi_index, "within", watched(multi_index.within))
    return answered


# ------------------------------------------------------------------ exact modes


@pytest.mark.parametrize("layout", [ONE, Layout(20, 3, "sum")], ids=str)
def test_exact_modes_find_the_nearest_and_ties_in_order(stock_home: Home, layout: Layout, eager: list[bool]) -> None:
    codes = clustered(layout, N)
    with filled(stock_home, layout, codes) as multi:
        scan = PostgresBackend(stock_home.address, stock_home.schema, "scan")
        for code in [*codes[:6], opposite(layout, codes[7])]:
            everybody = expected(layout, codes, code)
            for k in (1, 10, 100, 2 * N):
                assert multi.nearest(code, k, NOW) == scan.nearest(code, k, NOW) == everybody[:k]
            for radius in (0, everybody[20].distance, max(layout.groups)):
                within = [one for one in everybody if one.distance <= radius]
                assert multi.within(code, radius, NOW) == scan.within(code, radius, NOW) == within
        asked = np.concatenate([codes[:20], opposite(layout, codes[7])[None]])
        together = multi.nearest_all(asked, 10, NOW)
        assert together == scan.nearest_all(asked, 10, NOW) == [multi.nearest(code, 10, NOW) for code in asked]
        scan.close()
    assert any(eager)
    assert not all(eager) or layout.n_bits < 64  # what is far is not looked up


# ------------------------------------------------------------------ filters


def test_a_ranking_has_all_that_pass_a_filter(
    stock_home: Home, eager: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "_AMONG", (5, 25))
    codes = clustered(ONE, N)
    with filled(stock_home, ONE, codes) as backend:
        everybody = expected(ONE, codes, codes[1], payloads=True)
        assert list(backend.ranked(codes[1], NOW, {})) == everybody
        found = list(backend.ranked(codes[1], NOW, {"colour": [("in", ["blue"])], "size": [("<", 4)]}))
        assert found == sorted(found)
        passing = [one for one in everybody if one.place % 5 and one.place % 3 == 0 and one.place % 10 < 4]
        assert [one for one in found if one in passing] == passing
        assert len(found) <= len(passing) + 25
        first = backend.ranked(codes[1], NOW, {})
        assert next(first) == everybody[0]
        del first  # its connection goes back
        assert backend.nearest(codes[1], 1, NOW)[0].place == everybody[0].place
    assert any(eager)
