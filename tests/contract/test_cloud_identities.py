"""The server's own identities in Google Cloud and Azure: used by the warehouses that name them, renewed, and never otherwise."""

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from icecore.domain.errors import BadRequest, ServiceUnavailable
from icecore.storage import renewed_credentials
from icecore.storage.credentials import parse_storage_credential
from icecore.storage.object_store import ObjectStore, ObjectStores
from icecore.storage.profiles import parse_storage_profile
from icecore.storage.system_credentials import SystemCredentials
from tests.fixtures.cloud_server import ADLS_PROFILE, GCS_PROFILE, IDENTITY_HEADER, TENANT, CloudServer, cloud_server, machine
from tests.fixtures.object_stores import failure, readable_again

__all__ = ["cloud_server", "machine"]

GCP = {"type": "gcs", "credential-type": "gcp-system-identity"}
AZURE = {"type": "az", "credential-type": "azure-system-identity"}
SETTINGS = {
    "gcp-system-identity": "ICECORE_ENABLE_GCP_SYSTEM_CREDENTIALS",
    "azure-system-identity": "ICECORE_ENABLE_AZURE_SYSTEM_CREDENTIALS",
}
ONLY_GCP, ONLY_AZURE, BOTH = SystemCredentials(gcp=True), SystemCredentials(azure=True), SystemCredentials(gcp=True, azure=True)
CANARY = "canary-4b8e"

pytestmark = pytest.mark.usefixtures("machine")
both = pytest.mark.parametrize(("profile", "credential"), [(GCS_PROFILE, GCP), (ADLS_PROFILE, AZURE)], ids=["gcp", "azure"])


async def opened(profile: dict[str, Any], credential: dict[str, Any], stores: ObjectStores | None = None) -> ObjectStore:
    return await (stores or ObjectStores(system=BOTH)).open(parse_storage_profile(profile), parse_storage_credential(credential))


@both
async def test_a_warehouse_uses_the_identity(cloud_server: CloudServer, profile: dict[str, Any], credential: dict[str, Any]) -> None:
    """Every request has the one token that was issued. The store's other requests get 401."""
    store, base = await opened(profile, credential), parse_storage_profile(profile).base
    await store.check_readable()
    await store.put_new(base.child("a"), b"content")
    assert b"content" == await store.get(base.child("a"))
    assert [True, False] == [await store.exists(base.child(name)) for name in ("a", "b")]
    assert cloud_server.expires_at.keys() == set(cloud_server.tokens)
    cloud_server.expires_at.clear()
    assert "status 401" in await failure(store)


async def test_one_token_serves_all_warehouses(cloud_server: CloudServer) -> None:
    """Of one cloud."""
    stores = ObjectStores(system=BOTH)
    for profile, credential in ((GCS_PROFILE, GCP), (ADLS_PROFILE, AZURE)):
        for prefix in ("a", "b"):
            await (await opened(profile | {"key-prefix": prefix}, credential, stores)).check_readable()
    assert 2 == len(cloud_server.expires_at)


@both
async def test_without_the_setting_nothing_is_requested(
    cloud_server: CloudServer, profile: dict[str, Any], credential: dict[str, Any]
) -> None:
    """The other cloud's setting does not help; the reason names the one that does."""
    setting = SETTINGS[credential["credential-type"]]
    for system in (SystemCredentials(aws=True), ONLY_AZURE if credential == GCP else ONLY_GCP):
        stores = ObjectStores(system=system)
        with pytest.raises(ServiceUnavailable, match=setting):
            await opened(profile, credential, stores)
        with pytest.raises(BadRequest, match=setting):
            stores.open_new(parse_storage_profile(profile), parse_storage_credential(credential))
    assert [] == cloud_server.seen
    await (await opened(profile, credential, ObjectStores(system=ONLY_GCP if credential == GCP else ONLY_AZURE))).check_readable()
    assert [] != cloud_server.seen


async def test_no_other_warehouse_uses_the_identity(cloud_server: CloudServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With keys of their own, and whatever is in the environment."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account(tmp_path)))
    for name, value in workload_identity(tmp_path).items():
        monkeypatch.setenv(name, value)
    key = json.loads(service_account(tmp_path).read_text()) | {"client_email": "another@example.test"}
    await failure(await opened(GCS_PROFILE, {"type": "gcs", "credential-type": "service-account-key", "key": key}))
    assert [] == cloud_server.for_tokens
    # The client signs the token itself.
    assert b"another@example.test" in base64.urlsafe_b64decode((cloud_server.tokens[-1] or "").split(".")[1] + "==")
    secret = {"client-id": "another", "tenant-id": TENANT, "client-secret": "secret"}
    await (await opened(ADLS_PROFILE, {"type": "az", "credential-type": "client-credentials", **secret})).check_readable()
    await failure(await opened(ADLS_PROFILE, {"type": "az", "credential-type": "shared-access-key", "key": "a2V5"}))
    [request] = cloud_server.for_tokens
    assert ("another", "secret") == (request.form["client_id"], request.form["client_secret"])
    assert cloud_server.tokens[-1] is None


async def test_google_s_default_credentials_are_used(cloud_server: CloudServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From the file that the environment names, before the metadata service."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account(tmp_path)))
    await (await opened(GCS_PROFILE, GCP)).check_readable()
    assert ["oauth2.googleapis.com"] == [request.host for request in cloud_server.for_tokens]


@pytest.mark.parametrize("client_id", [None, "019ab5e0-0000-7000-8000-00000000000b"])
async def test_an_azure_identity_of_an_app_service_is_used(
    cloud_server: CloudServer, monkeypatch: pytest.MonkeyPatch, client_id: str | None
) -> None:
    """The one that AZURE_CLIENT_ID names, if it is set."""
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{cloud_server.endpoint}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", IDENTITY_HEADER)
    if client_id is not None:
        monkeypatch.setenv("AZURE_CLIENT_ID", client_id)
    await (await opened(ADLS_PROFILE, AZURE)).check_readable()
    [request] = cloud_server.for_tokens
    assert request.path.startswith("/msi/token?")
    assert (client_id is not None) == (f"client_id={client_id}" in request.path)


async def test_an_azure_workload_identity_is_used(cloud_server: CloudServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a pod of AKS: its token is exchanged for one of the application."""
    for name, value in workload_identity(tmp_path).items():
        monkeypatch.setenv(name, value)
    await (await opened(ADLS_PROFILE, AZURE)).check_readable()
    assert {"login.microsoftonline.com"} == {request.host for request in cloud_server.for_tokens}
    form = cloud_server.for_tokens[-1].form
    assert ("client-of-the-pod", "token-of-the-pod") == (form["client_id"], form["client_assertion"])


@both
async def test_a_token_is_renewed_before_it_expires(cloud_server: CloudServer, profile: dict[str, Any], credential: dict[str, Any]) -> None:
    """After half its time if it is short. No request has one that has expired: it would get 401."""
    cloud_server.token_seconds = 4
    store = await opened(profile, credential)
    while len(set(cloud_server.tokens)) < 4:
        await store.check_readable()
        await asyncio.sleep(0.1)


@both
async def test_a_token_is_used_while_it_cannot_be_renewed(
    cloud_server: CloudServer, profile: dict[str, Any], credential: dict[str, Any]
) -> None:
    """Requests do not wait for the renewal as long as the token is valid; then they fail, until the service is back."""
    cloud_server.token_seconds = 6
    store = await opened(profile, credential)
    await store.check_readable()
    cloud_server.token_status = 403
    await asyncio.sleep(3.5)
    await store.check_readable()
    await asyncio.sleep(3)
    assert "could not be used" in await failure(store)
    cloud_server.token_status = 200
    async with asyncio.timeout(20):
        await readable_again(store)


@both
async def test_a_hanging_service_holds_up_nothing_else(
    cloud_server: CloudServer, profile: dict[str, Any], credential: dict[str, Any]
) -> None:
    """Its warehouses fail in time after one fetch; the other cloud's are used meanwhile."""
    stores = ObjectStores(system=BOTH)
    hanging = await opened(profile, credential, stores)
    other = await opened(*((ADLS_PROFILE, AZURE) if credential == GCP else (GCS_PROFILE, GCP)), stores)
    await other.check_readable()
    cloud_server.is_hanging = True
    before = len(cloud_server.for_tokens)
    began = time.monotonic()
    waiting = [asyncio.create_task(failure(hanging)) for _ in range(20)]
    while len(cloud_server.for_tokens) == before:
        await asyncio.sleep(0.01)
    await other.check_readable()
    assert not any(task.done() for task in waiting)
    assert before + 1 == len(cloud_server.for_tokens)
    for message in await asyncio.gather(*waiting):
        assert "identity was not found in time" in message
    assert time.monotonic() - began < renewed_credentials.FETCH_SECONDS_MAX + 1


@both
async def test_a_fetch_that_never_ends_is_abandoned(
    cloud_server: CloudServer, monkeypatch: pytest.MonkeyPatch, profile: dict[str, Any], credential: dict[str, Any]
) -> None:
    """The next one does not wait for anything that the first one holds."""
    monkeypatch.setattr(renewed_credentials, "FETCH_SECONDS_MAX", 1.0)
    monkeypatch.setattr(renewed_credentials, "ABANDONED_SECONDS", 2.0)
    cloud_server.is_endless = True
    store = await opened(profile, credential)
    assert "was not found in time" in await failure(store)
    cloud_server.is_endless = False
    async with asyncio.timeout(10):
        await readable_again(store)
    assert not cloud_server.released.is_set()


@both
async def test_a_refusal_shows_nothing_of_the_response(
    cloud_server: CloudServer, capsys: pytest.CaptureFixture[str], profile: dict[str, Any], credential: dict[str, Any]
) -> None:
    """Neither in the message nor in the log, and nothing is sent to the store."""
    cloud_server.token_status, cloud_server.token_error = 400, json.dumps({"error": "invalid_request", "error_description": CANARY})
    message = await failure(await opened(profile, credential))
    assert "the server" in message
    assert CANARY not in message + "".join(capsys.readouterr())
    assert [] == cloud_server.to_stores


@both
async def test_a_server_without_identity_says_so(
    cloud_server: CloudServer, monkeypatch: pytest.MonkeyPatch, profile: dict[str, Any], credential: dict[str, Any]
) -> None:
    """No metadata service: the connection is refused."""
    monkeypatch.setenv("GCE_METADATA_IP", "127.0.0.1:1")
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1")
    monkeypatch.setattr(renewed_credentials, "FETCH_SECONDS_MAX", 20.0)
    cloud = "Google Cloud" if credential == GCP else "Azure"
    assert f"the server has no {cloud} identity" in await failure(await opened(profile, credential))
    assert [] == cloud_server.seen


def service_account(directory: Path) -> Path:
    """A key file of a service account."""
    pem = rsa.generate_private_key(public_exponent=65_537, key_size=2_048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file = directory / "service-account.json"
    file.write_text(
        json.dumps(
            {
                "type": "service_account", "client_email": "icecore@example.test", "private_key_id": "1", "private_key": pem.decode(),
                "token_uri": "https://oauth2.googleapis.com/token", "project_id": "project",
            }
        )
    )  # fmt: skip
    return file


def workload_identity(directory: Path) -> dict[str, str]:
    """The environment of a pod of AKS."""
    (directory / "token").write_text("token-of-the-pod")
    return {
        "AZURE_CLIENT_ID": "client-of-the-pod",
        "AZURE_TENANT_ID": TENANT,
        "AZURE_FEDERATED_TOKEN_FILE": str(directory / "token"),
        "AZURE_AUTHORITY_HOST": "https://login.microsoftonline.com/",
    }
