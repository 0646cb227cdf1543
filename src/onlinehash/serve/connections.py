"""uvicorn's connections, with time limits for slow clients, large bodies read in turn, and responses to searches in one
write.

uvicorn closes a connection that is idle between two requests, but it waits for ever for the first request, for the rest
of one that has begun, and for a client that does not read. It has no setting for these, and an ASGI application does
not see them, so this module derives from uvicorn's HTTP protocol, which is not a public interface. That is confined to
this module, and `pyproject.toml` bounds the version.

uvicorn reads every body as fast as it comes, also what is left of one that was refused already: a few clients with
large bodies keep the event loop from all others. Here one piece is read at a time, and others run between two of them.

The one write (`_send_whole`) is there because two ASGI messages take a tenth or more of the CPU time of a search.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterable
from http import HTTPStatus

from starlette.types import Scope
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from onlinehash.errors import OnlineHashError
from onlinehash.serve.errors import BadRequest, RequestTimeout, Unavailable
from onlinehash.serve.responses import RECEIVED, WHOLE, refusal
from onlinehash.serve.settings import Limits

#: Bytes of a request line and headers that arrive in several pieces.
MOST_HEADER_BYTES = 1 << 17

#: Seconds between two pieces of large bodies, which are about 256 KiB each: together they come at 250 MB/s at most.
TURN_SECONDS = 0.001

_NO_SNIFFING = (b"x-content-type-options", b"nosniff")


_FIRST_LINES = {int(status): b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}


def _lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%s: %s\r\n" % header for header in headers])


class TimedConnection(HttpToolsProtocol):
    """Closes if headers or a body do not arrive in time, or a response is not read; refuses if too many are open."""

    limits = Limits()
    turns: Turns
    _in_headers = _in_body = False
    _stage = _n_header_bytes = _n_discarded = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._service = self.app
        self._unanswered: deque[RequestResponseCycle] = deque()  # a client may send requests without waiting
        self._request_timer = _Timer(self.loop, self._too_late)
        self.flow = self._flow = _Flow(transport, self.loop, self.turns, self._request_timer.extend)
        self._usual_headers, self._end_of_head = list[tuple[bytes, bytes]](), b""
        self._extensions = {WHOLE: self._send_whole, RECEIVED: self._flow.drain}
        self._response_timer = _Timer(self.loop, self._abort)
        self._request_timer.start(self.limits.idle_seconds)

    def data_received(self, data: bytes) -> None:
        stage = self._stage
        super().data_received(data)
        if self._stage != stage:  # mostly a whole request, which needs no timer
            if self._in_headers:
                self._request_timer.start(self.limits.idle_seconds)
            elif self._in_body:
                self._request_timer.start(self.limits.body_seconds)
            elif self._is_idle():  # the end of a body that was refused before
                self._request_timer.start(self.limits.idle_seconds)
            else:
                self._request_timer.stop()
        elif self._in_headers:
            self._n_header_bytes += len(data)
            if self._n_header_bytes > MOST_HEADER_BYTES:
                self._abort()
        elif not self._request_timer.is_running and self._is_idle():  # empty lines, which stop uvicorn's own timer
            self._request_timer.start(self.limits.idle_seconds)

    def _is_idle(self) -> bool:
        return not self._in_headers and not self._in_body and (self.cycle is None or self.cycle.response_complete)

    # ------------------------------------------------------------------ the request

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._stage += 1
        self._in_headers, self._n_header_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._stage += 1
        self._in_headers, self._in_body = False, True
        self.app = self._service
        if len(self.connections) > self.limits.connections:
            many = f"too many connections (the limit is {self.limits.connections}); close some, or retry later."
            self.app = refusal(Unavailable(many))
        super().on_headers_complete()
        self._unanswered.append(self.cycle)
        self.scope["extensions"] = self._extensions  # type: ignore[typeddict-item]

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        if self.cycle.response_complete:  # the body was refused, and the rest of it is read only to be thrown away
            self._n_discarded += len(body)
            if self._n_discarded > HIGH_WATER_LIMIT:
                self._n_discarded = 0
                self._flow.pause_reading()
                self._flow.wait_for_turn(is_kept=False)

    def on_message_complete(self) -> None:
        self._stage += 1
        self._in_body = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not valid HTTP with an error in the usual form.

        If earlier requests are not answered yet, the client would take the error for the answer to the first of them:
        they are answered, and the connection is closed after that.
        """
        if self._in_body or not self._unanswered:
            self._refuse(BadRequest("the request is not valid HTTP/1.1."))
        else:
            self._unanswered[-1].keep_alive = False

    def _too_late(self) -> None:
        if not self._in_body:
            self._abort()
            return
        seconds = self.limits.body_seconds
        self._refuse(RequestTimeout(f"the body did not arrive within {seconds:g} s; send it again."))

    def _refuse(self, error: OnlineHashError) -> None:
        """Answer the request that is being read with an error, and close the connection; no route is involved."""
        if self._in_body and (self.cycle.response_started or len(self._unanswered) > 1):
            self._abort()
            return
        self._give_up()
        refused = refusal(error)
        headers = _lines([*refused.raw_headers, (b"connection", b"close"), _NO_SNIFFING])
        self.transport.write(_FIRST_LINES[error.http_status] + headers + b"\r\n" + bytes(refused.body))
        self.transport.close()

    # ------------------------------------------------------------------ the response

    def _send_whole(self, scope: Scope, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send the response to a request in one write; False if it has to be sent in the usual way."""
        cycle = self._unanswered[0] if self._unanswered else None
        if cycle is None or cycle.scope is not scope or cycle.disconnected or cycle.response_started:
            return False
        if cycle.flow.write_paused or not cycle.keep_alive:
            return False
        if self._usual_headers is not cycle.default_headers:  # of which uvicorn makes others every second
            self._usual_headers = cycle.default_headers
            self._end_of_head = _lines([_NO_SNIFFING, *self._usual_headers]) + b"\r\n"
        self.transport.write(b"".join((_FIRST_LINES[status], _lines(headers), self._end_of_head, body)))
        scope[WHOLE] = status  # type: ignore[literal-required]
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        cycle.on_response()
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._response_timer.start(self.limits.idle_seconds)

    def resume_writing(self) -> None:
        self._response_timer.stop()
        super().resume_writing()

    def on_response_complete(self) -> None:
        self._unanswered.popleft()
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Between two requests: do not wait for a client that has not read the last response."""
        self._abort()

    # ------------------------------------------------------------------ the end

    def connection_lost(self, exc: Exception | None) -> None:
        self._request_timer.cancel()
        self._response_timer.cancel()
        self._give_up()
        self._extensions.clear()  # which refer to this connection
        super().connection_lost(exc)

    def _abort(self) -> None:
        self._give_up()
        self.transport.abort()

    def _give_up(self) -> None:
        """Nobody waits for answers any more; uvicorn tells this to the last request alone."""
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()


_Queue = deque[Callable[[], None]]


class Turns:
    """The connections that wait to read more of a large body; one of them goes on at a time.

    Bodies that are kept and those that are thrown away take turns too, so that who is refused does not hold up others.
    """

    def __init__(self) -> None:
        self._kept: _Queue = deque()
        self._discarded: _Queue = deque()
        self._is_busy = False

    def wait(self, loop: asyncio.AbstractEventLoop, go_on: Callable[[], None], is_kept: bool = True) -> None:
        """Call `go_on` when it is its turn."""
        (self._kept if is_kept else self._discarded).append(go_on)
        if not self._is_busy:
            self._next(loop, self._kept, self._discarded)

    def _next(self, loop: asyncio.AbstractEventLoop, first: _Queue, second: _Queue) -> None:
        """Let one go on: of the first queue, if any waits there; the other queue is the first next time."""
        self._is_busy = bool(first or second)
        if self._is_busy:
            loop.call_later(TURN_SECONDS, self._next, loop, second, first)
            (first or second).popleft()()


class _Flow(FlowControl):
    """uvicorn pauses a connection after each piece of a body that is not small; it goes on when it is its turn.

    `waited` is told for how many seconds that was.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        turns: Turns,
        waited: Callable[[float], None],
    ) -> None:
        super().__init__(transport)
        self._loop, self._turns, self._waited = loop, turns, waited
        self._since: float | None = None

    def resume_reading(self) -> None:
        self.wait_for_turn()

    def wait_for_turn(self, is_kept: bool = True) -> None:
        """Go on reading, not before it is this connection's turn."""
        if self.read_paused and self._since is None:
            self._since = self._loop.time()
            self._turns.wait(self._loop, self._go_on, is_kept)

    def _go_on(self) -> None:
        if self._since is not None:
            self._waited(self._loop.time() - self._since)
            self._since = None
        if not self._transport.is_closing():
            super().resume_reading()


class _Timer:
    """Calls a function unless it is stopped in time.

    It almost always is, so starting and stopping only note the deadline; the event loop's timer looks at it when it
    fires, and is set again if the deadline has moved.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop, self._expired = loop, expired
        self._deadline = self._fires_at = math.inf
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        return self._deadline < math.inf

    def start(self, seconds: float) -> None:
        self._deadline = self._loop.time() + seconds
        if self._deadline < self._fires_at:
            self._set()

    def extend(self, seconds: float) -> None:
        """Move the deadline, if there is one."""
        self._deadline += seconds

    def stop(self) -> None:
        self._deadline = math.inf

    def cancel(self) -> None:
        self._deadline = math.inf
        if self._handle is not None:
            self._handle.cancel()

    def _set(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._fires_at = self._deadline
        self._handle = self._loop.call_at(self._fires_at, self._fire)

    def _fire(self) -> None:
        self._handle, self._fires_at = None, math.inf
        if self._deadline <= self._loop.time():
            self._expired()
        elif self.is_running:
            self._set()


def protocol(limits: Limits) -> type[TimedConnection]:
    """The protocol class for one service."""
    return type("Connection", (TimedConnection,), {"limits": limits, "turns": Turns()})
