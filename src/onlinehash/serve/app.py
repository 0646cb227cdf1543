"""The ASGI application: routes behind the middleware, and the task that sends events."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager, suppress

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from onlinehash.errors import InvalidInput, OnlineHashError
from onlinehash.serve import errors, logs, openapi
from onlinehash.serve.epochs import AtLeast
from onlinehash.serve.metrics import Metrics
from onlinehash.serve.middleware import Middleware
from onlinehash.serve.responses import ChangeRoute, refusal
from onlinehash.serve.routes import items, learning, model, page, search
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Access
from onlinehash.serve.writer_proxy import WriterProxy

#: Seconds between two events of one kind, and how many of these make a second.
TICK, TICKS = 0.1, 10
#: Where many clients send small changes. The framework around a route takes longer than such a change.
HOT_CHANGES = ("/v1/items", "/v1/items/remove", "/v1/learn", "/v1/learn/clicks")


def make_app(service: Service, access: Access | None = None, writer: str | None = None) -> ASGIApp:
    """The service as an ASGI application; it owns the service and closes it at shutdown.

    `writer` is the socket of the process that makes the changes, for a read-only service.
    """
    metrics = Metrics(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.events.open()
        service.start()
        task = asyncio.create_task(_send_events(service, metrics))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            service.events.close()
            await asyncio.to_thread(service.close)

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False)
    hot = search.hot_routes(service)
    app.router.routes.extend(hot)
    routers = [
        search.routes(service),
        learning.routes(service),
        model.routes(service, metrics),
        page.routes(),
        items.routes(service),
    ]
    for router in routers:
        app.include_router(router)
    every = [*hot, *(route for router in routers for route in router.routes)]
    app.state.routes = [route for route in every if isinstance(route, Route)]  # for those that a method is wrong for
    app.openapi = functools.cache(lambda: openapi.document(app))  # type: ignore[method-assign]
    app.add_exception_handler(OnlineHashError, _refuse)
    app.add_exception_handler(Exception, _refuse_internal)
    app.add_exception_handler(RequestValidationError, _refuse_parameter)
    app.add_exception_handler(HTTPException, _refuse_request)
    inner: ASGIApp = AtLeast(app, service)
    if service.read_only:
        inner = WriterProxy(inner, writer, service.limits, lambda: service.readiness()[1] == 200)
    else:
        hot += _without_framework(routers, HOT_CHANGES)
    return Middleware(inner, hot, service, access or Access(), metrics)


def _without_framework(routers: Iterable[APIRouter], paths: Collection[str]) -> list[Route]:
    """Routes for POST whose functions take the request alone, without the framework."""
    found = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    hot = [route for route in found if route.path in paths and route.methods == {"POST"}]
    return [Route(route.path, ChangeRoute(route.endpoint), methods=["POST"]) for route in hot]


async def _send_events(service: Service, metrics: Metrics) -> None:
    """Send events to listeners; once a second, if anything changed, the statistics too."""
    sent: dict[str, object] = {}
    tick, failed = 0, 0  # this one, and the last one that failed
    while True:
        await asyncio.sleep(TICK)
        tick += 1
        try:
            service.send_events()
            if tick % TICKS:
                continue
            service.count_searches(TICK * TICKS)
            metrics.update()
            if len(service.events):
                stats = await service.stats()
                if stats | {"uptime": 0} != sent:
                    service.events.send("stats", stats)
                sent = stats | {"uptime": 0}
            if failed and tick - failed >= TICKS:
                failed = 0
                logs.service.info("events are sent again")
        except Exception:  # later events must still be sent
            if not failed:  # said once, as the next attempt follows in a tenth of a second
                logs.service.exception("sending events failed")
            failed = tick


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, OnlineHashError)
    return refusal(error)


async def _refuse_internal(_: Request, error: Exception) -> Response:
    return refusal(errors.fault())


async def _refuse_parameter(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"][1:])
    return refusal(InvalidInput(f"{name} is not valid ({first['msg']}), got {first.get('input')!r:.80}."))


def _allowed(request: Request) -> str:
    """The methods of all routes at this path; Starlette names those of the first."""
    routes = [route for route in request.app.state.routes if route.path_regex.match(request.url.path)]
    found = {method for route in routes for method in route.methods or ()}
    return ", ".join(sorted(found - {"HEAD"}))


async def _refuse_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = _allowed(request)
        refused = refusal(errors.MethodNotAllowed(f"{request.method} is not allowed here; use {allowed}."))
        refused.headers["Allow"] = allowed
        return refused
    if error.status_code == 404:
        return refusal(errors.NotFound(f"this service has no route {request.url.path[:80]!r}."))
    return refusal(errors.BadRequest(f"the request could not be read: {error.detail}."))
