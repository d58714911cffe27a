"""The server itself over HTTP: what it is, its bootstrap, its principal, and the actions that are allowed."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from icecore.access.actions import ACTIONS
from icecore.access.authorization import ResourceKind
from icecore.access.request_context import Principal
from icecore.compose import Application
from icecore.domain.project import PROJECT_ID_DEFAULT
from icecore.version import icecore_version
from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.fixtures.rest_client import RestClient
from tests.integration.test_authorization import VIEW
from tests.integration.test_projects import Tenants

BOOTSTRAP = {"accept-terms-of-use": True, "is-operator": False, "user-name": "An", "user-email": None, "user-type": "human"}


@pytest.fixture
def tenants(catalog_server: CatalogServer) -> Iterator[Tenants]:
    with closing(Tenants(catalog_server.url)) as client:
        yield client


def test_the_server_says_what_it_is(tenants: Tenants, database: str, tmp_path: Path) -> None:
    """A ServerInfo of Lakekeeper. All servers on one database have the same id."""
    info = tenants.send("GET", "/management/v1/info").json
    with psycopg.connect(database) as connection:
        (server_id,) = connection.execute("select server_id from icecore.server").fetchone() or ()
    assert {
        "version": icecore_version(),
        "lakekeeper-version": "0.13.1",
        "bootstrapped": True,
        "server-id": str(server_id),
        "default-project-id": str(PROJECT_ID_DEFAULT),
        "authz-backend": "allow-all",
        "aws-system-identities-enabled": False,
        "azure-system-identities-enabled": False,
        "gcp-system-identities-enabled": False,
        "queues": ["tabular_expiration", "tabular_purge", "task_log_cleanup"],
        "license-status": {"license-type": "Apache-2.0", "valid": True},
    } == info
    other: dict[str, Any] = {"default_project": False, "enable_gcp_system_credentials": True}
    with served_catalog(database, tmp_path / "warehouse", **other) as served, closing(Tenants(served.url)) as client:
        assert info | {"default-project-id": None, "gcp-system-identities-enabled": True} == client.send("GET", "/management/v1/info").json


def test_a_server_without_authentication_is_bootstrapped(tenants: Tenants) -> None:
    """Each attempt is answered like Lakekeeper's second one."""
    for _ in range(2):
        refused = tenants.send("POST", "/management/v1/bootstrap", BOOTSTRAP)
        assert (400, "CatalogAlreadyBootstrapped") == refused.error
    declined = tenants.send("POST", "/management/v1/bootstrap", BOOTSTRAP | {"accept-terms-of-use": False})
    assert (400, "TermsOfUseNotAccepted") == declined.error
    invalid: list[dict[str, Any]] = [{}, BOOTSTRAP | {"user-type": "robot"}, BOOTSTRAP | {"terms": True}, {"accept-terms-of-use": "yes"}]
    for body in invalid:
        assert (400, "BadRequestException") == tenants.send("POST", "/management/v1/bootstrap", body).error


def test_there_is_no_user(tenants: Tenants, database: str, tmp_path: Path) -> None:
    """The anonymous principal is none, and another one has no record."""
    assert (401, "GetMyUserWithoutToken") == tenants.send("GET", "/management/v1/whoami").error

    class Somebody:
        async def authenticate(self, headers: object) -> Principal:
            return Principal("oidc~somebody")

    def authenticated(catalog: Application) -> None:
        catalog.authenticator = Somebody()

    with (
        served_catalog(database, tmp_path / "warehouse", prepare=authenticated) as served,
        closing(Tenants(served.url)) as client,
    ):
        assert (404, "UserNotFound") == client.send("GET", "/management/v1/whoami").error


def test_every_action_is_allowed(tenants: Tenants, catalog_server: CatalogServer, database: str) -> None:
    """Those of Lakekeeper for each kind of object, whoever is asked about."""
    with closing(RestClient(catalog_server.url)) as client:
        client.create_namespace("n")
        client.create_namespace("n", "below")
        client.create_table(["n", "below"], "t")
        assert 200 == client.call("POST", "/namespaces/n/views", {"name": "v", **VIEW}).status
    with psycopg.connect(database) as connection:
        ids = dict(connection.execute("select name, object_id from icecore.names").fetchall())
    warehouse = f"/management/v1/warehouse/{ids['demo']}"
    asked: list[tuple[ResourceKind, str]] = [
        ("server", "/management/v1/server"),
        ("project", "/management/v1/project"),
        ("warehouse", warehouse),
        ("namespace", f"{warehouse}/namespace/{ids['n']}"),
        ("namespace", f"{warehouse}/namespace/{ids['below']}"),
        ("table", f"{warehouse}/table/{ids['t']}"),
        ("view", f"{warehouse}/view/{ids['v']}"),
    ]
    for kind, path in asked:
        for query in ("", "?principalUser=oidc~x", f"?principalRole={UUID(int=3)}"):
            allowed = tenants.send("GET", f"{path}/actions{query}").json
            assert {"allowed-actions": [{"action": each} for each in ACTIONS[kind]]} == allowed, path
        assert (400, "BadRequestException") == tenants.send("GET", f"{path}/actions?principalUser=x&principalRole={UUID(int=3)}").error
    for path, error in [
        (f"/management/v1/warehouse/{UUID(int=7)}", "NoSuchWarehouseException"),
        ("/management/v1/warehouse/demo", "NoSuchWarehouseException"),
        (f"{warehouse}/namespace/{ids['t']}", "NoSuchNamespaceException"),
        (f"{warehouse}/table/{ids['v']}", "NoSuchTableException"),
        (f"{warehouse}/view/{ids['n']}", "NoSuchViewException"),
        (f"{warehouse}/table/t", "NoSuchTableException"),
    ]:
        assert (404, error) == tenants.send("GET", f"{path}/actions").error, path


def test_actions_of_another_project_are_not_found(tenants: Tenants) -> None:
    (demo,) = tenants.send("GET", "/management/v1/warehouse").json["warehouses"]
    other = tenants.create("other")
    refused = tenants.send("GET", f"/management/v1/warehouse/{demo['id']}/actions", project=other)
    assert (404, "NoSuchWarehouseException") == refused.error
