"""docs/how-to/storage.md: the parsers accept its requests, and engines have the settings it names."""

import json
import re
from typing import Any

import pyiceberg.io
import pytest

from icecore.domain.errors import BadRequest
from icecore.storage.credentials import parse_storage_credential
from icecore.storage.object_store import ObjectStore, open_store
from icecore.storage.profiles import S3Profile, parse_storage_profile
from tests.servers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "storage.md").read_text()
STORES = [
    "Amazon S3",
    "MinIO",
    "Garage",
    "Ceph RGW",
    "Cloudflare R2",
    "Google Cloud Storage",
    "Through the S3-compatible XML API",
    "Azure Data Lake Storage Gen2",
    "Local folders",
]


def sections() -> dict[str, str]:
    """The text below each heading, up to the next."""
    parts = re.split(r"^##+ (.+)\n", PAGE, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def requests() -> dict[str, dict[str, Any]]:
    """The body of each store's section."""
    return {heading: each for heading, text in sections().items() for each in documents(text) if "storage-profile" in each}


def opened(request: dict[str, Any]) -> ObjectStore:
    """The store of a request as the server reads it; no connection is made."""
    assert request.keys() <= {"warehouse-name", "storage-profile", "storage-credential"}
    credential = request.get("storage-credential")
    return open_store(
        parse_storage_profile(request["storage-profile"]), None if credential is None else parse_storage_credential(credential)
    )


def test_each_store_has_a_request() -> None:
    """One in each section, and every other JSON of the page is a policy or a credential."""
    assert STORES == list(requests())
    others = [each for each in documents(PAGE) if "storage-profile" not in each]
    assert ["Statement", "client-secret"] == [list(each)[-1] for each in others]
    assert PAGE.count("```json") == len(documents(PAGE)) == len(STORES) + len(others)


@pytest.mark.parametrize("store", STORES)
def test_a_request_is_accepted(store: str) -> None:
    """Profile and credential parse and belong together."""
    opened(requests()[store])


@pytest.mark.parametrize("store", STORES)
def test_a_wrong_request_would_be_found(store: str) -> None:
    """An unknown field of the profile or the credential, and the credential of another store."""
    request = requests()[store]
    credential = request.get("storage-credential", {})
    other = "Google Cloud Storage" if credential.get("type") == "s3" else "MinIO"
    for wrong in (
        {"storage-profile": {**request["storage-profile"], "bukket": "lake"}},
        {"storage-credential": {**credential, "token": "x"}},
        {"storage-credential": requests()[other]["storage-credential"]},
    ):
        with pytest.raises(BadRequest):
            opened({**request, **wrong})


def test_the_other_credential_belongs_to_the_store_of_its_section() -> None:
    """A service principal opens the profile of the section."""
    request, principal = documents(sections()["Azure Data Lake Storage Gen2"])
    opened({**request, "storage-credential": principal})


def test_the_command_has_the_profile_of_the_request() -> None:
    """The local profile is on the command line."""
    [profile] = re.findall(r"--profile '(.+)'", PAGE)
    assert requests()["Local folders"]["storage-profile"] == json.loads(profile)


def test_stores_other_than_aws_use_path_style() -> None:
    """The page names virtual hosts as the exception."""
    profiles = {store: parse_storage_profile(request["storage-profile"]) for store, request in requests().items()}
    found = {store: (profile.flavor, profile.path_style_access) for store, profile in profiles.items() if isinstance(profile, S3Profile)}
    assert ("aws", False) == found.pop("Amazon S3")
    assert 5 == len(found)
    assert {("s3-compat", True)} == set(found.values())


def test_the_policy_permits_the_checks_below_the_base() -> None:
    """Write, read, list and delete; 404 for a missing object needs the listing."""
    request, policy = documents(sections()["Amazon S3"])
    profile = request["storage-profile"]
    bucket = f"arn:aws:s3:::{profile['bucket']}"
    files, listing = policy["Statement"]
    assert f"{bucket}/{profile['key-prefix']}/*" == files["Resource"]
    assert {"s3:GetObject", "s3:PutObject", "s3:DeleteObject"} <= set(files["Action"])
    assert (bucket, "s3:ListBucket", False) == (listing["Resource"], listing["Action"], "Condition" in listing)


def test_pyiceberg_has_the_settings() -> None:
    """Those of its column, and the one for virtual hosts."""
    rows = [line.split("|") for line in sections()["Keys of engines"].splitlines() if line.startswith("|")]
    named = {name for row in rows for name in re.findall(r"`((?:s3|gcs|adls)\.[a-z0-9.-]+)`", row[2])} | {"s3.force-virtual-addressing"}
    assert 9 == len(named)
    assert set() == named - {value for value in vars(pyiceberg.io).values() if isinstance(value, str)}
