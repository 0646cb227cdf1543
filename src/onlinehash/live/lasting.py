"""How a live index comes and goes: opened, read back from its disk, copied, closed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.codes.layout import planes_per_model
from onlinehash.errors import InvalidInput
from onlinehash.learners.base import Learner
from onlinehash.live import policies
from onlinehash.live.follower import PAIRS_HORIZON, PAIRS_SIZE
from onlinehash.live.following import Following
from onlinehash.live.payloads import Payloads
from onlinehash.live.policy import IS_POLICY, Policy
from onlinehash.live.reservoir import Reservoir
from onlinehash.live.sqlite import Store
from onlinehash.live.sqlite.store import Loaded
from onlinehash.live.storage import Contents, Keeper
from onlinehash.live.table import KINDS, Holdings
from onlinehash.live.teaching import Teaching
from onlinehash.live.vectors import MemoryVectors


class Lasting(Following, Teaching):
    """What is in memory, and what is on the disk, as one."""

    _given_policy: Policy | None  # None: the stored one
    _given_kind: str | None

    def _set_up(self, refresh: Policy | None, kind: str | None, background: bool, sync: str, n_jobs: int) -> None:
        checks.parameters(
            "LiveIndex",
            {"refresh": refresh, "background": background, "sync": sync, "n_jobs": n_jobs},
            {
                "refresh": IS_POLICY,
                "background": ("True or False", lambda b: isinstance(b, bool)),
                "sync": checks.one_of("full", "batch"),
                "n_jobs": checks.either(checks.integer(1), checks.integer(-1, -1)),
            },
        )
        self.background, self._n_jobs = background, int(n_jobs)
        self._given_policy, self._given_kind = refresh, kind
        self._keeper: Keeper | None = None
        self._lock, self._gate = threading.RLock(), threading.RLock()
        self._closed, self._broken, self._teacher = False, False, 0
        self._set_up_notes()
        self._set_up_receipts()
        self._set_up_positions()

    def _open(
        self,
        path: str | os.PathLike[str],
        read_only: bool,
        sync: str,
        learner: Learner | None,
        n_bits: int | None = None,
    ) -> None:
        """Go on with what is at a path; with this learner, or this length of codes, if one is given."""
        self._keeper = Keeper.open(path, read_only, sync)
        try:
            if learner is not None:
                self._keeper.check_same(learner)
            elif n_bits is not None:
                self._keeper.check_bits(n_bits)
            self._read_back(learner)
            if not read_only and self._settings() != self._keeper.store.settings:  # another policy or kind was given
                with self._keeper.store.transaction():
                    self._keeper.store.put_settings(self._settings())
        except BaseException:
            self._keeper.close()
            raise

    def _read_back(self, learner: Learner | None) -> None:
        """Be what the store says: after opening, and after a change that could not be kept."""
        assert self._keeper is not None
        loaded = self._keeper.store.read()
        contents = self._keeper.contents(loaded)
        policy = self._policy_for(contents.settings)
        if learner is not None:
            learner.set_state(contents.learner.get_state())
            contents = contents._replace(learner=learner)
        self._take_over(contents, policy, loaded)
        if not self._keeper.store.read_only:
            self.learner.owned_by(self)

    def _policy_for(self, settings: dict[str, Any]) -> Policy:
        """The policy that was given, or else the stored one."""
        if self._given_policy is not None:
            return self._given_policy
        if settings["refresh"] is None:
            if self._keeper is not None and self._keeper.store.read_only:
                return policies.by_hand()  # it is never asked
            raise InvalidInput(
                "expected a policy, as the one that this index was made with cannot be kept in a file, got none; "
                "give it again by refresh=."
            )
        return policies.from_specification(settings["refresh"])

    def _take_over(self, contents: Contents, policy: Policy | None = None, loaded: Loaded | None = None) -> None:
        """Make everything in memory from what an index consists of; all that is large, before anybody has to wait."""
        learner, settings = contents.learner, contents.settings
        kind = self._given_kind or settings["index"]
        present = [version.encoder for version in contents.versions if version.serial == settings["serial"]]
        n_bits, n_models, fusion = learner.shape_of_codes
        width = n_models * planes_per_model(n_bits)
        codes = Codes.from_rows(contents.codes.reshape(len(contents.ids), width), n_bits, n_models)
        encoder = present[0] if present else None
        view = KINDS[kind](codes, contents.ids, self._n_jobs, fusion=fusion, encoder=encoder)
        view.items.ids.number_from(contents.next_id)
        vectors = MemoryVectors() if self._keeper is None else self._keeper.store
        holdings = Holdings(view, kind, vectors, Payloads(contents.payloads), self._gate)
        with self._gate:  # positions are counted anew
            if self._keeper is not None and loaded is not None:
                self._keeper.store.adopt(loaded)
            self.learner, self.policy, self._kind = learner, policy or self._policy_for(settings), kind
            self._holdings = holdings
            self._pairs = Reservoir(PAIRS_SIZE, 0, PAIRS_HORIZON)
            self._set_out(settings, contents.versions)

    def _recover(self) -> None:
        """After a change that failed halfway: be what is on the disk or, in memory, what is published."""
        if self._keeper is None:
            self._holdings.heal()
            return
        self._broken = True
        with self._teaching():
            self._read_back(None if self._keeper.store.read_only else self.learner)
        self._broken = False

    def backup(self, path: str | os.PathLike[str]) -> None:
        """A copy in another folder, as of this moment, which `open` opens; the index can be used meanwhile.

        An index in memory is written as a durable one.
        """
        with self._lock:
            self._check_open()
            if self._keeper is None:
                view, payloads = self._holdings.view, self._holdings.payloads
                texts = [payloads.text(position) for position in view.items.positions().tolist()]
                codes, settings = view.codes.rows(), self._settings()
                contents = Contents(self.learner, self._versions, list(self), texts, codes, settings)
                Keeper.write(path, contents, self.vectors, self._receipts.all(), self.positions)
                return
            store = self._keeper.store
        store.backup(path)

    def close(self) -> None:
        """Stop a refresh that is under way, and let go of the path and of the learner; nothing is lost."""
        with self._alone():
            if self._keeper is not None and not self._closed:
                with self._teaching():
                    self.learner.owned_by(None)
                self._keeper.close()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def path(self) -> Path | None:
        """The folder in which everything is kept; None if that is in memory."""
        return None if self._keeper is None else self._keeper.store.path

    def __repr__(self) -> str:
        where = "" if self.path is None else f", path={str(self.path)!r}"
        return f"LiveIndex({type(self.learner).__name__}, n={len(self)}, refresh={self.policy!r}{where})"

    def __reduce__(self) -> Any:
        raise InvalidInput("cannot copy or pickle a LiveIndex: backup(path) writes a copy, which LiveIndex.open opens.")

    @contextmanager
    def _kept(self, event: dict[str, Any] | None, outcome: Any = None) -> Iterator[Store | None]:
        """One transaction: what is written inside it, what the learner was taught, and a note that is wanted."""
        note = self._note()
        if self._keeper is None:
            yield None
            self._write_note(note, outcome)
            return
        with self._keeper.store.transaction():
            yield self._keeper.store
            if event is not None:
                self._keeper.learned(self.learner, event)
            self._write_note(note, outcome)
        self._keep_note(note)
