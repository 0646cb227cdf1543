"""Bytes: what n items take in memory and on a disk."""

from __future__ import annotations

from itertools import pairwise
from math import ceil

from onlinehash.gpu.shape import Shape
from onlinehash.index.substrings import cut
from onlinehash.planning.costs import Costs, Store
from onlinehash.planning.workload import Workload


def codes(n: float, work: Workload, costs: Costs) -> float:
    """Packed bits, and a mask of those that live."""
    return n * (work.code_bytes + costs.memory.mask)


def on_card(n: float, work: Workload) -> float:
    """What a `GpuIndex` asks for: words of 32 bits, masks of those that live, and room for searches."""
    return Shape(1, work.code_bytes).needed(ceil(n))


def read_on_card(n: float, work: Workload) -> float:
    """What a scan reads of that: the words, and a mask."""
    shape = Shape(1, work.code_bytes)
    return shape.nbytes(ceil(n)) + shape.mask_bytes(ceil(n))


def ids(n: float, costs: Costs) -> float:
    """Integers in any order, and the hash table that finds them: a power of two of slots, five in eight taken at most.

    Ids that count from 0 take nothing, and those that rise need no table.
    """
    slots = 1 << max(4, (int(n) * 8 // 5).bit_length())
    return n * costs.memory.id + slots * costs.memory.slot


def widths(n: float, bits: int) -> list[int]:
    """Of the substrings on which a MultiIndex of n items has tables."""
    ends = cut(bits, int(n)).tolist()
    return [end - start for start, end in pairwise(ends)]


def tables(n: float, work: Workload, costs: Costs) -> float:
    """An entry for each item in each table, the buckets, and all of the code where 64 bits are not all of it."""
    of_tables = widths(n, work.bits)
    rows = work.words * costs.memory.row if work.bits > 64 else 0.0
    buckets = len(of_tables) * 2.0 ** max(of_tables) * costs.memory.bucket
    return n * (len(of_tables) * costs.memory.entry + rows + costs.memory.mask) + buckets


def building(n: float, work: Workload, costs: Costs) -> float:
    """Codes as rows of words, for as long as tables are built; codes of more than 64 bits have them anyway."""
    return n * costs.memory.row if work.bits <= 64 else 0.0


def refreshing(n: float, work: Workload, costs: Costs) -> float:
    """New codes and tables beside the old ones, in which searches go on until the new ones are there."""
    return codes(n, work, costs) + tables(n, work, costs) + building(n, work, costs)


def payloads(n: float, work: Workload, costs: Costs) -> float:
    """The text of each item's JSON, in an object."""
    return n * (work.payload + costs.memory.payload) if work.payload else 0.0


def margins(n: float, work: Workload, costs: Costs) -> float:
    """How far each item is from each hash function's boundary; only where vectors are in memory too."""
    return n * work.bits * costs.memory.margin


def vectors(n: float, work: Workload) -> float:
    """Values as they are."""
    return n * work.vector_bytes


def vectors_for_find(n: float, work: Workload) -> float:
    """Vectors of a disk as `find` keeps them in memory, unless told otherwise (`precision`): a byte a value."""
    return n * work.dim


def on_disk(n: float, work: Workload, costs: Costs) -> dict[str, float]:
    """The folder of a LiveIndex. A refresh writes all codes anew, into the log at first."""
    payload = work.payload + costs.disk.payload if work.payload else 0.0
    return {
        "vectors": vectors(n, work) + n * costs.disk.item,
        "codes": n * work.code_bytes,
        "payloads": n * payload,
        "log": costs.disk.log + n * work.code_bytes,
    }


def in_store(n: float, work: Workload, store: Store) -> dict[str, float]:
    """The tables of a database. A refresh writes new rows of codes before the old ones go."""
    codes = n * work.words * store.code
    return {
        "vectors": n * (store.item + work.vector_bytes * store.vector_byte),
        "codes": codes,
        "payloads": n * float(work.payload),
        "log": codes,
    }
