"""The memory that the bodies of requests and their responses take, all of them together.

A body is counted as it arrives, before anything is made of it: its bytes, which are there twice when they are joined,
and what a JSON parser makes of them, which can be twenty times as much. The memory is released when the
request is answered. A response is counted until its client has received it. Small bodies and responses are not counted;
those of all connections together are bounded by their number.
"""

from __future__ import annotations

import asyncio

import numpy as np
from starlette.types import Message, Receive, Scope

from onlinehash.serve import allocator
from onlinehash.serve.errors import TooLarge, Unavailable
from onlinehash.serve.settings import Limits

#: Bytes of a body that is small: even as Python's objects, those of a thousand connections leave room for others.
SMALL = 1 << 14

#: Bytes of a response that is small, and of a body or response whose memory is worth giving back to the system.
CONSIDERABLE = 1 << 18

NO_ROOM = "other requests use all the memory reserved for bodies and responses; retry after 1 s."

#: Seconds after a body that was not small until its memory goes back to the system, with that of others meanwhile.
TRIM_SECONDS = 10.0

#: Bytes that a value of a list, an object and a list take at most in Python, for a few bytes of JSON, by the sign that
#: tells of it (NumPy counts signs five times as fast as bytes.count); and what a character may take where a string has
#: one beyond ASCII.
_SIZES, _WIDE = ((ord(","), 64), (ord("{"), 200), (ord("["), 64)), 4


class Memory:
    """The memory that the bodies and responses of all requests use."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.n_bytes = limits, 0
        self._trim: asyncio.TimerHandle | None = None

    def of_request(self, scope: Scope, length: int | None) -> Body | None:
        """The account of a request whose body has this length, or None if it is chunked; None for a small body."""
        if length is not None and length <= SMALL:
            return None
        kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
        body = Body(self, is_json=kind.partition(b";")[0].strip().lower() == b"application/json")
        if length is not None:
            body.check_room(length)
        return body

    def has_room(self, n_bytes: int) -> bool:
        """Whether a response may be sent; its memory is taken already, but not for as long as a slow client reads."""
        return n_bytes <= CONSIDERABLE or self.n_bytes + n_bytes <= self.limits.memory

    def hold(self, n_bytes: int) -> None:
        """Count a response."""
        self.n_bytes += n_bytes

    def release(self, n_bytes: int) -> None:
        """The body of a request, or its response, is not needed any more."""
        self.n_bytes -= n_bytes
        if n_bytes > CONSIDERABLE and self._trim is None:
            self._trim = asyncio.get_running_loop().call_later(TRIM_SECONDS, self._give_back)

    def _give_back(self) -> None:
        self._trim = None
        asyncio.get_running_loop().run_in_executor(None, allocator.trim)


class Body:
    """The memory that the body of one request uses."""

    def __init__(self, memory: Memory, is_json: bool) -> None:
        self._memory, self._is_json = memory, is_json
        self._length = self._parsed = self._taken = 0
        self._is_wide = self._ends_in_backslash = False

    def check_room(self, length: int) -> None:
        """Refuse a body for which there is no room, before any of it is read."""
        self._refuse(2 * length)

    def metered(self, receive: Receive) -> Receive:
        """Receive a body and count it."""

        async def counting() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                self._count(message.get("body", b""))
            return message

        return counting

    def _count(self, part: bytes) -> None:
        self._length += len(part)
        if self._is_json:
            signs = np.frombuffer(part, np.uint8)
            self._parsed += sum(size * int(np.count_nonzero(signs == sign)) for sign, size in _SIZES)
            self._is_wide = (
                self._is_wide
                or not part.isascii()
                or (b"\\" in part and b"\\u" in part)
                or (self._ends_in_backslash and part.startswith(b"u"))
            )
            self._ends_in_backslash = part.endswith(b"\\") if part else self._ends_in_backslash
        needed = 2 * self._length + (self._parsed + _WIDE * self._is_wide * self._length if self._is_json else 0)
        self._refuse(needed)
        self._memory.n_bytes += needed - self._taken
        self._taken = needed

    def _refuse(self, needed: int) -> None:
        limits = self._memory.limits
        if self._is_json and needed > limits.json_memory:
            raise TooLarge(
                f"the JSON body takes {needed:,} bytes of memory or more, and the limit is {limits.json_memory:,}; "
                "send less per request, or send arrays as application/x-npy or application/vnd.onlinehash."
            )
        if needed > 2 * CONSIDERABLE and self._memory.n_bytes + needed - self._taken > limits.memory:
            raise Unavailable(NO_ROOM)

    def end(self) -> None:
        """Release the memory."""
        self._memory.release(self._taken)
        self._taken = 0
