"""Epochs over HTTP: each answer says from which one it is, and a request may ask for one that is recent enough.

A client that has changed something at an epoch, and sends that epoch with its next request, sees its change wherever
the request arrives: the process waits until it is that far, or refuses.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from onlinehash.serve.errors import BadRequest, Behind
from onlinehash.serve.service import Service

#: In requests: the epoch that the answer must have at least.
AT_LEAST_HEADER = b"onlinehash-at-least"

#: Where the scope of a request has the epoch that its answer has at least.
EPOCH = "onlinehash.epoch"


async def wait_for_epoch(scope: Scope, service: Service) -> None:
    """Wait until this process is as far as the request demands, and note in the scope where it is then."""
    asked = next((value for name, value in scope["headers"] if name == AT_LEAST_HEADER), None)
    if asked is not None:
        await _wait(asked, service)
    scope[EPOCH] = service.index.epoch


async def _wait(asked: bytes, service: Service) -> None:
    if not asked.isdigit() or len(asked) > 19:
        raise BadRequest(expected="an epoch as Onlinehash-At-Least, as answers have it", got=f"{asked[:40]!r}")
    epoch, seconds = int(asked), min(service.limits.follow_wait_s, service.limits.request_seconds)
    if not await service.epochs.wait(epoch, seconds):
        raise Behind(f"this process is at epoch {service.index.epoch} and not yet at {epoch}; retry after 1 s.")


class AtLeast:
    """ASGI middleware: requests wait until their process is as far as they demand."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await wait_for_epoch(scope, self._service)
        await self._app(scope, receive, send)
