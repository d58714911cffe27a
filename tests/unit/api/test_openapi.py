"""The OpenAPI documents describe exactly the operations of the server."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis

from icecore.api.history.operations import OPERATIONS as HISTORY
from icecore.api.management.operations import OPERATIONS as MANAGEMENT
from icecore.api.openapi.documents import APIS, load_document
from icecore.api.routing import Operation

OPERATIONS = {"management": MANAGEMENT, "history": HISTORY}
METHODS = ("get", "post", "put", "patch", "delete")


def resolved(document: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in value:
        return value
    found: Any = document
    for name in value["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    assert isinstance(found, dict)
    return found


def described(document: dict[str, Any]) -> dict[tuple[str, str], tuple[str, set[str], set[str]]]:
    """The operations of a document by method and path: operationId, names of query parameters, names of path parameters."""
    found = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                parameters = [resolved(document, each) for each in (*item.get("parameters", ()), *item[method].get("parameters", ()))]
                names = {place: {each["name"] for each in parameters if each["in"] == place} for place in ("query", "path")}
                found[method.upper(), path] = item[method]["operationId"], names["query"], names["path"]
    return found


def placeholders(operation: Operation) -> set[str]:
    return {segment[1:-1] for segment in operation.path.split("/") if segment.startswith("{")}


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "$ref":
                yield each
            else:
                yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


@pytest.mark.parametrize("api", APIS)
def test_a_document_has_the_operations_with_their_parameters(api: str) -> None:
    """A new operation or parameter is described in `api/openapi/<api>.json`."""
    found = described(load_document(api))
    assert {(each.method, each.path): (each.name, placeholders(each)) for each in OPERATIONS[api]} == {
        key: (name, in_path) for key, (name, _, in_path) in found.items()
    }
    permitted = {(each.method, each.path): set(each.parameters) for each in OPERATIONS[api] if each.parameters is not None}
    assert permitted == {key: in_query for key, (_, in_query, _) in found.items() if key in permitted}


@pytest.mark.parametrize("api", APIS)
def test_every_reference_is_defined_and_every_schema_is_used(api: str) -> None:
    document = load_document(api)
    named = set(references(document))
    assert {
        f"#/components/{kind}/{name}"
        for kind, parts in document["components"].items()
        for name in parts  # type: ignore[attr-defined]
    } == named


@pytest.mark.parametrize("api", APIS)
def test_a_document_is_valid(api: str) -> None:
    document = schemathesis.openapi.from_dict(load_document(api))
    document.validate()
    assert len(OPERATIONS[api]) == len([*document.get_all_operations()])
