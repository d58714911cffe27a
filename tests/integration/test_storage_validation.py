"""Validation of storage: each check of a creation or a change is passed, failed or skipped, and nothing is changed."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from icecore.commands.warehouses.validate_storage import CHECKS
from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.fixtures.object_stores import S3Server
from tests.fixtures.operator_commands import icecore
from tests.fixtures.rest_client import RestResponse
from tests.integration.test_storage_updates import KeyedStore, credential, lake, profile, servers, store, stored
from tests.integration.test_warehouse_changes import Management

__all__ = ["lake", "servers", "store"]

CREATION = "-creation-validation"
STORE = {"storage-client-initialized", "lakekeeper-read-write", "cleanup"}
OF_UPDATES = {"profile-compatible", "spec-mutable"}
OF_CREATIONS = {"warehouse-name-valid", "format-version-policy-consistent", "managed-by-allowed"}
VENDED = {"vended-credentials-issued", "vended-credentials-read-write", "vended-credentials-scope-enforced"}
LOCATIONS = {"location-exclusive"}


def validated(client: Management, path: str, body: Any = None) -> RestResponse:
    """path -- after the warehouse's, or CREATION."""
    return client.call_management("POST", path, body) if path == CREATION else client.call_warehouse("POST", f"/storage/{path}", body)


def of_status(response: RestResponse, status: str) -> set[str]:
    """The names of the checks with a status. Each report has each check once, in Lakekeeper's order."""
    assert 200 == response.status, response.json
    report = response.json
    assert [*CHECKS] == [check["name"] for check in report["checks"]]
    assert report["valid"] is all(check["status"] != "failed" for check in report["checks"])
    for check in report["checks"]:
        assert {"passed": {"duration-ms"}, "failed": {"duration-ms", "error"}, "skipped": {"reason"}}[check["status"]] == check.keys() - {
            "name",
            "status",
        }
        assert check.get("duration-ms", 0) >= 0
    return {check["name"] for check in report["checks"] if check["status"] == status}


def failure(response: RestResponse) -> tuple[str, str, str]:
    """The only failed check: its name, and the type and message of its error."""
    (name,) = of_status(response, "failed")
    error = next(check["error"] for check in response.json["checks"] if check["name"] == name)
    assert {"message", "type", "code"} == error.keys()
    return name, error["type"], error["message"]


def head(database: str) -> tuple[Any, ...]:
    with psycopg.connect(database) as connection:
        found: tuple[Any, ...] = connection.execute("select count(*), max(notification_id) from icecore.events").fetchall()[0]
    return (*found, *stored(database))


def test_what_would_succeed_passes(lake: Management, database: str, s3_server: S3Server, store: KeyedStore) -> None:
    """Nothing is written to the log, no credential is stored, and no object is left. What was validated then succeeds."""
    current = lake.call_warehouse("GET").json["storage-profile"]
    before = head(database)
    new = {"warehouse-name": "sea", "storage-profile": profile(s3_server, store), "storage-credential": credential("two")}
    update = {"storage-profile": current, "storage-credential": credential("two")}
    for path, body, skipped in (
        (CREATION, new, OF_UPDATES),
        ("validate-profile", update, OF_CREATIONS),
        ("validate-credential", {"new-storage-credential": credential("two")}, OF_CREATIONS | LOCATIONS | {"profile-compatible"}),
        ("validate-access", None, OF_CREATIONS | OF_UPDATES | LOCATIONS),
    ):
        response = validated(lake, path, body)
        assert skipped | VENDED == of_status(response, "skipped"), path
        assert set(CHECKS) - skipped - VENDED == of_status(response, "passed"), path
        assert "secret-of" not in response.body.decode()
    assert before == head(database)
    assert {"one", "two"} == set(store.used)
    assert 201 == lake.call_management("POST", "", new).status
    assert 200 == lake.call_warehouse("POST", "/storage", update).status


@pytest.mark.parametrize(
    ("change", "check", "message"),
    [
        ({"warehouse-name": "LAKE"}, "warehouse-name-valid", "already exists"),
        ({"warehouse-name": "a/b"}, "warehouse-name-valid", "must not contain '/'"),
        ({"warehouse-name": ""}, "warehouse-name-valid", "warehouse name"),
        ({"allowed-format-versions": [4]}, "format-version-policy-consistent", "allowed-format-versions"),
        ({"allowed-format-versions": [2], "default-format-version": 3}, "format-version-policy-consistent", "default-format-version"),
        ({"managed-by": "instance-admin"}, "managed-by-allowed", "managed-by"),
        ({"storage-profile": {"type": "s3", "bucket": "B"}}, "profile-well-formed", "'bucket'"),
        ({"storage-credential": {"type": "az", "credential-type": "azure-system-identity"}}, "profile-well-formed", "storage-credential"),
        ({"storage-credential": credential("bad")}, "lakekeeper-read-write", "'write'"),
    ],
)
def test_what_would_be_refused_fails_one_check(
    lake: Management, s3_server: S3Server, store: KeyedStore, database: str, change: Any, check: str, message: str
) -> None:
    """With the error of the creation."""
    before = head(database)
    store.revoked.add("bad")
    body = {"warehouse-name": "sea", "storage-profile": profile(s3_server, store), "storage-credential": credential("two")} | change
    response = validated(lake, CREATION, body)
    name, error, text = failure(response)
    assert check == name
    assert message in text
    if check == "profile-well-formed":
        assert STORE | LOCATIONS | VENDED | OF_UPDATES == of_status(response, "skipped")
    created = lake.call_management("POST", "", body)
    assert created.status >= 400
    assert check == "managed-by-allowed" or created.error[1] == error
    assert before == head(database) or check == "lakekeeper-read-write"


def test_an_update_that_would_be_refused_fails(lake: Management, store: KeyedStore, database: str) -> None:
    """A profile that is not compatible, a key that the store refuses, and the warehouse's own key once it is revoked."""
    current, before = lake.call_warehouse("GET").json["storage-profile"], head(database)
    store.revoked.add("bad")
    incompatible = {"storage-profile": current | {"region": "mars-9", "key-prefix": "another"}, "storage-credential": credential("two")}
    name, error, text = failure(validated(lake, "validate-profile", incompatible))
    assert ("profile-compatible", "UpdateError") == (name, error)
    assert "'key-prefix' may not be changed" in text
    for path, body in (
        ("validate-profile", {"storage-profile": current, "storage-credential": credential("bad")}),
        ("validate-credential", {"new-storage-credential": credential("bad")}),
    ):
        response = validated(lake, path, body)
        assert ("lakekeeper-read-write", "StoreCheckFailedException") == failure(response)[:2]
        assert "cleanup" in of_status(response, "skipped")
    assert 200 == lake.call_warehouse("POST", "/deactivate").status
    assert set() == of_status(validated(lake, "validate-access"), "failed")
    store.revoked.add("one")
    assert "lakekeeper-read-write" == failure(validated(lake, "validate-access"))[0]
    assert (before[0] + 1, *before[2:]) == (head(database)[0], *head(database)[2:])


def test_what_is_not_permitted_is_not_contacted(lake: Management, store: KeyedStore, tmp_path: Path) -> None:
    """403 before any check, or 400 without a credential. Invalid requests get 400, and a missing warehouse 404."""
    asked, current = len(store.used), lake.call_warehouse("GET").json["storage-profile"]
    not_listed = current | {"endpoint": f"{store.endpoint}/hidden"}
    missing, forbidden = (400, "MissingCredentialError"), (403, "ForbiddenException")
    for path, body, error in (
        (CREATION, {"warehouse-name": "sea", "storage-profile": not_listed, "storage-credential": credential("one")}, forbidden),
        (CREATION, {"warehouse-name": "sea", "storage-profile": current}, missing),
        (CREATION, {"warehouse-name": "sea", "storage-profile": {"type": "local", "directory": "/etc/sea"}}, forbidden),
        ("validate-profile", {"storage-profile": not_listed, "storage-credential": credential("one")}, forbidden),
        ("validate-credential", {}, missing),
    ):
        assert error == validated(lake, path, body).error, path
    assert asked == len(store.used)
    for path, body in (
        (CREATION, {"warehouse-name": "sea"}),
        (CREATION, {"warehouse-name": 7, "storage-profile": current}),
        ("validate-profile", {"storage-profile": current, "more": 1}),
        ("validate-credential", {"new-storage-credential": 7}),
    ):
        assert (400, "BadRequestException") == validated(lake, path, body).error, path
    lake.prefix = str(tmp_path.name)
    assert (404, "NoSuchWarehouseException") == validated(lake, "validate-access").error
    assert asked == len(store.used)


def test_checks_that_the_settings_skip_are_skipped(database: str, tmp_path: Path, s3_server: S3Server, store: KeyedStore) -> None:
    """The configuration is valid, and the report says what was not looked at."""
    settings = {"warehouse_endpoints": (store.endpoint,), "skip_storage_validation": True}
    with served_catalog(database, tmp_path / "demo", **settings) as served, closing(Management(served.url)) as client:
        body = {"warehouse-name": "sea", "storage-profile": profile(s3_server, store), "storage-credential": credential("one")}
        response = validated(client, CREATION, body)
        assert STORE | VENDED | OF_UPDATES == of_status(response, "skipped")
        assert [] == store.used


def test_a_location_that_another_warehouse_reaches_fails(servers: tuple[CatalogServer, CatalogServer], tmp_path: Path) -> None:
    """Through a link."""
    (tmp_path / "link").symlink_to("demo")
    with closing(Management(servers[0].url)) as client:
        body = {"warehouse-name": "sea", "storage-profile": {"type": "local", "directory": str(tmp_path / "link" / "sea")}}
        name, error, text = failure(validated(client, CREATION, body))
    assert ("location-exclusive", "BadRequestException") == (name, error)
    assert "of the warehouse demo" in text


def test_an_operator_validates_at_the_command_line(lake: Management, database: str, store: KeyedStore, tmp_path: Path) -> None:
    """A creation, an update and the present storage. The exit code says whether a check failed."""

    def run(*arguments: str) -> tuple[int, str, str]:
        done = icecore(database, "warehouse", "validate", *arguments)
        return done.returncode, done.stdout, done.stderr

    code, printed, _ = run("lake")
    assert (0, [*CHECKS]) == (code, [line.split()[0] for line in printed.splitlines()])
    code, printed, _ = run("lake", "--credential", json.dumps(credential("bad")), "--json")
    assert (0, True) == (code, json.loads(printed)["valid"])
    store.revoked.add("bad")
    code, printed, _ = run("lake", "--credential", json.dumps(credential("bad")))
    assert 1 == code
    assert [True] == ["failed" in line for line in printed.splitlines() if line.startswith("lakekeeper-read-write")]
    current = lake.call_warehouse("GET").json["storage-profile"]
    code, printed, _ = run("lake", "--profile", json.dumps(current | {"bucket": "another"}), "--credential", json.dumps(credential("one")))
    assert (1, True) == (code, "'bucket' may not be changed" in printed)
    local = json.dumps({"type": "local", "directory": str(tmp_path / "sea")})
    code, printed, _ = run("sea", "--new", "--profile", local)
    assert (0, False) == (code, "failed" in printed)
    assert 2 == run("sea", "--new")[0]
