"""Servers that misbehave as they are told, and what is the same for a live index here and one over there."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from onlinehash.codes import Codes
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.update import Update, Updates


@dataclass
class Asked:
    """A request that a server got."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Reply:
    """What a server is to answer; a status of 0 is to hang up without a word."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)


Answering = Callable[[Asked], Reply]


@contextmanager
def serving(answering: Answering) -> Iterator[str]:
    """A server on loopback that answers as it is told; gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            asked = Asked(self.command, self.path, dict(self.headers), self.rfile.read(length))
            reply = answering(asked)
            if reply.status == 0:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in ({"content-type": "application/json"} | reply.headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = do_PATCH = _answer

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def forwarding(url: str, asked: Asked) -> Reply:
    """What a server further on answers."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request(asked.method, asked.path, asked.body or None, asked.headers)
        answer = connection.getresponse()
        dropped = ("content-length", "transfer-encoding", "connection")
        headers = {name.lower(): value for name, value in answer.getheaders() if name.lower() not in dropped}
        return Reply(answer.status, answer.read(), headers)
    finally:
        connection.close()


# ------------------------------------------------------------------ sameness


def plain(value: Any) -> Any:
    """Anything that an index gives, as plain values that are equal exactly when types, shapes and bits are."""
    if isinstance(value, np.ndarray):
        kept = value.tolist() if value.dtype == object else value.tobytes()
        return "array", str(value.dtype), value.shape, kept
    if isinstance(value, Codes):
        return "codes", value.n_bits, value.n_models, len(value), value.planes.tobytes()
    if isinstance(value, Encoder):
        return "encoder", repr(value), value.fusion, plain(value.weights), plain(value.thresholds)
    if isinstance(value, Update):
        return (
            "update",
            type(value.loss),
            value.loss,
            type(value.step),
            plain(value.step),
            plain(value.bits),
            value.pending,
        )
    if isinstance(value, Updates):
        return "updates", plain(value.loss), plain(value.step), plain(value.changed()), [plain(one) for one in value]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        if "encoder" in value._fields:  # a version, of which the service keeps the encoder
            return "version", value.serial, value.n_pairs, value.encoder.version
        if "version" in value._fields:
            return "version", value.serial, value.n_pairs, value.version
        return type(value).__name__, [plain(one) for one in value]
    if isinstance(value, list | tuple):
        return type(value).__name__, [plain(one) for one in value]
    return type(value).__name__, value


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or the class and the message of what it raises.

    A client does not know how many codes there are that others are to be as wide as.
    """
    try:
        return plain(call())
    except Exception as error:
        return "raised", type(error).__name__, re.sub(r"Codes\(n=\d+", "Codes(n=*", str(error))
