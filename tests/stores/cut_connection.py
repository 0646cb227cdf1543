"""A way to PostgreSQL that can be cut: before a message of the client is passed on, or before its answer is."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class CutConnection:
    """Passes everything on between clients and a server, until a certain message of a client comes.

    Messages are counted from `arm` on, those of all connections together. What the server does with a
    message whose answer is cut off is done when the client hears that the connection is gone. `is_down` lets nobody
    through, and cuts whoever is. `swallow` lets whoever is there wait for ever.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._lock = threading.Lock()
        self._is_down, self._pairs = False, list[_Pair]()
        self.arm(-1)

    def arm(self, number: int, answered: bool = False, word: bytes = b"") -> None:
        """Cut at this message from now on (-1: never) of those with a word: before it reaches the server, or after."""
        with self._lock:
            self._left, self._answered, self._word, self.is_cut = number, answered, word, False

    @property
    def is_down(self) -> bool:
        return self._is_down

    @is_down.setter
    def is_down(self, value: bool) -> None:
        with self._lock:
            self._is_down, pairs = value, self._pairs
            self._pairs = []
        for pair in pairs if value else []:
            pair.close()

    def swallow(self) -> None:
        """Pass nothing on any more between those who are connected now, and let none of them notice."""
        with self._lock:
            for pair in self._pairs:
                pair.is_swallowed = True

    def __enter__(self) -> Self:
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # which wakes whoever accepts
        self._listening.close()
        self._accepting.join(5)
        self.is_down = True

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # which closing ends it with
            while True:
                client = self._listening.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._server))
                pair = _Pair(client, server)
                with self._lock:
                    self._pairs.append(pair)
                if self.is_down:
                    pair.close()
                    continue
                threading.Thread(target=self._to_server, args=(pair,), daemon=True).start()
                threading.Thread(target=pair.to_client, daemon=True).start()

    def _to_server(self, pair: _Pair) -> None:
        with contextlib.suppress(OSError):
            while data := pair.client.recv(1 << 20):
                if pair.is_swallowed:
                    continue
                with self._lock:
                    counts = self._left >= 0 and self._word in data
                    is_now, self._left = counts and self._left == 0, self._left - counts
                    self.is_cut |= is_now
                if is_now and not self._answered:
                    break
                pair.is_silent = is_now
                pair.server.sendall(data)
        if not pair.is_silent and not pair.is_swallowed:
            pair.close()


class _Pair:
    """Two ends of one connection."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server, self.is_silent, self.is_swallowed = client, server, False, False

    def to_client(self) -> None:
        with contextlib.suppress(OSError):
            while (data := self.server.recv(1 << 20)) and not self.is_silent:
                if not self.is_swallowed:
                    self.client.sendall(data)
        if not self.is_swallowed:
            self.close()

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
