"""Random programs for an index: the same steps through two of them must have the same results and the same errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from onlinehash import Hits, LiveIndex, MultiModelOnlineHashing, OnlineHashing, RbfAnchors, refresh
from onlinehash.codes import Codes
from onlinehash.index.api import Policy
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.hadamard import HadamardHashing
from onlinehash.learners.update import Update, Updates

WIDTH = 5
COLOURS = ("red", "green", "blue")
Call = Callable[[Any], Any]

#: Whether a call of this name had the same outcome, of which the first was expected.
Sameness = Callable[[str, Any, Any], bool]

#: A learner, whose codes two indexes make alike, and when they are made anew.
WORLDS: dict[str, tuple[Callable[[], Learner], Callable[[], Policy | None]]] = {
    "OH": (lambda: OnlineHashing(n_bits=12, burn_in=30, random_state=0), lambda: None),
    "OH by hand": (lambda: OnlineHashing(n_bits=12, burn_in=30, random_state=0), refresh.by_hand),
    "MMOH": (
        lambda: MultiModelOnlineHashing(n_bits=9, n_models=2, burn_in=30, random_state=0),
        lambda: refresh.every(3),
    ),
    "MMOH of one": (lambda: MultiModelOnlineHashing(n_bits=8, n_models=1, burn_in=30, random_state=0), lambda: None),
    "OH that waits": (
        lambda: OnlineHashing(n_bits=12, features=RbfAnchors(12), burn_in=30, random_state=0),
        refresh.always,
    ),
    "HCOH": (lambda: HadamardHashing(n_bits=8, random_state=0), refresh.always),
}


#: Enough for stores and clients, which all do the same.
SOME_WORLDS = ["OH by hand", "MMOH", "HCOH"]


def live_index(world: str) -> LiveIndex:
    """An index in memory with the learner and the policy of a world: the model for all others."""
    learner, policy = WORLDS[world]
    return LiveIndex(learner(), refresh=policy())


#: What an index tells of itself; some of it is looked at after every step.
FACTS: dict[str, Call] = {
    "len": len,
    "ids": lambda index: index.ids,
    "codes": lambda index: index.codes,
    "vectors": lambda index: index.vectors,
    "encoder": lambda index: index.encoder,
    "newest": lambda index: index.newest,
    "behind": lambda index: index.behind,
    "counts": lambda index: (index.refreshes, index.bits_rehashed, index.bits_skipped, index.bits_flipped),
    "versions": lambda index: (index.serial, index.versions, index.pairs_behind),
    "shape": lambda index: (index.n_bits, index.n_models),
}


class Program:
    """Random steps for an index whose ids are of one kind; the model index tells which ids there are."""

    def __init__(self, rng: np.random.Generator, model: LiveIndex, texts: bool, dtype: Any) -> None:
        self.rng, self.model, self.texts, self.dtype = rng, model, texts, dtype

    def step(self) -> tuple[str, Call]:
        """A step that is sound, or one with one thing wrong."""
        sound = (
            self.add,
            self.update,
            self.remove,
            self.get,
            self.search,
            self.within,
            self.rerank,
            self.find,
            self.learn,
        )
        sound += (self.learn, self.learn, self.learn_by_id, self.labelled, self.follow)
        kind = sound[self.rng.integers(len(sound))] if self.rng.random() < 0.7 else self.bad
        return kind()

    # -------------------------------------------------------------------------------------------- arguments

    def new_ids(self, n: int) -> Any:
        ids = [int(i) for i in self.rng.choice(10**6, n, replace=False)]
        if self.texts:
            return [f"ünit/{i}" for i in ids]
        return None if self.rng.random() < 0.3 else ids if self.rng.random() < 0.5 else np.array(ids, np.int32)

    def known(self, n: int) -> list[Any]:
        ids = self.model.ids.tolist()
        return [ids[i] for i in self.rng.permutation(len(ids))[:n]]

    def unknown(self) -> Any:
        return "nobody" if self.texts else -5

    def rows(self, n: int, width: int = WIDTH) -> np.ndarray:
        rows = self.rng.standard_normal((n, width)) + 0.5
        return rows.astype((self.dtype, np.float16, np.int64)[self.rng.choice(3, p=(0.8, 0.1, 0.1))])

    def payloads(self, n: int) -> Any:
        drawn = [
            {"colour": str(self.rng.choice(COLOURS)), "price": int(self.rng.integers(9)), "µ": [0.1, None]}
            for _ in range(n)
        ]
        some: list[Any] = [one if self.rng.random() < 0.8 else None for one in drawn]
        return None if self.rng.random() < 0.3 else some

    def where(self) -> Any:
        filters: list[Any] = [
            None,
            None,
            {"colour": "red"},
            {"price": {"<": 5, ">=": np.int64(1)}},
            {"µ": {"exists": False}},
        ]
        filters += [{"colour": ["red", "blue"]}, {}, {"colour": "violet"}]
        return filters[self.rng.integers(len(filters))]

    def queries(self) -> Any:
        shape = self.rng.integers(5)
        if shape == 0:
            return self.rows(1)[0]
        if shape == 1:
            return Codes.from_bits(
                self.rng.random((2, self.model.n_bits * self.model.n_models)) < 0.5, self.model.n_models
            )
        if shape == 2:
            return (self.rng.random(WIDTH) < 0.5).tolist()  # bools are vectors
        if shape == 3:
            return np.empty((0, WIDTH), np.float32)
        return self.rows(3)

    # -------------------------------------------------------------------------------------------- sound steps

    def add(self) -> tuple[str, Call]:
        n = int(self.rng.integers(1, 8))
        ids, rows, payloads = self.new_ids(n), self.rows(n), self.payloads(n)
        if n == 1 and self.rng.random() < 0.5 and ids is not None:
            ids, rows, payloads = ids[0], rows[0], {"colour": "one"}
        return f"add({ids!r:.40})", lambda index: index.add(ids, rows, payloads)

    def update(self) -> tuple[str, Call]:
        ids = self.known(3)
        rows = self.rows(len(ids)) if self.rng.random() < 0.7 else None
        payloads = self.payloads(len(ids))
        return f"update({ids!r:.40})", lambda index: index.update(ids, rows, payloads)

    def remove(self) -> tuple[str, Call]:
        ids = self.known(int(self.rng.integers(0, 4)))
        return f"remove({ids!r:.40})", lambda index: index.remove(ids)

    def get(self) -> tuple[str, Call]:
        ids = self.known(2)
        asked = [*ids, self.unknown(), 3, "3", True, 2.5, None, 2**70, "\ud800"]
        return f"get({ids!r:.40})", lambda index: (
            [index.get(id) for id in ids],
            index.get_many([*ids, *ids]),
            [id in index for id in asked],
            list(index),
        )

    def search(self) -> tuple[str, Call]:
        queries, k, where = self.queries(), int(self.rng.integers(0, 9)), self.where()
        k = k if self.rng.random() < 0.9 else 10**9
        if self.rng.random() < 0.5:
            return f"search({k}, {where})", lambda index: index.search(queries, k, where, payloads=k % 2 == 0)
        return f"searched({k}, {where})", lambda index: index.searched(queries, k, where)

    def within(self) -> tuple[str, Call]:
        queries, radius, where = self.queries(), int(self.rng.choice([0, 2, 4, 100, 10**20])), self.where()
        if self.rng.random() < 0.5:
            return f"within({radius}, {where})", lambda index: index.within(
                queries, radius, where, payloads=radius == 2
            )
        return f"found_within({radius}, {where})", lambda index: index.found_within(queries, radius, where)

    def rerank(self) -> tuple[str, Call]:
        queries = self.rows(1)[0] if self.rng.random() < 0.5 else self.rows(3)
        k = None if self.rng.random() < 0.5 else 2
        return f"rerank({k})", lambda index: index.rerank(queries, index.search(queries, 4), k)

    def find(self) -> tuple[str, Call]:
        queries = self.rows(1)[0] if self.rng.random() < 0.5 else self.rows(3)
        k = int(self.rng.integers(5))
        return f"find({k})", lambda index: index.find(queries, k, payloads=k % 2 == 0)

    def learn(self) -> tuple[str, Call]:
        n = int(self.rng.integers(1, 5))
        A, B, similar = self.rows(n), self.rows(n), self.rng.random(n) < 0.5
        weight = None if self.rng.random() < 0.5 else self.rng.random(n)
        if n == 1:
            return "learn_pair", lambda index: index.learn_pair(A[0], B, similar[0], 0.5)
        return "learn_pairs", lambda index: index.learn_pairs(A, B, similar, weight)

    def learn_by_id(self) -> tuple[str, Call]:
        ids = self.known(4)
        half, signs = len(ids) // 2, self.rng.choice([-1, 1], len(ids) // 2)
        if half == 1:
            return "learn_pair_by_id", lambda index: index.learn_pair_by_id(*ids[:2], signs[0])
        return "learn_pairs_by_id", lambda index: index.learn_pairs_by_id(ids[:half], ids[half : 2 * half], signs)

    def labelled(self) -> tuple[str, Call]:
        X, y = self.rows(4), self.rng.integers(2, size=4)
        labels: Any = (y, y.tolist(), y.astype(str), y.astype(bool), y + 0.5)[self.rng.integers(5)]
        return f"learn_labelled({labels})", lambda index: index.learn_labelled(X, labels)

    def follow(self) -> tuple[str, Call]:
        serials = [version.serial for version in self.model.versions]
        serial = None if not serials or self.rng.random() < 0.5 else int(self.rng.choice(serials))
        steps: list[tuple[str, Call]] = [
            ("refresh", lambda index: index.refresh()),
            ("refresh", lambda index: index.refresh(wait=False).wait()),
            ("cancel", lambda index: index.cancel()),
            ("flush", lambda index: index.flush()),
            (f"roll_back({serial})", lambda index: index.roll_back(serial)),
        ]
        return steps[self.rng.integers(len(steps))]

    # -------------------------------------------------------------------------------------------- one thing wrong

    def bad(self) -> tuple[str, Call]:
        known, unknown, good = self.known(2), self.unknown(), self.rows(2)
        new = (
            [f"new{i}" for i in self.rng.integers(10**6, size=2)]
            if self.texts
            else [10**7 + int(self.rng.integers(10**6)), 10**9]
        )
        nan = good.astype(self.dtype)
        nan[1, 2] = np.nan
        huge = good.astype(np.float64)
        huge[0, 0] = 1e200
        other_kind = [1, 2] if self.texts else ["one", "two"]
        begun = hasattr(self.model.learner, "n_features_in_")  # before that, any width is sound, and then fixed
        wide, huge = (self.rows(2, WIDTH + 1), huge) if begun else (nan, nan)
        bad_rows: list[Any] = [
            wide,
            nan,
            np.where(np.isnan(nan), np.inf, good),
            huge,
            good[None],
            np.empty((0, WIDTH)),
            np.empty((2, 0)),
        ]
        bad_rows += [np.float32(3), good.astype(complex), good.astype(str), [["a", None]], good.astype(object) + 1j]
        bad_ids: list[Any] = [
            [new[0], new[0]],
            new[:1],
            [1.5, 2.5],
            [True, False],
            [1, "a"],
            [[1], [2]],
            [2**70, 1],
            other_kind,
        ]
        bad_ids += [["\ud800", "b"], 7.5, known]
        bad_payloads: list[Any] = [
            [{}],
            {"a": 1},
            [{"a": {1}}, None],
            [{1: 2}, None],
            [{"a": np.nan}, None],
            "text",
            [3, None],
        ]
        bad_payloads += [[{"a": "x" * 70_000}, None], [None] * 3]
        bad_where: list[Any] = [
            [1],
            "x",
            {1: 2},
            {"a": {}},
            {"a": {"~": 1}},
            {"a": {"<": None}},
            {"a": {"in": 3}},
            {"a": {1}},
        ]
        bad_where += [{"a": {"exists": 1}}, {"a": float("nan")}]
        bad_similar: list[Any] = [[1], [2, 0], ["yes", "no"], None, [[1, 1]], 1.5, [True, False, True]]
        bad_weights: list[Any] = [[1], [-1, 1], [np.nan, 1], ["a", "b"], [[1, 1]]]
        bad_k: list[Any] = [-1, 2.5, "3", None, True, [1]]

        def one(values: list[Any]) -> Any:
            return values[self.rng.integers(len(values))]

        X, ids, payloads, where, k = one(bad_rows), one(bad_ids), one(bad_payloads), one(bad_where), one(bad_k)
        similar, weights, row = one(bad_similar), one(bad_weights), good[0]
        either = [known[0] if known else new[0], unknown]
        hits = Hits(np.array([either, either], object), np.zeros((2, 2)))
        calls: dict[str, Call] = {
            f"add rows {X!r:.60}": lambda index: index.add(new, X),
            f"add ids {ids!r:.60}": lambda index: index.add(ids, good),
            f"add payloads {payloads!r:.60}": lambda index: index.add(new, good, payloads),
            f"update rows {X!r:.60}": lambda index: index.update(known, X),
            "update an unknown one": lambda index: index.update([*known[:1], unknown], good),
            "update twice the same": lambda index: index.update([*known[:1], *known[:1]], good),
            "update with another number of rows": lambda index: index.update(known, self_rows),
            f"update payloads {payloads!r:.60}": lambda index: index.update(known, None, payloads),
            "update unknown ones with bad payloads": lambda index: index.update([unknown, unknown], None, payloads),
            "update nothing": lambda index: index.update(known),
            "remove an unknown one": lambda index: index.remove([*known, unknown]),
            "remove twice the same": lambda index: index.remove([*known, *known]),
            f"remove ids {ids!r:.60}": lambda index: index.remove(ids),
            "get an unknown one": lambda index: index.get(unknown),
            f"get {ids!r:.60}": lambda index: index.get(ids),
            f"get_many {ids!r:.60}": lambda index: index.get_many(ids),
            f"search {X!r:.60}": lambda index: index.search(X, 3),
            f"search k={k!r}": lambda index: index.search(row, k),
            f"search {X!r:.60} with k={k!r}": lambda index: index.search(X, k),
            f"search where={where!r}": lambda index: index.search(row, 3, where),
            f"search where={where!r} with k={k!r}": lambda index: index.search(row, k, where),
            "search codes of another width": lambda index: index.search(Codes.from_bits(np.ones((1, 11), bool)), 3),
            f"within {X!r:.60}": lambda index: index.within(X, 3),
            f"within radius={k!r}": lambda index: index.within(good, k),
            f"within where={where!r}": lambda index: index.within(good, 3, where),
            f"rerank {X!r:.60}": lambda index: index.rerank(X, Hits(np.zeros((2, 0), int), np.zeros((2, 0)))),
            "rerank codes": lambda index: index.rerank(Codes.from_bits(np.ones((1, 12), bool)), hits),
            "rerank a list": lambda index: index.rerank(good, [hits]),
            "rerank other shapes": lambda index: index.rerank(row, hits),
            "rerank unknown ones": lambda index: index.rerank(good, hits),
            f"rerank k={k!r}": lambda index: index.rerank(good, hits, k if k is not None else -2),
            f"find {X!r:.60}": lambda index: index.find(X, 2),
            "find codes": lambda index: index.find(Codes.from_bits(np.ones((1, 12), bool)), 2),
            f"find k={k!r}": lambda index: index.find(good, k if k is not None else -2),
            f"learn_pairs {X!r:.60}": lambda index: index.learn_pairs(X, good, [True, False]),
            f"learn_pairs, B {X!r:.60}": lambda index: index.learn_pairs(good, X, [True, False]),
            f"learn_pairs similar={similar!r}": lambda index: index.learn_pairs(good, good + 1, similar),
            f"learn_pairs weights={weights!r}": lambda index: index.learn_pairs(good, good + 1, [1, -1], weights),
            "learn_pair of matrices": lambda index: index.learn_pair(good, good, True),
            f"learn_pair similar={similar!r}": lambda index: index.learn_pair(row, good[1], similar),
            "learn an unknown one": lambda index: index.learn_pair_by_id(unknown, *known[:1] or [unknown], True),
            "learn unknown ones with bad labels": lambda index: index.learn_pairs_by_id(
                [unknown] * 2, [unknown] * 2, similar
            ),
            f"learn_pairs_by_id similar={similar!r}": lambda index: index.learn_pairs_by_id(known, known, similar),
            "learn_pairs_by_id of two lengths": lambda index: index.learn_pairs_by_id(known, known[:1], [1, 1]),
            f"learn_labelled {X!r:.60}": lambda index: index.learn_labelled(X, [0, 1]),
            "learn_labelled of two lengths": lambda index: index.learn_labelled(good, [0, 1, 1]),
            "learn_labelled without labels": lambda index: index.learn_labelled(good, None),
            "learn_labelled with None": lambda index: index.learn_labelled(good, ["a", None]),
            "learn_labelled with NaN": lambda index: index.learn_labelled(good, [1.0, np.nan]),
            "learn_labelled in columns": lambda index: index.learn_labelled(good, [[1, 2], [0, 1]]),
            "roll_back to nowhere": lambda index: index.roll_back(12345),
        }
        self_rows = self.rows(len(known) + 1)
        name = list(calls)[self.rng.integers(len(calls))]
        return name, calls[name]


# ------------------------------------------------------------------ two indexes, step by step


def run(
    here: LiveIndex,
    there: Any,
    rng: np.random.Generator,
    texts: bool,
    n_steps: int,
    facts: dict[str, Call],
    when: str,
    same: Sameness = lambda name, expected, got: expected == got,
) -> None:
    """A random program through both, which end alike; some facts are compared after every step, all at the end."""
    program = Program(rng, here, texts, rng.choice([np.float32, np.float64]))
    for number in range(n_steps):
        name, call = program.step()
        calls = {name: call} | {fact: facts[fact] for fact in rng.choice(list(facts), 2, replace=False)}
        compare(here, there, calls, f"{when}, step {number}, {name}", same)
    compare(here, there, facts, f"{when}, at the end", same)


def compare(here: LiveIndex, there: Any, calls: dict[str, Call], when: str, same: Sameness) -> None:
    """Each call has the same outcome here and there."""
    for name, call in calls.items():
        expected = outcome(lambda: call(here))  # noqa: B023
        got = outcome(lambda: call(there))  # noqa: B023
        assert same(name, expected, got), f"{when}: {name}: expected {expected!r:.300}, got {got!r:.300}"


# ------------------------------------------------------------------ sameness


def plain(value: Any) -> Any:
    """Anything that an index gives, as plain values that are equal exactly when types, shapes and bits are."""
    if isinstance(value, np.ndarray):
        kept = value.tolist() if value.dtype == object else value.tobytes()
        return "array", str(value.dtype), value.shape, kept
    if isinstance(value, Codes):
        return "codes", value.n_bits, value.n_models, len(value), value.planes.tobytes()
    if isinstance(value, Encoder):
        return "encoder", repr(value), value.fusion, plain(value.weights), plain(value.thresholds)
    if isinstance(value, Update):
        return (
            "update",
            type(value.loss),
            value.loss,
            type(value.step),
            plain(value.step),
            plain(value.bits),
            value.pending,
        )
    if isinstance(value, Updates):
        return "updates", plain(value.loss), plain(value.step), plain(value.changed()), [plain(one) for one in value]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        if "encoder" in value._fields:  # a version, of which the service keeps the encoder
            return "version", value.serial, value.n_pairs, value.encoder.version
        if "version" in value._fields:
            return "version", value.serial, value.n_pairs, value.version
        return type(value).__name__, [plain(one) for one in value]
    if isinstance(value, Hits):
        return "hits", plain(value.ids), plain(value.distances), plain(value.payloads)
    if isinstance(value, list | tuple):
        return type(value).__name__, [plain(one) for one in value]
    return type(value).__name__, value


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or the class and the message of what it raises.

    A client does not know how many codes there are that others are to be as wide as.
    """
    try:
        return plain(call())
    except Exception as error:
        return "raised", type(error).__name__, re.sub(r"Codes\(n=\d+", "Codes(n=*", str(error))
