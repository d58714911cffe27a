"""The server's own AWS identity: used by the warehouses that name it, through a role, renewed, and never otherwise."""

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from icecore.domain.errors import ServiceUnavailable
from icecore.storage import renewed_credentials
from icecore.storage.credentials import parse_storage_credential
from icecore.storage.object_store import ObjectStore, ObjectStores
from icecore.storage.profiles import parse_storage_profile
from icecore.storage.store_checks import check_store
from icecore.storage.system_credentials import SystemCredentials
from tests.fixtures.aws_server import EXTERNAL_ID, ROLE_ARN, AwsRelay, AwsServer, aws_relay, aws_server, no_aws_environment, role_profile
from tests.fixtures.object_stores import S3_CREDENTIAL, failure, readable_again

__all__ = ["aws_relay", "aws_server", "no_aws_environment"]

ROLE_ONLY, DIRECT = SystemCredentials(aws=True), SystemCredentials(aws=True, s3_direct=True)
SYSTEM = {"type": "s3", "credential-type": "aws-system-identity"}
WITH_ID = SYSTEM | {"external-id": EXTERNAL_ID}
CANARY = "canary-7c2e"

pytestmark = pytest.mark.usefixtures("no_aws_environment")


@pytest.fixture
def identity(no_aws_environment: None, aws_server: AwsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's key is in the environment."""
    for name, value in aws_server.environment.items():
        monkeypatch.setenv(name, value)


async def opened(profile: dict[str, Any], credential: dict[str, Any] | None, system: SystemCredentials = ROLE_ONLY) -> ObjectStore:
    parsed = None if credential is None else parse_storage_credential(credential)
    return await ObjectStores(system=system).open(parse_storage_profile(profile), parsed)


@pytest.mark.usefixtures("identity")
async def test_a_warehouse_uses_its_role(aws_server: AwsServer, aws_relay: AwsRelay) -> None:
    """Every request is signed by one session of the role, which the external id opened."""
    profile = role_profile(aws_server, aws_relay.endpoint)
    await check_store(await opened(profile, WITH_ID), parse_storage_profile(profile), lambda _: None)
    assert [(ROLE_ARN, EXTERNAL_ID)] == [(asked["RoleArn"], asked["ExternalId"]) for asked in aws_relay.assumed]
    [key] = set(aws_relay.keys)
    assert key is not None
    assert key.startswith("ASIA")
    assert all("x-amz-security-token" in request.headers for request in aws_relay.seen if request.key_id == key)


@pytest.mark.usefixtures("identity")
async def test_the_identity_alone_may_not_read(aws_server: AwsServer, aws_relay: AwsRelay) -> None:
    """The control of the test above: the user's own key opens no bucket, nor does the role with another external id."""
    profile = role_profile(aws_server, aws_relay.endpoint)
    direct = {name: value for name, value in profile.items() if name != "assume-role-arn"}
    assert "it responded with status 403" in await failure(await opened(direct, SYSTEM, DIRECT))
    assert {aws_server.key_id} == set(aws_relay.keys)
    refused = await failure(await opened(profile, SYSTEM | {"external-id": "another's"}))
    assert "AWS STS refuses the server's AWS identity: AccessDenied" in refused


async def test_the_keys_of_an_instance_are_used(aws_server: AwsServer, aws_relay: AwsRelay, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the metadata service, with their session token."""
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", aws_relay.endpoint)
    profile = role_profile(aws_server, aws_relay.endpoint)
    del profile["assume-role-arn"]
    with aws_server.unchecked():
        await (await opened(profile, SYSTEM, DIRECT)).check_readable()
    assert "/latest/meta-data/iam/security-credentials/default-role" in [request.path for request in aws_relay.seen]
    assert ("test-key", "test-session-token") == (aws_relay.seen[-1].key_id, aws_relay.seen[-1].headers["x-amz-security-token"])


async def test_a_web_identity_is_used(aws_server: AwsServer, aws_relay: AwsRelay, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a pod of EKS (IRSA): the token's role assumes that of the warehouse."""
    token = tmp_path / "token"
    token.write_text("token-of-the-pod")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", aws_relay.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    profile = role_profile(aws_server, aws_relay.endpoint)
    with aws_server.unchecked():
        await (await opened(profile, WITH_ID)).check_readable()
    assert ["AssumeRoleWithWebIdentity", "AssumeRole"] == [asked["Action"] for asked in aws_relay.assumed]
    assert "token-of-the-pod" == aws_relay.assumed[0]["WebIdentityToken"]


@pytest.mark.parametrize("credential", [None, S3_CREDENTIAL])
async def test_no_other_warehouse_uses_the_identity(
    aws_server: AwsServer, aws_relay: AwsRelay, monkeypatch: pytest.MonkeyPatch, credential: dict[str, Any] | None
) -> None:
    """Anonymous or with its own key, a store signs as before, whatever the settings permit to others."""
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", aws_relay.endpoint)
    profile = role_profile(aws_server, aws_relay.endpoint)
    for system in (SystemCredentials(), DIRECT):
        for name, value in ({}, aws_server.environment)[system.aws].items():
            monkeypatch.setenv(name, value)
        before = len(aws_relay.seen)
        await failure(await opened(profile, credential, system))
        assert before < len(aws_relay.seen)
    assert {None if credential is None else S3_CREDENTIAL["aws-access-key-id"]} == set(aws_relay.keys)
    assert not any("meta-data" in request.path or "x-amz-security-token" in request.headers for request in aws_relay.seen)


@pytest.mark.usefixtures("identity")
async def test_without_the_setting_nothing_is_asked(aws_server: AwsServer, aws_relay: AwsRelay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a warehouse that was created with it; the reason names the setting. With it, both are asked."""
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", aws_relay.endpoint)
    profile = role_profile(aws_server, aws_relay.endpoint)
    with pytest.raises(ServiceUnavailable, match="ICECORE_ENABLE_AWS_SYSTEM_CREDENTIALS"):
        await opened(profile, WITH_ID, SystemCredentials())
    assert [] == aws_relay.seen
    await (await opened(profile, WITH_ID)).check_readable()
    assert [] != aws_relay.seen


@pytest.mark.usefixtures("identity")
async def test_a_session_is_renewed_before_it_expires(aws_server: AwsServer, aws_relay: AwsRelay) -> None:
    """After half its time if it is short; no request is signed by one that has expired."""
    ends: dict[str | None, datetime] = {}

    def shorten(body: bytes) -> bytes:
        if (key := re.search(b"<AccessKeyId>([^<]+)", body)) is not None:
            ends[key[1].decode()] = end = datetime.now(UTC) + timedelta(seconds=2)
            body = re.sub(b"<Expiration>[^<]+", f"<Expiration>{end:%Y-%m-%dT%H:%M:%S.%fZ}".encode(), body)
        return body

    aws_relay.edit = shorten
    store = await opened(role_profile(aws_server, aws_relay.endpoint), WITH_ID)
    while len(set(aws_relay.keys)) < 4:
        began = datetime.now(UTC)
        await store.check_readable()
        assert began < ends[aws_relay.keys[-1]]
        await asyncio.sleep(0.1)
    assert set(aws_relay.keys) <= ends.keys()


@pytest.mark.usefixtures("identity")
async def test_a_session_is_used_while_it_cannot_be_renewed(aws_server: AwsServer, aws_relay: AwsRelay) -> None:
    """Requests do not wait for a renewal as long as the session is valid; then they fail, and are answered once STS is back."""
    sts = AwsRelay(aws_server.endpoint)
    try:
        sts.edit = lambda body: re.sub(
            b"<Expiration>[^<]+", f"<Expiration>{datetime.now(UTC) + timedelta(seconds=6):%Y-%m-%dT%H:%M:%S.%fZ}".encode(), body
        )
        store = await opened(role_profile(aws_server, aws_relay.endpoint, **{"sts-endpoint": sts.endpoint}), WITH_ID)
        await store.check_readable()
        sts.status = 503
        await asyncio.sleep(3.5)
        await store.check_readable()
        await asyncio.sleep(3)
        assert "could not be used" in await failure(store)
        sts.status = None
        await asyncio.sleep(renewed_credentials.RETRY_SECONDS)
        await store.check_readable()
    finally:
        sts.close()


@pytest.mark.usefixtures("identity")
async def test_a_hanging_sts_holds_up_nothing_else(aws_server: AwsServer, aws_relay: AwsRelay) -> None:
    """Its warehouse fails in time; the event loop runs on, and so do warehouses with a key or another role."""
    sts = AwsRelay(aws_server.endpoint)
    sts.is_hanging = True
    try:
        stores = ObjectStores(system=ROLE_ONLY)
        hanging = role_profile(aws_server, aws_relay.endpoint, **{"sts-endpoint": sts.endpoint})
        credential = parse_storage_credential(WITH_ID)
        store = await stores.open(parse_storage_profile(hanging), credential)
        other = await stores.open(parse_storage_profile(role_profile(aws_server, aws_relay.endpoint)), credential)
        began = time.monotonic()
        waiting = [asyncio.create_task(failure(store)) for _ in range(20)]
        while not sts.seen:
            await asyncio.sleep(0.01)
        await other.check_readable()
        assert not any(task.done() for task in waiting)
        assert 1 == len(sts.seen)
        for message in await asyncio.gather(*waiting):
            assert "was not found in time" in message
        assert time.monotonic() - began < renewed_credentials.FETCH_SECONDS_MAX + 1
    finally:
        sts.close()


@pytest.mark.parametrize("service", ["STS", "metadata"])
async def test_a_fetch_that_never_ends_is_abandoned(
    aws_server: AwsServer, aws_relay: AwsRelay, monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    """The next one does not wait for anything that the first one holds, and the other warehouses of the identity are used meanwhile."""
    monkeypatch.setattr(renewed_credentials, "FETCH_SECONDS_MAX", 1.0)
    monkeypatch.setattr(renewed_credentials, "ABANDONED_SECONDS", 2.0)
    endless = AwsRelay(aws_server.endpoint)
    endless.is_endless = True
    try:
        profile = role_profile(aws_server, aws_relay.endpoint)
        if service == "STS":
            for name, value in aws_server.environment.items():
                monkeypatch.setenv(name, value)
            profile["sts-endpoint"] = endless.endpoint
        else:
            monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", endless.endpoint)
            del profile["assume-role-arn"]
        stores = ObjectStores(system=DIRECT)
        store = await stores.open(parse_storage_profile(profile), parse_storage_credential(WITH_ID if service == "STS" else SYSTEM))
        assert "was not found in time" in await failure(store)
        endless.is_endless = False
        with aws_server.unchecked():
            async with asyncio.timeout(10):
                await readable_again(store)
        assert not endless.released.is_set()
    finally:
        endless.close()


@pytest.mark.usefixtures("identity")
async def test_a_refusal_shows_only_its_code(aws_server: AwsServer, aws_relay: AwsRelay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what STS says, which may be anything, nor the role's external id; and the next request asks no more at once."""
    monkeypatch.setattr(renewed_credentials, "RETRY_SECONDS", 3.0)
    aws_relay.status = 403
    aws_relay.response = f"<ErrorResponse><Error><Code>AccessDenied</Code><Message>{CANARY}</Message></Error></ErrorResponse>".encode()
    store = await opened(role_profile(aws_server, aws_relay.endpoint), WITH_ID)
    message = await failure(store)
    assert "AWS STS refuses the server's AWS identity: AccessDenied" in message
    assert CANARY not in message
    assert EXTERNAL_ID not in message
    assert message == await failure(store)
    assert 1 == len(aws_relay.seen)
    aws_relay.response = f"<ErrorResponse><Error><Code>{CANARY} x</Code></Error></ErrorResponse>".encode()
    await asyncio.sleep(renewed_credentials.RETRY_SECONDS)
    assert "unknown error" in await failure(store)


async def test_a_server_without_identity_says_so(aws_server: AwsServer, aws_relay: AwsRelay) -> None:
    """Neither in its environment nor elsewhere."""
    profile = role_profile(aws_server, aws_relay.endpoint)
    assert "the server has no AWS identity" in await failure(await opened(profile, WITH_ID))
    del profile["assume-role-arn"]
    assert "the server has no AWS identity" in await failure(await opened(profile, SYSTEM, DIRECT))
    assert [] == aws_relay.seen
