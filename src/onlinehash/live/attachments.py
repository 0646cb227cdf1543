"""Attachments: what is stored together with a change, in the same transaction: a receipt, or a source's position."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onlinehash.errors import InvalidInput


class Attachment(ABC):
    """Something about one change, stored if and only if the change is made.

    call : str
        How it is called in messages: the call that takes it.
    """

    def __init__(self, call: str) -> None:
        self.call, self.is_used = call, False

    def record(self, outcome: object, store: Any | None) -> None:
        """Take the outcome of the change and, inside its transaction, write it to the store, if there is one."""
        self.prepare(outcome)
        if store is not None:
            self.write(store)

    def settle(self, in_memory: bool) -> None:
        """The change is made; nothing else can be stored with this."""
        if in_memory and not self.is_used:
            self.keep()
        self.is_used = True

    def prepare(self, outcome: object) -> None:  # noqa: B027, most do not depend on it
        """Take the outcome of the change, before it is committed."""

    @abstractmethod
    def write(self, store: Any) -> None:
        """Write to a store, inside the transaction of the change."""

    @abstractmethod
    def keep(self) -> None:
        """Keep in memory, where there is no store."""


class Attachments:
    """The attachments that were announced and wait for the one change that their thread makes inside `with`.

    `once` and `reached` are public context managers around an ordinary call of the index, so nothing but the thread
    connects the two. This is the only place that uses it: a transaction asks once, when it begins, and passes the
    attachment on.
    """

    def __init__(self) -> None:
        self._announced: dict[int, Attachment] = {}

    @contextmanager
    def announced(self, attachment: Attachment) -> Iterator[None]:
        """The one change that this thread makes inside is stored together with the attachment."""
        thread = threading.get_ident()
        self.check_none(attachment.call.partition("(")[0])
        self._announced[thread] = attachment
        try:
            yield
        finally:
            del self._announced[thread]

    def of_this_thread(self) -> Attachment | None:
        """What the calling thread wants to have stored with its change."""
        return self._announced.get(threading.get_ident())

    def check_none(self, call: str) -> None:
        """Refuse a call around several changes inside one that takes a single change."""
        attachment = self.of_this_thread()
        if attachment is not None:
            around = attachment.call.partition("(")[0]
            raise InvalidInput(f"{call} cannot be used inside {around}, which takes one change.")

    def check_unused(self) -> None:
        """Refuse a second change."""
        attachment = self.of_this_thread()
        if attachment is not None and attachment.is_used:
            raise InvalidInput(f"only one change can be made inside {attachment.call}; make the next one after it.")
