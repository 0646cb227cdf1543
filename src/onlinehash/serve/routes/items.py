"""Items: add, update, remove, get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Query, Request
from msgspec import UNSET
from numpy.typing import NDArray
from starlette.responses import Response

from onlinehash.index.api import Item
from onlinehash.io import format
from onlinehash.live.texts import with_texts
from onlinehash.serve import results
from onlinehash.serve.bodies import shapes
from onlinehash.serve.bodies.shapes import FORMAT
from onlinehash.serve.errors import NotFound, TooLarge
from onlinehash.serve.openapi import described
from onlinehash.serve.reads import Deadline
from onlinehash.serve.requests import held, id_in_path, parsed, retry_of
from onlinehash.serve.responses import Document, Pieces, answer, done
from onlinehash.serve.routes.search import FEW_IDS, ITEMS_AT_ONCE, read, refuse_wide
from onlinehash.serve.service import Service

MOST_LISTED = 100_000

PathId = Annotated[str, Path(description="The id of the item.")]


def routes(service: Service) -> APIRouter:
    """The routes under /v1/items."""
    router, index = APIRouter(tags=["items"]), service.index

    def got(id: str) -> Item:
        return service.read(lambda: index.get(id_in_path(id, service)))

    def count(_: object) -> Document:
        return {"n": len(index)}

    def added(ids: NDArray[Any]) -> Document:
        return {"ids": ids.tolist(), "n": len(index)}

    @router.post("/v1/items", **described("Add items", shapes.NewItems, results.Added, status=201, changes=True))
    async def add(request: Request) -> Response:
        """Add items. Existing ids are refused; without ids, items are numbered automatically."""
        body, data = await parsed(request, service, shapes.NewItems)
        assert body.vectors is not None  # which were sent, or made of the texts
        payloads = body.payloads if body.texts is None else with_texts(body.payloads, body.texts)
        change = service.changes.add(body.ids, body.vectors, payloads, await retry_of(request, data), held(body, data))
        return await done(change, service, added, 201)

    @router.patch("/v1/items", **described("Update items", shapes.ChangedItems, results.Counted, changes=True))
    async def update(request: Request) -> Response:
        """Change vectors, payloads or both of existing items, which keep their place in the order of insertion."""
        body, data = await parsed(request, service, shapes.ChangedItems)
        change = service.changes.update(
            body.ids, body.vectors, body.payloads, await retry_of(request, data), held(body, data), body.texts
        )
        return await done(change, service, count)

    @router.post("/v1/items/remove", **described("Remove items", shapes.Ids, results.Counted, changes=True))
    async def remove(request: Request) -> Response:
        """Remove existing items."""
        body, data = await parsed(request, service, shapes.Ids)
        return await done(service.changes.remove(body.ids, await retry_of(request, data), len(data)), service, count)

    @router.post("/v1/items/get", **described("Get items", shapes.WantedItems, results.Items))
    async def get_many(request: Request) -> Response:
        """Some items, each thousand as of one moment; with `Accept: application/vnd.onlinehash` in that format."""
        body, _ = await parsed(request, service, shapes.WantedItems)
        most = service.limits.batch
        if body.vectors and len(body.ids) > most:
            raise TooLarge(
                expected=f"at most {most} items with their vectors",
                got=f"{len(body.ids)}",
                hint="request fewer at once",
            )
        if body.vectors:
            refuse_wide(service, len(body.ids))
        as_format = request.headers.get("accept") == FORMAT

        def items(pieces: Pieces, deadline: Deadline) -> Iterator[tuple[Item, orjson.Fragment]]:
            for start in range(0, len(body.ids), ITEMS_AT_ONCE):
                deadline.check()
                for item in index.get_many(body.ids[start : start + ITEMS_AT_ONCE]):
                    yield item, pieces.add(item.payload if as_format else _shown(item, body.vectors))

        def find(deadline: Deadline) -> Response:
            encoder, pieces = index.encoder, Pieces(service.limits.answer_bytes)
            found = items(pieces, deadline)
            if not as_format:
                return answer({"items": [shown for _, shown in found]}, encoder)
            every = [item for item, _ in found]
            content = {
                "ids": [item.id for item in every],
                "payloads": [item.payload for item in every],
                "vectors": [item.vector for item in every] if body.vectors else None,
                "encoder": None if encoder is None else encoder.version,
            }
            return Response(format.to_bytes("answer", content), media_type=FORMAT)

        return await read(service, request.receive, find, len(body.ids) > FEW_IDS)

    @router.get("/v1/items", **described("List ids", None, results.Listed))
    async def ids(
        offset: Annotated[int, Query(ge=0, le=2**63 - 1, description="How many ids to skip.")] = 0,
        limit: Annotated[int, Query(ge=0, le=MOST_LISTED, description="How many ids to return.")] = 1000,
    ) -> Response:
        """Ids in the order of insertion."""
        every = await service.fetched(lambda: index.ids)
        return answer({"ids": every[offset : offset + limit].tolist(), "n": len(every)}, index.encoder)

    @router.get("/v1/items/{id:path}/picture", **described("Get an item's picture", None, "image/png"))
    async def picture(id: PathId) -> Response:
        """The picture of an item, if the service has pictures."""
        if service.pictures is None:
            raise NotFound("this index has no pictures; start the service with --pictures.")
        pictures = service.pictures
        found = await service.fetched(lambda: pictures.picture_of(got(id)))
        if found is None:
            raise NotFound("this item has no picture.")
        data, kind = found
        return Response(data, media_type=kind)

    @router.get("/v1/items/{id:path}", **described("Get an item", None, results.Item))
    async def get(
        id: PathId, vector: Annotated[bool, Query(description="Whether to return the vector.")] = True
    ) -> Response:
        """One item."""
        encoder = index.encoder
        item = await service.fetched(lambda: got(id))
        return answer(_shown(item, vector), encoder)

    @router.post(
        "/v1/items/{id:path}", **described("Add an item", shapes.NewItem, results.Added, status=201, changes=True)
    )
    async def add_one(id: PathId, request: Request) -> Response:
        """Add one item."""
        body, data = await parsed(request, service, shapes.NewItem)
        assert body.vector is not None
        payloads = [body.payload] if body.text is None else with_texts([body.payload], [body.text])
        change = service.changes.add(
            [id_in_path(id, service)], body.vector[None], payloads, await retry_of(request, data), held(body, data)
        )
        return await done(change, service, added, 201)

    @router.patch(
        "/v1/items/{id:path}", **described("Update an item", shapes.ChangedItem, results.Counted, changes=True)
    )
    async def update_one(id: PathId, request: Request) -> Response:
        """Change the vector, the payload, or both."""
        body, data = await parsed(request, service, shapes.ChangedItem)
        vectors = None if body.vector is None else body.vector[None]
        payloads = None if body.payload is UNSET else [body.payload]
        texts, n_bytes = None if body.text is None else [body.text], held(body, data)
        change = service.changes.update(
            [id_in_path(id, service)], vectors, payloads, await retry_of(request, data), n_bytes, texts
        )
        return await done(change, service, count)

    @router.delete("/v1/items/{id:path}", **described("Remove an item", None, results.Counted, changes=True))
    async def remove_one(id: PathId, request: Request) -> Response:
        """Remove one item."""
        return await done(
            service.changes.remove([id_in_path(id, service)], await retry_of(request, b"")), service, count
        )

    return router


def _shown(item: Item, with_vector: bool) -> Document:
    shown: Document = {"id": item.id, "payload": item.payload}
    if with_vector:
        shown["vector"] = item.vector
    return shown
