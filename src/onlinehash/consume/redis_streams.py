"""A Redis stream, read by a consumer of a group.

The group delivers new entries and remembers those that were not acknowledged; after a crash these come first. Entries
at or before the position are already in the index and are only acknowledged. Entries come in the order of their ids.

The client must not retry by itself: a lost answer may hold entries that Redis considers delivered, and a retry would
return the next ones before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from onlinehash import checks
from onlinehash.consume.address import Address
from onlinehash.consume.source import Entry, Source
from onlinehash.errors import InvalidInput, MissingExtra, ServiceUnavailable, Unauthorized

FIELD = b"message"  #: The field of an entry that holds the message.
DEFAULT = "onlinehash"  #: The group and the consumer, where the address names none.
PATIENCE = 10.0  #: Seconds that Redis may take to answer.


class RedisStream(Source):
    """One stream of Redis, by one consumer of a group."""

    def __init__(self, address: Address, settings: Mapping[str, str], name: str | None = None) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError:
            raise MissingExtra("reading from Redis", "redis", "redis") from None
        self._errors = redis.exceptions
        if "stream" not in address.parameters:
            raise InvalidInput("the address names no stream; write it as in redis://localhost:6379/0?stream=pairs.")
        if other := [key for key in settings if not key.startswith("ssl_")]:
            raise InvalidInput(
                f"the settings for Redis are those of redis-py that begin with ssl_, got {checks.shown(other[0])}."
            )
        self.stream = address.parameters["stream"]
        self.group, self.consumer = (address.parameters.get(key, DEFAULT) for key in ("group", "consumer"))
        parts = {"stream": self.stream, "group": self.group, "consumer": self.consumer}
        self.name = name or f"redis://{address.hosts}/{address.path or 0}?{urlencode(parts)}"
        try:
            self._client = redis.Redis.from_url(
                f"{address.scheme}://{address.hosts}/{address.path}?{urlencode(settings)}",
                username=address.user or None,
                password=address.password or None,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=PATIENCE,
                socket_connect_timeout=PATIENCE,
                protocol=2,
            )
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"not a Redis address: {checks.shown(str(error))}.") from None
        self._has_pending = True

    def check(self) -> None:
        with self._translated():
            self._client.ping()

    def begin(self, position: Any) -> None:
        with self._translated():
            try:
                self._client.xgroup_create(self.stream, self.group, id=position or "0", mkstream=True)
            except self._errors.ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):  # it is there already
                    raise
                self._warn_of_others(position)
            last = self._client.xinfo_stream(self.stream)["last-generated-id"].decode()
        if position is not None and _number(last) < _number(position):
            checks.warn(
                f"the stream {self.stream} ends at {last}, before {position}, which this index has "
                "already read: Redis lost entries, or the stream was created anew. Entries up to "
                f"{position} are skipped."
            )
        self._has_pending = True

    def _warn_of_others(self, position: Any) -> None:
        """A group hands out an entry once: an index that takes a consumer's name over gets none of those before."""
        groups = {group["name"].decode(): group for group in self._client.xinfo_groups(self.stream)}
        mine = {one["name"].decode(): one["pending"] for one in self._client.xinfo_consumers(self.stream, self.group)}
        has_given = _number(groups[self.group]["last-delivered-id"].decode()) > (0, 0)
        if position is None and has_given and mine.get(self.consumer) == 0:
            checks.warn(
                f"the consumer {self.consumer} of the group {self.group} has read entries of "
                f"{self.stream} for another index; this index gets only later ones. Give it a group of "
                "its own with group=NAME."
            )

    def read(self, n: int, wait: float) -> list[Entry]:
        if self._has_pending:
            entries = self._read("0", n, None)
            if entries:
                return entries
            self._has_pending = False
        entries = self._read(">", n, int(1000 * wait) or None)
        self.at_end = not entries
        return entries

    def _read(self, after: str, n: int, block: int | None) -> list[Entry]:
        with self._translated():
            found: Any = self._client.xreadgroup(self.group, self.consumer, {self.stream: after}, count=n, block=block)
        entries = [entry for _, entries in found or [] for entry in entries]
        return [Entry(id.decode(), (fields or {}).get(FIELD), fields or {}) for id, fields in entries]

    def is_past(self, position: Any, entry: Entry) -> bool:
        return position is not None and _number(entry.place) <= _number(position)

    def advanced(self, position: Any, entries: Sequence[Entry]) -> Any:
        return entries[-1].place if entries else position

    def acknowledge(self, entries: Sequence[Entry]) -> None:
        with self._translated():
            self._client.xack(self.stream, self.group, *(entry.place for entry in entries))

    def bury(self, entry: Entry, reason: str) -> None:
        about = {"dead.reason": reason, "dead.source": self.name, "dead.place": entry.place}
        with self._translated():
            self._client.xadd(f"{self.stream}:dead", entry.original | about)

    def lag(self) -> int | None:
        with self._translated():
            for group in self._client.xinfo_groups(self.stream):
                if group["name"] == self.group.encode() and group.get("lag") is not None:
                    return int(group["lag"]) + int(group["pending"])
        return None

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Redis's errors as ours."""
        errors = self._errors
        try:
            yield
        except (errors.AuthenticationError, errors.AuthorizationError, errors.NoPermissionError) as error:
            raise Unauthorized(f"Redis refused the login: {_said(error)}.") from None
        except (errors.ConnectionError, errors.TimeoutError, errors.ReadOnlyError, errors.OutOfMemoryError) as error:
            raise ServiceUnavailable(f"Redis at {self.name} failed: {_said(error)}.") from None
        except errors.ResponseError as error:
            if str(error).startswith("NOGROUP"):  # somebody has deleted it; `begin` makes it again
                raise ServiceUnavailable(f"the group {self.group} is missing: {_said(error)}.") from None
            raise InvalidInput(f"Redis cannot read the stream {self.stream}: {_said(error)}.") from None


def _number(id: str) -> tuple[int, int]:
    """An entry's id, which grows along the stream."""
    milliseconds, _, sequence = id.partition("-")
    return int(milliseconds), int(sequence or 0)


def _said(error: Exception) -> str:
    return checks.shown(str(error).rstrip("."))
