"""Learning from pairs, labels and clicks; refreshes and rollback."""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from onlinehash import checks, streams
from onlinehash.errors import NotReady
from onlinehash.index.api import Id
from onlinehash.learners.update import Updates
from onlinehash.serve import logs, results
from onlinehash.serve.bodies import shapes
from onlinehash.serve.changes import Done
from onlinehash.serve.errors import Busy, Unavailable
from onlinehash.serve.openapi import described
from onlinehash.serve.requests import held, parsed, retry_of
from onlinehash.serve.responses import REPLAYED_HEADER, Document, answer, done
from onlinehash.serve.routes.search import refuse_wide
from onlinehash.serve.service import Service

#: Seconds between two attempts to refresh after a change.
PAUSE = 0.01


def routes(service: Service) -> APIRouter:
    """The routes that teach."""
    router, index = APIRouter(tags=["learning"]), service.index

    def learned(updates: Updates, change: Done[Updates]) -> Document:
        return {
            "loss": updates.loss,
            "step": updates.step,
            "bits": updates.all_bits(),
            "pending": updates.pending,
            "waiting": change.n_waiting,
            "ranking_pairs": change.n_ranking,
            "n_pairs": service.n_pairs,
        }

    def taught(_: object) -> Document:
        return {"n_pairs": service.n_pairs}

    @router.post("/v1/learn", **described("Learn pairs", shapes.Lesson, results.Learned, changes=True))
    async def learn(request: Request) -> Response:
        """Learn pairs of vectors or of items, and whether they are similar; the response has an entry for each pair."""
        body, data = await parsed(request, service, shapes.Lesson)
        retry = await retry_of(request, data)
        if body.a is not None and body.b is not None:
            A, B = (np.atleast_2d(side) for side in (body.a, body.b))
            change = service.changes.learn(A, B, body.similar, body.weight, retry, held(body, data))
        elif body.a is not None:
            vectors = np.atleast_2d(body.a)
            refuse_wide(service, len(vectors))
            change = service.changes.learn_with_items(
                vectors, _ids(body.id_b), body.similar, body.weight, retry, held(body, data)
            )
        else:
            refuse_wide(service, 2 * len(_ids(body.id_a)))
            change = service.changes.learn_by_id(
                _ids(body.id_a), _ids(body.id_b), body.similar, body.weight, retry, len(data)
            )
        if body.refresh:
            await asyncio.shield(asyncio.wrap_future(change))
            await refreshed_when_there_is_room()
        return await done(change, service, lambda updates: learned(updates, change.result()))

    @router.post("/v1/learn/labelled", **described("Learn labels", shapes.Labelled, results.Taught, changes=True))
    async def labelled(request: Request) -> Response:
        """Learn from labelled points, for learners that take them."""
        body, data = await parsed(request, service, shapes.Labelled)
        vectors = body.vectors
        assert vectors is not None  # which were sent, or made of the texts
        change = service.changes.submit(
            lambda index: index.learn_labelled(vectors, body.y), await retry_of(request, data), held(body, data)
        )
        return await done(change, service, taught)

    @router.post(
        "/v1/learn/clicks", **described("Learn clicks", shapes.Clicks, results.LearnedFromClicks, changes=True)
    )
    async def clicks(request: Request) -> Response:
        """Learn from clicks in a list of results: clicked ones are similar to the query, skipped ones are not."""
        body, data = await parsed(request, service, shapes.Clicks)
        pairs = streams.from_clicks(
            body.query, body.shown, body.clicked, skip_weight=body.skip_weight, position_bias=body.position_bias
        )
        shown = [list(pair) for pair in zip(pairs.ids_a, pairs.ids_b, pairs.similar, pairs.weight, strict=True)]
        if not shown:
            nothing: Document = {name: [] for name in ("loss", "step", "bits", "pending", "pairs")}
            taught = index.taught
            counts = {"waiting": taught.n_waiting, "ranking_pairs": taught.n_ranking, "n_pairs": taught.n_pairs}
            return answer(nothing | counts, index.encoder)
        refuse_wide(service, 2 * len(shown))
        retry = await retry_of(request, data)
        if body.vector is None:
            ids_a = cast(list[Id], pairs.ids_a)  # the query is an item
            change = service.changes.learn_by_id(ids_a, pairs.ids_b, pairs.similar, pairs.weight, retry, len(data))
        else:
            if service.n_features:
                checks.width(body.vector[None], service.n_features, "this index", "vector")
            vectors = np.broadcast_to(body.vector, (len(pairs.ids_b), len(body.vector)))  # one vector, not many
            change = service.changes.learn_with_items(
                vectors, pairs.ids_b, pairs.similar, pairs.weight, retry, held(body, data)
            )
        return await done(change, service, lambda updates: learned(updates, change.result()) | {"pairs": shown})

    @router.post("/v1/flush", **described("Flush", None, results.Taught, changes=True))
    async def flush(request: Request) -> Response:
        """Start a feature map that is still collecting anchors, and learn an unfinished chunk."""
        return await done(
            service.changes.submit(lambda index: index.flush(), await retry_of(request, b"")), service, taught
        )

    # ------------------------------------------------------------------------------------------------ codes

    async def refreshed_when_there_is_room() -> None:
        """Refresh after a change that was made; errors must not make the client repeat the change."""
        try:
            while True:
                with contextlib.suppress(Busy):
                    return await service.refreshes.wait()
                await asyncio.sleep(PAUSE)
        except (NotReady, Unavailable):
            pass  # the encoder in the answer is the one there was
        except Exception:
            logs.service.exception("a refresh after learning failed")

    async def state(headers: dict[str, str] | None = None) -> Response:
        bits, pairs = await service.waited(service.behind)
        behind = {"bits": bits, "pairs": pairs}
        document: Document = {"serial": index.serial, "behind": behind}
        return answer(document, index.encoder, headers=headers, epoch=index.head_epoch)

    @router.post("/v1/refresh", **described("Refresh", shapes.RefreshOrder, results.Refreshed))
    async def refresh(request: Request) -> Response:
        """Re-encode all items with the learner's current hash functions. Searches and changes continue meanwhile."""
        body, _ = await parsed(request, service, shapes.RefreshOrder)
        await (service.refreshes.wait() if body.wait else service.refreshes.begin())
        return await state()

    @router.post("/v1/refresh/cancel", **described("Cancel a refresh", None, results.Refreshed))
    async def cancel() -> Response:
        """Cancel a running refresh, as if it had never begun."""
        await service.waited(index.cancel)
        return await state()

    @router.post("/v1/rollback", **described("Roll back", shapes.Rollback, results.Refreshed, changes=True))
    async def roll_back(request: Request) -> Response:
        """Return to an older encoder: the previous one, or the one with a serial number."""
        body, data = await parsed(request, service, shapes.Rollback)
        change = service.changes.submit(lambda index: index.roll_back(body.serial), await retry_of(request, data))
        result = await asyncio.shield(asyncio.wrap_future(change))
        return await state({REPLAYED_HEADER: "true"} if result.replayed else None)

    return router


def _ids(given: Id | list[Id] | None) -> list[Id]:
    return [given] if isinstance(given, int | str) else given or []
