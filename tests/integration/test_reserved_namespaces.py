"""Names of namespaces that the operator reserves."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.catalog import served_catalog
from tests.fixtures.rest_client import RestClient

RESERVED = (400, "ReservedNamespace")


@pytest.mark.parametrize(
    ("settings", "reserved", "free"),
    [
        ({}, ["system", "SYSTEM", "examples", "Information_Schema"], ["systems", "a"]),
        ({"reserved_namespaces": ("Lake",)}, ["lake", "LAKE"], ["system", "examples"]),
        ({"reserved_namespaces": ()}, [], ["system", "information_schema"]),
    ],
)
def test_a_reserved_name_is_refused_at_the_top(
    database: str, tmp_path: Path, settings: dict[str, Any], reserved: list[str], free: list[str]
) -> None:
    """In any case of letters; not inside another namespace. A read finds nothing, and no namespace is made."""
    with served_catalog(database, tmp_path / "demo", **settings) as served, closing(RestClient(served.url)) as client:
        for name in reserved:
            assert RESERVED == client.create_namespace(name).error
            assert 404 == client.call("GET", f"/namespaces/{name}").status
        for name in free:
            assert 200 == client.create_namespace(name).status
        for name in reserved[:1]:
            assert 200 == client.call("POST", "/namespaces", {"namespace": [free[-1], name]}).status
        assert sorted([name] for name in free) == sorted(client.call("GET", "/namespaces").json["namespaces"])
