"""The profiles that a server accepts from unauthenticated clients, by the targets of links and hosts, not by their spelling."""

from pathlib import Path
from typing import Any

import pytest

from icecore.domain.errors import Forbidden, MissingCredential, ServiceUnavailable
from icecore.storage import permitted_profiles
from icecore.storage.cloud_profiles import Endpoint
from icecore.storage.credentials import parse_storage_credential
from icecore.storage.permitted_profiles import PermittedProfiles
from icecore.storage.profiles import parse_storage_profile

S3 = {"type": "s3", "bucket": "lake", "region": "eu-central-1"}
S3_KEY = {"type": "s3", "credential-type": "access-key", "access-key-id": "id", "secret-access-key": "key"}
GCS = {"type": "gcs", "bucket": "lake"}
GCS_KEY = {"client_email": "a@b", "private_key": "key", "private_key_id": "1", "token_uri": "https://t"}
ADLS = {"type": "adls", "account-name": "account", "filesystem": "lake"}
ADLS_KEY = {"type": "az", "credential-type": "shared-access-key", "key": "key"}


def gcs_key(**more: Any) -> dict[str, Any]:
    return {"type": "gcs", "credential-type": "service-account-key", "key": GCS_KEY | more}


async def is_permitted(permitted: PermittedProfiles, profile: dict[str, Any], credential: dict[str, Any] | None) -> bool:
    try:
        await permitted.check(parse_storage_profile(profile), None if credential is None else parse_storage_credential(credential))
    except Forbidden:
        return False
    return True


@pytest.mark.parametrize(
    ("directory", "permitted"),
    [
        ("roots/lakes/one", True),
        ("roots/lakes/one/two", True),
        ("roots/lakes/inner/one", True),
        ("roots/lakes", False),
        ("roots/lakes-of-others/one", False),
        ("roots/one", False),
        ("roots", False),
        ("roots/lakes/out/one", False),
        ("roots/lakes/out", False),
        ("way/one", False),
    ],
)
async def test_local_warehouses_lie_below_a_root(tmp_path: Path, directory: str, permitted: bool) -> None:
    """By path and after resolving links: `out` leads outside, `way` to the root but through a folder outside it."""
    root = tmp_path / "roots" / "lakes"
    (root / "real").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (root / "out").symlink_to(tmp_path / "elsewhere")
    (root / "inner").symlink_to(root / "real")
    (tmp_path / "way").symlink_to(root)
    profile = {"type": "local", "directory": str(tmp_path / directory)}
    assert permitted == await is_permitted(PermittedProfiles((root,)), profile, None)
    assert permitted == await is_permitted(PermittedProfiles((tmp_path / "other", root)), profile, None)
    assert not await is_permitted(PermittedProfiles(), profile, None)
    within = {"type": "local", "directory": str(root / "one"), "allowed-locations": [f"file://{tmp_path / directory}"]}
    assert permitted == await is_permitted(PermittedProfiles((root,)), within, None)


async def test_paths_outside_the_roots_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An automounter would send requests to a host that the client names, and a dead mount would hold the thread."""
    looked: list[Path] = []
    monkeypatch.setattr("os.path.realpath", lambda path: looked.append(path) or path)
    permitted = PermittedProfiles((tmp_path / "lakes",))
    for path in ("/net/elsewhere/lake", str(tmp_path / "other" / "lake")):
        assert not await is_permitted(permitted, {"type": "local", "directory": path}, None)
    assert [] == looked
    assert await is_permitted(permitted, {"type": "local", "directory": str(tmp_path / "lakes" / "one")}, None)
    assert [] != looked


async def test_a_root_may_be_a_link_itself(tmp_path: Path) -> None:
    """The operator has configured it."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "lakes").symlink_to(tmp_path / "disk")
    profile = {"type": "local", "directory": str(tmp_path / "lakes" / "one")}
    assert await is_permitted(PermittedProfiles((tmp_path / "lakes",)), profile, None)


async def test_folders_that_cannot_be_looked_at_are_not_permitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the file system does not respond, the target of a link is unknown."""

    async def no_response(look: object, project_id: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(permitted_profiles, "in_thread", no_response)
    with pytest.raises(ServiceUnavailable):
        await is_permitted(PermittedProfiles((tmp_path,)), {"type": "local", "directory": str(tmp_path / "one")}, None)


@pytest.mark.parametrize(
    ("profile", "credential", "listed", "permitted"),
    [
        (S3, S3_KEY, [], True),
        (S3 | {"region": "evil.example/x?"}, S3_KEY, [], False),
        (S3 | {"region": "mars", "endpoint": "http://minio:9000"}, S3_KEY, [], False),
        (S3 | {"region": "mars", "endpoint": "http://minio:9000"}, S3_KEY, ["http://minio:9000"], True),
        (S3 | {"endpoint": "http://MINIO.:9000/."}, S3_KEY, ["http://minio:9000"], True),
        (S3 | {"endpoint": "http://minio:9001"}, S3_KEY, ["http://minio:9000"], False),
        (S3 | {"endpoint": "http://minio:9000"}, S3_KEY, ["https://minio:9000"], False),
        (S3 | {"endpoint": "https://minio:9000"}, S3_KEY, ["http://minio:9000"], False),
        (S3 | {"endpoint": "HTTPS://minio"}, S3_KEY, ["https://minio:443/"], True),
        (S3 | {"endpoint": "http://minio:9000/admin"}, S3_KEY, ["http://minio:9000"], False),
        (S3 | {"endpoint": "http://169.254.169.254"}, S3_KEY, ["http://minio:9000"], False),
        (S3 | {"endpoint": "http://ec2-1-2-3-4.compute-1.amazonaws.com"}, S3_KEY, [], False),
        (S3 | {"sts-endpoint": "http://169.254.169.254"}, S3_KEY, [], False),
        (GCS, gcs_key(), [], True),
        (GCS, gcs_key(gcs_base_url="http://10.0.0.1"), [], False),
        (GCS, gcs_key(gcs_base_url="http://fake-gcs:4443"), ["http://fake-gcs:4443"], True),
        (GCS, gcs_key(gcs_base_url="http://fake-gcs:4443/"), ["http://fake-gcs:4443"], True),
        (GCS, gcs_key(gcs_base_url=None), [], True),
        (ADLS, ADLS_KEY, [], True),
        (ADLS | {"host": "blob.core.windows.net"}, ADLS_KEY, [], True),
        (ADLS | {"host": "corp.internal"}, ADLS_KEY, [], False),
        (ADLS | {"host": "corp.internal"}, ADLS_KEY, ["https://account.corp.internal"], True),
        (ADLS | {"authority-host": "http://10.0.0.1"}, ADLS_KEY, [], False),
        (ADLS | {"allowed-locations": ["abfss://lake@other.dfs.core.windows.net/x"]}, ADLS_KEY, [], True),
        (ADLS | {"allowed-locations": ["abfss://lake@corp.internal/x"]}, ADLS_KEY, [], False),
        (ADLS | {"allowed-locations": ["abfss://lake@corpdfs.core.windows.net/x"]}, ADLS_KEY, [], False),
        (ADLS | {"allowed-locations": ["abfss://lake@x.dfs.core.windows.net.corp.internal/x"]}, ADLS_KEY, [], False),
    ],
)
async def test_a_server_sends_requests_to_the_clouds_own_stores_and_those_that_are_listed(
    profile: dict[str, Any], credential: dict[str, Any], listed: list[str], permitted: bool
) -> None:
    """The server reaches hosts that its clients cannot, whichever field names them."""
    assert permitted == await is_permitted(PermittedProfiles(endpoints=frozenset(map(Endpoint.parse, listed))), profile, credential)


async def test_a_store_is_asked_anonymously_only_where_the_operator_permits_it() -> None:
    """A bucket may be public only in the server's network."""
    with pytest.raises(MissingCredential, match="ICECORE_WAREHOUSES_WITHOUT_CREDENTIAL"):
        await is_permitted(PermittedProfiles(), S3, None)
    assert await is_permitted(PermittedProfiles(without_credential=True), S3, None)
    assert not await is_permitted(PermittedProfiles(without_credential=True), S3 | {"endpoint": "http://minio:9000"}, None)
