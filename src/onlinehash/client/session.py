"""What is sent to a service and what to make of the answers, without any input or output.

A call is a generator: it yields `Attempt`s and `Pause`s, is sent what came of each, and returns its result. Whoever
runs it does the waiting: `connection` has a runner that blocks and one that is awaited.
"""

from __future__ import annotations

import itertools
import json
import random
import secrets
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit

import numpy as np

from onlinehash import checks
from onlinehash.client import answers
from onlinehash.client.replicas import Replica, Replicas
from onlinehash.errors import InvalidInput, NotSupported, OnlineHashError, ServiceUnavailable
from onlinehash.io import format

if TYPE_CHECKING:
    import httpx

MEDIA_TYPE, JSON = "application/vnd.onlinehash", "application/json"
#: The number of the state that an answer was made from, and that a request wants to be at least there.
EPOCH, AT_LEAST = "Onlinehash-Epoch", "Onlinehash-At-Least"
#: Statuses after which a request is retried: too many requests, a service that a proxy cannot reach, and one that
#: starts, stops or is behind.
TRY_AGAIN = (429, 502, 503)
#: Seconds before the first retry, and at most before any other, unless the service asks for more.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
#: Seconds to wait for a connection to a replica if there are others to ask.
CONNECT_SECONDS = 2.0
#: Seconds for which a replica may be silent if there are others to ask. Most requests take milliseconds, but a replica
#: that is behind waits for two seconds (`follow_wait_s`) before it refuses a read: that must not look like a hang.
SILENT_SECONDS = 2.5
#: Seconds that a replica which was silent has to show that it is alive, before a request is sent to it.
HEALTH_SECONDS = 1.0

#: The value of a query parameter.
Parameter = str | int | float | bool

T = TypeVar("T")


class Request(NamedTuple):
    """A request to any of the replicas. A change has a key, and may take as long as the call."""

    method: str
    path: str
    headers: Mapping[str, str]
    params: Mapping[str, Parameter] = {}
    content: bytes | None = None
    is_change: bool = False
    is_long: bool = False


#: Asks whether a process answers at all. `/v1/ready` would ask too much: a replica whose disk is full is not ready and
#: answers searches, and a reader asks its writer first.
HEALTH = Request("GET", "/v1/health", {"Accept": JSON})


class Attempt(NamedTuple):
    """Send this request to this replica; the answer must be here in so many seconds, the connection in fewer.

    `silent_seconds` is how long nothing at all may come, before the answer or within it.
    """

    url: str
    request: Request
    seconds: float
    connect_seconds: float
    silent_seconds: float


class Pause(NamedTuple):
    """Wait for so many seconds."""

    seconds: float


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: httpx.Headers
    content: bytes

    @property
    def epoch(self) -> int:
        """The epoch that it names; 0 if none."""
        value = self.headers.get(EPOCH, "")
        return int(value) if value.isdecimal() else 0


class Failure(NamedTuple):
    """No response: what went wrong, or empty if the time was up; whether the request may have arrived, and whether
    the replica is to blame."""

    problem: str
    may_have_arrived: bool = True
    is_of_replica: bool = True

    @property
    def is_late(self) -> bool:
        """Whether the request was sent and the time was up."""
        return self.may_have_arrived and not self.problem


Call: TypeAlias = Generator[Attempt | Pause, Answer | Failure | None, T]


class Session:
    """What a client knows of a service: its replicas, its limits, and the last change that it made there."""

    def __init__(
        self,
        urls: str | Sequence[str],
        timeout: float = 30.0,
        retries: int = 4,
        read_your_writes: bool = True,
    ) -> None:
        self._replicas = Replicas(_checked_urls(urls))
        rules = {
            "timeout": checks.real(0, above=True),
            "retries": checks.integer(0),
            "read_your_writes": checks.one_of(True, False),
        }
        checks.parameters(
            "connect", {"timeout": timeout, "retries": retries, "read_your_writes": read_your_writes}, rules
        )
        self.timeout, self._retries = float(timeout), int(retries)
        self.about: dict[str, Any] = {}
        self._reads_own = bool(read_your_writes)
        self._lock, self._written = threading.Lock(), 0

    @property
    def url(self) -> str:
        """The URLs of the service, for messages."""
        return str(self._replicas)

    @property
    def limits(self) -> dict[str, float]:
        """The limits of the service."""
        return dict(self.about.get("limits", {}))

    @property
    def written(self) -> int:
        """The epoch of the last change that was made here; 0 if none, or if the service does not say."""
        return self._written

    # ------------------------------------------------------------------------------------------------ requests

    def open(self) -> Call[None]:
        """Ask what is served."""
        self.about = yield from self.get("/v1/about")

    def get(self, path: str, **query: Parameter) -> Call[dict[str, Any]]:
        """The response to a GET request."""
        answer = yield from self._read("GET", path, params=query)
        return self._document(answer)

    def download(self, path: str, **query: Parameter) -> Call[bytes]:
        """The bytes of a file."""
        answer = yield from self._read("GET", path, params=query)
        return answer.content

    def epoch(self) -> Call[int]:
        """The epoch at which the service is."""
        answer = yield from self._read("GET", "/v1/items", params={"limit": 1})
        if not answer.epoch:
            raise NotSupported(f"the service at {self.url} does not name epochs.")
        return answer.epoch

    def ask(self, path: str, body: Mapping[str, object], n_rows: int = 0, binary: bool = False) -> Call[dict[str, Any]]:
        """The response to a request that only reads, with a body of `n_rows` rows; `binary` asks for arrays."""
        accepted = MEDIA_TYPE if binary else JSON
        answer = yield from self._read("POST", path, accepted, packed=self._packed(body, n_rows))
        return self._document(answer)

    def change(
        self, method: str, path: str, body: Mapping[str, object], n_rows: int = 0, is_long: bool = False
    ) -> Call[dict[str, Any]]:
        """Make a change, once, however often the request has to be sent."""
        content, kind = self._packed(body, n_rows)
        headers = {
            "Accept": JSON,
            "Content-Type": kind,
            "Idempotency-Key": secrets.token_hex(16),
        }
        answer = yield from self._send(Request(method, path, headers, content=content, is_change=True, is_long=is_long))
        with self._lock:
            self._written = max(self._written, answer.epoch)
        return self._document(answer)

    def _read(
        self,
        method: str,
        path: str,
        accepted: str = JSON,
        packed: tuple[bytes, str] | None = None,
        **parts: Any,
    ) -> Call[Answer]:
        headers = {"Accept": accepted}
        if packed is not None:
            parts["content"], headers["Content-Type"] = packed
        if self._reads_own and self._written:
            headers[AT_LEAST] = str(self._written)
        return (yield from self._send(Request(method, path, headers, **parts)))

    def in_order(self, call: Call[T], seen: int = 0) -> Call[T]:
        """A call whose requests each see at least what the one before saw, at any replica, the first one an epoch."""
        outcome = None
        while True:
            try:
                step = call.send(outcome)
            except StopIteration as end:
                found: T = end.value
                return found
            if isinstance(step, Attempt) and step.request is HEALTH:  # it must not wait for a replica to catch up
                outcome = yield step
                continue
            if isinstance(step, Attempt) and seen and not step.request.is_change:
                at_least = max(seen, int(step.request.headers.get(AT_LEAST, 0)))
                headers = {**step.request.headers, AT_LEAST: str(at_least)}
                step = step._replace(request=step.request._replace(headers=headers))
            outcome = yield step
            if isinstance(outcome, Answer):
                seen = max(seen, outcome.epoch)

    def _packed(self, body: Mapping[str, object], n_rows: int) -> tuple[bytes, str]:
        """The bytes of a body and its media type, within the limits of the service.

        One request is one change, so it is never split.
        """
        limits = self.limits
        most = limits.get("batch", n_rows)
        content, kind = _encoded(body) if n_rows <= most else (b"", MEDIA_TYPE)
        room = limits.get("body_bytes", len(content))
        if len(content) > room:
            most = n_rows * room // len(content)
            if most == 0:
                raise InvalidInput(
                    expected=f"a request of at most {room} bytes, which this service takes",
                    got=f"{len(content)}",
                    hint="send less, or start the service with a larger limit",
                )
        if n_rows > most:
            raise InvalidInput(
                expected=f"at most {most} rows at once, which this service takes",
                got=f"{n_rows}",
                hint="make several calls, each of which is done wholly or not at all",
            )
        return content, kind

    # ------------------------------------------------------------------------------------------------ attempts

    def _send(self, request: Request) -> Call[Answer]:
        """The response to a request, from whichever replica gives one; they are asked in turn, in several rounds."""
        deadline, slow = time.monotonic() + self.timeout, set[Replica]()
        for n_rounds in itertools.count():
            waits = []
            asked = self._replicas.in_turn()
            asked.sort(key=slow.__contains__)  # the last one has all the time that is left
            for position, replica in enumerate(asked):
                began = time.monotonic()
                outcome = yield from self._attempt(request, replica, len(asked) - position, deadline)
                if isinstance(outcome, Answer) and outcome.status not in TRY_AGAIN:
                    replica.works()
                    return self._checked(outcome, replica)
                error, wait, may_have_arrived = self._judged(outcome, replica)
                if isinstance(outcome, Answer) and _is_sound(outcome):
                    replica.works(wait)
                elif isinstance(outcome, Answer) or outcome.is_of_replica:
                    replica.fails(began, wait, is_silent=isinstance(outcome, Failure))
                if isinstance(outcome, Failure) and outcome.is_late:
                    slow.add(replica)
                waits.append(wait)
                if time.monotonic() >= deadline or (request.is_change and may_have_arrived and not self._keeps_keys):
                    raise error
            pause = random.uniform(0.5, 1.0) * min(FIRST_PAUSE * 2**n_rounds, LONGEST_PAUSE)
            pause = max(pause, min(waits))
            if n_rounds >= self._retries or time.monotonic() + pause >= deadline:
                raise error
            yield Pause(pause)
        raise AssertionError("rounds never end by themselves")

    def _attempt(
        self, request: Request, replica: Replica, n_left: int, deadline: float
    ) -> Generator[Attempt, Answer | Failure | None, Answer | Failure]:
        """What comes of a request at a replica. One that was silent is first asked whether it is alive.

        Each replica that is left to ask gets an equal share of the time. The last one may use it all; any other must
        not be silent for long, unless a change that it may be making could not be sent to another. A request that is
        long itself may take all the time at any replica, so each is first asked whether it is alive.
        """
        if (replica.was_silent or request.is_long) and len(self._replicas) > 1:
            seconds = min(HEALTH_SECONDS, _left(deadline) / (n_left + 1))
            outcome = yield Attempt(replica.url, HEALTH, seconds, seconds, seconds)
            if isinstance(outcome, Failure):  # whatever it answers, it is alive, and the request gets its own answer
                return outcome._replace(problem=outcome.problem or "no answer", may_have_arrived=False)
        left = _left(deadline)
        share = left if request.is_long else left / n_left
        connect = share if n_left == 1 else min(share, CONNECT_SECONDS)
        must_stay = n_left == 1 or request.is_long or (request.is_change and not self._keeps_keys)
        silent = share if must_stay else min(share, SILENT_SECONDS)
        outcome = yield Attempt(replica.url, request, share, connect, silent)
        assert outcome is not None
        return outcome

    def _judged(self, outcome: Answer | Failure, replica: Replica) -> tuple[OnlineHashError, float, bool]:
        """What failed, the seconds that the replica wants to be left alone, and whether a change may have been made."""
        if isinstance(outcome, Answer):
            error = answers.error_of(outcome.status, outcome.content, replica.url)
            is_unsure = outcome.status == 502 or answers.name_of(outcome.content) == ServiceUnavailable.__name__
            return error, answers.seconds_to_wait(outcome.headers.get("Retry-After")), is_unsure
        problem = outcome.problem or f"no answer within {self.timeout:g} seconds"
        message = f"the service at {self.url} gave {problem}; start it, or check the URL."
        return ServiceUnavailable(message), 0.0, outcome.may_have_arrived

    @property
    def _keeps_keys(self) -> bool:
        """Whether the key of a change is stored with the index, so that every replica knows it, even after a crash."""
        return bool(self.about.get("receipts", True))

    # ------------------------------------------------------------------------------------------------ answers

    def _checked(self, answer: Answer, replica: Replica) -> Answer:
        if not 200 <= answer.status < 300:
            raise answers.error_of(answer.status, answer.content, replica.url)
        return answer

    def _document(self, answer: Answer) -> dict[str, Any]:
        """The content of a response."""
        if answer.headers.get("Content-Type", "").startswith(MEDIA_TYPE):
            return format.from_bytes(answer.content, f"the answer of {self.url}")[1]
        try:
            found = json.loads(answer.content)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise answers.foreign(answer.status, self.url)
        return found


def _left(deadline: float) -> float:
    """The seconds until then; never zero, which would mean no limit."""
    return max(deadline - time.monotonic(), 0.001)


def _is_sound(refusal: Answer) -> bool:
    """Whether a replica that wants a request later works as it should: it is only busy, or a little behind."""
    return refusal.status == 429 or answers.name_of(refusal.content) == "Behind"


def _encoded(body: Mapping[str, object]) -> tuple[bytes, str]:
    """The bytes of a body and their media type: JSON, unless it holds arrays, or what JSON cannot hold."""
    if not any(isinstance(value, np.ndarray) for value in body.values()):
        try:
            return json.dumps(body, ensure_ascii=False, allow_nan=False).encode(), JSON
        except (TypeError, ValueError):
            pass  # the service says what is wrong with it, if anything is
    return format.to_bytes("body", dict(body)), MEDIA_TYPE


def _checked_urls(given: str | Sequence[str]) -> list[str]:
    urls = [given] if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    if not urls:
        raise InvalidInput(expected="at least one URL of a service", got="none")
    checked = [_checked_url(url) for url in urls]
    return list(dict.fromkeys(checked))


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # the port is not a number, or the IPv6 address is not valid
        good = False
    if not good:
        raise InvalidInput(expected="the URL of a service, such as 'http://127.0.0.1:8000'", got=checks.shown(url))
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidInput(
            expected="a URL of host, port and path only", got="one with more", hint="a token goes into token="
        )
    return url.rstrip("/")
