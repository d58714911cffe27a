"""Two profiles of the same location in a store are detected, whichever URL style each uses."""

from typing import Any

import pytest

from icecore.domain.errors import BadRequest
from icecore.storage.profiles import S3Profile, parse_storage_profile
from icecore.storage.same_bucket import refuse_bucket_before_address, refuse_bucket_in_endpoint, shared_buckets


def profile(endpoint: str | None, bucket: str = "data", key_prefix: str | None = None, **more: Any) -> S3Profile:
    fields = {"type": "s3", "region": "eu-central-1", "endpoint": endpoint, "bucket": bucket, "key-prefix": key_prefix, **more}
    parsed = parse_storage_profile(fields)
    assert isinstance(parsed, S3Profile)
    return parsed


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (profile("http://minio:9000"), profile("http://minio:9000"), False),  # claims overlap
        (profile("http://minio:9000"), profile("http://other:9000"), False),
        (profile("http://minio:9000"), profile("http://minio:9001"), False),
        (profile("http://minio"), profile("https://minio"), True),
        (profile("http://localhost:9000"), profile("http://127.0.0.1:9000"), True),
        (profile("http://127.0.0.2:9000"), profile("http://[::1]:9000", key_prefix="a"), True),
        (profile("http://0.0.0.0:9000"), profile("http://localhost:9000"), True),
        (profile("http://0:9000"), profile("http://[::]:9000"), True),
        (profile("http://[::ffff:127.0.0.1]:9000"), profile("http://LOCALHOST.:9000"), True),
        (profile("http://127.1:9000"), profile("http://[::1]:9000"), True),
        (profile("http://localhost:9000"), profile("http://localhost.example:9000"), False),
        (profile("http://localhost:9000"), profile("http://10.0.0.1:9000"), False),
        (profile("http://data.localhost:9000", "warehouse"), profile("http://127.0.0.1:9000"), True),
        (profile("http://localhost:9000"), profile("http://127.0.0.1:9001"), False),
        (profile("http://minio:80"), profile("https://minio", key_prefix="a"), True),
        (profile("http://minio", key_prefix="ab"), profile("https://minio", key_prefix="a"), False),
        (profile("http://minio"), profile("https://minio", "elsewhere", **{"allowed-locations": ["s3://data/a"]}), True),
        (profile("http://minio:9000"), profile("http://minio:9000/data", "warehouse"), True),
        (profile("http://minio:9000"), profile("http://minio:9000/other", "warehouse"), False),
        (profile("http://minio:9000"), profile("http://data.minio:9000", "warehouse"), True),
        (profile("http://minio:9000", key_prefix="a"), profile("http://data.minio:9000", "warehouse"), False),
        (profile("http://minio:9000", key_prefix="warehouse/a"), profile("http://data.minio:9000", "warehouse"), True),
        (profile(None), profile("http://minio:9000"), False),
    ],
)
def test_a_location_with_two_names_is_found(one: S3Profile, other: S3Profile, shared: bool) -> None:
    """In either order. With the same endpoint there is no error, because claims overlap."""
    assert shared == (shared_buckets(one, other) is not None)
    assert shared == (shared_buckets(other, one) is not None)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://data.minio:9000",
        "http://DATA.minio:9000",
        "http://minio:9000/data/x",
        "https://data.s3.eu-central-1.amazonaws.com",
        "https://other.s3.amazonaws.com",
        "http://allowed.minio:9000",
    ],
)
def test_an_endpoint_that_names_a_bucket_is_refused(endpoint: str) -> None:
    """In the profile or its allowed locations; for AWS in any form."""
    with pytest.raises(BadRequest, match="endpoint must not contain the bucket"):
        refuse_bucket_in_endpoint(profile(endpoint, **{"allowed-locations": ["s3://allowed/a"]}))


@pytest.mark.parametrize(
    "endpoint",
    [
        None,
        "http://minio:9000",
        "http://database.minio:9000",
        "https://abc.storage.example/storage/v1/s3",
        "https://s3.eu-central-1.amazonaws.com",
        "https://s3-fips.dualstack.us-east-1.amazonaws.com",
        "https://bucket.vpce-1a2b-3c.s3.us-east-1.vpce.amazonaws.com",
    ],
)
def test_an_endpoint_without_a_bucket_is_taken(endpoint: str | None) -> None:
    """The usual addresses of stores."""
    refuse_bucket_in_endpoint(profile(endpoint))


@pytest.mark.parametrize(
    "endpoint", ["http://127.1:9000", "http://10.0.0.5:9000", "http://2130706433", "http://0x7f.1", "http://[::1]", "http://a.5"]
)
def test_no_bucket_is_put_before_an_address(endpoint: str) -> None:
    """The bucket 10.0 at 127.1, which is 127.0.0.1, would be the server 10.0.127.1: one that the operator has not permitted."""
    refuse_bucket_before_address(profile(endpoint, "10.0"))
    with pytest.raises(BadRequest, match="path-style-access must be true"):
        refuse_bucket_before_address(profile(endpoint, "10.0", **{"path-style-access": False}))


@pytest.mark.parametrize("endpoint", [None, "http://localhost:9000", "http://minio:9000", "https://10.example"])
def test_a_bucket_may_be_put_before_a_name(endpoint: str | None) -> None:
    """Also before `localhost`, whose subdomains are this machine."""
    refuse_bucket_before_address(profile(endpoint, "10.0", **{"path-style-access": False}))
