"""Seconds of one core: to encode, to load, to refresh, to answer."""

from __future__ import annotations

from onlinehash.planning import sizes
from onlinehash.planning.costs import Card, Costs, Store
from onlinehash.planning.probes import probes
from onlinehash.planning.workload import K, Workload

NS = 1e-9

#: Bits of a chunk in PostgreSQL's tables at most, and the most chunks (stores/postgres/chunks.py).
CHUNK_BITS, MOST_CHUNKS = 22, 16


# ------------------------------------------------------------------ codes


def encode(n: float, work: Workload, costs: Costs) -> float:
    """All bits: each value is read once, and multiplied once for each bit."""
    cost = costs.encoding
    return n * work.dim * (cost.value + work.bits * cost.product) * _precision(work) * NS


def recode(n: float, columns: int, work: Workload, costs: Costs) -> float:
    """Some bits: to read the vectors costs as much as before; many columns cost no more than all."""
    cost = costs.encoding
    some = work.dim * (cost.some_value + columns * cost.some_product) * _precision(work) + columns * cost.some_bit
    return min(n * some * NS, encode(n, work, costs))


def _precision(work: Workload) -> float:
    """A register holds half as many values of float64, and memory delivers half as many."""
    return work.value_bytes / 4


def build(n: float, work: Workload, costs: Costs, n_tables: float | None = None) -> float:
    """Each item is put into each table, or into some of them."""
    number = len(sizes.widths(n, work.bits)) if n_tables is None else n_tables
    return n * number * costs.search.sort(n) * NS


def tables_touched(n: float, columns: int, work: Workload) -> float:
    """Tables that hold any of these columns, which lie anywhere; only those are sorted anew."""
    m = len(sizes.widths(n, work.bits))
    return m * (1 - (1 - 1 / m) ** columns)


# ------------------------------------------------------------------ a LiveIndex on a disk


def load(n: float, work: Workload, costs: Costs) -> float:
    """By batches of 2,000 on the disk, without tables, which are built once at the end.

    An index that has tables while it is filled builds them anew whenever it has grown by a 64th.
    """
    written = n * (costs.disk.write_item + work.vector_bytes * costs.disk.write_byte) * NS
    return written + encode(n, work, costs) + build(n, work, costs)


def refresh(n: float, columns: int, work: Workload, costs: Costs, in_memory: bool) -> float:
    """Vectors are read, columns computed, the tables of these columns sorted, and all codes written."""
    read = sizes.vectors(n, work) * (costs.disk.read_byte if in_memory else costs.disk.fetch_byte) * NS
    written = n * work.code_bytes * costs.disk.write_byte * NS
    sorted_ = build(n, work, costs, tables_touched(n, columns, work))
    return read + recode(n, columns, work, costs) + sorted_ + written


# ------------------------------------------------------------------ a query


def scan(n: float, work: Workload, costs: Costs, together: bool = True) -> float:
    """Every byte of every code, for a query of a batch or for one that comes alone."""
    cost = costs.search
    if together:
        return (cost.query + n * work.code_bytes * cost.scan_many) * NS
    return (cost.alone + n * work.code_bytes * cost.scan_one) * NS


def scan_card(n: float, work: Workload, card: Card, together: bool = True) -> float:
    """The same on a card: a batch of a hundred or more is bound by products of bits, one query by reading."""
    if together:
        pair = card.short_pair if work.bits <= 64 else -(-work.bits // 128) * card.long_pair
        return (card.query + n * pair) * NS
    return (card.alone + sizes.read_on_card(n, work) * card.read_byte) * NS


def probe(n: float, work: Workload, costs: Costs, together: bool = True) -> float:
    """By look-ups, which are given up where a scan is cheaper; what was tried before costs a twentieth of it."""
    cost = costs.search
    found = probes(n, K, work.bits, sizes.widths(n, work.bits), work.data)
    begun = cost.query if together else cost.alone
    spent = (begun + found.look_ups * cost.look_up(n) + found.candidates * cost.compare) * NS
    return min(spent, 1.05 * scan(n, work, costs, together))


# ------------------------------------------------------------------ a store


def chunks(work: Workload) -> list[int]:
    """Bits of each chunk of a code in PostgreSQL."""
    m = min(-(-work.bits // CHUNK_BITS), MOST_CHUNKS)
    used = min(work.bits, m * CHUNK_BITS)
    return [used * (j + 1) // m - used * j // m for j in range(m)]


def load_store(n: float, work: Workload, costs: Costs, store: Store) -> float:
    """Rows through one connection."""
    written = n * (store.write_item + work.vector_bytes * store.write_byte) * NS
    return written + encode(n, work, costs)


def refresh_store(n: float, columns: int, work: Workload, costs: Costs, store: Store) -> float:
    """Vectors come over the connection, new codes go back; which of their bits changed makes no difference there."""
    passed = n * (store.refresh_item + work.vector_bytes * store.read_byte) * NS
    return passed + recode(n, columns, work, costs)


def scan_store(n: float, work: Workload, store: Store) -> float:
    """Every row, for one query."""
    return (store.query + n * work.words * store.scan_item) * NS


def probe_store(n: float, work: Workload, store: Store) -> float:
    """By look-ups in btrees, where there are any and where that is cheaper."""
    if store.look_up == 0:
        return scan_store(n, work, store)
    found = probes(n, K, work.bits, chunks(work), work.data)
    spent = (store.query + found.look_ups * store.look_up + found.candidates * store.compare) * NS
    return min(spent, scan_store(n, work, store))
