"""The OpenAPI documents describe exactly the operations of the server."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis

from icecore.api.history.operations import OPERATIONS as HISTORY
from icecore.api.management.operations import OPERATIONS as MANAGEMENT
from icecore.api.openapi.documents import APIS, load_document
from icecore.api.routing import Operation
from icecore.domain.errors import BadRequest
from icecore.storage.credentials import parse_storage_credential
from icecore.storage.profiles import parse_storage_profile

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


# A valid value of every field of profiles and credentials.
VALUES: dict[str, Any] = {
    "directory": "/data/lake", "bucket": "lake", "region": "eu-central-1", "key-prefix": "a", "endpoint": "https://store.example",
    "sts-endpoint": "https://sts.example", "flavor": "s3-compat", "path-style-access": True, "sts-enabled": True,
    "remote-signing-enabled": True, "remote-signing-url-style": "path", "assume-role-arn": "arn", "sts-role-arn": "arn",
    "sts-token-validity-seconds": 900, "sts-session-tags": {"team": "a"}, "allow-alternative-protocols": True,
    "push-s3-delete-disabled": True, "aws-kms-key-arn": "arn", "legacy-md5-behavior": True, "storage-layout": {"type": "default"},
    "account-name": "lake", "filesystem": "lake", "host": "dfs.core.windows.net", "authority-host": "https://login.example",
    "sas-enabled": True, "sas-token-validity-seconds": 900, "access-key-id": "id", "secret-access-key": "key", "external-id": "id",
    "client-id": "id", "tenant-id": "id", "client-secret": "secret", "token": "token", "account-id": "a1",
}  # fmt: skip
ACCOUNT = {"client_email": "a", "private_key": "b", "private_key_id": "c", "token_uri": "d"}


def alternatives(name: str) -> list[dict[str, Any]]:
    """The schemas of a `oneOf` in the document of the management API."""
    document = load_document("management")
    (found,) = [document["components"]["schemas"][name]["oneOf"]]  # type: ignore[index]
    return [resolved(document, each) for each in found]


def filled(schema: dict[str, Any]) -> dict[str, Any]:
    """An object with every documented field."""
    given = {}
    for name, each in schema["properties"].items():
        if name == "allowed-locations":
            continue
        if len(each.get("enum", ())) == 1:
            given[name] = each["enum"][0]
        elif name == "key":
            given[name] = ACCOUNT if each["type"] == "object" else "key"
        else:
            given[name] = VALUES[name]
    return given


def test_storage_profiles_have_the_documented_fields() -> None:
    """Each kind, with its fields and those that it needs."""
    for schema in alternatives("StorageProfile"):
        given = filled(schema)
        profile = parse_storage_profile(given)
        assert {field.alias for field in type(profile).model_fields.values()} == {*schema["properties"]}
        for name in schema["required"]:
            with pytest.raises(BadRequest):
                parse_storage_profile({key: value for key, value in given.items() if key != name})
        assert parse_storage_profile({name: given[name] for name in schema["required"]}).type == given["type"]


def test_storage_credentials_have_the_documented_fields() -> None:
    """Each kind, with its fields and those that it needs."""
    for schema in alternatives("StorageCredential"):
        given = filled(schema)
        credential = parse_storage_credential(given)
        assert {*given} == {name.removeprefix("aws-") for name in credential.fields}
        for name in schema["required"]:
            with pytest.raises(BadRequest):
                parse_storage_credential({key: value for key, value in given.items() if key != name})
        assert parse_storage_credential({name: given[name] for name in schema["required"]}).kind in kinds()
    with pytest.raises(BadRequest) as refused:
        parse_storage_credential({"type": "s3", "credential-type": "none"})
    assert {tuple(each.values()) for each in kinds()} == {*map(tuple, re.findall(r"(\w+)/([\w-]+)", refused.value.message))}


def kinds() -> list[dict[str, str]]:
    """What is documented as a StorageCredentialType."""
    return [
        {"type": kind, "credential-type": each}
        for schema in alternatives("StorageCredentialType")
        for kind in schema["properties"]["type"]["enum"]
        for each in schema["properties"]["credential-type"]["enum"]
    ]
