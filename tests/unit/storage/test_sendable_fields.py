"""Fields that make the client of the stores panic are refused in new profiles, and a stored profile with such fields is still read."""

import asyncio
from typing import Any

import pytest

from icecore.commands.warehouses.requested_storage import checked_profile
from icecore.domain.errors import BadRequest
from icecore.storage.credentials import parse_storage_credential
from icecore.storage.object_store import open_store
from icecore.storage.profiles import parse_storage_profile

S3 = {"type": "s3", "bucket": "lake", "region": "eu-central-1"}
S3_KEY = {"type": "s3", "credential-type": "access-key", "aws-access-key-id": "id", "aws-secret-access-key": "key"}
ADLS = {"type": "adls", "account-name": "account", "filesystem": "lake"}
PRINTABLE, URL = "must be printable ASCII", "must be an http or https URL"


@pytest.mark.parametrize(
    ("profile", "refusal"),
    [
        (S3 | {"region": "eu\ncentral"}, f"'region': {PRINTABLE}"),
        (S3 | {"region": "é"}, f"'region': {PRINTABLE}"),
        (S3 | {"aws-kms-key-arn": "arn\x1b"}, f"'aws-kms-key-arn': {PRINTABLE}"),
        (S3 | {"endpoint": "http://minio:9000/a b/.."}, f"'endpoint': {URL}"),
        (S3 | {"endpoint": "http://mi%nio:9000"}, f"'endpoint': {URL}"),
        (S3 | {"sts-endpoint": "http://sts:9000/<"}, f"'sts-endpoint': {URL}"),
        (ADLS | {"authority-host": "http://login:9000/`"}, f"'authority-host': {URL}"),
    ],
)
def test_a_new_profile_can_be_sent(profile: dict[str, Any], refusal: str) -> None:
    """Stored profiles are read: otherwise one of them would stop servers, or the creation of other warehouses."""
    with pytest.raises(BadRequest, match=f"^Invalid storage-profile: {refusal}"):
        checked_profile(profile, None)
    parse_storage_profile(profile)


@pytest.mark.parametrize(
    "profile",
    [
        S3 | {"endpoint": "HTTPS://Min_io-1.example.:443/a%20b/c;d=~e/", "sts-endpoint": "http://[::1]:9000"},
        S3 | {"aws-kms-key-arn": "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab"},
        S3 | {"region": "us east"},
        ADLS,
        {"type": "gcs", "bucket": "lake"},
        {"type": "local", "directory": "/lake/é"},
    ],
)
def test_other_profiles_are_accepted(profile: dict[str, Any]) -> None:
    checked_profile(profile, None)


@pytest.mark.parametrize("character", ["", *map(chr, range(33, 127)), " ", "%zz", "%2"])
def test_the_client_does_not_panic(character: str, capfd: pytest.CaptureFixture[str]) -> None:
    """With any URL that is accepted, and any credential."""
    fields = S3 | {"endpoint": f"http://127.0.0.1:1/{character}/..", "region": f"r{character}"}
    key = S3_KEY | {"aws-access-key-id": f"i{character}", "aws-secret-access-key": f"k{character}"}

    async def open_both() -> None:
        for profile in (fields, S3 | {"endpoint": f"http://127.0.0.1{character}:1"}):
            try:
                parsed = checked_profile(profile, None)
            except BadRequest:
                continue
            opened = open_store(parsed, parse_storage_credential(key))
            requests = asyncio.create_task(opened.exists(parsed.base.child("a")))
            # A panic is at once.
            await asyncio.wait([requests], timeout=0.02)
            requests.cancel()

    asyncio.run(open_both())
    assert "" == capfd.readouterr().err
