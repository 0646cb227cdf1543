"""What a durable index writes, and how it is read back.

The learner is kept as a checkpoint and a log of what it was taught since. The log is never longer than a checkpoint, so
a pair costs its own bytes, and to read a learner back costs about what it took to learn a state's worth of pairs.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from onlinehash import checks
from onlinehash.errors import FormatError, InvalidInput, OnlineHashError, ServiceUnavailable
from onlinehash.features.maps import same_parameters
from onlinehash.index.api import Version
from onlinehash.io import files, format
from onlinehash.io.atomic import sync_folder
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.live.sqlite import Store
from onlinehash.live.sqlite.records import CODES_CHUNK, Encoders, LearnerAndLog
from onlinehash.live.sqlite.store import Loaded

#: The log may always have so many bytes before the learner is written whole.
LEAST_LOG = 1 << 18

#: Bytes of codes that a refresh writes in one transaction: as much as the disk takes in a moment.
PART_BYTES = 1 << 19

T = TypeVar("T")


class Snapshot(NamedTuple):
    """All of a durable index but the vectors."""

    learner: Learner
    versions: list[Version]
    ids: list[Any]
    payloads: list[str | None]
    codes: np.ndarray
    settings: dict[str, Any]
    next_id: int = 0

    @classmethod
    def of_nothing(cls, learner: Learner) -> Snapshot:
        """A new index, with the policy that is taken where none is given."""
        settings = {"index": "auto", "serial": 0, "paused": False, "counters": [0] * 4}
        settings["refresh"] = {"policy": "when_changed", "share": 0.05, "price": 0.1}
        return cls(learner, [], [], [], np.empty((0, 0), np.uint8), settings)


class Storage:
    """One open store, in terms of learners and encoders."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._checkpoint_bytes = 0  # none yet, or one of a learner that may draw another seed when it is taught again
        self._leaves_some = True  # there may be codes of a refresh that was given up

    @classmethod
    def create(cls, path: str | os.PathLike[str], learner: Learner, settings: dict[str, Any], sync: str) -> Storage:
        """A new store, with a learner that may have learned already."""
        blob = read_back(learner)
        storage = cls(Store.create(path, settings, blob, sync))
        storage._note_checkpoint(learner, blob)
        return storage

    @classmethod
    def write(
        cls,
        path: str | os.PathLike[str],
        contents: Snapshot,
        vectors: np.ndarray,
        receipts: Sequence[tuple[str, str, bytes]],
        positions: dict[str, Any],
    ) -> None:
        """A new store with all of an index in it, which is there when all of it is."""
        target = Path(path)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InvalidInput(expected="a new or empty folder", got=f"{target}", hint="give another path")
        unfinished = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
        try:
            storage = cls.create(unfinished, contents.learner, contents.settings, "full")
            try:
                with storage.store.transaction():
                    if contents.ids:
                        storage.store.add(contents.ids, vectors, contents.payloads)
                        storage.store.put_codes(None, contents.codes)
                    for version in contents.versions:
                        storage._put(version)
                    for source, position in positions.items():
                        storage.store.put_position(source, position)
                for receipt in receipts:
                    with storage.store.transaction():
                        storage.store.put_receipt(*receipt)
            finally:
                storage.close()
            os.replace(unfinished, target)
            sync_folder(target.parent)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    @staticmethod
    def exists(path: str | os.PathLike[str]) -> bool:
        """Whether there is a store at this path."""
        return Store.exists(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], read_only: bool, sync: str) -> Storage:
        """A store that is there."""
        return cls(Store.open(path, read_only=read_only, sync=sync))

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    # ------------------------------------------------------------------------------------------------ reading

    def load(self) -> Snapshot:
        """Everything as of the last change that was kept."""
        loaded = self.store.read()
        contents = self.contents(loaded)
        self.store.adopt(loaded)
        return contents

    def contents(self, loaded: Loaded) -> Snapshot:
        """What was loaded, in terms of learners and encoders."""
        found, records = loaded.contents, loaded.records
        learner, versions = self.learner(records.learner), self.versions(records.encoders)
        return Snapshot(
            learner, versions, found.ids, found.payloads, found.codes, records.settings, loaded.state.next_id
        )

    def versions(self, encoders: Encoders) -> list[Version]:
        """Encoders out of a store."""
        name = f"encoder in {self.store.path}"
        with naming_a_way_out(self.store.path):
            return [
                Version(
                    serial,
                    format.whole(facts.get("n_pairs"), f"n_pairs of the {name}"),
                    expect(files.from_bytes(blob, name), Encoder, name),
                )
                for serial, facts, blob in encoders
            ]

    def learner(self, stored: LearnerAndLog) -> Learner:
        """The learner, after everything it was taught."""
        name = f"learner in {self.store.path}"
        blob, events = stored
        with naming_a_way_out(self.store.path):
            learner = expect(files.from_bytes(blob, name), Learner, name).keep_metric()
            self._note_checkpoint(learner, blob)
            replay(learner, events)
        return learner

    def check_same(self, learner: Learner) -> None:
        """Raise unless a learner has the parameters of the stored one, and has learned nothing."""
        if hasattr(learner, "n_features_in_"):
            raise InvalidInput(
                f"{self.store.path} has a learner of its own, and the one given has learned something already; open "
                "the index with LiveIndex.open, or give it another path."
            )
        stored = self._stored_learner()
        params, known = learner.get_params(deep=False), stored.get_params(deep=False)
        if type(learner) is not type(stored):
            raise InvalidInput(
                expected=f"a {type(stored).__name__} as in {self.store.path}", got=f"a {type(learner).__name__}"
            )
        for name, value in known.items():
            if not same_parameters(params[name], value):
                raise InvalidInput(
                    expected=f"{name}={checks.shown(value)} as in {self.store.path}",
                    got=checks.shown(params[name]),
                    hint="open it with LiveIndex.open, or give the index another path",
                )

    def check_bits(self, n_bits: int) -> None:
        """Raise unless the length of codes is the stored learner's."""
        stored: int = self._stored_learner().shape_of_codes[0]
        if n_bits != stored:
            raise InvalidInput(
                expected=f"n_bits={stored} as in {self.store.path}",
                got=checks.shown(n_bits),
                hint="leave it out, or give the index another path",
            )

    @classmethod
    def method(cls, path: str | os.PathLike[str]) -> str:
        """The name of the method that the learner at this path is of."""
        storage = cls.open(path, read_only=True, sync="full")
        try:
            return type(storage._stored_learner()).__name__
        finally:
            storage.close()

    def _stored_learner(self) -> Learner:
        """The learner as of its last checkpoint."""
        name = f"learner in {self.store.path}"
        return expect(files.from_bytes(self.store.learner()[0], name), Learner, name)

    # ------------------------------------------------------------------------------------------------ writing

    def learned(self, learner: Learner, *events: dict[str, Any]) -> None:
        """Inside a transaction: all that the learner was taught since the last one."""
        if not events:
            return
        if wants_checkpoint(events, self.store.log_bytes, self._checkpoint_bytes):
            blob = read_back(learner)
            self.store.put_learner(blob)
            self._note_checkpoint(learner, blob)
        else:
            learner.check_finite()
            for event in events:
                self.store.log(event)

    def _note_checkpoint(self, learner: Learner, blob: bytes) -> None:
        self._checkpoint_bytes = len(blob) if hasattr(learner, "n_features_in_") else 0

    def is_large(self, n: int) -> bool:
        """Whether the codes of so many items take so long to write that others should not wait for it."""
        return n * self.store.code_bytes > PART_BYTES

    def parts_ahead(self, codes: np.ndarray) -> Iterator[Callable[[], None]]:
        """What writes the codes of a refresh before it ends: functions, each to be called in a transaction of its own.

        First goes what an earlier refresh has left.
        """
        while self._leaves_some:
            yield self._drop_part
        rows = max(1, PART_BYTES // codes.shape[1])
        for start in range(0, len(codes), rows):
            part = codes[start : start + rows]
            yield partial(self.store.put_next_codes, np.arange(start, start + len(part)), part)

    def parts_behind(self) -> Iterator[Callable[[], None]]:
        """The same for the codes that count no longer, after a refresh."""
        self._leaves_some = True
        while self._leaves_some:
            yield self._drop_part

    def _drop_part(self) -> None:
        record = CODES_CHUNK * max(1, self.store.code_bytes)
        self._leaves_some = self.store.drop_next_codes(max(1, PART_BYTES // record))

    def refreshed(self, version: Version, settings: dict[str, Any], forget: list[int]) -> None:
        """Inside a transaction: the encoder that codes are of now, and which older encoders are kept no longer."""
        self._put(version)
        for serial in forget:
            self.store.drop_encoder(serial)
        self.store.put_settings(settings)

    def _put(self, version: Version) -> None:
        self.store.put_encoder(version.serial, {"n_pairs": version.n_pairs}, read_back(version.encoder))


def read_back(thing: Learner | Encoder) -> bytes:
    """The file of a learner or an encoder, which was read as it will be when an index is opened.

    A commit must not replace the last learner that can be read by one that cannot. Both are written rarely: an encoder
    at a refresh, a learner when its log has grown as long as itself.
    """
    blob = files.to_bytes(thing)
    files.from_bytes(blob, f"the {type(thing).__name__} that was about to be stored")
    return blob


def wants_checkpoint(events: Iterable[dict[str, Any]], log_bytes: int, checkpoint_bytes: int) -> bool:
    """Whether to write the whole learner instead of logging what it was taught just now."""
    n_bytes = sum(value.nbytes for event in events for value in event.values() if isinstance(value, np.ndarray))
    return not checkpoint_bytes or log_bytes + n_bytes > max(LEAST_LOG, checkpoint_bytes)


def replay(learner: Learner, events: Iterable[dict[str, Any]]) -> None:
    """Teach a learner again what was logged."""
    for event in events:
        if event["what"] == "points":
            learner.observe(event["X"])
        elif event["what"] == "pairs":
            learner.relearn_pairs(event["A"], event["B"], event["similar"], event["weight"])
        elif event["what"] == "labelled":
            learner.partial_fit(event["X"], event["y"])
        elif event["what"] == "flush":
            learner.flush()
        else:
            raise FormatError(
                expected="points, pairs, labels or a flush in a learner's log", got=checks.shown(event["what"])
            )


@contextmanager
def naming_a_way_out(where: str | Path) -> Iterator[None]:
    """Add to errors about the learner of an index how to get at the items without it."""
    try:
        yield
    except ServiceUnavailable:  # which says nothing about the learner
        raise
    except OnlineHashError as error:
        problem = str(error).rstrip(".")
        raise FormatError(
            f"{problem}; restore a copy, or write the items to a file: onlinehash export {where} FILE."
        ) from error


def expect(thing: object, kind: type[T], name: str) -> T:
    """Return what was read if it is of the expected class; else raise."""
    if not isinstance(thing, kind):
        raise FormatError(f"the {name} is a {type(thing).__name__}; restore it from a backup.")
    return thing
