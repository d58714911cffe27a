"""Storage profiles: their JSON, the locations they permit, and the configuration for engines."""

import tracemalloc
from typing import Any
from uuid import UUID

import orjson
import pytest

from icecore.domain.errors import BadRequest, UnsupportedOperation
from icecore.storage.json_fields import JSON_BYTES_MAX
from icecore.storage.locations import StorageLocation
from icecore.storage.profiles import parse_storage_profile

ID = UUID("0198c0de-0000-7000-8000-000000000001")
LOCAL = {"type": "local", "directory": "/data/wh"}
S3 = {"type": "s3", "bucket": "bucket", "key-prefix": "wh", "region": "eu-central-1"}
GCS = {"type": "gcs", "bucket": "bucket", "key-prefix": "wh"}
ADLS = {"type": "adls", "account-name": "account", "filesystem": "files", "key-prefix": "wh"}


@pytest.mark.parametrize("json", [LOCAL, S3, GCS, ADLS])
def test_a_profile_is_what_its_json_says(json: dict[str, Any]) -> None:
    """Its JSON, with defaults filled in, parses to the same profile. Given fields are kept."""
    profile = parse_storage_profile(json)
    assert json.items() <= profile.to_json().items()
    again = parse_storage_profile(profile.to_json())
    assert profile == again
    assert hash(profile) == hash(again)
    assert [] == profile.to_json()["allowed-locations"]


@pytest.mark.parametrize(
    ("json", "base"),
    [
        (LOCAL, "file:///data/wh"),
        ({**LOCAL, "directory": "/data/it's 100% é/"}, "file:///data/it's 100% é"),
        (S3, "s3://bucket/wh"),
        ({**S3, "key-prefix": "/a/b/"}, "s3://bucket/a/b"),
        ({**S3, "key-prefix": None}, "s3://bucket"),
        (GCS, "gs://bucket/wh"),
        (ADLS, "abfss://files@account.dfs.core.windows.net/wh"),
        ({**ADLS, "type": "azdls", "host": "dfs.core.chinacloudapi.cn"}, "abfss://files@account.dfs.core.chinacloudapi.cn/wh"),
    ],
)
def test_the_base_of_a_profile(json: dict[str, Any], base: str) -> None:
    """Every kind has one base folder. A namespace's default location is its id below the base."""
    profile = parse_storage_profile(json)
    assert base == str(profile.base)
    assert f"{base}/{ID}" == str(profile.default_namespace_location(ID))
    assert profile.default_namespace_location(ID) == profile.parse_permitted(f"{base}/{ID}")


@pytest.mark.parametrize(
    ("json", "field"),
    [
        (None, "storage-profile"),
        ([], "storage-profile"),
        ({}, "type"),
        ({"type": "hdfs"}, "type"),
        ({"type": 1}, "type"),
        ({"type": "local"}, "directory"),
        ({**LOCAL, "directory": "relative"}, "directory"),
        ({**LOCAL, "directory": ""}, "directory"),
        ({**LOCAL, "directory": "/"}, "directory"),
        ({**LOCAL, "directory": "//"}, "directory"),
        ({**LOCAL, "directory": "/data/../etc"}, "directory"),
        ({**LOCAL, "directory": "/data/a#b"}, "directory"),
        ({**LOCAL, "directory": "/data\x00"}, "directory"),
        ({**LOCAL, "bucket": "bucket"}, "'bucket'"),
        ({**LOCAL, "allowed-locations": "file:/x"}, "allowed-locations"),
        ({**LOCAL, "allowed-locations": [1]}, "allowed-locations"),
        ({**LOCAL, "allowed-locations": ["/x"]}, "allowed-locations"),
        ({**LOCAL, "allowed-locations": ["file:/"]}, "allowed-locations"),
        ({**LOCAL, "allowed-locations": ["s3://bucket/x"]}, "allowed-locations"),
        ({**LOCAL, "allowed-locations": ["file:/x"] * 101}, "allowed-locations"),
        ({**S3, "bucket": "ab"}, "bucket"),
        ({**S3, "bucket": "Bucket"}, "bucket"),
        ({**S3, "bucket": "b" * 64}, "bucket"),
        ({**S3, "bucket": "bucket/x"}, "bucket"),
        ({**S3, "bucket": "bucket."}, "bucket"),
        ({**S3, "region": None}, "region"),
        ({**S3, "region": ""}, "region"),
        ({**S3, "key-prefix": "a/../b"}, "key-prefix"),
        ({**S3, "key-prefix": "a//b"}, "key-prefix"),
        ({**S3, "key-prefix": 7}, "key-prefix"),
        ({**S3, "endpoint": "minio:9000"}, "endpoint"),
        ({**S3, "endpoint": "ftp://minio"}, "endpoint"),
        ({**S3, "endpoint": "http://user:password@minio"}, "endpoint"),
        ({**S3, "endpoint": "http://minio:99999"}, "endpoint"),
        ({**S3, "endpoint": "http://minio?x=1"}, "endpoint"),
        ({**S3, "endpoint": "http://minio#x"}, "endpoint"),
        ({**S3, "endpoint": "http://minio\r\nX: y"}, "endpoint"),
        ({**S3, "sts-endpoint": "minio"}, "sts-endpoint"),
        ({**S3, "flavor": "ceph"}, "flavor"),
        ({**S3, "path-style-access": "true"}, "path-style-access"),
        ({**S3, "sts-enabled": True}, "sts-enabled"),
        ({**S3, "sts-token-validity-seconds": 899}, "sts-token-validity-seconds"),
        ({**S3, "sts-token-validity-seconds": 43_201}, "sts-token-validity-seconds"),
        ({**S3, "sts-token-validity-seconds": True}, "sts-token-validity-seconds"),
        ({**S3, "sts-session-tags": {"a": 1}}, "sts-session-tags"),
        ({**S3, "sts-session-tags": {f"t{number}": "x" for number in range(51)}}, "sts-session-tags"),
        ({**S3, "remote-signing-url-style": "x"}, "remote-signing-url-style"),
        ({**S3, "storage-layout": {"type": "table-only"}}, "storage-layout"),
        ({**S3, "access-key": "x"}, "'access-key'"),
        ({**S3, "allowed-locations": ["gs://bucket/x"]}, "allowed-locations"),
        ({**GCS, "bucket": "x"}, "bucket"),
        ({**GCS, "region": "x"}, "'region'"),
        ({**ADLS, "account-name": "An-Account"}, "account-name"),
        ({**ADLS, "filesystem": "a--", "host": "x"}, "filesystem"),
        ({**ADLS, "host": "127.0.0.1:80/x"}, "host"),
        ({**ADLS, "authority-host": "login"}, "authority-host"),
        ({**ADLS, "sas-token-validity-seconds": 43_201}, "sas-token-validity-seconds"),
    ],
)
def test_a_wrong_field_is_named(json: Any, field: str) -> None:
    """The message of the 400 contains the field."""
    with pytest.raises(BadRequest) as refusal:
        parse_storage_profile(json)
    assert field in refusal.value.message


def test_the_whole_of_lakekeepers_s3_profile_is_kept() -> None:
    """No field is dropped or renamed."""
    json = {
        "type": "s3",
        "bucket": "bucket",
        "key-prefix": "a/b",
        "region": "eu-central-1",
        "endpoint": "https://minio.example:9000",
        "sts-endpoint": "https://sts.example",
        "flavor": "s3-compat",
        "path-style-access": True,
        "sts-enabled": True,
        "remote-signing-enabled": False,
        "remote-signing-url-style": "path",
        "assume-role-arn": "arn:aws:iam::1:role/a",
        "sts-role-arn": "arn:aws:iam::1:role/b",
        "sts-token-validity-seconds": 1800,
        "sts-session-tags": {"team": "x"},
        "allow-alternative-protocols": True,
        "push-s3-delete-disabled": False,
        "aws-kms-key-arn": "arn:aws:kms:eu-central-1:1:key/x",
        "legacy-md5-behavior": True,
        "storage-layout": {"type": "default"},
        "allowed-locations": ["s3a://other/x"],
    }
    assert json == parse_storage_profile(json).to_json()


@pytest.mark.parametrize(
    ("alias", "same"),
    [
        ({**S3, "flavor": "minio"}, {**S3, "flavor": "s3-compat"}),
        ({**S3, "s3-url-detection-mode": "virtual_host"}, {**S3, "remote-signing-url-style": "virtual_host"}),
        ({**ADLS, "type": "azdls"}, ADLS),
    ],
)
def test_the_aliases_of_lakekeeper_are_accepted(alias: dict[str, Any], same: dict[str, Any]) -> None:
    """The profile has the usual spelling."""
    assert parse_storage_profile(same).to_json() == parse_storage_profile(alias).to_json()


def test_only_a_profile_that_says_so_keeps_clients_from_deleting() -> None:
    """In Lakekeeper, one that does not say otherwise."""
    assert {} == parse_storage_profile(S3).soft_deletion_config()
    assert {} == parse_storage_profile({**S3, "push-s3-delete-disabled": False}).soft_deletion_config()
    assert {"s3.delete-enabled": "false"} == parse_storage_profile({**S3, "push-s3-delete-disabled": True}).soft_deletion_config()
    assert {} == parse_storage_profile(GCS).soft_deletion_config()


def test_a_layout_that_an_update_does_not_give_stays() -> None:
    layout = {"type": "tabular-only", "tabular": "{uuid}"}
    current = parse_storage_profile({**S3, "storage-layout": layout})
    assert layout == parse_storage_profile(S3).replacing(current).to_json()["storage-layout"]
    assert layout == parse_storage_profile({**S3, "storage-layout": None}).replacing(current).to_json()["storage-layout"]
    assert {"type": "default"} == parse_storage_profile({**S3, "storage-layout": {}}).replacing(current).to_json()["storage-layout"]


def test_allowed_locations_let_in_themselves_and_below() -> None:
    """Locations strictly below the base, because a table may not take the whole warehouse."""
    profile = parse_storage_profile({**LOCAL, "allowed-locations": ["file:/scratch", "file:///im ports/$x/"]})
    for text in ("file:/scratch", "file:/scratch/ns/t", "file:/im ports/$x/t", "file:///data/wh/t/"):
        assert StorageLocation.parse_structure(text, field="t") == profile.parse_permitted(text)
    for text in ("file:/data/wh", "file:/scratch2", "file:/im ports", "file:/im ports/$y/t"):
        with pytest.raises(BadRequest, match="must be below"):
            profile.parse_permitted(text)
    with pytest.raises(BadRequest, match="any of"):
        profile.parse_permitted("file:/im ports/$x/$t")


def test_the_base_as_an_allowed_location_may_be_named_itself() -> None:
    """Listing the base permits it explicitly."""
    profile = parse_storage_profile({**LOCAL, "allowed-locations": ["file:/data/wh"]})
    assert profile.base == profile.parse_permitted("file:/data/wh")


def test_the_limit_counts_below_the_base() -> None:
    """A long base does not reduce the limit for clients."""
    profile = parse_storage_profile({**S3, "key-prefix": "p" * 900})
    profile.parse_permitted(f"{profile.base}/{'x' * 1024}")
    with pytest.raises(BadRequest, match="longer than"):
        profile.parse_permitted(f"{profile.base}/{'x' * 1025}")


def test_a_location_keeps_the_clients_spelling() -> None:
    """`file:/x` is kept in the document, and is the same location as `file:///x`."""
    profile = parse_storage_profile(LOCAL)
    location = profile.parse_permitted("file:/data/wh/ns/t/")
    assert "file:/data/wh/ns/t" == location.text
    assert "file:///data/wh/ns/t" == str(location)


@pytest.mark.parametrize(
    ("json", "text"),
    [
        (S3, "s3a://bucket/wh/t"),
        (S3, "s3n://bucket/wh/t"),
        (ADLS, "wasbs://files@account.blob.core.windows.net/wh/t"),
        (ADLS, "abfs://files@account.dfs.core.windows.net/wh/t"),
    ],
)
def test_aliases_need_permission(json: dict[str, Any], text: str) -> None:
    """The profile decides, as in Lakekeeper."""
    with pytest.raises(BadRequest, match="allow-alternative-protocols"):
        parse_storage_profile({**json, "allow-alternative-protocols": False}).parse_permitted(text)
    allowing = parse_storage_profile({**json, "allow-alternative-protocols": True})
    assert allowing.base.child("t") == allowing.parse_permitted(text)


def test_the_refusal_names_the_field() -> None:
    """The caller names the field."""
    with pytest.raises(BadRequest, match=r"^Invalid write\.data\.path: "):
        parse_storage_profile(LOCAL).parse_permitted("file:/x", field="write.data.path")


@pytest.mark.parametrize(
    ("json", "identity"),
    [
        (LOCAL, "local"),
        (S3, "s3"),
        ({**S3, "region": "us-east-1"}, "s3"),
        ({**S3, "endpoint": "https://s3.eu-central-1.amazonaws.com"}, "s3"),
        ({**S3, "endpoint": "https://s3.cn-north-1.amazonaws.com.cn/"}, "s3"),
        ({**S3, "endpoint": "http://minio:9000"}, "s3@minio:9000"),
        ({**S3, "endpoint": "http://MINIO:9000/"}, "s3@minio:9000"),
        ({**S3, "endpoint": "https://minio"}, "s3@minio:443"),
        ({**S3, "endpoint": "http://minio./x"}, "s3@minio:80/x"),
        ({**S3, "endpoint": "http://minio:80/"}, "s3@minio:80"),
        ({**S3, "endpoint": "http://minio:080//"}, "s3@minio:80"),
        ({**S3, "endpoint": "HTTPS://Minio.:443"}, "s3@minio:443"),
        ({**S3, "endpoint": "http://min%69o"}, "s3@minio:80"),
        ({**S3, "endpoint": "http://minio/./x/y/..//"}, "s3@minio:80/x"),
        ({**S3, "endpoint": "http://minio/%78"}, "s3@minio:80/x"),
        ({**S3, "endpoint": "http://127.1:9000"}, "s3@127.0.0.1:9000"),
        ({**S3, "endpoint": "http://0x7f.0.0.1:9000"}, "s3@127.0.0.1:9000"),
        ({**S3, "endpoint": "http://[0:0:0::1]:9000"}, "s3@[::1]:9000"),
        ({**S3, "endpoint": "http://[::ffff:127.0.0.1]:9000"}, "s3@127.0.0.1:9000"),
        ({**S3, "endpoint": "https://S3.amazonaws.com."}, "s3"),
        ({**S3, "endpoint": "https://s3.amazonaws.com.evil.example"}, "s3@s3.amazonaws.com.evil.example:443"),
        (GCS, "gcs"),
        (ADLS, "adls"),
    ],
)
def test_the_identity_of_a_store(json: dict[str, Any], identity: str) -> None:
    """Equal for spellings of the same store, different for stores that may have buckets of the same name."""
    profile = parse_storage_profile(json)
    assert identity == profile.storage_identity
    assert profile.base.child("t").claim_key(identity).startswith(f"{identity}|")


def test_clients_learn_where_the_store_is_and_no_credential() -> None:
    """`defaults` of the configuration: endpoint, region and addressing under engines' names; nothing for local files."""
    json = {**S3, "endpoint": "http://minio:9000", "path-style-access": True, "aws-kms-key-arn": "arn:k"}
    assert {
        "client.region": "eu-central-1",
        "s3.region": "eu-central-1",
        "s3.endpoint": "http://minio:9000",
        "s3.path-style-access": "true",
        "s3.sse.type": "kms",
        "s3.sse.key": "arn:k",
    } == parse_storage_profile(json).client_config()
    assert "false" == parse_storage_profile(S3).client_config()["s3.path-style-access"]
    for other in (LOCAL, GCS, ADLS):
        assert {} == parse_storage_profile(other).client_config()


def test_only_local_warehouses_look_for_missing_files() -> None:
    """The check takes microseconds for local files, and a request for other stores."""
    assert [True, False, False, False] == [parse_storage_profile(json).missing_file_check for json in (LOCAL, S3, GCS, ADLS)]


@pytest.mark.parametrize("within", [None, "sts-session-tags"])
def test_an_object_of_very_many_fields_is_refused_before_they_are_looked_at(within: str | None) -> None:
    """Each unknown field would result in a separate error."""
    many = {f"f{number}": "x" for number in range(100_000)}
    profile = {"type": "s3", "bucket": "lake", "region": "r"} | (many if within is None else {within: many})
    with pytest.raises(BadRequest) as refused:
        parse_storage_profile(profile)
    assert "Invalid storage-profile: longer than 65536 bytes" == refused.value.message


def test_a_profile_is_looked_at_up_to_its_most_bytes() -> None:
    """The limit counts the whole JSON."""
    rest = JSON_BYTES_MAX - len(orjson.dumps({**S3, "x": ""}))
    for more, refusal in ((0, "'x': no such field"), (1, "longer than 65536 bytes")):
        with pytest.raises(BadRequest) as refused:
            parse_storage_profile({**S3, "x": "y" * (rest + more)})
        assert f"Invalid storage-profile: {refusal}" == refused.value.message


def test_a_misspelt_field_is_named_before_the_one_that_lacks() -> None:
    """It is the more useful error."""
    with pytest.raises(BadRequest) as refused:
        parse_storage_profile({"type": "local", "directry": "/lake"})
    assert "Invalid storage-profile: 'directry': no such field; did you mean 'directory'?" == refused.value.message


@pytest.mark.parametrize(
    ("profile", "refusal"),
    [
        ({**S3, "allowed-locations": [1] * 30_000}, "'allowed-locations.0': must be a location"),
        ({**ADLS, "host": "a" + ".a" * 500_000}, "longer than 65536 bytes"),
    ],
    ids=["each value is wrong", "a pattern keeps its way through all of a text"],
)
def test_a_refusal_takes_little_room(profile: dict[str, Any], refusal: str) -> None:
    """A request may have many megabytes."""
    tracemalloc.start()
    try:
        with pytest.raises(BadRequest) as refused:
            parse_storage_profile(profile)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert f"Invalid storage-profile: {refusal}" == refused.value.message
    assert peak < 20_000_000


def test_of_a_long_name_a_refusal_repeats_the_beginning() -> None:
    """The answer and the log contain the message."""
    with pytest.raises(BadRequest) as refused:
        parse_storage_profile({**S3, "x" * 60_000: True})
    assert f"'{'x' * 200}'" in refused.value.message
    assert 300 > len(refused.value.message)


def test_the_validity_of_a_token_may_be_as_short_and_as_long_as_sts_gives_it() -> None:
    """15 minutes to 12 hours."""
    for seconds in (900, 43_200):
        assert seconds == parse_storage_profile({**S3, "sts-token-validity-seconds": seconds}).to_json()["sts-token-validity-seconds"]


@pytest.mark.parametrize("scheme", ["s3a", "s3n"])
def test_the_schemes_of_hadoop_are_spellings_of_s3(scheme: str) -> None:
    """Without a field of the profile. A document keeps the spelling."""
    profile = parse_storage_profile(S3)
    location = profile.parse_permitted(f"{scheme}://bucket/wh/t")
    assert profile.base.child("t") == location
    assert f"{scheme}://bucket/wh/t" == location.text


@pytest.mark.parametrize("name", ["👩\u200d💻", "می\u200cخواهم"])
def test_joiners_between_letters_may_be_in_a_location(name: str) -> None:
    """Trino puts the table's name into the location."""
    profile = parse_storage_profile(S3)
    assert profile.base.child(name) == profile.parse_permitted(f"s3://bucket/wh/{name}")


@pytest.mark.parametrize("json", [S3, GCS, ADLS, LOCAL])
@pytest.mark.parametrize(
    ("layout", "location"),
    [
        (None, f"/n/{ID}"),
        ({"type": "default"}, f"/n/{ID}"),
        ({"type": "tabular-only", "tabular": "{uuid}"}, f"/{ID}"),
        ({"type": "tabular-only", "tabular": "t_{uuid}.v1"}, f"/t_{ID}.v1"),
    ],
)
def test_a_table_is_where_the_storage_layout_says(json: dict[str, Any], layout: Any, location: str) -> None:
    """By its id alone, and stored as it was given."""
    profile = parse_storage_profile({**json, "storage-layout": layout})
    assert f"{profile.base}{location}" == str(profile.default_tabular_location(f"{profile.base}/n", ID))
    assert (layout or (None if json is LOCAL else {"type": "default"})) == profile.to_json().get("storage-layout")
    assert profile == parse_storage_profile(profile.to_json())


@pytest.mark.parametrize(
    "layout",
    [
        {"type": "tabular-only", "tabular": "{name}-{uuid}"},
        {"type": "full-hierarchy", "namespace": "{uuid}", "tabular": "{uuid}"},
        {"type": "full-hierarchy", "namespace": "{name}-{uuid}", "tabular": "{name}-{uuid}"},
    ],
)
def test_a_storage_layout_with_names_or_nested_folders_is_not_supported(layout: Any) -> None:
    with pytest.raises(UnsupportedOperation, match="Field 'storage-layout' must not"):
        parse_storage_profile({**S3, "storage-layout": layout})


@pytest.mark.parametrize(
    "layout",
    [
        {"type": "flat"},
        {"type": "tabular-only"},
        {"type": "default", "tabular": "{uuid}"},
        {"type": "default", "namespace": "{uuid}"},
        {"type": "tabular-only", "tabular": "{uuid}", "more": 1},
        *(
            {"type": "tabular-only", "tabular": each}
            for each in ("", "t", "{uuid}{uuid}", "a/{uuid}", ".{uuid}", "{id}{uuid}", "é{uuid}", "x" * 95 + "{uuid}")
        ),
    ],
)
def test_a_wrong_storage_layout_is_refused(layout: Any) -> None:
    with pytest.raises(BadRequest, match="storage-layout"):
        parse_storage_profile({**S3, "storage-layout": layout})


@pytest.mark.parametrize(
    ("endpoint", "kept"),
    [
        ("https://a.r2.cloudflarestorage.com/bucket", "https://a.r2.cloudflarestorage.com"),
        ("https://a.r2.cloudflarestorage.com/bucket/", "https://a.r2.cloudflarestorage.com"),
        ("https://store.example/s3/bucket", "https://store.example/s3"),
        ("https://store.example/a-bucket", "https://store.example/a-bucket"),
        ("https://bucket", "https://bucket"),
        (None, None),
    ],
)
def test_the_bucket_at_the_end_of_an_endpoint_is_left_out(endpoint: str | None, kept: str | None) -> None:
    """As in Lakekeeper: Cloudflare shows the address of a bucket so."""
    assert kept == parse_storage_profile({**S3, "endpoint": endpoint}).to_json().get("endpoint")
