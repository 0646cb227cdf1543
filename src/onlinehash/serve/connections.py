"""uvicorn's connections, with a limit on how long a client may take to ask and to take its answer.

uvicorn itself closes a connection that is idle between two requests, but waits for ever for the first one, for the end
of one that was begun, and for a client that does not read.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from onlinehash.errors import OnlineHashError
from onlinehash.serve.errors import BadRequest, RequestTimeout, Unavailable
from onlinehash.serve.responses import WHOLE, refusal
from onlinehash.serve.settings import Limits

#: Bytes of a request line and headers, where they come in several pieces.
MOST_HEADER_BYTES = 1 << 17

_SUCCESS = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n"
_WORDS = {400: b"Bad Request", 408: b"Request Timeout"}


class PatientConnection(HttpToolsProtocol):
    """Closes when headers or a body do not come in time, or an answer is not taken; refuses where too many are open."""

    limits = Limits()
    _in_headers = _in_body = False
    _stage = _n_header_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._service = self.app
        self._asking, self._answering = _Patience(self.loop, self._too_late), _Patience(self.loop, self._give_up)
        self._asking.begin(self.limits.idle_seconds)

    def data_received(self, data: bytes) -> None:
        stage = self._stage
        super().data_received(data)
        if self._stage != stage:  # mostly a whole request, for which no clock need run
            if self._in_headers:
                self._asking.begin(self.limits.idle_seconds)
            elif self._in_body:
                self._asking.begin(self.limits.body_seconds)
            else:
                self._asking.end()
        elif self._in_headers:
            self._n_header_bytes += len(data)
            if self._n_header_bytes > MOST_HEADER_BYTES:
                self._give_up()
        elif not self._asking.is_on and self._is_idle():  # empty lines, which have stopped uvicorn's own clock
            self._asking.begin(self.limits.idle_seconds)

    def _is_idle(self) -> bool:
        return not self._in_headers and not self._in_body and (self.cycle is None or self.cycle.response_complete)

    # ------------------------------------------------------------------ a request comes

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
        self.scope["extensions"] = {WHOLE: partial(self._send_whole, self.cycle)}  # type: ignore[dict-item]

    def on_message_complete(self) -> None:
        self._stage += 1
        self._in_body = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not valid HTTP with an error like any other."""
        self._refuse(BadRequest("the request is not valid HTTP/1.1."))

    def _too_late(self) -> None:
        if not self._in_body or self.cycle.response_started or self.pipeline:  # an earlier request has no answer yet
            self._give_up()
            return
        seconds = self.limits.body_seconds
        self._refuse(RequestTimeout(f"the body did not arrive within {seconds:g} s; send it again."))

    def _refuse(self, error: OnlineHashError) -> None:
        """Send an error and close the connection, without going through a route."""
        refused = refusal(error)
        headers = [*refused.raw_headers, (b"connection", b"close"), (b"x-content-type-options", b"nosniff")]
        first = b"HTTP/1.1 %d %s" % (error.http_status, _WORDS[error.http_status])
        lines = [first, *(name + b": " + value for name, value in headers)]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + bytes(refused.body))
        self.transport.close()

    # ------------------------------------------------------------------ an answer goes

    def _send_whole(self, cycle: RequestResponseCycle, body: bytes) -> bool:
        """A success in JSON, by one write instead of two messages; False where it must take the usual way."""
        if cycle.flow.write_paused or cycle.disconnected or cycle.response_started or not cycle.keep_alive:
            return False
        headers = b"".join([b"%s: %s\r\n" % header for header in cycle.default_headers])
        self.transport.write(b"%s%scontent-length: %d\r\n\r\n%s" % (_SUCCESS, headers, len(body), body))
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        cycle.on_response()
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._answering.begin(self.limits.idle_seconds)

    def resume_writing(self) -> None:
        self._answering.end()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Between two requests; what the client has not taken of the last answer by now is not waited for."""
        self._give_up()

    # ------------------------------------------------------------------ the end

    def connection_lost(self, exc: Exception | None) -> None:
        self._asking.forget()
        self._answering.forget()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        self.transport.abort()


class _Patience:
    """Something must happen in time. It mostly does, so the clock is not wound for each time anew: it looks, when it
    rings, whether it was meant."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lose: Any) -> None:
        self._loop, self._lose = loop, lose
        self._until = self._rings = math.inf
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        return self._until < math.inf

    def begin(self, seconds: float) -> None:
        self._until = self._loop.time() + seconds
        if self._until < self._rings:
            self._wind()

    def end(self) -> None:
        self._until = math.inf

    def forget(self) -> None:
        self._until = math.inf
        if self._timer is not None:
            self._timer.cancel()

    def _wind(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings = self._until
        self._timer = self._loop.call_at(self._rings, self._ring)

    def _ring(self) -> None:
        self._timer, self._rings = None, math.inf
        if self._until <= self._loop.time():
            self._lose()
        elif self.is_on:
            self._wind()


def protocol(limits: Limits) -> type[PatientConnection]:
    """The class for one service."""
    return type("Connection", (PatientConnection,), {"limits": limits})
