"""The OpenAPI document, generated from the classes that parse request bodies."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

import onlinehash
from onlinehash.serve import results
from onlinehash.serve.bodies import shapes
from onlinehash.serve.requests import KEY_HEADER, LONGEST_KEY
from onlinehash.serve.responses import REPLAYED_HEADER

REF = "#/components/schemas/{name}"

#: The schema of a body, or its media types; that of a response, its media type, or an example.
Body: TypeAlias = type[shapes.Shape] | tuple[str, ...]
Result: TypeAlias = type[msgspec.Struct] | str | dict[str, Any]

#: Every error status, and when it is sent.
PROBLEMS = {
    400: "The body is not what its content type says: not JSON, truncated, not UTF-8, nested too deep.",
    401: "The token is missing or wrong.",
    403: "The host or origin is not allowed, or the service is read-only.",
    404: "No item has this id, or the service has nothing of this kind.",
    405: "The route takes other methods.",
    408: "The body did not arrive in time.",
    409: "There are no hash functions yet, or the idempotency key belongs to another request.",
    413: "The body, its rows, its ids or k exceed the limits that /v1/about lists.",
    415: "The route does not read this content type.",
    422: "The values are not valid; nothing was changed.",
    429: "Too many changes are waiting, or too many requests arrived; Retry-After says when to retry.",
    500: "An internal error; see the service's log.",
    501: "An optional package is not installed on the server.",
    503: "The service is starting or stopping.",
    504: "The answer took longer than the service allows.",
    507: "The disk is full or failing; nothing was changed, unless the message says that it may have been.",
}

DESCRIPTION = (
    "Vectors come in, people say which of them are similar, and the search gets better. Every answer names in "
    "`encoder` the version of the hash functions it is based on. Errors are JSON with `error`, `message`, `expected` "
    "and `got`."
)


def described(
    summary: str, body: Body | None, result: Result, *, status: int = 200, changes: bool = False
) -> dict[str, Any]:
    """The arguments that describe a route to FastAPI; `body` and `result` are schemas, or media types."""
    responses: dict[int | str, dict[str, Any]] = {
        status: {"description": "Done.", "content": _content(result), "headers": {}},
        **{code: _problem(code) for code in PROBLEMS},
    }
    extra: dict[str, Any] = {}
    if changes:
        key = {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"}
        extra["parameters"] = [
            {"name": KEY_HEADER, "in": "header", "required": False, "schema": key,
             "description": "Makes a retry safe: a request with a key that was used is not done again."}
        ]  # fmt: skip
        replayed = {"description": "true if this is the response to an earlier request.", "schema": {"type": "string"}}
        responses[status]["headers"][REPLAYED_HEADER] = replayed
    if body is not None:
        extra["requestBody"] = {"required": True, "content": _body(body)}
    return {"summary": summary, "status_code": status, "responses": responses, "openapi_extra": extra}


def example(document: dict[str, Any]) -> dict[str, Any]:
    """A response that is described by an example only."""
    return {"schema": {"type": "object"}, "example": document}


def _ref(shape: type) -> dict[str, Any]:
    return {"$ref": REF.format(name=shape.__name__)}


def _content(result: Result) -> dict[str, Any]:
    if isinstance(result, str):
        binary = {"type": "string"} if result.startswith("text/") else {"type": "string", "format": "binary"}
        return {result: {"schema": binary}}
    return {"application/json": result if isinstance(result, dict) else {"schema": _ref(result)}}


def _problem(code: int) -> dict[str, Any]:
    version = {"description": "The version of the encoder of the codes.", "schema": {"type": "string"}}
    headers = {"Onlinehash-Encoder": version}
    return {"description": PROBLEMS[code], "content": _content(results.Problem), "headers": headers}


def _body(body: Body) -> dict[str, Any]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    if isinstance(body, tuple):
        return dict.fromkeys(body, binary)
    return {
        kind: {"schema": _ref(body), "example": body.example} if kind == "application/json" else binary
        for kind in body.media
    }


def hot(path: str, summary: str, body: Body, result: Result, text: str) -> dict[str, Any]:
    """The entry of a plain Starlette route."""
    description = described(summary, body, result)
    responses = {str(code): response for code, response in description["responses"].items()}
    operation = {"tags": ["search"], "summary": summary, "description": text, "responses": responses}
    return {
        path: {"post": operation | description["openapi_extra"] | {"operationId": path.strip("/").replace("/", "_")}}
    }


def document(app: FastAPI) -> dict[str, Any]:
    """The whole document, made once."""
    made = get_openapi(title="onlinehash", version=onlinehash.__version__, description=DESCRIPTION, routes=app.routes)
    found = "The nearest items by their vectors, in the order learned from pairs; codes give the candidates."
    made["paths"] |= hot("/v1/find", "Find", shapes.Find, results.Found, found)
    nearest = "The nearest items by Hamming distance, of one query or of several: vectors, items or codes."
    made["paths"] |= hot("/v1/search", "Search", shapes.Query, results.Found, nearest)
    made["paths"] |= hot(
        "/v1/within", "Search within a radius", shapes.Within, results.Found, "All items within this distance."
    )
    components = made.setdefault("components", {})
    components["schemas"] = components.get("schemas", {}) | _schemas()
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{}, {"token": []}]
    return made


def _schemas() -> dict[str, Any]:
    answers = [
        thing for thing in vars(results).values() if isinstance(thing, type) and issubclass(thing, msgspec.Struct)
    ]
    _, schemas = msgspec.json.schema_components(answers, ref_template=REF)
    return schemas | {shape.__name__: shapes.schema(shape) for shape in shapes.SHAPES}
