"""Whatever is sent to the service, it answers as its OpenAPI document says, never with a fault of its own, and what it
refuses changes nothing."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from onlinehash import png
from onlinehash.io import format
from onlinehash.serve.bodies import shapes
from onlinehash.serve.service import Service
from tests.serve.services import IDS, SECONDS, everything, rows, served_with_all
from tests.support import thorough

pytestmark = pytest.mark.long

#: Every operation of the service but GET /events, whose answer never ends.
OPERATIONS = [
    "GET /metrics", "GET /v1/about", "GET /v1/health", "GET /v1/items", "GET /v1/items/{id}",
    "GET /v1/items/{id}/picture", "GET /v1/map", "GET /v1/model", "GET /v1/model/download", "GET /v1/ready",
    "GET /v1/stats", "GET /v1/teacher", "DELETE /v1/items/{id}", "PATCH /v1/items", "PATCH /v1/items/{id}",
    "POST /v1/codes", "POST /v1/compare", "POST /v1/find", "POST /v1/flush", "POST /v1/items",
    "POST /v1/items/get", "POST /v1/items/remove", "POST /v1/items/{id}", "POST /v1/learn", "POST /v1/learn/clicks",
    "POST /v1/learn/labelled", "POST /v1/refresh", "POST /v1/refresh/cancel", "POST /v1/rerank", "POST /v1/rollback",
    "POST /v1/search", "POST /v1/search/image", "POST /v1/teacher", "POST /v1/within",
]  # fmt: skip

#: Examples for one operation, of those that should be accepted and of those that should not.
N_EXAMPLES = thorough(6, 25)

#: What the routes that read a body read it into.
BODIES: dict[str, type[shapes.Shape]] = {
    "POST /v1/items": shapes.NewItems,
    "PATCH /v1/items": shapes.ChangedItems,
    "POST /v1/items/remove": shapes.Ids,
    "POST /v1/items/get": shapes.WantedItems,
    "POST /v1/items/99": shapes.NewItem,
    "PATCH /v1/items/1": shapes.ChangedItem,
    "POST /v1/find": shapes.Find,
    "POST /v1/search": shapes.Query,
    "POST /v1/within": shapes.Within,
    "POST /v1/rerank": shapes.Rerank,
    "POST /v1/codes": shapes.WantedCodes,
    "POST /v1/compare": shapes.Comparison,
    "POST /v1/learn": shapes.Lesson,
    "POST /v1/learn/labelled": shapes.Labelled,
    "POST /v1/learn/clicks": shapes.Clicks,
    "POST /v1/refresh": shapes.RefreshOrder,
    "POST /v1/rollback": shapes.Rollback,
    "POST /v1/teacher": shapes.TeacherOrder,
}
MOST_BYTES = 100_000


@pytest.fixture(scope="module")
def schemathesis() -> Any:
    """The library, which takes a second to load and is therefore not loaded where these tests are left out."""
    import schemathesis

    for kind in ("png", "jpeg", "webp"):  # pictures, and what is none
        schemathesis.openapi.media_type(f"image/{kind}", st.just(png.written(np.eye(8, dtype=np.uint8))) | st.binary())
    return schemathesis


@pytest.fixture(scope="module")
def checks(schemathesis: Any) -> list[Any]:
    """What is asked of every answer. Whether values that fit the schema are also accepted depends on what the index
    holds."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    return [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
    ]


@pytest.fixture(scope="module")
def service_and_url() -> Iterator[tuple[Service, str]]:
    with served_with_all(body_bytes=MOST_BYTES, batch=50, features=16, k=100, ids=100) as found:
        yield found


@pytest.fixture(scope="module")
def schema(schemathesis: Any, service_and_url: tuple[Service, str]) -> Any:
    return schemathesis.openapi.from_url(service_and_url[1] + "/openapi.json")


def test_every_operation_is_tried(schema: Any) -> None:
    found = {operation.ok().label.replace("{id:path}", "{id}") for operation in schema.get_all_operations()}
    assert found == {*OPERATIONS, "GET /events"}


@pytest.mark.thorough
@pytest.mark.parametrize("label", OPERATIONS)
def test_answers_are_those_of_the_document(
    schemathesis: Any, schema: Any, checks: list[Any], service_and_url: tuple[Service, str], label: str
) -> None:
    method, path = label.split()
    operation = schema[path][method]

    def check(case: Any) -> None:
        case.call_and_validate(checks=checks, timeout=SECONDS)

    for mode in schemathesis.GenerationMode:
        strategy = operation.as_strategy(generation_mode=mode)
        limited = settings(
            max_examples=N_EXAMPLES, derandomize=True, deadline=None, database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        with suppress(Unsatisfiable):  # where there are no parameters, none can be wrong
            limited(given(case=strategy)(check))()
    assert httpx.get(service_and_url[1] + "/v1/ready", timeout=SECONDS).status_code == 200


@pytest.mark.parametrize("label", BODIES)
def test_examples_are_accepted(schemathesis: Any, label: str) -> None:
    method, path = label.split()
    with served_with_all() as (_, url), httpx.Client(base_url=url, timeout=60) as client:
        schema = schemathesis.openapi.from_url(url + "/openapi.json")
        client.post("/v1/learn", json={"a": [3, -1], "b": [-1, 2], "similar": True, "refresh": True})  # to roll back
        example = BODIES[label].example
        if label == "POST /v1/items":
            client.post("/v1/items/remove", json={"ids": example["ids"]})
        answered = client.request(method, path, json=example)
        assert answered.status_code in (200, 201), answered.text
        template = "/v1/items/{id}" if path[-1].isdigit() else path
        schema[template][method].validate_response(answered)


# ------------------------------------------------------------------ hostile bodies


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H" if version[0] == 1 else "<I", len(text)) + text + data


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("vectors.npy", content)
    return file.getvalue()


def arrow(compression: str | None = None, n: int = 2) -> bytes:
    import pyarrow as pa

    table = pa.table({"vectors": pa.array([[0.0, 0.0]] * n, pa.list_(pa.float32(), 2))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def hostile_json(shape: type[shapes.Shape]) -> dict[str, bytes]:
    """Bodies that say they are JSON."""
    sound = json.dumps(shape.example).encode()
    name = next(iter(shape.example))
    return {
        "cut": sound[:-2],
        "more": sound + b"]",
        "nothing but a list": b"[1, 2]",
        "null": b"null",
        "deep": b"[" * 40_000,
        "deep inside": b'{"%s": %s' % (name.encode(), b'{"a":' * 10_000),
        "not UTF-8": sound.replace(b'"', b'"\xff', 1),
        "zeros": bytes(1000),
        "unknown field": json.dumps(shape.example | {"surprise": 1}).encode(),
        "twice": b'{"%s": 1, %s' % (name.encode(), sound[1:]),
        "wrong type": json.dumps(shape.example | {name: [{"a": 1}]}).encode(),
        "NaN": sound[:-1] + b', "weight": NaN}',
        "pickle": b"\x80\x04\x95\x15\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    }


def hostile_numbers(shape: type[shapes.Shape]) -> dict[str, bytes]:
    """Sound JSON with numbers that cannot be used."""
    found = {}
    for number in ("1e999", "-1e999", "1e308", "1" + "0" * 5000, "NaN", "Infinity"):
        for name, value in shape.example.items():
            text = json.dumps(value)
            if name in ("vector", "vectors", "a", "b"):
                found[f"{name} {number[:9]}"] = json.dumps(shape.example).replace(text, text.replace("0.9", number))
            elif name in ("ids", "id", "shown", "clicked", "query", "id_a", "id_b"):
                found[f"{name} {number[:9]}"] = json.dumps(shape.example).replace(text, f"[{number}]", 1)
    return {name: text.encode() for name, text in found.items() if text != json.dumps(shape.example)}


BINARY = {
    "npy of terabytes": (shapes.NPY, npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000), }")),
    "npy of more than there is": (shapes.NPY, npy("{'descr': '<f8', 'fortran_order': False, 'shape': (9, 2), }")),
    "npy of objects": (shapes.NPY, npy("{'descr': '|O', 'fortran_order': False, 'shape': (1, 2), }", b"\x80\x04N.")),
    "npy of nothing wide": (shapes.NPY, npy("{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000, 0), }")),
    "npy header without end": (shapes.NPY, b"\x93NUMPY\x02\x00\xff\xff\xff\xff{"),
    "npy header that is code": (shapes.NPY, npy("__import__('os').system('true')")),
    "npy with NaN": (shapes.NPY, npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }",
                                     np.array([1, np.nan], "<f4").tobytes())),
    "npz": (shapes.NPY, zipped(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }", bytes(8)))),
    "zip of zeros": (shapes.NPY, zipped(bytes(10_000_000))),
    "empty npy": (shapes.NPY, b""),
    "Arrow cut": (shapes.ARROW, arrow()[:-60]),
    "Arrow compressed": (shapes.ARROW, arrow("zstd", 10_000)),
    "Arrow of too many rows": (shapes.ARROW, arrow(None, 10_000)),
    "Arrow header of gigabytes": (shapes.ARROW, struct.pack("<II", 0xFFFFFFFF, 0x7FFFFFFF) + bytes(100)),
    "empty Arrow": (shapes.ARROW, b""),
    "Arrow of JSON": (shapes.ARROW, b'{"vectors": [[1, 2]]}'),
    "format of another kind": (shapes.FORMAT, format.to_bytes("learner", {"vectors": rows(2)})),
    "format cut": (shapes.FORMAT, format.to_bytes("body", {"vectors": rows(2)})[:-3]),
    "format header of exabytes": (shapes.FORMAT, struct.pack("<Q", 2**63) + b"{}"),
    "format of NaN": (shapes.FORMAT, format.to_bytes("body", {"vectors": rows(2) * np.nan, "ids": None})),
    "empty format": (shapes.FORMAT, b""),
    "plain text": ("text/plain", b"hello"),
    "form": ("application/x-www-form-urlencoded", b"vectors=1"),
    "multipart": ("multipart/form-data; boundary=x", b"--x\r\n\r\n1\r\n--x--\r\n"),
    "no content type": ("", b'{"wait": true}'),
    "strange content type": ("application/json\t;;;=,", b"\x00"),
}  # fmt: skip


@pytest.mark.parametrize("label", BODIES)
def test_hostile_bodies_are_refused_and_change_nothing(label: str) -> None:
    method, path = label.split()
    shape = BODIES[label]
    bodies = {name: (shapes.JSON, data) for name, data in (hostile_json(shape) | hostile_numbers(shape)).items()}
    if not shape.may_be_empty:
        bodies["empty"] = (shapes.JSON, b"")
    with served_with_all(body_bytes=MOST_BYTES, batch=50, features=16) as (service, url):
        before = everything(service.index)
        with httpx.Client(base_url=url, timeout=20) as client:
            for number, (name, (kind, data)) in enumerate((bodies | BINARY).items()):
                if not data and shape.may_be_empty:
                    continue
                headers = {"Idempotency-Key": f"key-{number}"} | ({"Content-Type": kind} if kind else {})
                answered = client.request(method, path, content=data, headers=headers)
                assert 400 <= answered.status_code < 500, (name, answered.status_code, answered.text)
                problem = answered.json()
                assert set(problem) == {"error", "message", "expected", "got"}
                assert len(problem["message"]) < 1000
                assert "\n" not in problem["message"]
                assert service.index.receipt(f"key-{number}") is None, name
            too_long = b" " * (MOST_BYTES + 1)
            assert (
                client.request(method, path, content=too_long, headers={"Content-Type": shapes.JSON}).status_code == 413
            )
            in_pieces = (too_long[i : i + 999] for i in range(0, len(too_long), 999))
            answered = client.request(method, path, content=in_pieces, headers={"Content-Type": shapes.JSON})
            assert answered.status_code == 413
            assert client.get("/v1/ready").status_code == 200
        assert everything(service.index) == before
        assert len(service.index) == len(IDS)
        assert service.changes.activity.totals == (0, 0)


def test_a_short_body_in_pieces_is_measured_too() -> None:
    with served_with_all(body_bytes=1000) as (_, url):
        answered = httpx.post(
            url + "/v1/search",
            content=iter([b" " * 1001]),
            headers={"Content-Type": "application/json"},
            timeout=SECONDS,
        )
        assert answered.status_code == 413


def test_payloads_that_json_can_hold_come_back() -> None:
    payload = {"large": 2**70, "deep": [[[{}]]], "empty": {}, "text": "\x00\u2028</script>", "float": 1e300}
    with served_with_all() as (_, url), httpx.Client(base_url=url, timeout=60) as client:
        assert client.post("/v1/items/50", json={"vector": [1, 2], "payload": payload}).status_code == 201
        assert client.get("/v1/items/50").json()["payload"] == payload
        assert client.post("/v1/search", json={"id": 50, "k": 1, "payloads": True}).status_code == 200


@pytest.mark.parametrize("origin", ["http://[::1", "null", "//", "http://127.0.0.1.evil.example", "file:///"])
def test_origins_that_are_no_addresses_are_refused(origin: str) -> None:
    with served_with_all() as (_, url):
        assert httpx.post(url + "/v1/flush", headers={"Origin": origin}, timeout=SECONDS).status_code == 403


@pytest.mark.parametrize("ids", [[1, [2]], [[1], 2], [1, "2"], [[1], [2, 3]], [[[1]]], [None], [2**70]])
def test_hits_to_rerank_are_of_one_kind(ids: list[Any]) -> None:
    with served_with_all() as (_, url):
        answered = httpx.post(url + "/v1/rerank", json={"vector": [1, 2], "ids": ids}, timeout=SECONDS)
        assert answered.status_code in (404, 422), answered.text


@pytest.mark.parametrize("text", ["01", "-0", "+1", "1.0", "0x1", " 1", "1%20", "%D9%A1", "9" * 30, ""])
def test_an_id_in_a_path_is_written_in_one_way(text: str) -> None:
    with served_with_all() as (service, url), httpx.Client(base_url=url, timeout=60) as client:
        assert client.get(f"/v1/items/{text}").status_code in (404, 422)
        assert client.delete(f"/v1/items/{text}").status_code in (404, 405, 422)
        assert len(service.index) == len(IDS)
