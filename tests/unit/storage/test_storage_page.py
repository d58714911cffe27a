"""docs/how-to/storage.md: the parsers accept its requests, and engines have the settings that it names."""

import json
import re
from typing import Any

import pyiceberg.io
import pytest

from icecore.domain.errors import BadRequest
from icecore.storage.credentials import parse_storage_credential
from icecore.storage.object_store import ObjectStore, open_store
from icecore.storage.profiles import S3Profile, parse_storage_profile
from icecore.storage.system_credentials import SystemCredentials
from icecore.storage.system_identities import SystemIdentities
from tests.servers.paths import ROOT

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
    "With a role",
    "Directly",
    "Google Cloud",
    "Azure",
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
    """The store of a request, opened without a connection."""
    assert request.keys() <= {"warehouse-name", "storage-profile", "storage-credential"}
    credential = request.get("storage-credential")
    profile = parse_storage_profile(request["storage-profile"])
    identities = SystemIdentities.permitted(SystemCredentials(aws=True, gcp=True, azure=True))
    return open_store(profile, None if credential is None else parse_storage_credential(credential), identities=identities)


def test_each_store_has_a_request() -> None:
    """One in each section. Other JSON on the page is a policy or a credential."""
    assert STORES == list(requests())
    others = [each for each in documents(PAGE) if "storage-profile" not in each]
    assert ["Statement", "client-secret", "Statement"] == [list(each)[-1] for each in others]
    assert PAGE.count("```json") == len(documents(PAGE)) == len(STORES) + len(others)


@pytest.mark.parametrize("store", STORES)
def test_a_request_is_accepted(store: str) -> None:
    """Profile and credential are valid and belong together."""
    opened(requests()[store])


@pytest.mark.parametrize("store", STORES)
def test_a_wrong_request_would_be_found(store: str) -> None:
    """Negative control: an unknown field, and the credential of another store."""
    request = requests()[store]
    credential = request.get("storage-credential", {})
    other = "Google Cloud Storage" if credential.get("type") == "s3" else "MinIO"
    for wrong in (
        {"storage-profile": {**request["storage-profile"], "bukket": "lake"}},
        {"storage-credential": {**credential, "session-token": "x"}},
        {"storage-credential": requests()[other]["storage-credential"]},
    ):
        with pytest.raises(BadRequest):
            opened({**request, **wrong})


def test_the_other_credential_belongs_to_the_store_of_its_section() -> None:
    """The service principal opens the profile of the section."""
    request, principal = documents(sections()["Azure Data Lake Storage Gen2"])
    opened({**request, "storage-credential": principal})


def test_the_command_has_the_profile_of_the_request() -> None:
    """The local profile of the page's command is that of the request."""
    [profile] = re.findall(r"--profile '(.+)'", PAGE)
    assert requests()["Local folders"]["storage-profile"] == json.loads(profile)


def test_stores_other_than_aws_use_path_style() -> None:
    """The page mentions virtual hosts as the exception."""
    profiles = {store: parse_storage_profile(request["storage-profile"]) for store, request in requests().items()}
    found = {store: (profile.flavor, profile.path_style_access) for store, profile in profiles.items() if isinstance(profile, S3Profile)}
    for store in ("Amazon S3", "With a role", "Directly"):
        assert ("aws", False) == found.pop(store)
    assert 5 == len(found)
    assert {("s3-compat", True)} == set(found.values())


def test_the_policy_permits_the_checks_below_the_base() -> None:
    """Write, read, list and delete. A 404 for a missing object requires permission to list."""
    request, policy = documents(sections()["Amazon S3"])
    profile = request["storage-profile"]
    bucket = f"arn:aws:s3:::{profile['bucket']}"
    files, listing = policy["Statement"]
    assert f"{bucket}/{profile['key-prefix']}/*" == files["Resource"]
    assert {"s3:GetObject", "s3:PutObject", "s3:DeleteObject"} <= set(files["Action"])
    assert (bucket, "s3:ListBucket", False) == (listing["Resource"], listing["Action"], "Condition" in listing)


@pytest.mark.parametrize(
    ("store", "needed"),
    [
        ("With a role", SystemCredentials(aws=True)),
        ("Directly", SystemCredentials(aws=True, s3_direct=True)),
        ("Google Cloud", SystemCredentials(gcp=True)),
        ("Azure", SystemCredentials(azure=True)),
        ("Amazon S3", SystemCredentials()),
    ],
)
def test_the_settings_that_the_page_names_permit_the_request(store: str, needed: SystemCredentials) -> None:
    """And without them it is refused, unless it has a key."""
    request = requests()[store]
    profile, credential = parse_storage_profile(request["storage-profile"]), parse_storage_credential(request["storage-credential"])
    assert needed.refusal(profile, credential) is None
    assert (needed == SystemCredentials()) == (SystemCredentials().refusal(profile, credential) is None)


def test_the_role_trusts_the_external_id_of_its_request() -> None:
    """Without the condition, everybody's warehouse could use it."""
    request, trust = documents(sections()["With a role"])
    condition = {"StringEquals": {"sts:ExternalId": request["storage-credential"]["external-id"]}}
    assert [condition] == [statement["Condition"] for statement in trust["Statement"]]


def test_pyiceberg_has_the_settings() -> None:
    """Those of its column, and the one for virtual hosts."""
    rows = [line.split("|") for line in sections()["Keys of engines"].splitlines() if line.startswith("|")]
    named = {name for row in rows for name in re.findall(r"`((?:s3|gcs|adls)\.[a-z0-9.-]+)`", row[2])} | {"s3.force-virtual-addressing"}
    assert 9 == len(named)
    assert set() == named - {value for value in vars(pyiceberg.io).values() if isinstance(value, str)}
