"""Times by hand."""

from __future__ import annotations

import pytest

from onlinehash.planning import sizes, times
from onlinehash.planning.distances import UNIFORM
from onlinehash.planning.probes import probes
from onlinehash.planning.workload import Workload
from tests.planning.costs_for_tests import COSTS, STORE

WORK = Workload(1e6, 64, 512)


def test_encoding() -> None:
    assert times.encode(1e6, WORK, COSTS) == pytest.approx(512e6 * (1 + 0.64) * 1e-9)
    assert times.recode(1e6, 4, WORK, COSTS) == pytest.approx((512e6 * 0.9 + 4e6 * 2) * 1e-9)
    assert times.recode(1e6, 64, WORK, COSTS) == times.encode(1e6, WORK, COSTS)  # never more than all
    assert times.encode(1e6, Workload(1e6, 64, 512, "float64"), COSTS) == 2 * times.encode(1e6, WORK, COSTS)


def test_what_depends_on_caches_grows_with_the_log_of_the_items() -> None:
    search = COSTS.search
    assert [search.look_up(n) for n in (1e3, 1e6, 4e6, 16e6, 256e6)] == pytest.approx([10, 10, 30, 50, 90])
    assert [search.sort(n) for n in (1e6, 16e6)] == [20, 60]


def test_a_card() -> None:
    card = COSTS.card
    assert times.scan_card(1e9, WORK, card) == pytest.approx((1000 + 1e9 * 0.0001) * 1e-9)
    assert times.scan_card(1e9, Workload(1e9, 200), card) == pytest.approx((1000 + 2 * 1e9 * 0.0002) * 1e-9)
    assert times.scan_card(1e9, WORK, card, together=False) == pytest.approx((50_000 + 8.125e9 * 0.001) * 1e-9)
    assert sizes.read_on_card(1e9, Workload(1e9, 33)) == 8.125e9  # two words, and a bit of the mask
    assert sizes.on_card(1e9, Workload(1e9, 33)) == 8.25e9 + 2**29  # a mask of each fork, and room for searches


def test_tables() -> None:
    assert times.build(1e6, WORK, COSTS) == pytest.approx(4e6 * 20e-9)
    assert times.tables_touched(1e6, 1, WORK) == pytest.approx(1)
    assert times.tables_touched(1e6, 64, WORK) == pytest.approx(4, rel=0.01)
    assert 2 < times.tables_touched(1e6, 4, WORK) < 4


def test_a_live_index() -> None:
    loaded = 1e6 * (1000 + 2048 * 2) * 1e-9 + times.encode(1e6, WORK, COSTS) + times.build(1e6, WORK, COSTS)
    assert times.load(1e6, WORK, COSTS) == pytest.approx(loaded)
    cached, fetched = (times.refresh(1e6, 64, WORK, COSTS, in_memory) for in_memory in (True, False))
    assert fetched - cached == pytest.approx(2048e6 * 1.5e-9)
    some = times.refresh(1e6, 4, WORK, COSTS, True)
    read, written = 2048e6 * 0.5e-9, 8e6 * 2e-9
    touched = times.tables_touched(1e6, 4, WORK)
    assert some == pytest.approx(read + written + 0.4688 + times.build(1e6, WORK, COSTS, touched))


def test_queries() -> None:
    assert times.scan(1e8, WORK, COSTS) == pytest.approx(1e-5 + 8e8 * 0.0125e-9)
    assert times.scan(1e8, WORK, COSTS, together=False) == pytest.approx(2e-5 + 8e8 * 0.05e-9)
    found = probes(1e8, 10, 64, sizes.widths(1e8, 64), WORK.data)
    spent = 1e-5 + (found.look_ups * COSTS.search.look_up(1e8) + found.candidates) * 1e-9
    assert times.probe(1e8, WORK, COSTS) == pytest.approx(spent)
    uniform = Workload(1e5, 64, 512, data=UNIFORM)  # for so few, so far apart, a scan is cheaper
    assert times.probe(1e5, uniform, COSTS) == pytest.approx(1.05 * times.scan(1e5, uniform, COSTS))


def test_stores() -> None:
    assert times.load_store(1e6, WORK, COSTS, STORE) == pytest.approx(
        1e6 * (10_000 + 2048) * 1e-9 + times.encode(1e6, WORK, COSTS)
    )
    assert times.refresh_store(1e6, 4, WORK, COSTS, STORE) == pytest.approx(1e6 * 22_048e-9 + 0.4688)
    assert times.scan_store(1e6, WORK, STORE) == pytest.approx(1e-3 + 0.1)
    assert times.probe_store(1e8, WORK, STORE) < times.scan_store(1e8, WORK, STORE)
    assert times.probe_store(1e4, WORK, STORE) == times.scan_store(1e4, WORK, STORE)


@pytest.mark.parametrize("bits", [1, 15, 16, 17, 48, 64, 100, 256, 300])
def test_chunks_are_those_of_the_index_in_postgres(bits: int) -> None:
    from onlinehash.stores.backend import Layout
    from onlinehash.stores.postgres.chunks import Chunks

    real = Chunks(Layout(bits, 1, "min")).widths
    assert sorted(times.chunks(Workload(1e6, bits, changed_bits=1))) == sorted(real)
