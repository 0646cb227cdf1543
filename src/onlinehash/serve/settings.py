"""Settings of a service: limits and access."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields

from onlinehash import checks
from onlinehash.errors import InvalidInput

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Limits of a service; requests beyond them get a 4xx answer and change nothing."""

    body_bytes: int = 64 * MIB
    #: Bytes of memory that one JSON body takes with what is parsed from it, as estimated; and all bodies together.
    json_memory: int = 32 * MIB
    memory: int = 512 * MIB
    #: Rows of one body, values of one row, results of one query, ids of one body, results of one answer.
    batch: int = 10_000
    features: int = 65_536
    k: int = 10_000
    ids: int = 100_000
    hits: int = 1_000_000
    #: Characters of one text, and texts that wait to be embedded.
    text: int = 65_536
    texts: int = 20_000
    #: Waiting changes, and the bytes of their bodies.
    queue: int = 1_024
    queue_bytes: int = 256 * MIB
    #: Searches that wait for one of the threads that filter or search for many queries, and seconds for one of these.
    reads: int = 256
    request_seconds: float = 10.0
    #: Fields of one filter, and its values in all.
    filter_fields: int = 64
    filter_values: int = 10_000
    #: Seconds from a stop signal to the end of the process.
    stop_seconds: float = 5.0
    #: Seconds for a whole body; for a request line and headers, or between requests; for a client to take an answer.
    body_seconds: float = 30.0
    idle_seconds: float = 30.0
    #: Requests per second with the token, or else from one address, 0 for no limit; open connections; listeners to
    #: events, in total and at one address.
    rate: float = 0.0
    connections: int = 1_024
    events: int = 32
    events_per_client: int = 8

    def __post_init__(self) -> None:
        rules = {f.name: checks.real(0, above=f.name != "rate") for f in fields(self)}
        checks.parameters("the service", vars(self), rules)


@dataclass(frozen=True)
class Access:
    """Access control: host, token and allowed host names.

    Without a token, the service listens on loopback only, unless `insecure` is set. A page of another site could reach
    a service on loopback through its visitor's browser, so host names other than `hosts` are refused there.
    """

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    insecure: bool = False
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.token is not None and not (
            8 <= len(self.token) <= 512 and self.token.isascii() and self.token.isprintable()
        ):
            raise InvalidInput(
                f"expected a token of 8 to 512 visible ASCII characters, got {len(self.token)} "
                "characters; generate one with: openssl rand -hex 32"
            )
        if self.token is not None and " " in self.token:
            raise InvalidInput("the token contains spaces; remove them.")
        if not self.is_loopback and self.token is None and not self.insecure:
            raise InvalidInput(
                f"a service that other machines reach at {self.host} needs a token; set ONLINEHASH_TOKEN, "
                "or pass --insecure if everybody may read and change everything."
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def known_hosts(self) -> frozenset[str] | None:
        """The host names that requests may use; None for any."""
        if not self.is_loopback:
            return frozenset(self.hosts) or None
        return frozenset({"localhost", "127.0.0.1", "::1", self.host, *self.hosts})
