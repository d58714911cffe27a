"""The storage profile and the credential of a warehouse are changed, while other processes use them."""

import asyncio
import base64
import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import psycopg
import pytest
from uuid_utils.compat import uuid7

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.approval.contract import Hold, Refuse
from icecore.commands.execution.executor import CommandExecutor
from icecore.commands.execution.handler import CommandTargets
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables.create_table import create_table
from icecore.commands.warehouses import update_storage as module
from icecore.commands.warehouses.change_warehouse import _DeletionHandler
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.commands.warehouses.update_storage import UpdateStorageProfile, update_storage
from icecore.compose import Application
from icecore.domain.commands import CreateNamespace, CreateTable
from icecore.domain.errors import BadRequest, IncompatibleStorageProfile
from icecore.domain.identifiers import NamespaceIdentifier
from icecore.storage.compatible_profiles import check_compatible
from icecore.storage.profiles import parse_storage_profile
from tests.fixtures.catalog import PROJECT_ID, SECRET_KEY, CatalogServer, context, opened_catalog, served_catalog
from tests.fixtures.object_stores import S3_CREDENTIAL, S3Server, s3_profile
from tests.fixtures.operator_commands import icecore
from tests.fixtures.relay import Relay, RelayedRequest, RelayedResponse
from tests.fixtures.rest_client import SCHEMA, RestClient, RestResponse, set_properties
from tests.integration.approval.judging import Judge, asking
from tests.integration.test_warehouse_changes import Management
from tests.integration.test_warehouse_config import events
from tests.servers.icecore import PROGRAM, clean_environment

REFUSED = (400, "UpdateError")
MISSING = (400, "MissingCredentialError")


class KeyedStore(Relay):
    """An S3 server that refuses requests with a revoked access key."""

    def __init__(self, upstream: str) -> None:
        self.revoked: set[str] = set()
        self.used: list[str] = []
        super().__init__(upstream)

    def respond(self, request: RelayedRequest, handler: BaseHTTPRequestHandler) -> RelayedResponse | None:
        del handler
        authorization = next(value for name, value in request.headers.items() if name.lower() == "authorization")
        key = authorization.partition("Credential=")[2].partition("/")[0]
        self.used.append(key)
        return RelayedResponse(403, [], b"") if key in self.revoked else self.pass_on(request)


@pytest.fixture
def store(s3_server: S3Server) -> Iterator[KeyedStore]:
    with closing(KeyedStore(s3_server.endpoint)) as store:
        yield store


@pytest.fixture
def servers(database: str, tmp_path: Path, store: KeyedStore) -> Iterator[tuple[CatalogServer, CatalogServer]]:
    """Two servers on one log, without jobs."""
    settings: dict[str, Any] = {"warehouse_endpoints": (store.endpoint,), "local_warehouse_roots": (tmp_path,), "jobs": False}
    with (
        served_catalog(database, tmp_path / "demo", **settings) as first,
        served_catalog(database, tmp_path / "demo", **settings) as second,
    ):
        yield first, second


def credential(key: str) -> dict[str, str]:
    return S3_CREDENTIAL | {"aws-access-key-id": key, "aws-secret-access-key": f"secret-of-{key}"}


@pytest.fixture
def client(servers: tuple[CatalogServer, CatalogServer]) -> Iterator[Management]:
    """A client of the first server and its warehouse `demo`."""
    with closing(Management(servers[0].url)) as client:
        yield client


@pytest.fixture
def lake(servers: tuple[CatalogServer, CatalogServer], s3_server: S3Server, store: KeyedStore) -> Iterator[Management]:
    """A client of the first server, with a warehouse `lake` on the store, opened with the key `one`. It contains the table `n.t`."""
    with closing(Management(servers[0].url)) as client:
        body = {"warehouse-name": "lake", "storage-profile": profile(s3_server, store), "storage-credential": credential("one")}
        created = client.call_management("POST", "", body)
        assert 201 == created.status, created.json
        client.prefix = created.json["warehouse-id"]
        client.warehouse = "lake"
        assert 200 == client.create_namespace("n").status
        assert 200 == client.create_table(["n"], "t").status
        yield client


@pytest.fixture
def other(servers: tuple[CatalogServer, CatalogServer], lake: Management) -> Iterator[RestClient]:
    """A client of the second server, which has cached the warehouse and opened its store."""
    with closing(RestClient(servers[1].url, "lake")) as client:
        for number in range(2):
            assert 200 == client.load_table(["n"], "t").status
            assert 200 == client.commit(["n"], "t", set_properties(seen=str(number))).status
        yield client


def profile(server: S3Server, store: KeyedStore) -> dict[str, Any]:
    return s3_profile(server) | {"endpoint": store.endpoint, "key-prefix": "lake"}


def stored(database: str) -> tuple[int, int]:
    """How many credentials there are, and how many that are not destroyed."""
    with psycopg.connect(database) as connection:
        found: tuple[int, int] = connection.execute("select count(*), count(ciphertext) from icecore.secrets").fetchall()[0]
    return found


def changed_credential(lake: Management, access_key: str | None, *, key: object = None) -> RestResponse:
    body = {} if access_key is None else {"new-storage-credential": credential(access_key)}
    return lake.call_warehouse("POST", "/storage-credential", body, key=key)


def test_a_new_credential_is_used_from_the_next_request_on(lake: Management, other: RestClient, store: KeyedStore, database: str) -> None:
    """Of every server, also of one that only commits, and whose old key the store refuses by now. The former credential is destroyed."""
    changed = changed_credential(lake, "two")
    assert (200, {"type": "s3", "credential-type": "access-key"}) == (changed.status, changed.json["storage-credential-type"])
    assert "secret-of" not in changed.body.decode()
    store.revoked.add("one")
    store.used.clear()
    for client in (other, lake):
        assert 200 == client.commit(["n"], "t", set_properties(first="1")).status
    assert {"two"} == {key for key in store.used if key != "one"}
    store.used.clear()
    for client in (other, lake):
        assert 200 == client.commit(["n"], "t", set_properties(again="1")).status
        assert 200 == client.create_table(["n"], f"by{id(client)}").status
    assert {"two"} == set(store.used)
    assert (2, 1) == stored(database)
    topic, state = events(database)[-1]
    assert "warehouse.storage-credential-changed.v1" == topic
    assert ["secret-ref"] == [*state]
    with psycopg.connect(database) as connection:
        assert [(True,)] == connection.execute(
            "select ciphertext is not null from icecore.secrets where id = %s", (state["secret-ref"],)
        ).fetchall()


def test_a_store_that_refuses_a_former_key_is_asked_again(
    lake: Management, other: RestClient, store: KeyedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: a server that keeps the refusal of the store fails, although the warehouse has a new credential."""

    async def never(*_: object) -> bool:
        return False

    assert 200 == changed_credential(lake, "two").status
    store.revoked.add("one")
    monkeypatch.setattr(CommandExecutor, "_refused_on_outdated_warehouse", never)
    assert (503, "ServiceUnavailableException") == other.commit(["n"], "t", set_properties(by="one")).error
    monkeypatch.undo()
    assert 200 == other.commit(["n"], "t", set_properties(by="two")).status


def test_the_same_credential_or_profile_changes_nothing(lake: Management, database: str) -> None:
    """No event, and no credential is stored or destroyed."""
    before = lake.call_warehouse("GET").json
    position = lake.commit(["n"], "t", set_properties(last="1")).position
    assert position == changed_credential(lake, "one").position
    body = {"storage-profile": before["storage-profile"], "storage-credential": credential("one")}
    assert position == lake.call_warehouse("POST", "/storage", body).position
    assert (1, 1) == stored(database)
    assert before == lake.call_warehouse("GET").json


def test_a_new_profile_is_used_from_the_next_request_on(
    lake: Management, other: RestClient, s3_server: S3Server, store: KeyedStore, database: str
) -> None:
    """A table can be in a location that it allows, by a server that has cached the former profile."""
    imports = f"s3://{s3_server.new_bucket()}/imports"
    table = {"name": "u", "schema": SCHEMA, "location": f"{imports}/u"}
    assert (400, "BadRequestException") == other.call("POST", "/namespaces/n/tables", table).error
    new = lake.call_warehouse("GET").json["storage-profile"] | {"allowed-locations": [imports], "path-style-access": True}
    changed = lake.call_warehouse("POST", "/storage", {"storage-profile": new, "storage-credential": credential("two")})
    assert (200, [imports]) == (changed.status, changed.json["storage-profile"]["allowed-locations"])
    store.revoked.add("one")
    assert 200 == other.call("POST", "/namespaces/n/tables", table).status
    for client in (other, lake):
        assert 200 == client.load_table(["n"], "u").status
        assert 200 == client.commit(["n"], "t", set_properties(at="1")).status
    assert (2, 1) == stored(database)
    topic, state = events(database)[-1]
    assert "warehouse.storage-profile-changed.v1" == topic
    assert {"storage-profile": new, "secret-ref": state["secret-ref"]} == state
    for client in (lake, other):
        assert (400, "BadRequestException") == client.create_table(["n"], "v", location="s3://elsewhere/v").error


S3 = {"type": "s3", "bucket": "lake", "key-prefix": "a/b", "region": "eu-central-1", "allowed-locations": ["s3://lake/x", "s3://old/y"]}
COMPATIBLE = S3 | {"endpoint": "http://store:9000"}
GCS = {"type": "gcs", "bucket": "lake"}
ADLS = {"type": "adls", "account-name": "account", "filesystem": "lake"}
LOCAL = {"type": "local", "directory": "/lake", "allowed-locations": ["file:///old"]}


@pytest.mark.parametrize(
    ("current", "change", "field"),
    [
        (S3, GCS, "type"),
        (S3, S3 | {"bucket": "sea"}, "bucket"),
        (S3, S3 | {"key-prefix": "a"}, "key-prefix"),
        (S3, S3 | {"key-prefix": None}, "key-prefix"),
        (S3, S3 | {"region": "eu-west-1"}, "region"),
        (S3, COMPATIBLE, "endpoint"),
        (COMPATIBLE, COMPATIBLE | {"endpoint": "http://store:9001"}, "endpoint"),
        (COMPATIBLE, S3, "endpoint"),
        (S3, S3 | {"allowed-locations": ["s3://lake/x"]}, "allowed-locations"),
        (S3, S3 | {"allowed-locations": ["s3://lake/x/below", "s3://old/y"]}, "allowed-locations"),
        (GCS, GCS | {"bucket": "sea"}, "bucket"),
        (GCS, GCS | {"key-prefix": "a"}, "key-prefix"),
        (ADLS, ADLS | {"account-name": "other"}, "account-name"),
        (ADLS, ADLS | {"filesystem": "sea"}, "filesystem"),
        (ADLS, ADLS | {"host": "blob.core.windows.net"}, "host"),
        (LOCAL, LOCAL | {"directory": "/sea"}, "directory"),
        (LOCAL, LOCAL | {"allowed-locations": []}, "allowed-locations"),
    ],
)
def test_a_profile_with_which_files_would_not_be_found_is_refused(current: Any, change: Any, field: str) -> None:
    """The refusal names the field."""
    with pytest.raises(IncompatibleStorageProfile, match=f"Invalid storage-profile: '{field}' may not be changed"):
        check_compatible(parse_storage_profile(current), parse_storage_profile(change))


@pytest.mark.parametrize(
    ("current", "change"),
    [
        (S3, S3),
        (S3, S3 | {"allowed-locations": ["s3://lake/", "s3://old/y", "s3://new/z"]}),
        (
            S3,
            S3 | {"sts-token-validity-seconds": 900, "remote-signing-enabled": False, "endpoint": "https://s3.eu-central-1.amazonaws.com"},
        ),
        (COMPATIBLE, COMPATIBLE | {"region": "mars-1", "endpoint": "https://STORE:9000/", "path-style-access": True}),
        (GCS, GCS | {"sts-enabled": False}),
        (ADLS, ADLS | {"authority-host": "https://login.example.org"}),
        (LOCAL, LOCAL | {"allowed-locations": ["file:///old", "file:///new"]}),
    ],
)
def test_a_profile_with_which_all_files_are_found_is_permitted(current: Any, change: Any) -> None:
    check_compatible(parse_storage_profile(current), parse_storage_profile(change))


def test_a_refused_update_changes_nothing(lake: Management, store: KeyedStore, database: str, tmp_path: Path) -> None:
    """An incompatible profile, one that the settings do not permit, a store that refuses the key, and invalid requests."""
    before, position = lake.call_warehouse("GET").json, lake.commit(["n"], "t", set_properties(last="1")).position
    current = before["storage-profile"]
    store.revoked.add("bad")
    asked = len(store.used)
    for body, error in (
        ({"storage-profile": current | {"bucket": "another"}, "storage-credential": credential("two")}, REFUSED),
        ({"storage-profile": {"type": "local", "directory": str(tmp_path / "lake")}}, REFUSED),
        ({"storage-profile": current | {"endpoint": f"{store.endpoint}/other"}, "storage-credential": credential("two")}, REFUSED),
        ({"storage-profile": current}, MISSING),
        (
            {"storage-profile": current | {"sts-endpoint": "http://10.0.0.1"}, "storage-credential": credential("two")},
            (403, "ForbiddenException"),
        ),
        ({"storage-profile": current | {"unknown": 1}}, (400, "BadRequestException")),
        ({"storage-credential": credential("two")}, (400, "BadRequestException")),
        ({"storage-profile": current, "credential": credential("two")}, (400, "BadRequestException")),
    ):
        assert error == lake.call_warehouse("POST", "/storage", body).error, body
    for body in ({"new-storage-credential": {"type": "s3"}}, {"storage-credential": credential("two")}):
        assert (400, "BadRequestException") == lake.call_warehouse("POST", "/storage-credential", body).error
    assert MISSING == changed_credential(lake, None).error
    assert asked == len(store.used), "the store was not contacted"
    for refused in (
        changed_credential(lake, "bad"),
        lake.call_warehouse("POST", "/storage", {"storage-profile": current, "storage-credential": credential("bad")}),
    ):
        assert (400, "StoreCheckFailedException") == refused.error
    assert before == lake.call_warehouse("GET").json
    assert position + 1 == lake.commit(["n"], "t", set_properties(last="2")).position
    assert (1, 1) == stored(database)
    for path, body in (("/storage", {"storage-profile": current}), ("/storage-credential", {})):
        assert (404, "NoSuchWarehouseException") == lake.call_management("POST", f"/{uuid7()}{path}", body).error


def test_a_key_gets_its_response_again(lake: Management, database: str) -> None:
    """A repeated request destroys nothing. Another credential with the key is refused."""
    key = uuid7()
    first = changed_credential(lake, "two", key=key)
    assert (200, first.body) == (first.status, changed_credential(lake, "two", key=key).body)
    assert (422, "UnprocessableEntityException") == changed_credential(lake, "three", key=key).error
    assert 200 == changed_credential(lake, "four").status
    assert (200, first.body) == (first.status, changed_credential(lake, "two", key=key).body)
    assert 200 == lake.commit(["n"], "t", set_properties(last="1")).status
    assert (3, 1) == stored(database)


def test_a_hook_sees_an_update_and_may_refuse_it(database: str, tmp_path: Path, s3_server: S3Server, store: KeyedStore) -> None:
    """It sees the profile, never a credential. A refused credential is destroyed."""
    judge = Judge()
    settings = {"warehouse_endpoints": (store.endpoint,)}
    with (
        served_catalog(database, tmp_path / "demo", prepare=asking(judge), **settings) as served,
        closing(Management(served.url)) as client,
    ):
        new = profile(s3_server, store)
        body = {"warehouse-name": "lake", "storage-profile": new, "storage-credential": credential("one")}
        client.prefix = client.call_management("POST", "", body).json["warehouse-id"]
        body = {"storage-profile": new | {"region": "mars-2"}, "storage-credential": credential("two")}
        for verdict in (Refuse("no"), Hold("somebody must look", 60.0)):
            judge.always(verdict)
            assert (409, "ChangeRefusedException") == client.call_warehouse("POST", "/storage", body).error
            assert (409, "ChangeRefusedException") == changed_credential(client, "two").error
        assert (5, 1) == stored(database)
        (change,) = judge.shown[-2].objects
        assert ("mars-2", ("warehouse.storage-profile-changed.v1",)) == ((change.after or {})["region"], change.topics)
        assert ("warehouse.storage-credential-changed.v1",) == judge.shown[-1].objects[0].topics
        assert "secret-of" not in str(judge.shown)
        judge.say = None
        assert 200 == client.call_warehouse("POST", "/storage", body).status
    assert (6, 1) == stored(database)


@pytest.fixture
async def processes(database: str, tmp_path: Path) -> AsyncIterator[tuple[Application, Application]]:
    """Two processes on one log. The warehouse `demo` contains the namespace `n`."""
    async with AsyncExitStack() as opened:
        first, second = [await opened.enter_async_context(opened_catalog(database, tmp_path / "demo")) for _ in range(2)]
        warehouse = await resolve_warehouse(first.backends, PROJECT_ID, "demo")
        await create_namespace(first.commands, context("createNamespace"), warehouse, CreateNamespace(NamespaceIdentifier(("n",)), {}))
        yield first, second


async def test_a_command_that_was_decided_on_the_former_profile_is_decided_again(
    processes: tuple[Application, Application], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The profile changes after its decision and before its append."""
    first, second = processes
    warehouse = await resolve_warehouse(first.backends, PROJECT_ID, "demo")
    profiles, submit = [], first.commands.decision_writer.append_batch

    async def after_the_change(decisions: Any) -> Any:
        profiles.append(decisions[0][0].profile)
        if len(profiles) == 1:
            command = UpdateStorageProfile(warehouse.profile.to_json() | {"allowed-locations": [f"file://{tmp_path}/imports"]})
            await update_storage(second.commands, context("updateStorageProfile"), warehouse, command)
        return await submit(decisions)

    monkeypatch.setattr(first.commands.decision_writer, "append_batch", after_the_change)
    table = CreateTable(NamespaceIdentifier(("n",)), "t", None, SCHEMA, None, None, {}, stage_create=False)
    assert 200 == (await create_table(first.commands, context("createTable"), warehouse, table)).status
    assert [0, 1] == [len(each.allowed) for each in profiles]


async def test_of_two_updates_at_once_both_are_checked(
    processes: tuple[Application, Application], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one would remove the location that the first one allows."""
    first, second = processes
    warehouse = await resolve_warehouse(first.backends, PROJECT_ID, "demo")
    refuse = module.refuse_shared_locations
    done = False

    def allowing(name: str) -> UpdateStorageProfile:
        return UpdateStorageProfile(warehouse.profile.to_json() | {"allowed-locations": [f"file://{tmp_path}/{name}"]})

    async def after_another(*arguments: Any) -> None:
        nonlocal done
        if not done:
            done = True
            # As a server of a version before, which does not wait for the lock.
            monkeypatch.setattr(module, "storage_lock", lambda _: AsyncExitStack())
            await update_storage(second.commands, context("updateStorageProfile"), warehouse, allowing("a"))
        await refuse(*arguments)

    monkeypatch.setattr(module, "refuse_shared_locations", after_another)
    with pytest.raises(IncompatibleStorageProfile, match="'allowed-locations' may not be changed"):
        await update_storage(first.commands, context("updateStorageProfile"), warehouse, allowing("b"))


async def test_a_new_location_that_another_warehouse_reaches_otherwise_is_refused(
    processes: tuple[Application, Application], tmp_path: Path
) -> None:
    """Through a symbolic link, as at a creation."""
    first, second = processes
    warehouse = await resolve_warehouse(first.backends, PROJECT_ID, "demo")
    (tmp_path / "sea").mkdir()
    (tmp_path / "link").symlink_to("sea")
    command = CreateWarehouse("sea", {"type": "local", "directory": str(tmp_path / "sea")})
    await create_warehouse(second.commands, context("createWarehouse"), command)
    change = UpdateStorageProfile(warehouse.profile.to_json() | {"allowed-locations": [f"file://{tmp_path}/link"]})
    with pytest.raises(BadRequest, match="of the warehouse sea through a symbolic link"):
        await update_storage(first.commands, context("updateStorageProfile"), warehouse, change)


def test_an_operator_changes_the_key_of_credentials(lake: Management, database: str, tmp_path: Path) -> None:
    """With both keys; then the new one suffices. Without the former one nothing is changed, and the exit code says so."""
    former, new = tmp_path / "former", base64.b64encode(b"n" * 32).decode()
    former.write_text(SECRET_KEY)
    environment = clean_environment() | {"ICECORE_DATABASE_URL": database, "ICECORE_SECRET_KEY": new, "COLUMNS": "80"}
    assert 200 == lake.commit(["n"], "t", set_properties(before="1")).status

    def rewrap(*arguments: str, **more: str) -> tuple[int, str, str]:
        command = [PROGRAM, "secrets", "rewrap", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment | more, check=False)
        return done.returncode, done.stdout, done.stderr

    code, printed, failed = rewrap("--json")
    assert (1, {"rewrapped": 0, "unreadable": 1}) == (code, json.loads(printed))
    assert "no key decrypts the credential " in failed
    both = {"ICECORE_SECRET_KEY_FILES_PREVIOUS": str(former)}
    for count in (1, 0):
        expected = f"credentials encrypted with the current key: {count}; that no key decrypts: 0\n"
        assert (0, expected, "") == rewrap(**both)
    assert (0, {"rewrapped": 0, "unreadable": 0}) == (rewrap("--json")[0], json.loads(rewrap("--json")[1]))


def test_an_operator_updates_storage_at_the_command_line(lake: Management, database: str, store: KeyedStore, tmp_path: Path) -> None:
    """Each check is printed to standard error, the warehouse to standard output, and no secret to either."""

    def run(*arguments: str) -> tuple[int, str, str]:
        done = icecore(database, "warehouse", *arguments)
        assert "secret-of" not in done.stdout + done.stderr
        return done.returncode, done.stdout, done.stderr

    file = tmp_path / "credential.json"
    file.write_text(json.dumps(credential("two")))
    code, printed, checks = run("credential", "lake", "--credential", f"@{file}")
    assert (0, f"lake  {lake.prefix}  active, format versions 1, 2, 3, hard deletion\n") == (code, printed)
    assert ["write", "read", "list", "delete"] == [line.split()[0] for line in checks.splitlines()]
    store.revoked.add("one")
    assert 200 == lake.commit(["n"], "t", set_properties(by="two")).status
    current = lake.call_warehouse("GET").json["storage-profile"]
    code, printed, checks = run(
        "storage", lake.prefix, "--profile", json.dumps(current | {"region": "mars-2"}), "--credential", f"@{file}", "--json"
    )
    assert (0, "mars-2") == (code, json.loads(printed)["storage-profile"]["region"])
    code, printed, checks = run("storage", "lake", "--profile", json.dumps(current | {"bucket": "another"}), "--credential", f"@{file}")
    assert (2, "") == (code, printed)
    assert "icecore: Invalid storage-profile: 'bucket' may not be changed" in checks
    store.revoked.add("two")
    code, printed, checks = run(
        "credential", "lake", "--credential", json.dumps(credential("two") | {"aws-secret-access-key": "secret-of-x"})
    )
    assert (2, True) == (code, "icecore: The store failed the check " in checks)
    assert (2, 1) == stored(database)


def test_new_tables_follow_the_storage_layout(client: Management, tmp_path: Path) -> None:
    """From the update on. Existing tables stay where they are, and views follow too."""
    base = f"file://{tmp_path}/demo"
    assert 200 == client.create_namespace("n").status
    before = client.create_table(["n"], "t").json["metadata"]["location"]
    assert before.startswith(f"{client.call('GET', '/namespaces/n').json['properties']['location']}/")
    current = client.call_warehouse("GET").json["storage-profile"]
    layout = {"type": "tabular-only", "tabular": "t-{uuid}"}
    assert 200 == client.call_warehouse("POST", "/storage", {"storage-profile": current | {"storage-layout": layout}}).status
    created = client.create_table(["n"], "u").json["metadata"]
    assert re.fullmatch(re.escape(base) + r"/t-[0-9a-f-]{36}", created["location"])
    assert 200 == client.commit(["n"], "u", set_properties(a="1")).status
    assert before == client.load_table(["n"], "t").json["metadata"]["location"]
    named = current | {"storage-layout": {"type": "tabular-only", "tabular": "{name}"}}
    assert (406, "UnsupportedOperationException") == client.call_warehouse("POST", "/storage", {"storage-profile": named}).error


def test_a_deletion_destroys_the_credential_that_came_during_it(
    lake: Management, servers: tuple[CatalogServer, CatalogServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request began with the former one."""
    assert 204 == lake.call("DELETE", "/namespaces/n/tables/t").status
    assert 204 == lake.call("DELETE", "/namespaces/n").status
    resolve, changed = _DeletionHandler.resolve, False

    async def late(deletion: _DeletionHandler) -> CommandTargets:
        nonlocal changed
        if not changed:
            changed = True
            with closing(Management(servers[1].url)) as other:
                other.prefix = lake.prefix
                path = "/storage-credential"
                assert (
                    200
                    == (await asyncio.to_thread(other.call_warehouse, "POST", path, {"new-storage-credential": credential("two")})).status
                )
        return await resolve(deletion)

    monkeypatch.setattr(_DeletionHandler, "resolve", late)
    assert 204 == lake.call_warehouse("DELETE", "").status
    with psycopg.connect(servers[0].dsn) as connection:
        assert [(0,)] == connection.execute("select count(*) from icecore.secrets where destroyed_at is null").fetchall()
