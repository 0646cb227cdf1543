"""Whatever is sent to the service, it answers as its OpenAPI document says, never with a fault of its own."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from onlinehash import png
from tests.serve.services import SECONDS, served_with_all
from tests.support import thorough

pytestmark = pytest.mark.long

#: Examples for one operation, of those that should be accepted and of those that should not.
N_EXAMPLES = thorough(6, 25)


@pytest.fixture(scope="module")
def schemathesis() -> Any:
    """The library, which takes a second to load and is therefore not loaded where these tests are left out."""
    import schemathesis

    for kind in ("png", "jpeg", "webp"):  # pictures, and what is none
        schemathesis.openapi.media_type(f"image/{kind}", st.just(png.written(np.eye(8, dtype=np.uint8))) | st.binary())
    return schemathesis


@pytest.mark.thorough
def test_answers_are_those_of_the_document(schemathesis: Any) -> None:
    """Whether values that fit the schema are also accepted depends on what the index holds."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    asked = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
    ]
    limited = settings(
        max_examples=N_EXAMPLES, derandomize=True, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    with served_with_all(body_bytes=100_000, batch=50, features=16, k=100, ids=100) as (_, url):
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        operations = [operation.ok() for operation in schema.get_all_operations()]
        assert len(operations) > 30
        for operation in operations:
            if operation.path == "/events":
                continue  # its answer never ends
            for mode in schemathesis.GenerationMode:

                def check(case: Any) -> None:
                    case.call_and_validate(checks=asked, timeout=SECONDS)

                with suppress(Unsatisfiable):  # where there are no parameters, none can be wrong
                    limited(given(case=operation.as_strategy(generation_mode=mode))(check))()
            assert httpx.get(f"{url}/v1/ready", timeout=SECONDS).status_code == 200, operation.label
