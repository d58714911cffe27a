"""The store of a new warehouse is tested as engines use it. A failing one is refused, and the test's files are deleted."""

import asyncio
import json
import os
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from uuid_utils.compat import uuid4, uuid7

from icecore.commands.execution.command_response import CommandResponse
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.domain.errors import ServiceUnavailable, StoreCheckFailed
from icecore.exit_codes import ExitCode
from icecore.storage.bucket_store import BucketStore
from icecore.storage.locations import StorageLocation
from icecore.storage.profiles import parse_storage_profile
from icecore.storage.store_checks import CHECKS_OF_ONE_STORE_MAX, StoreCheck, check_store
from tests.fixtures.catalog import context, served_catalog
from tests.fixtures.lossy_store_proxy import LossyStoreProxy
from tests.fixtures.object_stores import S3_CREDENTIAL, OddS3Server, OpenedStore, S3Server, files_below, odd_s3_profile, s3_profile
from tests.fixtures.operator_commands import icecore
from tests.fixtures.shared_server import SharedCatalog
from tests.integration.test_warehouse_routes import Management

ALL = ["write", "read", "list", "delete"]


def _create(shared_catalog: SharedCatalog, profile: Any, credential: Any, made: list[StoreCheck], **more: Any) -> CommandResponse:
    command = CreateWarehouse(f"checked-{uuid4().hex[:12]}", profile, credential)
    return shared_catalog.run(
        create_warehouse(shared_catalog.parts.commands, context("createWarehouse", **more), command, on_check=made.append)
    )


def _credentials(shared_catalog: SharedCatalog) -> Any:
    return shared_catalog.rows("select count(*) from icecore.secrets")


def test_each_check_is_reported_and_no_file_is_left(
    shared_catalog: SharedCatalog, s3_server: S3Server, s3_store: OpenedStore, tmp_path: Path
) -> None:
    """In a bucket with and without a prefix, and in a folder that does not exist yet."""
    bucket = s3_store.profile.to_json() | {"allowed-locations": []}
    whole = {name: value for name, value in bucket.items() if name != "key-prefix"} | {"bucket": s3_server.new_bucket()}
    local = {"type": "local", "directory": str(tmp_path / "lake" / "house")}
    for profile, credential in ((bucket, S3_CREDENTIAL), (whole, S3_CREDENTIAL), (local, None)):
        made: list[StoreCheck] = []
        assert 201 == _create(shared_catalog, profile, credential, made).status
        assert [(name, None) for name in ALL] == [(check.name, check.failure) for check in made]
        assert all(0 <= check.seconds < 5 for check in made)
    assert set() == files_below(s3_store, StorageLocation.parse(f"s3://{s3_store.profile.base.authority}/ware house"))
    assert [] == list((tmp_path / "lake" / "house").iterdir())


def test_the_folders_of_a_new_warehouse_are_on_the_disk(
    shared_catalog: SharedCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of tables are in them, and a commit syncs only the folders below."""
    fsync, synced = os.fsync, set[int]()

    def recorded(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", recorded)
    base = tmp_path / "lake" / "house"
    assert 201 == _create(shared_catalog, {"type": "local", "directory": str(base)}, None, []).status
    assert {folder.stat().st_ino for folder in (base, base.parent, tmp_path)} <= synced


@pytest.mark.parametrize("status", [403, 404, 503])
def test_a_store_that_refuses_is_refused(shared_catalog: SharedCatalog, odd_s3_server: OddS3Server, status: int) -> None:
    """With the check and the reason. No credential is stored, and the refusal is not stored for the key."""
    before, made = _credentials(shared_catalog), []
    odd_s3_server.status = status
    with pytest.raises(StoreCheckFailed, match="failed the check 'write'") as refusal:
        _create(shared_catalog, odd_s3_profile(odd_s3_server.endpoint), S3_CREDENTIAL, made, key=uuid7())
    assert (400, "StoreCheckFailedException", False) == (refusal.value.status, refusal.value.type, refusal.value.deterministic)
    reason = {403: "rejects the warehouse's credential", 404: "no such bucket", 503: "responded with status 503"}[status]
    assert reason in refusal.value.message
    assert "secret-access-key" not in refusal.value.message
    assert ["write"] == [check.name for check in made]
    assert before == _credentials(shared_catalog)


def test_a_store_that_hangs_is_refused_in_time(
    shared_catalog: SharedCatalog, odd_s3_server: OddS3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Independent of the client's timeout."""
    monkeypatch.setattr("icecore.storage.store_checks.CHECK_SECONDS_MAX", 0.5)
    odd_s3_server.hang()
    with pytest.raises(StoreCheckFailed, match=rf"the store at {odd_s3_server.endpoint} did not respond in 0\.5 seconds: s3://"):
        _create(shared_catalog, odd_s3_profile(odd_s3_server.endpoint), S3_CREDENTIAL, [])


def test_a_store_that_hangs_delays_no_other_store(
    shared_catalog: SharedCatalog, odd_s3_server: OddS3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checks run outside the lock for creations, and only a few at a time."""
    monkeypatch.setattr("icecore.storage.store_checks.CHECK_SECONDS_MAX", 60.0)
    monkeypatch.setattr("icecore.storage.store_checks.CHECK_WAIT_SECONDS_MAX", 0.5)
    odd_s3_server.hang()

    def creating(profile: Any, credential: Any) -> Coroutine[Any, Any, CommandResponse]:
        command = CreateWarehouse(f"checked-{uuid4().hex[:12]}", profile, credential)
        return create_warehouse(shared_catalog.parts.commands, context("createWarehouse"), command)

    async def together() -> None:
        there = odd_s3_profile(odd_s3_server.endpoint)
        hanging = [asyncio.create_task(creating(there, S3_CREDENTIAL)) for _ in range(CHECKS_OF_ONE_STORE_MAX)]
        async with asyncio.timeout(20):
            while len(odd_s3_server.seen) < CHECKS_OF_ONE_STORE_MAX:
                await asyncio.sleep(0.01)
        async with asyncio.timeout(5):
            assert 201 == (await creating({"type": "local", "directory": str(tmp_path / "lake")}, None)).status
            with pytest.raises(ServiceUnavailable):
                await creating(there, S3_CREDENTIAL)
        odd_s3_server.released.set()
        outcomes = await asyncio.gather(*hanging, return_exceptions=True)
        assert [StoreCheckFailed] * CHECKS_OF_ONE_STORE_MAX == [*map(type, outcomes)]

    shared_catalog.run(together())


def test_a_folder_that_cannot_be_written_is_refused(shared_catalog: SharedCatalog, tmp_path: Path) -> None:
    """Here a file has the folder's name."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreCheckFailed, match="failed the check 'write'"):
        _create(shared_catalog, {"type": "local", "directory": str(tmp_path / "file" / "lake")}, None, [])


class _Lacking(BucketStore):
    """A bucket whose store lacks one feature."""

    lacks = ""

    async def get(self, location: StorageLocation, **bounds: int) -> bytes:
        data = await super().get(location, **bounds)
        return data[1:] if self.lacks == "read" else data

    async def is_listed(self, location: StorageLocation) -> bool:
        return self.lacks != "list" and await super().is_listed(location)

    async def exists(self, location: StorageLocation, *, on_loop: bool = False) -> bool:
        return self.lacks == "delete" or await super().exists(location)


@pytest.mark.parametrize("lacks", ALL[1:])
async def test_each_check_can_fail(s3_store: OpenedStore, lacks: str) -> None:
    """The object is deleted in any case, and later checks are skipped."""
    assert isinstance(s3_store.store, BucketStore)
    store, made = _Lacking(s3_store.profile, s3_store.store._open_bucket), []
    store.lacks = lacks
    with pytest.raises(StoreCheckFailed, match=f"failed the check '{lacks}'"):
        await check_store(store, s3_store.profile, made.append)
    assert ALL[: ALL.index(lacks) + 1] == [check.name for check in made]
    assert set() == files_below(s3_store, s3_store.profile.base)


@pytest.fixture
def store_proxy(s3_server: S3Server) -> Iterator[LossyStoreProxy]:
    proxy = LossyStoreProxy(s3_server.endpoint)
    yield proxy
    proxy.close()


def test_over_http_the_same_key_succeeds_once_the_store_is_back(
    database: str, tmp_path: Path, s3_server: S3Server, store_proxy: LossyStoreProxy
) -> None:
    """Refusals because of the store are not stored for the key."""
    profile = s3_profile(s3_server) | {"endpoint": store_proxy.endpoint}
    with served_catalog(database, tmp_path / "demo", warehouse_endpoints=(store_proxy.endpoint,)) as served:
        client, key = Management(served.url), uuid7()
        store_proxy.is_away = True
        refused = client.create("lake", profile, S3_CREDENTIAL, key=key)
        assert (400, "StoreCheckFailedException") == refused.error
        assert "the connection was closed before a response" in refused.message
        store_proxy.is_away = False
        created = client.create("lake", profile, S3_CREDENTIAL, key=key)
        assert 201 == created.status, created.body
        store_proxy.is_away = True
        assert created.body == client.create("lake", profile, S3_CREDENTIAL, key=key).body
        client.close()


def test_the_command_prints_each_check(database: str, s3_server: S3Server, tmp_path: Path) -> None:
    """On standard error. Standard output has only the warehouse's id."""
    (tmp_path / "key.json").write_text(json.dumps(S3_CREDENTIAL))
    options = ["--profile", json.dumps(s3_profile(s3_server)), "--credential", f"@{tmp_path}/key.json"]
    made = icecore(database, "warehouse", "create", "lake", *options)
    assert 0 == made.returncode, made.stderr
    assert ["warehouse-id"] == list(json.loads(made.stdout))
    assert [[name, "ok"] for name in ALL] == [line.split()[:2] for line in made.stderr.splitlines()]
    bad = odd_s3_profile("http://127.0.0.1:1")
    refused = icecore(database, "warehouse", "create", "bad", "--profile", json.dumps(bad), "--credential", f"@{tmp_path}/key.json")
    assert ExitCode.USAGE == refused.returncode
    assert ["write", "failed"] == refused.stderr.splitlines()[0].split()[:2]
    assert "The object store at http://127.0.0.1:1 could not be used (the connection was refused): s3://" in refused.stderr
    skipping = {"ICECORE_SKIP_STORAGE_VALIDATION": "true"}
    assert 0 == icecore(database, "warehouse", "create", "bad", "--profile", json.dumps(bad), **skipping).returncode


@pytest.mark.parametrize(
    ("endpoint", "is_address"),
    [
        ("http://127.0.0.1:9000", True), ("http://localhost:9000", True), ("http://[::1]:9000", True), ("http://0x7f.1", True),
        ("http://minio:9000", False), ("https://10.example.org", False), (None, False),
    ],
)  # fmt: skip
def test_path_style_is_guessed_where_a_bucket_s_name_cannot_be_put_before_the_host(endpoint: str | None, is_address: bool) -> None:
    """Unless the profile sets it."""
    fields = {"type": "s3", "bucket": "lake", "region": "r", "endpoint": endpoint}
    assert is_address == parse_storage_profile(fields).to_json()["path-style-access"]
    for said in (True, False):
        assert said == parse_storage_profile(fields | {"path-style-access": said}).to_json()["path-style-access"]
