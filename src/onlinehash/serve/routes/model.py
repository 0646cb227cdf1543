"""The model, statistics, and what else the page or an operator needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

import onlinehash
from onlinehash.errors import NotReady
from onlinehash.io import files
from onlinehash.learners.registry import RECOMMENDED
from onlinehash.serve import results
from onlinehash.serve.bodies import shapes
from onlinehash.serve.errors import NotFound
from onlinehash.serve.metrics import Metrics
from onlinehash.serve.openapi import described, example
from onlinehash.serve.reads import Deadline
from onlinehash.serve.requests import client_of, parsed
from onlinehash.serve.responses import Document, answer
from onlinehash.serve.routes.search import encoded, read, undisturbed
from onlinehash.serve.sample import sample
from onlinehash.serve.service import Service
from onlinehash.serve.simulated_teacher import SimulatedTeacher

MOST_ON_MAP = 2_000


def routes(service: Service, metrics: Metrics) -> APIRouter:
    """The read-only routes."""
    router, index = APIRouter(tags=["model"]), service.index

    @router.get("/v1/model", **described("Get the model", None, results.Model))
    async def model() -> Response:
        """The learner, its parameters, and the encoders that are kept."""
        return answer(await service.fetched(service.model), index.encoder)

    @router.get("/v1/model/download", **described("Download the model", None, "application/octet-stream"))
    async def download(
        what: Annotated[Literal["learner", "encoder"], Query(description="Which of the two.")] = "learner",
    ) -> Response:
        """Download the learner, or the encoder of the codes; `onlinehash.load` reads the file."""

        if what == "learner":
            data = await asyncio.wrap_future(service.writer.submit(lambda: files.to_bytes(index.learner)))
        else:
            encoder = index.encoder
            if encoder is None:
                raise NotReady("the index has no encoder yet; add items.")
            data = await asyncio.to_thread(files.to_bytes, encoder)
        name = {"Content-Disposition": f'attachment; filename="{what}.oh"'}
        return Response(data, headers=name, media_type="application/octet-stream")

    @router.get("/v1/stats", **described("Get statistics", None, example({"n": 1500, "n_pairs": 320})))
    async def stats() -> Response:
        """All statistics."""
        return answer(await service.stats(), index.encoder)

    @router.get(
        "/v1/about", **described("Get a description", None, example({"name": "onlinehash", "method": RECOMMENDED}))
    )
    async def about() -> Response:
        """What is served, and the limits of requests."""
        return answer(service.about() | {"version": onlinehash.__version__}, index.encoder)

    @router.get("/v1/map", **described("Get a sample of codes", None, results.Map))
    async def map(
        request: Request, limit: Annotated[int, Query(ge=1, le=MOST_ON_MAP, description="How many items.")] = 600
    ) -> Response:
        """A sample of items with their codes; it stays the same until items are removed."""

        def draw(deadline: Deadline) -> Response:
            ids = sample(index.ids, limit)
            labels = None
            if service.label is not None:
                payloads = index.payloads_of(ids)
                labels = [None if payload is None else payload.get(service.label) for payload in payloads]
            return encoded(service, ids, deadline, {"ids": ids, "labels": labels})

        return await read(service, request.receive, lambda deadline: undisturbed(lambda: draw(deadline)), True)

    @router.post("/v1/compare", **described("Compare methods", shapes.Comparison, results.ComparedMethods))
    async def compare(request: Request) -> Response:
        """The same query under other methods, which have the same items and have learned the same pairs."""
        body, _ = await parsed(request, service, shapes.Comparison)
        if service.comparison is None:
            raise NotFound("this service does not compare methods; start it with --compare.")

        comparison = service.comparison

        def find(_: Deadline) -> Document:
            vector = body.vector if body.id is None else index.vectors_of([body.id])[0]
            assert vector is not None  # a body has one of both
            return {"methods": comparison.compare(vector, body.k), "exact": comparison.exact()}

        return answer(await read(service, request.receive, find, True), index.encoder)

    @router.get("/v1/teacher", **described("Get the teacher", None, results.Teacher))
    async def teacher() -> Response:
        """The simulated teacher of the demo."""
        return answer(_teacher(service).state(), index.encoder)

    @router.post("/v1/teacher", **described("Control the teacher", shapes.TeacherOrder, results.Teacher))
    async def control(request: Request) -> Response:
        """Start or pause the simulated teacher, or change its speed."""
        body, _ = await parsed(request, service, shapes.TeacherOrder)
        teacher = _teacher(service)
        if body.pairs_per_second is not None:
            teacher.set_rate(body.pairs_per_second)
        if body.running is not None:
            (teacher.resume if body.running else teacher.pause)()
        return answer(teacher.state(), index.encoder)

    @router.get("/v1/health", **described("Check that it is alive", None, results.Status))
    async def health() -> Response:
        """Whether the service is running."""
        return answer({"status": "ok"}, index.encoder)

    @router.get("/v1/ready", **described("Check that it is ready", None, results.Status))
    async def ready() -> Response:
        """Whether it takes requests: not while it stops, is too far behind its writer, or cannot store changes."""
        status, code = service.readiness()
        return answer({"status": status}, index.encoder, code)

    @router.get("/metrics", **described("Get metrics", None, "text/plain"))
    async def prometheus() -> Response:
        """Counts and times for Prometheus."""
        metrics.update()
        return Response(await asyncio.to_thread(metrics.text), media_type="text/plain; version=0.0.4")

    @router.get("/events", **described("Listen to events", None, "text/event-stream"))
    async def events(request: Request) -> Response:
        """Server-sent events: hello, learned, refreshed, items, stats, measured, teacher."""
        teacher = None if service.teacher is None else service.teacher.state()
        hello = await service.stats() | {"teacher": teacher}
        return _Events(await service.events.subscribe(hello, client_of(request.scope)))

    return router


class _Events(StreamingResponse):
    """Events, until the client is gone; its place is free then, not when the garbage collector finds the generator."""

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._events):
            await super().__call__(scope, receive, send)


def _teacher(service: Service) -> SimulatedTeacher:
    if service.teacher is None:
        raise NotFound("this service has no simulated teacher; start it with --demo.")
    return service.teacher
