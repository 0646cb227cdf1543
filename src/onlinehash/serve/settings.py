"""Settings of a service: limits and access."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields
from typing import TypeVar

from onlinehash import checks
from onlinehash.errors import InvalidInput

MIB = 1 << 20

N = TypeVar("N", int, float)


def _limit(default: N, text: str, *, may_be_zero: bool = False) -> N:
    """A limit, what it bounds (docs/reference/http.md has the same words), and the rule of its values."""
    rule = checks.real(0, above=not may_be_zero)
    limit: N = field(default=default, metadata={"text": text, "rule": rule})
    return limit


@dataclass(frozen=True)
class Limits:
    """Limits of a service; requests beyond them get a 4xx answer and change nothing."""

    body_bytes: int = _limit(64 * MIB, "bytes of one body")
    json_memory: int = _limit(
        32 * MIB,
        "bytes of memory for one JSON body and what is parsed from it, as estimated from its bytes, commas and "
        "brackets; about 6 MB of floats. Send larger arrays in a binary format",
    )
    answer_bytes: int = _limit(64 * MIB, "bytes of one response, and of the vectors that a request names by ids")
    memory: int = _limit(512 * MIB, "bytes of memory for the bodies and responses of all requests that are under way")
    batch: int = _limit(10_000, "rows or pairs of one request")
    features: int = _limit(65_536, "values of one row")
    k: int = _limit(10_000, "results of one query")
    ids: int = _limit(100_000, "ids of one request")
    hits: int = _limit(1_000_000, "results of one response")
    text: int = _limit(65_536, "characters of one text")
    texts: int = _limit(20_000, "texts that wait to be embedded")
    queue: int = _limit(1_024, "waiting changes")
    queue_bytes: int = _limit(256 * MIB, "bytes of the bodies of waiting changes")
    reads: int = _limit(256, "waiting finds, and searches with a filter or for many queries")
    request_seconds: float = _limit(10.0, "seconds for one of these")
    follow_wait_s: float = _limit(
        2.0, "seconds for a process to get as far as a request with Onlinehash-At-Least demands", may_be_zero=True
    )
    filter_fields: int = _limit(64, "fields of one filter")
    filter_values: int = _limit(10_000, "values that one filter compares with")
    stop_seconds: float = _limit(
        5.0, "seconds from a stop signal to the end of the process; half of it is for changes that wait"
    )
    body_seconds: float = _limit(30.0, "seconds for a whole body")
    idle_seconds: float = _limit(
        30.0, "seconds for headers, between requests, and for a client to receive its response"
    )
    rate: float = _limit(
        0.0,
        "requests per second to each process, by all who have the token together and by each address without it (of "
        "IPv6: each /64); 0 is unlimited, and beyond loopback the default is 1000",
        may_be_zero=True,
    )
    connections: int = _limit(1_024, "open connections")
    events: int = _limit(32, "listeners to /events")
    events_per_client: int = _limit(8, "listeners to /events from one address; behind a proxy, all have its address")

    def __post_init__(self) -> None:
        checks.parameters("the service", vars(self), {f.name: f.metadata["rule"] for f in fields(self)})


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
                expected="a token of 8 to 512 visible ASCII characters",
                got=f"{len(self.token)} characters",
                hint="`openssl rand -hex 32` generates one",
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
