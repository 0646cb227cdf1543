"""uvicorn's connections, with a limit on how long a client may take to ask and to take its answer.

uvicorn itself closes a connection that is idle between two requests, but waits for ever for the first one, for the end
of one that was begun, and for a client that does not read.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from onlinehash.serve.answers import refusal
from onlinehash.serve.errors import BadRequest

#: Bytes of a request line and headers, where they come in several pieces.
MOST_HEADER_BYTES = 1 << 17

#: Seconds after which a body's time is up here; the route says so before, if it reads the body.
AFTER = 1.0


class PatientConnection(HttpToolsProtocol):
    """Closes when headers or a body do not come in time, or an answer is not taken; `seconds` each."""

    header_seconds = 30.0
    body_seconds = 30.0
    _asking: asyncio.TimerHandle | None = None
    _answering: asyncio.TimerHandle | None = None
    _in_headers = _in_body = False
    _n_header_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect(self.header_seconds)

    def data_received(self, data: bytes) -> None:
        in_headers = self._in_headers
        super().data_received(data)
        if in_headers and self._in_headers:
            self._n_header_bytes += len(data)
            if self._n_header_bytes > MOST_HEADER_BYTES:
                self._give_up()
        elif self._asking is None and self._is_idle():  # empty lines, which have stopped uvicorn's own clock
            self._expect(self.header_seconds)

    def _is_idle(self) -> bool:
        return not self._in_headers and not self._in_body and (self.cycle is None or self.cycle.response_complete)

    # ------------------------------------------------------------------ a request comes

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers, self._n_header_bytes = True, 0
        self._expect(self.header_seconds)

    def on_headers_complete(self) -> None:
        self._in_headers, self._in_body = False, True
        self._expect(self.body_seconds + AFTER)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        _stop(self._asking)
        self._asking = None
        super().on_message_complete()

    def _expect(self, seconds: float) -> None:
        _stop(self._asking)
        self._asking = self.loop.call_later(seconds, self._give_up)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is told so as every error is told."""
        refused = refusal(BadRequest("expected a request in HTTP/1.1, got something else."))
        headers = [*refused.raw_headers, (b"connection", b"close"), (b"x-content-type-options", b"nosniff")]
        lines = [b"HTTP/1.1 400 Bad Request", *(name + b": " + value for name, value in headers)]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + bytes(refused.body))
        self.transport.close()

    # ------------------------------------------------------------------ an answer goes

    def pause_writing(self) -> None:
        super().pause_writing()
        _stop(self._answering)
        self._answering = self.loop.call_later(self.header_seconds, self._give_up)

    def resume_writing(self) -> None:
        _stop(self._answering)
        self._answering = None
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Between two requests; what the client has not taken of the last answer by now is not waited for."""
        self._give_up()

    # ------------------------------------------------------------------ the end

    def connection_lost(self, exc: Exception | None) -> None:
        _stop(self._asking)
        _stop(self._answering)
        super().connection_lost(exc)

    def _give_up(self) -> None:
        self.transport.abort()


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def protocol(header_seconds: float, body_seconds: float) -> type[PatientConnection]:
    """The class for one service."""
    return type("Connection", (PatientConnection,), {"header_seconds": header_seconds, "body_seconds": body_seconds})
