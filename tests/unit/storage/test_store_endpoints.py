"""The URL of a store, which errors name."""

from typing import Any

import pytest

from icecore.storage.profiles import parse_storage_profile

S3 = {"type": "s3", "bucket": "lake", "region": "eu-central-1", "sts-enabled": False}


@pytest.mark.parametrize(
    ("profile", "url"),
    [
        (S3, "https://s3.eu-central-1.amazonaws.com"),
        (S3 | {"endpoint": "http://minio:9000/"}, "http://minio:9000"),
        (S3 | {"region": "mars 1\n"}, None),
        ({"type": "gcs", "bucket": "lake"}, None),
        ({"type": "adls", "account-name": "account", "filesystem": "files"}, None),
        ({"type": "local", "directory": "/lake"}, None),
    ],
)
def test_a_store_is_named_by_its_endpoint(profile: dict[str, Any], url: str | None) -> None:
    """Only for S3. The locations on the others name the host, or there is only one."""
    assert url == parse_storage_profile(profile).endpoint_url
