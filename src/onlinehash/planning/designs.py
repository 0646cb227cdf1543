"""The ways to store items, and what each needs on one machine that holds n of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from onlinehash.errors import InvalidInput
from onlinehash.index.substrings import MOST_ITEMS
from onlinehash.planning import sizes, times
from onlinehash.planning.costs import Card, Costs, Store
from onlinehash.planning.workload import Machine, Workload

Parts = dict[str, float]


@dataclass(frozen=True)
class Design(ABC):
    """A way to store items; all methods are about one machine with n of them."""

    name: str
    work: Workload
    costs: Costs
    most_items: float = float("inf")  #: That fit one index, however large the machine.

    @abstractmethod
    def memory(self, n: float) -> Parts:
        """Bytes in memory, by what they are for; `change` is what comes on top for as long as codes change."""

    @abstractmethod
    def disk(self, n: float) -> Parts:
        """Bytes on the disk."""

    def card(self, n: float) -> float:
        """Bytes on a CUDA card."""
        return 0.0

    @abstractmethod
    def load(self, n: float, machine: Machine) -> float:
        """Seconds until n vectors are in and can be searched."""

    @abstractmethod
    def refresh(self, n: float, columns: int, machine: Machine) -> float | None:
        """Seconds until so many bits of all codes are those of another encoder; None where vectors are elsewhere."""

    @abstractmethod
    def scan(self, n: float) -> float:
        """Seconds of a core for one query of a batch, by a scan."""

    @abstractmethod
    def probe(self, n: float) -> float | None:
        """The same by multi-index hashing; None where there is none."""

    @abstractmethod
    def alone(self, n: float) -> float:
        """Seconds for a single query, by the faster way."""

    def encode(self, n: float, machine: Machine) -> float:
        """Seconds until all cores have encoded n vectors, as `onlinehash encode --on` lets them."""
        return times.encode(n, self.work, self.costs) / self.busy(machine.cores)

    def busy(self, cores: int) -> float:
        """Cores' worth of work when all of them are busy."""
        return 1 + (cores - 1) * self.costs.search.together


class Flat(Design):
    """`FlatIndex`: codes and ids in memory; vectors are elsewhere."""

    def memory(self, n: float) -> Parts:
        codes = sizes.codes(n, self.work, self.costs)
        return {
            "process": self.costs.memory.process,
            "codes": codes,
            "ids": sizes.ids(n, self.costs),
            "change": codes,  # the new ones beside the old
        }

    def disk(self, n: float) -> Parts:
        return {"codes": sizes.codes(n, self.work, self.costs) + n * self.costs.memory.id}

    def load(self, n: float, machine: Machine) -> float:
        return self.encode(n, machine)

    def refresh(self, n: float, columns: int, machine: Machine) -> float | None:
        return None

    def scan(self, n: float) -> float:
        return times.scan(n, self.work, self.costs)

    def probe(self, n: float) -> float | None:
        return None

    def alone(self, n: float) -> float:
        return times.scan(n, self.work, self.costs, together=False)


class Gpu(Flat):
    """`GpuIndex`: codes on a card too, which searches them; it is one card however many cores there are."""

    @property
    def _card(self) -> Card:
        if self.costs.card is None:
            raise InvalidInput(
                "the file of costs has none of a card; plan with those that come with onlinehash, or add [card]."
            )
        return self.costs.card

    def card(self, n: float) -> float:
        return sizes.on_card(n, self.work)

    def scan(self, n: float) -> float:
        return times.scan_card(n, self.work, self._card)

    def alone(self, n: float) -> float:
        return times.scan_card(n, self.work, self._card, together=False)

    def encode(self, n: float, machine: Machine) -> float:
        return times.encode(n, self.work, self.costs) / super().busy(machine.cores)

    def busy(self, cores: int) -> float:
        return 1.0


class Multi(Flat):
    """`MultiIndex`: the same, and tables on parts of the codes."""

    def memory(self, n: float) -> Parts:
        change = sizes.codes(n, self.work, self.costs) + sizes.building(n, self.work, self.costs)
        return super().memory(n) | {"tables": sizes.tables(n, self.work, self.costs), "change": change}

    def disk(self, n: float) -> Parts:
        return super().disk(n) | {"tables": sizes.tables(n, self.work, self.costs)}

    def load(self, n: float, machine: Machine) -> float:
        return super().load(n, machine) + times.build(n, self.work, self.costs)

    def probe(self, n: float) -> float | None:
        return times.probe(n, self.work, self.costs)

    def alone(self, n: float) -> float:
        return times.probe(n, self.work, self.costs, together=False)


@dataclass(frozen=True)
class Live(Multi):
    """`LiveIndex` on a disk: vectors there; codes, tables, ids and payloads in memory."""

    finds: bool = True  #: Whether it is searched by `find`, which keeps the vectors that it compared: in the end all.

    def memory(self, n: float) -> Parts:
        kept = {"find": sizes.vectors_for_find(n, self.work)} if self.finds else {}
        return super().memory(n) | _live(n, self.work, self.costs) | kept

    def disk(self, n: float) -> Parts:
        return sizes.on_disk(n, self.work, self.costs)

    def load(self, n: float, machine: Machine) -> float:
        return times.load(n, self.work, self.costs)

    def refresh(self, n: float, columns: int, machine: Machine) -> float | None:
        cached = sizes.vectors(n, self.work) + sum(self.memory(n).values()) < machine.memory
        return times.refresh(n, columns, self.work, self.costs, cached)


class LiveInMemory(Multi):
    """`LiveIndex` without a path: vectors in memory too, and margins beside them."""

    def memory(self, n: float) -> Parts:
        return super().memory(n) | {
            **_live(n, self.work, self.costs),
            "vectors": sizes.vectors(n, self.work),
            "margins": sizes.margins(n, self.work, self.costs),
        }

    def disk(self, n: float) -> Parts:
        return {}

    def load(self, n: float, machine: Machine) -> float:
        return times.encode(n, self.work, self.costs) + times.build(n, self.work, self.costs)

    def refresh(self, n: float, columns: int, machine: Machine) -> float | None:
        touched = times.tables_touched(n, columns, self.work)
        recoded = times.recode(n, columns, self.work, self.costs)
        return recoded + times.build(n, self.work, self.costs, touched)


def _live(n: float, work: Workload, costs: Costs) -> Parts:
    """What a `LiveIndex` has in memory besides codes, tables and ids, wherever its vectors are."""
    return {
        "items": sizes.payloads(n, work, costs) + n * costs.memory.item,
        "change": sizes.refreshing(n, work, costs),
    }


@dataclass(frozen=True)
class InStore(Design):
    """Rows in a database; its server should have codes and their indexes in memory, for which the plan makes room."""

    store: Store | None = None

    @property
    def _store(self) -> Store:
        if self.store is None:
            raise InvalidInput(
                f"the file of costs has none for {self.name}; measure them with its address, or use the "
                "costs that come with onlinehash."
            )
        return self.store

    def memory(self, n: float) -> Parts:
        return {"codes": sizes.in_store(n, self.work, self._store)["codes"]}

    def disk(self, n: float) -> Parts:
        return sizes.in_store(n, self.work, self._store)

    def load(self, n: float, machine: Machine) -> float:
        return times.load_store(n, self.work, self.costs, self._store)

    def refresh(self, n: float, columns: int, machine: Machine) -> float | None:
        return times.refresh_store(n, columns, self.work, self.costs, self._store)

    def scan(self, n: float) -> float:
        return times.scan_store(n, self.work, self._store)

    def probe(self, n: float) -> float | None:
        return times.probe_store(n, self.work, self._store) if self._store.look_up else None

    def alone(self, n: float) -> float:
        return times.probe_store(n, self.work, self._store)


def designs(store: str, work: Workload, costs: Costs, has_card: bool = False) -> list[Design]:
    """Those that a store offers."""
    if store == "postgres":
        return [InStore("PostgresIndex", work, costs, store=costs.postgres)]
    if store == "milvus":
        return [InStore("MilvusIndex", work, costs, store=costs.milvus)]
    return [
        Flat("FlatIndex", work, costs),
        *([Gpu("GpuIndex", work, costs)] if has_card else []),
        Multi("MultiIndex", work, costs, MOST_ITEMS),
        Live("LiveIndex, codes only", work, costs, MOST_ITEMS, finds=False),
        Live("LiveIndex", work, costs, MOST_ITEMS),
        LiveInMemory("LiveIndex in memory", work, costs, MOST_ITEMS),
    ]
