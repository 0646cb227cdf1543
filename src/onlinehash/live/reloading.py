"""How an index that is only read follows the process that writes it, at a cost that follows what changed."""

from __future__ import annotations

from onlinehash.errors import FormatError, InvalidInput
from onlinehash.live.lasting import Lasting
from onlinehash.live.sqlite.difference import Difference
from onlinehash.live.storage import replay


class Reloading(Lasting):
    """What is in memory, brought up to what is on the disk."""

    def reload(self) -> bool:
        """Be as the index on the disk is now: for those who only read it while another process writes.

        Was there anything new? It takes time in proportion to what changed, or to all items where most did. Searches
        go on meanwhile in what there was, and see all of the change or nothing.
        """
        with self._lock:
            if self._keeper is None:
                raise InvalidInput("expected an index with a path to read again, got one in memory.")
            if self._broken:
                self._recover()
                return True
            self._check_open()
            store = self._keeper.store
            if store.read_only and not store.is_behind:
                return False
            found = self._difference() if store.read_only else None
            if found is None:
                with self._teaching():
                    self._read_back(None if store.read_only else self.learner)
                return store.read_only
            try:
                self._apply(found)
            except BaseException as error:  # nothing is known of what is in memory now, and the disk has everything
                self._recover()
                if not isinstance(error, Exception):
                    raise
            return True

    def _difference(self) -> Difference | None:
        """What is new, if it can be told, and this index can go on from what it has."""
        assert self._keeper is not None
        try:
            found = self._keeper.store.difference()
        except FormatError:
            return None  # to read everything tells better what is wrong
        other_kind = found is not None and found.settings is not None and found.settings["index"] != self._kind
        return None if other_kind else found

    def _apply(self, found: Difference) -> None:
        """Be as the disk was when this was read; what takes long comes before anybody has to wait for the gate."""
        assert self._keeper is not None
        learner, recoded = self.learner, None
        settings, versions, policy = self._settings(), self._versions, self.policy
        if found.settings is not None and found.encoders is not None:
            settings, versions = found.settings, self._keeper.versions(found.encoders)
            policy = self._policy_for(settings)
            present = [version.encoder for version in versions if version.serial == settings["serial"]]
            recoded = self._holdings.recoded(found, present[0]) if present else None
        if found.learner is not None:
            learner = self._keeper.learner(found.learner)
        with self._teaching():
            replay(learner, found.events)
        with self._gate:
            self._holdings.follow(self._keeper.store, found, recoded)
            self.learner, self.policy = learner, policy
            self._set_out(settings, versions)
