"""The measured unit costs from which a plan is computed, each with its unit and meaning.

`costs.toml` holds the defaults; `onlinehash plan --measure FILE` writes such a file for the machine it runs on. Times
are those of one core.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from onlinehash.errors import FormatError, InvalidInput

T = TypeVar("T")


def _cost(unit: str, meaning: str, default: object = dataclasses.MISSING) -> Any:
    """A cost; a file may lack one that has a default."""
    return field(default=default, metadata={"unit": unit, "meaning": meaning})


@dataclass(frozen=True)
class Memory:
    """Memory of items, without their codes."""

    mask: float = _cost("bytes", "an item of any index: whether it lives")
    entry: float = _cost("bytes", "an item in a table of MultiIndex: position and code")
    bucket: float = _cost("bytes", "a bucket of a table: where it begins")
    row: float = _cost("bytes", "64 bits of an item while tables are built; longer codes keep them")
    id: float = _cost("bytes", "an id that is an integer")
    slot: float = _cost("bytes", "a slot of the hash table that finds ids")
    item: float = _cost("bytes", "an item of a LiveIndex on a disk, beside its code, id and payload")
    payload: float = _cost("bytes", "a payload of a LiveIndex, beside its text")
    margin: float = _cost("bytes", "a bit of an item of a LiveIndex in memory: its margin")
    process: float = _cost("bytes", "a process that holds nothing yet")


@dataclass(frozen=True)
class Disk:
    """A LiveIndex on a disk."""

    item: float = _cost("bytes", "an item, beside its vector, code and payload")
    payload: float = _cost("bytes", "a payload, beside its text")
    log: float = _cost("bytes", "the database's log at most, beside what one refresh writes")
    write_item: float = _cost("ns", "to add an item, beside the bytes of its vector")
    write_byte: float = _cost("ns", "to add a byte of a vector")
    read_byte: float = _cost("ns", "to read and check a byte of a vector that the system has in memory")
    fetch_byte: float = _cost("ns", "the same from the disk")


@dataclass(frozen=True)
class Encoding:
    """To make codes of float32 vectors; float64 takes twice as long."""

    value: float = _cost("ns", "a value of a vector: to read and check it")
    product: float = _cost("ns", "a value and bit, where all bits are computed")
    some_value: float = _cost("ns", "a value of a vector, where some columns are computed anew")
    some_product: float = _cost("ns", "a value and column, where some columns are computed anew")
    some_bit: float = _cost("ns", "a bit of a row to be put in its place, where some columns are computed anew")


@dataclass(frozen=True)
class Search:
    """A search in memory. What depends on caches was measured at two sizes, and grows with the log of the items."""

    small: float = _cost("items", "the smaller size")
    large: float = _cost("items", "the larger size")
    scan_one: float = _cost("ns", "a byte of all codes, for one query")
    scan_many: float = _cost("ns", "a byte of all codes, for each query of a batch")
    query: float = _cost("ns", "a query of a batch, beside what it looks at")
    alone: float = _cost("ns", "a query that comes alone, beside what it looks at")
    look_up_small: float = _cost("ns", "a bucket to be looked up, at the smaller size")
    look_up_large: float = _cost("ns", "a bucket to be looked up, at the larger size")
    compare: float = _cost("ns", "an item in a bucket to be compared")
    sort_small: float = _cost("ns", "an item to be put into a table, at the smaller size")
    sort_large: float = _cost("ns", "an item to be put into a table, at the larger size")
    together: float = _cost("share", "of its speed that a core keeps when all cores search batches")

    def look_up(self, n: float) -> float:
        """To look up a bucket of a table of n items: the more memory, the fewer caches hold it."""
        return self._between(n, self.look_up_small, self.look_up_large)

    def sort(self, n: float) -> float:
        """To put an item into a table of n."""
        return self._between(n, self.sort_small, self.sort_large)

    def _between(self, n: float, small: float, large: float) -> float:
        doublings = math.log2(max(n / self.small, 1.0)) / math.log2(self.large / self.small)
        return small + (large - small) * doublings


@dataclass(frozen=True)
class Card:
    """A search on a CUDA card."""

    read_byte: float = _cost("ns", "a byte of all codes, for one query")
    short_pair: float = _cost("ns", "a code of up to 64 bits, for each query of a batch")
    long_pair: float = _cost("ns", "128 bits of a longer code, for each query of a batch")
    query: float = _cost("ns", "a query of a batch, beside what it looks at")
    alone: float = _cost("ns", "a query that comes alone, beside what it looks at")
    name: str = _cost("name", "the card on which this was measured", "a card without a name")
    memory: float = _cost("GB", "its memory; 0: not known", 0.0)


@dataclass(frozen=True)
class Store:
    """An index in a database. Times are those of one connection, and include the server's."""

    item: float = _cost("bytes", "an item on the disk, beside its vector, payload and code")
    vector_byte: float = _cost("bytes", "a byte of a vector on the disk")
    code: float = _cost("bytes", "an item and 64 bits: its code, and the indexes that find it")
    write_item: float = _cost("ns", "to add an item, beside the bytes of its vector")
    write_byte: float = _cost("ns", "to add a byte of a vector")
    read_byte: float = _cost("ns", "to read a byte of a vector")
    refresh_item: float = _cost("ns", "to give an item a new code, beside reading and encoding its vector")
    scan_item: float = _cost("ns", "an item and 64 bits in a scan for one query")
    query: float = _cost("ns", "a query, beside what it looks at")
    look_up: float = _cost("ns", "a bucket to be looked up in a btree; 0 where there is none")
    compare: float = _cost("ns", "an item in a bucket to be compared; 0 where there are none")


@dataclass(frozen=True)
class Costs:
    """All of them, and what they were measured on. A store or a card that was not measured is None."""

    machine: str
    memory: Memory
    disk: Disk
    encoding: Encoding
    search: Search
    postgres: Store | None = None
    milvus: Store | None = None
    card: Card | None = None


GROUPS: dict[str, type] = {
    "memory": Memory,
    "disk": Disk,
    "encoding": Encoding,
    "search": Search,
    "postgres": Store,
    "milvus": Store,
    "card": Card,
}
_MAY_LACK = {"postgres", "milvus", "card"}


def read(path: str | None = None) -> Costs:
    """The costs in a file, or those that come with the package."""
    if path is None:
        text = resources.files("onlinehash.planning").joinpath("costs.toml").read_text("utf-8")
    elif not Path(path).is_file():
        raise InvalidInput(f"no such file of costs: {path}; create it with `onlinehash plan --measure {path}`.")
    else:
        text = Path(path).read_text("utf-8", errors="replace")
    name = path or "costs.toml"
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{name} is not valid TOML: {error}.") from None
    missing = GROUPS.keys() - _MAY_LACK - document.keys()
    unknown = document.keys() - GROUPS.keys() - {"machine"}
    if missing or unknown or not isinstance(document.get("machine"), str):
        known = ", ".join(["machine", *GROUPS])
        raise FormatError(expected=f"{known} in {name}", got=", ".join(document) or "nothing")
    groups: dict[str, Any] = {
        group: _made(cls, document[group], group, name) for group, cls in GROUPS.items() if group in document
    }
    return Costs(document["machine"], **groups)


def _made(cls: type[T], values: object, group: str, name: str) -> T:
    """A group out of a file: all of its costs, each a number that is not negative, but for names."""
    costs = {cost.name: cost for cost in dataclasses.fields(cls)}  # type: ignore[arg-type]
    needed = {key for key, cost in costs.items() if cost.default is dataclasses.MISSING}
    if not isinstance(values, dict) or not needed <= set(values) <= set(costs):
        got = ", ".join(values) if isinstance(values, dict) else repr(values)
        raise FormatError(expected=f"{', '.join(costs)} in [{group}] of {name}", got=got)
    names = {key for key in values if costs[key].type == "str"}
    for key, value in values.items():
        if key in names:
            if not isinstance(value, str):
                raise FormatError(expected=f"{key} in [{group}] of {name} to be a string", got=repr(value))
        elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise FormatError(expected=f"{key} in [{group}] of {name} to be a number of at least 0", got=repr(value))
    return cls(**{key: value if key in names else float(value) for key, value in values.items()})


def text_of(costs: Costs) -> str:
    """The file of these costs, with the unit and the meaning of each."""
    lines = [f"machine = {json.dumps(costs.machine)}"]
    for group, cls in GROUPS.items():
        values = getattr(costs, group)
        if values is None:
            continue
        lines += ["", f"# {(cls.__doc__ or '').splitlines()[0]}", f"[{group}]"]
        for cost in dataclasses.fields(cls):
            value = getattr(values, cost.name)
            shown = f"{cost.name} = {json.dumps(value) if isinstance(value, str) else f'{value:.6g}'}"
            lines.append(f"{shown:<28} # {cost.metadata['unit']}: {cost.metadata['meaning']}")
    return "\n".join(lines) + "\n"
