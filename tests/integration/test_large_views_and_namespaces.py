"""Large views and namespaces, many concurrently: limited memory, and all requests are answered."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.test_slow_clients import MEBIBYTE, bounded_memory, call, server
from tests.servers.icecore import Icecore

__all__ = ["server"]

COUNT = 8
PROPERTIES = {f"p{number}": "x" * (MEBIBYTE - 1) for number in range(15)}
VIEW = {
    "schema": {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]},
    "view-version": {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": "select 1 as x", "dialect": "spark"}],
        "default-namespace": ["views"],
    },
}
UPDATE = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}


def create(server: Icecore, kind: str, number: int) -> str:
    """Creates one of 15 MB. Returns its path."""
    if kind == "namespace":
        assert 200 == call(server, "POST", "/namespaces", {"namespace": [f"n{number}"], "properties": PROPERTIES})[0]
        return f"/namespaces/n{number}"
    assert 200 == call(server, "POST", "/namespaces/views/views", {"name": f"v{number}", "properties": PROPERTIES, **VIEW})[0]
    return f"/namespaces/views/views/v{number}"


@pytest.mark.parametrize("kind", ["namespace", "view"])
def test_large_ones_are_loaded_and_updated_at_once_in_bounded_memory(server: Icecore, kind: str) -> None:
    """As for tables: requests reserve memory for large documents and wait for it."""
    if kind == "view":
        assert 200 == call(server, "POST", "/namespaces", {"namespace": ["views"]})[0]
    addresses = [create(server, kind, number) for number in range(COUNT)]

    def update(address: str) -> int:
        if kind == "namespace":
            return call(server, "POST", f"{address}/properties", {"updates": {"a": "b"}})[0]
        return call(server, "POST", address, UPDATE)[0]

    with bounded_memory(server), ThreadPoolExecutor(COUNT) as pool:
        loaded = list(pool.map(lambda address: call(server, "GET", address)[0], addresses))
    with bounded_memory(server), ThreadPoolExecutor(COUNT) as pool:
        answered = list(pool.map(update, addresses))
    # If there is no memory for responses, they are 429, and nothing was done.
    assert {200} <= set(loaded) <= {200, 429}
    assert {200} <= set(answered) <= {200, 429}
    assert kind == "view" or {200} == set(answered)
