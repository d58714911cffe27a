"""Where a role is assumed."""

from functools import partial
from typing import Any

import pytest

from icecore.storage.aws_identity import AwsIdentity
from icecore.storage.profiles import S3Profile, parse_storage_profile

ROLE = "arn:aws:iam::1:role/r"
S3 = {"type": "s3", "bucket": "lake", "region": "eu-central-1", "assume-role-arn": ROLE}
STORE, STS = {"endpoint": "https://store.example.org"}, {"sts-endpoint": "https://sts.example.org"}


@pytest.mark.parametrize(
    ("fields", "endpoint"),
    [
        ({"flavor": "aws"}, None),
        ({"flavor": "aws", **STORE}, None),
        ({"flavor": "aws", **STORE, **STS}, STS["sts-endpoint"]),
        ({"flavor": "s3-compat", **STORE}, STORE["endpoint"]),
        ({"flavor": "s3-compat", **STORE, **STS}, STS["sts-endpoint"]),
    ],
)
def test_a_store_other_than_aws_has_its_own_sts(fields: dict[str, Any], endpoint: str | None) -> None:
    """At its own address, unless the profile names another. AWS has one, whatever the address of its store is, such as a VPC endpoint's."""
    profile = parse_storage_profile(S3 | fields)
    assert isinstance(profile, S3Profile)
    fetch = AwsIdentity().credentials(profile, "external")._fetch
    assert isinstance(fetch, partial)
    assert (ROLE, "external", "eu-central-1", endpoint) == tuple(None if each is None else str(each).rstrip("/") for each in fetch.args)
