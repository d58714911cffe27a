"""The credentials that open a warehouse's store: parsed as Lakekeeper's JSON, shown to nobody."""

from dataclasses import dataclass
from typing import Any, Self

import orjson

from domain.errors import BadRequest
from storage.profile_fields import ProfileFields

CREDENTIAL_BYTES_MAX = 64 * 1024

_WHAT = "storage-credential"


@dataclass(frozen=True, slots=True, repr=False)
class StorageCredential:
    """One credential.

    type, credential_type -- which store it opens, and how: Lakekeeper's words.
    document -- the JSON it came as, canonical; the only place its secrets are.
    """

    type: str
    credential_type: str
    document: bytes

    def __repr__(self) -> str:
        return f"StorageCredential(type={self.type!r}, credential_type={self.credential_type!r}, document=<redacted>)"

    @property
    def kind(self) -> dict[str, str]:
        """What may be told of it: Lakekeeper's StorageCredentialType."""
        return {"type": self.type, "credential-type": self.credential_type}

    @property
    def fields(self) -> dict[str, Any]:
        """Its fields in the clear: for the code that opens a store or mints credentials, for nothing else."""
        fields: dict[str, Any] = orjson.loads(self.document)
        return fields

    def to_bytes(self) -> bytes:
        """The form the secret store encrypts."""
        return self.document

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The credential `to_bytes` wrote."""
        fields = orjson.loads(data)
        return cls(fields["type"], fields["credential-type"], data)


def parse_storage_credential(json: object) -> StorageCredential:
    """The credential that `json` describes; BadRequest names the field and never its value."""
    fields = ProfileFields(json, _WHAT)
    credential_type, kind = fields.text("credential-type"), fields.text("type")
    parse = _PARSERS.get((kind, credential_type))
    if parse is None:
        served = ", ".join(f"{kind}/{name}" for kind, name in _PARSERS)
        raise fields.refusal("type and credential-type", f"must be one of {served}")
    document = orjson.dumps({"type": kind, "credential-type": credential_type, **parse(fields)}, option=orjson.OPT_SORT_KEYS)
    fields.end()
    if len(document) > CREDENTIAL_BYTES_MAX:
        raise BadRequest(f"Invalid {_WHAT}: longer than {CREDENTIAL_BYTES_MAX} bytes")
    return StorageCredential(kind, credential_type, document)


def _s3_access_key(fields: ProfileFields) -> dict[str, Any]:
    # Lakekeeper's names, and its older ones, by which they are kept.
    values = {f"aws-{name}": fields.optional_text(name) or fields.text(f"aws-{name}") for name in ("access-key-id", "secret-access-key")}
    external_id = fields.optional_text("external-id")
    return values | ({"external-id": external_id} if external_id else {})


def _gcs_service_account_key(fields: ProfileFields) -> dict[str, Any]:
    key = fields.mapping("key")
    for name in ("client_email", "private_key", "private_key_id", "token_uri"):
        if not isinstance(key.get(name), str) or not key[name]:
            raise fields.refusal(f"key.{name}", "is missing")
    return {"key": key}


def _az_shared_access_key(fields: ProfileFields) -> dict[str, Any]:
    return {"key": fields.text("key")}


def _az_client_credentials(fields: ProfileFields) -> dict[str, Any]:
    return {name: fields.text(name) for name in ("client-id", "tenant-id", "client-secret")}


_PARSERS = {
    ("s3", "access-key"): _s3_access_key,
    ("gcs", "service-account-key"): _gcs_service_account_key,
    ("az", "shared-access-key"): _az_shared_access_key,
    ("az", "client-credentials"): _az_client_credentials,
}
