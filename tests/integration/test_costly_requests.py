"""A single small request is cheap, whatever its content: it neither delays other clients nor stays in memory."""

import functools
import http.client
import json
import urllib.parse
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.fixtures.processor import processor_seconds, seconds_per_small_request
from tests.servers.icecore import Icecore, icecore, open_directory
from tests.servers.processes import free_port

SMALL_REQUESTS_MAX = 700
"""Limit on the server's processor time for one request: that of so many small ones."""
MARKS = "a" + "\u0301\u0316" * 30_000
"""Combining marks to be reordered: the time is quadratic in their number."""


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def server(metrics_port: int) -> Iterator[Icecore]:
    with open_directory() as directory, icecore(directory / "data", environment={"ICECORE_METRICS_PORT": str(metrics_port)}) as opened:
        yield opened


@functools.cache
def processor_seconds_max(server: Icecore) -> float:
    return SMALL_REQUESTS_MAX * seconds_per_small_request(server)


def answered(server: Icecore, method: str, path: str, body: object = None, *, port: int | None = None) -> tuple[int, bytes]:
    """Status and body of the response. Fails if the server needed more processor time than permitted."""
    most = processor_seconds_max(server)
    connection = http.client.HTTPConnection("127.0.0.1", port or urlsplit(server.uri).port, timeout=60)
    before = processor_seconds(server.process_id)
    sent = None if body is None else json.dumps(body, ensure_ascii=False).encode()
    connection.request(method, path, sent, {"Content-Type": "application/json"})
    response = connection.getresponse()
    received = response.read()
    connection.close()
    assert processor_seconds(server.process_id) - before < most
    return response.status, received


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("events", {"catalog-objects-by-name": [[MARKS]]}, 400),
        ("events", {"catalog-objects-by-name": [["a"] * 18]}, 400),
        ("tables/rename", {"source": {"namespace": ["x"], "name": MARKS}, "destination": {"namespace": ["x"], "name": "y"}}, 404),
        ("views/rename", {"source": {"namespace": [MARKS], "name": "x"}, "destination": {"namespace": ["x"], "name": "y"}}, 404),
        ("namespaces", {"namespace": [MARKS]}, 400),
    ],
    ids=["event filter", "deep event filter", "rename table", "rename view", "create namespace"],
)
def test_a_long_name_is_refused_before_it_is_normalised(server: Icecore, path: str, body: object, status: int) -> None:
    assert status == answered(server, "POST", f"/catalog/v1/demo/{path}", body)[0]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/catalog/v1/demo/namespaces/{}", 404),
        ("/catalog/v1/demo/namespaces/{}/tables", 404),
        ("/catalog/v1/demo/namespaces?parent={}", 404),
        ("/catalog/v1/{}/namespaces", 404),
        ("/catalog/v1/config?warehouse={}", 404),
        ("/history/v1/events?namespaces={}", 400),
        ("/history/v1/events?warehouses={}", 404),
    ],
)
def test_a_long_name_in_an_address_is_not_normalised(server: Icecore, path: str, status: int) -> None:
    assert status == answered(server, "GET", path.format(urllib.parse.quote(MARKS[:10_000])))[0]


def test_a_costly_pattern_of_types_is_refused(server: Icecore) -> None:
    assert 400 == answered(server, "GET", f"/history/v1/events?types={'*a' * 30_000}")[0]


@pytest.mark.parametrize(
    ("path", "status"), [("/" * 60_000, 404), ("/history/v1/events" + "/a" * 33, 404), ("/history/v1/events/" + "a" * 1_024, 400)]
)
def test_an_address_that_cannot_be_one_is_not_looked_up(server: Icecore, metrics_port: int, path: str, status: int) -> None:
    """A segment that is not an id is refused without a lookup."""
    assert status == answered(server, "GET", path)[0]
    assert 404 == answered(server, "GET", path, port=metrics_port)[0]


def test_a_refusal_does_not_repeat_all_that_was_sent(server: Icecore) -> None:
    source = {"namespace": ["x"], "name": "a" * 1_000_000}
    status, body = answered(
        server, "POST", "/catalog/v1/demo/tables/rename", {"source": source, "destination": {"namespace": ["x"], "name": "y"}}
    )
    assert 404 == status
    assert len(body) < 5_000
    assert json.loads(body)["error"]["message"].endswith("aaa…")


def test_a_forged_page_token_holds_no_long_text(server: Icecore) -> None:
    for length in (1_000, 60_000):
        status, body = answered(server, "GET", f"/catalog/v1/demo/namespaces?pageSize=1&pageToken={'a' * length}")
        assert (400, True) == (status, b"not a token" in body)
