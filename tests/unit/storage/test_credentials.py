"""Storage credentials: Lakekeeper's JSON is parsed, and only the encrypted form is stored."""

import traceback
from typing import Any

import pytest

from icecore.domain.errors import BadRequest
from icecore.storage.credentials import StorageCredential, parse_storage_credential

CANARY = "canary-5f1d"
CREDENTIALS: list[dict[str, Any]] = [
    {"type": "s3", "credential-type": "access-key", "aws-access-key-id": f"id-{CANARY}", "aws-secret-access-key": CANARY},
    {
        "type": "s3",
        "credential-type": "access-key",
        "aws-access-key-id": f"id-{CANARY}",
        "aws-secret-access-key": CANARY,
        "external-id": CANARY,
    },
    {
        "type": "gcs",
        "credential-type": "service-account-key",
        "key": {"client_email": "a@b", "private_key": CANARY, "private_key_id": "1", "token_uri": "https://t", "type": "service_account"},
    },
    {"type": "az", "credential-type": "shared-access-key", "key": CANARY},
    {"type": "az", "credential-type": "client-credentials", "client-id": "c", "tenant-id": "t", "client-secret": CANARY},
    {"type": "s3", "credential-type": "aws-system-identity", "external-id": CANARY},
    {"type": "s3", "credential-type": "aws-system-identity"},
    {
        "type": "s3",
        "credential-type": "cloudflare-r2",
        "aws-access-key-id": f"id-{CANARY}",
        "aws-secret-access-key": CANARY,
        "token": CANARY,
        "account-id": "0123456789abcdef",
    },
    {"type": "gcs", "credential-type": "gcp-system-identity"},
    {"type": "az", "credential-type": "azure-system-identity"},
]


@pytest.mark.parametrize("json", CREDENTIALS)
def test_a_credential_survives_the_secret_store(json: dict[str, Any]) -> None:
    """It is unchanged after a round trip through bytes."""
    credential = parse_storage_credential(json)
    again = StorageCredential.from_bytes(credential.to_bytes())
    assert json == again.fields
    assert credential == again
    assert hash(credential) == hash(again)


@pytest.mark.parametrize(
    "json",
    [
        {
            **CREDENTIALS[2],
            "key": {**CREDENTIALS[2]["key"], "private_key": "-----BEGIN PRIVATE KEY-----\nMII=\r\n-----END PRIVATE KEY-----\n"},
        },
        {**CREDENTIALS[4], "tenant-id": "72f988bf-86f1-41af-91ab-2d7cd011db47", "client-secret": "a~b 8Q.\\/+=&"},
        {**CREDENTIALS[4], "tenant-id": "contoso.onmicrosoft.com"},
        {**CREDENTIALS[1], "external-id": "tenant:1=a,b.c@d/e-f_g+"},
    ],
)
def test_what_the_clouds_issue_is_accepted(json: dict[str, Any]) -> None:
    assert json == parse_storage_credential(json).fields


@pytest.mark.parametrize("json", CREDENTIALS)
def test_a_credential_shows_nothing(json: dict[str, Any]) -> None:
    """Neither printing, nor formatting, nor a traceback with its containers."""
    credential = parse_storage_credential(json)
    for shown in (repr(credential), str(credential), f"{credential}", f"{[credential]!r}", f"{(credential,)}"):
        assert CANARY not in shown
        assert "redacted" in shown


def test_equal_credentials_in_another_order_are_equal() -> None:
    """The cache of open stores depends on it."""
    json = CREDENTIALS[0]
    assert parse_storage_credential(json) == parse_storage_credential(dict(reversed(json.items())))
    assert parse_storage_credential(json) != parse_storage_credential({**json, "aws-secret-access-key": "other"})


R2 = next(each for each in CREDENTIALS if each["credential-type"] == "cloudflare-r2")


@pytest.mark.parametrize("json", [CREDENTIALS[0], R2])
def test_keys_have_two_spellings(json: dict[str, Any]) -> None:
    """Those of Lakekeeper's document, and its older ones."""
    assert parse_storage_credential(json) == parse_storage_credential({name.removeprefix("aws-"): value for name, value in json.items()})


@pytest.mark.parametrize(
    ("json", "field"),
    [
        (None, "storage-credential"),
        *(({name: value for name, value in R2.items() if name != missing}, missing) for missing in R2 if missing != "type"),
        ({**R2, "account-id": "a/b"}, "'account-id': must be 1 to 64"),
        ({**R2, "token": [CANARY]}, "token"),
        ({**R2, "external-id": CANARY}, "external-id"),
        (CANARY, "storage-credential"),
        ({"type": CANARY, "credential-type": "access-key"}, "type"),
        ({"credential-type": "access-key"}, "type"),
        ({"type": "s3"}, "credential-type"),
        ({"type": "gcs", "credential-type": "azure-system-identity"}, "credential-type"),
        ({"type": "gcs", "credential-type": "gcp-system-identity", "key": CANARY}, "key"),
        ({"type": "az", "credential-type": "azure-system-identity", "client-id": CANARY}, "client-id"),
        ({"type": "s3", "credential-type": "aws-system-identity", "external-id": [CANARY]}, "external-id"),
        ({"type": "s3", "credential-type": "aws-system-identity", "aws-secret-access-key": CANARY}, "aws-secret-access-key"),
        ({"type": "s3", "credential-type": "access-key", "aws-secret-access-key": CANARY}, "aws-access-key-id"),
        ({**CREDENTIALS[0], "aws-secret-access-key": [CANARY]}, "aws-secret-access-key"),
        ({**CREDENTIALS[0], "aws-secret-access-key": ""}, "aws-secret-access-key"),
        ({**CREDENTIALS[0], "session-token": CANARY}, "session-token"),
        ({**CREDENTIALS[0], "type": [CANARY]}, "type"),
        ({**CREDENTIALS[0], "access-key-id": CANARY}, "access-key-id"),
        ({**CREDENTIALS[2], "key": CANARY}, "key"),
        ({**CREDENTIALS[2], "key": {**CREDENTIALS[2]["key"], "private_key": [CANARY]}}, "key.private_key"),
        ({**CREDENTIALS[2], "key": {"private_key": CANARY}}, "key.client_email"),
        ({**CREDENTIALS[3], "key": CANARY * 7_000}, "longer"),
        ({**CREDENTIALS[4], "client-secret": None}, "client-secret"),
        # The client of the stores panics with a header that it cannot send.
        ({**CREDENTIALS[0], "aws-access-key-id": f"{CANARY}\nb"}, "'aws-access-key-id': must be printable ASCII"),
        ({**CREDENTIALS[0], "aws-access-key-id": f"{CANARY}é"}, "'aws-access-key-id': must be printable ASCII"),
        ({**CREDENTIALS[0], "aws-secret-access-key": f"{CANARY}\x00"}, "'aws-secret-access-key': must be printable ASCII"),
        ({**CREDENTIALS[1], "external-id": f"{CANARY}\x7f"}, "'external-id': must be printable ASCII"),
        ({**CREDENTIALS[5], "external-id": f"{CANARY}\t"}, "'external-id': must be printable ASCII"),
        ({**R2, "token": f"{CANARY}\n"}, "'token': must be printable ASCII"),
        ({**CREDENTIALS[3], "key": f"{CANARY}\n"}, "'key': must be printable ASCII"),
        *(({**CREDENTIALS[4], field: f"{CANARY}\n"}, f"'{field}': must be printable ASCII") for field in ("client-id", "client-secret")),
        *(
            ({**CREDENTIALS[4], "tenant-id": tenant}, "'tenant-id': must be 1 to 253 of a-z")
            for tenant in (f"{CANARY}\n", f"{CANARY}\\", f"{CANARY}/x", f"{CANARY}?", "..", "a" * 254, "")
        ),
        *(
            ({**CREDENTIALS[2], "key": {**CREDENTIALS[2]["key"], field: f"{CANARY}\x1b"}}, f"'key.{field}': must be printable ASCII")
            for field in ("client_email", "private_key", "private_key_id", "token_uri")
        ),
        # Another parser of URLs may read a user, or a backslash, differently than the comparison with the permitted endpoints.
        *(
            ({**CREDENTIALS[2], "key": {**CREDENTIALS[2]["key"], "gcs_base_url": url}}, "'key.gcs_base_url': must")
            for url in (
                "",
                [f"http://{CANARY}"],
                f"{CANARY}:4443",
                f"http://fake-gcs:{CANARY}",
                f"http://{CANARY}@fake-gcs:4443",
                f"http://fake-gcs:4443?{CANARY}",
                f"http://fake-gcs:4443#{CANARY}",
                f"http://{CANARY}\\@fake-gcs:4443",
                f"http://fake-gcs:4443/{CANARY}\n",
                f"http://fake-gcs:4443/{CANARY} /..",
                f"http://fake-gcs:4443/{CANARY}é",
            )
        ),
    ],
)
def test_a_refusal_names_the_field_and_never_the_value(json: Any, field: str) -> None:
    """The message is sent to the client and logged."""
    with pytest.raises(BadRequest) as refusal:
        parse_storage_credential(json)
    assert field in refusal.value.message
    assert CANARY not in "".join(traceback.format_exception_only(refusal.value))
