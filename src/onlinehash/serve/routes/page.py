"""The page: a few files of this package, read once; no path from a request is ever opened."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import Response

from onlinehash.serve.errors import NotFound

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def routes() -> APIRouter:
    """`/` and `/page/NAME`."""
    router, found = APIRouter(include_in_schema=False), _read()

    @router.get("/")
    async def page() -> Response:
        return found["index.html"]

    @router.get("/page/{name}")
    async def file(name: str) -> Response:
        if name not in found:
            raise NotFound(f"the page has no file {name[:80]!r}.")
        return found[name]

    @router.get("/favicon.ico")
    async def icon() -> Response:
        return found["icon.svg"]

    return router


def _read() -> dict[str, Response]:
    room = files("onlinehash")
    paths = [*room.joinpath("serve", "page").iterdir(), room.joinpath("look.css")]
    return {
        path.name: Response(path.read_bytes(), media_type=KINDS[suffix])
        for path in paths
        if (suffix := "." + path.name.rpartition(".")[2]) in KINDS
    }
