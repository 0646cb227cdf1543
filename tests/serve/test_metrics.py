"""Numbers for Prometheus: its own parser reads them, and they count what happened."""

from __future__ import annotations

import math

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.serve.services import IDS, SECONDS, post_json, served, until

Sample = tuple[str, frozenset[tuple[str, str]]]


def samples(url: str) -> dict[Sample, float]:
    answered = httpx.get(url + "/metrics", timeout=SECONDS)
    assert answered.status_code == 200
    assert answered.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(answered.text))
    assert all(family.documentation for family in families)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def n_requests(found: dict[Sample, float], **labels: str) -> float:
    return sum(
        value
        for (name, given), value in found.items()
        if name == "onlinehash_requests_total" and frozenset(labels.items()) <= given
    )


def test_requests_are_counted_by_route_method_and_status() -> None:
    with served() as (_, url):
        for _ in range(3):
            post_json(url, "/v1/search", {"vector": [1, 2]})
        post_json(url, "/v1/search", {"vector": [1, 2, 3]})
        post_json(url, "/v1/within", {"vector": [1, 2], "radius": 1})
        for id in (1, 2, 777, "some-name"):
            httpx.get(f"{url}/v1/items/{id}", timeout=SECONDS)
        httpx.get(url + "/no/such/route", timeout=SECONDS)
        httpx.get(url + "/v1/stats", headers={"Host": "evil.example"}, timeout=SECONDS)
        found = samples(url)
        assert n_requests(found, route="/v1/search", method="POST", status="200") == 3
        assert n_requests(found, route="/v1/search", status="422") == 1
        assert n_requests(found, route="/v1/within", status="200") == 1
        assert n_requests(found, route="/v1/items/{id:path}", status="200") == 2
        assert n_requests(found, route="/v1/items/{id:path}", status="404") == 2
        assert n_requests(found, route="none", status="404") == 1
        assert n_requests(found, route="none", status="403") == 1
        assert found["onlinehash_request_seconds_count", frozenset({("route", "/v1/search")})] == 4
        assert n_requests(samples(url), route="/metrics", status="200") == 1


def test_the_state_of_the_index_is_there() -> None:
    with served(queue=77) as (service, url):
        post_json(url, "/v1/items/50", {"vector": [1, 2]})
        post_json(url, "/v1/learn", {"id_a": [1, 2], "id_b": [3, 4], "similar": [True, False]})
        until(lambda: samples(url)["onlinehash_queue_length", frozenset()] == 0)  # a moment after the reply
        found = {
            name.removeprefix("onlinehash_"): value for (name, labels), value in samples(url).items() if not labels
        }
        assert found["items"] == len(IDS) + 1
        assert found["pairs"] == 2
        assert found["queue_limit"] == 77
        assert found["queue_length"] == 0
        assert found["encoder_version"] == service.index.encoder.version
        assert found["refreshes"] == service.index.refreshes
        assert math.isnan(found["held_out_map"])
