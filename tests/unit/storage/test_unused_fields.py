"""Fields that have no effect are found where they were given, unless their value describes what Icecore does."""

import re
from typing import Any

import pytest

from icecore.storage.credentials import parse_storage_credential
from icecore.storage.profiles import AdlsProfile, GcsProfile, S3Profile, parse_storage_profile
from icecore.storage.unused_fields import ROLE_FIELDS, UNUSED_FIELDS, unused_fields
from tests.servers.paths import ROOT

S3 = {"type": "s3", "bucket": "lake", "region": "eu-central-1"}
ROLE = {"assume-role-arn": "arn:aws:iam::1:role/r", "sts-endpoint": "https://sts.example.org"}
KEY = {"type": "s3", "credential-type": "access-key", "aws-access-key-id": "id", "aws-secret-access-key": "key"}
SYSTEM = {"type": "s3", "credential-type": "aws-system-identity"}
GCS, ADLS = {"type": "gcs", "bucket": "lake"}, {"type": "adls", "account-name": "account", "filesystem": "lake"}


def found(profile: dict[str, Any], credential: dict[str, Any] | None = None) -> list[str]:
    said = unused_fields(parse_storage_profile(profile), None if credential is None else parse_storage_credential(credential))
    return [re.fullmatch(r"storage-(?:profile|credential): ([a-z0-9-]+) has no effect: .+", each)[1] for each in said]  # type: ignore[index]


@pytest.mark.parametrize("profile", [S3, GCS, ADLS, {"type": "local", "directory": "/lake"}])
def test_a_profile_without_such_fields_has_none(profile: dict[str, Any]) -> None:
    """Its defaults were not given."""
    assert [] == found(profile)
    assert [] == found(profile | {"allowed-locations": []})


@pytest.mark.parametrize(
    ("profile", "field", "value"),
    [
        (S3 | {"flavor": "s3-compat"}, "sts-enabled", True),
        (S3, "sts-role-arn", "arn:aws:iam::1:role/r"),
        (S3, "sts-token-validity-seconds", 3600),
        (S3, "sts-session-tags", {"a": "b"}),
        (S3, "remote-signing-enabled", True),
        (S3, "remote-signing-url-style", "path"),
        (S3, "legacy-md5-behavior", True),
        (S3, "assume-role-arn", "arn:aws:iam::1:role/r"),
        (S3, "sts-endpoint", "https://sts.example.org"),
        (GCS, "sts-enabled", True),
        (ADLS, "sas-enabled", True),
        (ADLS, "sas-token-validity-seconds", 900),
    ],
)
def test_a_field_that_is_given_is_found(profile: dict[str, Any], field: str, value: object) -> None:
    assert [field] == found(profile | {field: value})


@pytest.mark.parametrize(
    ("profile", "field", "value"),
    [
        (S3, "sts-enabled", False), (S3, "sts-session-tags", {}), (S3, "remote-signing-enabled", False), (S3, "legacy-md5-behavior", False),
        (GCS, "sts-enabled", False), (ADLS, "sas-enabled", False),
    ],
)  # fmt: skip
def test_a_value_that_describes_what_happens_is_not_found(profile: dict[str, Any], field: str, value: object) -> None:
    """Lakekeeper requires some of these fields."""
    assert [] == found(profile | {field: value})


def test_the_fields_of_a_role_have_an_effect_with_the_server_s_identity() -> None:
    """With any other credential they have none."""
    assert [] == found(S3 | ROLE, SYSTEM | {"external-id": "x"})
    assert ["external-id"] == found(S3, SYSTEM | {"external-id": "x"})
    assert ["assume-role-arn", "sts-endpoint", "external-id"] == found(S3 | ROLE, KEY | {"external-id": "x"})
    assert ["assume-role-arn", "sts-endpoint"] == found(S3 | ROLE)


def test_the_page_on_storage_lists_them() -> None:
    """All of them, and only fields that profiles and credentials have."""
    page = (ROOT / "docs" / "how-to" / "storage.md").read_text()
    section = page.partition("## Fields without effect\n")[2].partition("\n## ")[0]
    listed = {name for row in re.findall(r"^\| (`.+?) \|", section, re.MULTILINE) for name in re.findall(r"`([a-z0-9-]+)`", row)}
    assert listed == {name for fields in UNUSED_FIELDS.values() for name in fields} | set(ROLE_FIELDS)
    known = {name.replace("_", "-") for kind in (S3Profile, GcsProfile, AdlsProfile) for name in kind.model_fields}
    assert {"external-id"} == listed - known
