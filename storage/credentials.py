"""Storage credentials in Lakekeeper's JSON format. They are never shown."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import AliasChoices, BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter

from .json_fields import JsonFields, Text, parsed


@dataclass(frozen=True, slots=True, repr=False)
class StorageCredential:
    """One credential.

    type, credential_type -- the store and the kind of credential, as in Lakekeeper.
    document -- its canonical JSON, the only attribute with secrets.
    """

    type: str
    credential_type: str
    document: bytes

    def __repr__(self) -> str:
        return f"StorageCredential(type={self.type!r}, credential_type={self.credential_type!r}, document=<redacted>)"

    @property
    def kind(self) -> dict[str, str]:
        """What may be shown of it: Lakekeeper's StorageCredentialType."""
        return {"type": self.type, "credential-type": self.credential_type}

    @property
    def fields(self) -> dict[str, Any]:
        """Its fields in plain text, only for code that opens a store or vends credentials."""
        fields: dict[str, Any] = orjson.loads(self.document)
        return fields

    def to_bytes(self) -> bytes:
        """The form that the secret store encrypts."""
        return self.document

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The inverse of `to_bytes`."""
        fields = orjson.loads(data)
        return cls(fields["type"], fields["credential-type"], data)


class _S3AccessKey(JsonFields):
    type: Literal["s3"]
    credential_type: Literal["access-key"]
    # Lakekeeper's names, and its older names, under which they are stored.
    aws_access_key_id: Text = Field(validation_alias=AliasChoices("aws-access-key-id", "access-key-id"))
    aws_secret_access_key: Text = Field(validation_alias=AliasChoices("aws-secret-access-key", "secret-access-key"))
    external_id: Text | None = None


class _ServiceAccount(BaseModel):
    model_config = ConfigDict(extra="allow", hide_input_in_errors=True, strict=True)

    client_email: Text
    private_key: Text
    private_key_id: Text
    token_uri: Text


class _GcsServiceAccountKey(JsonFields):
    type: Literal["gcs"]
    credential_type: Literal["service-account-key"]
    key: _ServiceAccount


class _AzSharedAccessKey(JsonFields):
    type: Literal["az"]
    credential_type: Literal["shared-access-key"]
    key: Text


class _AzClientCredentials(JsonFields):
    type: Literal["az"]
    credential_type: Literal["client-credentials"]
    client_id: Text
    tenant_id: Text
    client_secret: Text


_KINDS: TypeAdapter[JsonFields] = TypeAdapter(
    Annotated[
        Annotated[_S3AccessKey, Tag("s3/access-key")]
        | Annotated[_GcsServiceAccountKey, Tag("gcs/service-account-key")]
        | Annotated[_AzSharedAccessKey, Tag("az/shared-access-key")]
        | Annotated[_AzClientCredentials, Tag("az/client-credentials")],
        Discriminator(lambda json: f"{json.get('type')}/{json.get('credential-type')}"),
    ]
)
_RULE = "type and credential-type must be one of s3/access-key, gcs/service-account-key, az/shared-access-key, az/client-credentials"


def parse_storage_credential(json: object) -> StorageCredential:
    """Parses a credential. Raises BadRequest, which names the field and never its value."""
    fields = parsed(_KINDS, json, "storage-credential", _RULE).to_json()
    document = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    return StorageCredential(fields["type"], fields["credential-type"], document)
