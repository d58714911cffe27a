"""Storage credentials in Lakekeeper's JSON format. They are never shown."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import AliasChoices, BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter

from .json_fields import JsonFields, Text, matching, parsed
from .sendable_fields import Printable, SendableUrl

AWS_SYSTEM_IDENTITY = "aws-system-identity"
GCP_SYSTEM_IDENTITY = "gcp-system-identity"
AZURE_SYSTEM_IDENTITY = "azure-system-identity"
"""The credential types of the server's own identity in each cloud."""
CLOUDFLARE_R2 = "cloudflare-r2"


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


class _S3Key(JsonFields):
    type: Literal["s3"]
    # Lakekeeper's names, and its older names, under which they are stored.
    aws_access_key_id: Printable = Field(validation_alias=AliasChoices("aws-access-key-id", "access-key-id"))
    aws_secret_access_key: Printable = Field(validation_alias=AliasChoices("aws-secret-access-key", "secret-access-key"))


class _S3AccessKey(_S3Key):
    credential_type: Literal["access-key"]
    external_id: Printable | None = None


class _S3CloudflareR2(_S3Key):
    """An access key of R2, with the API token and the account, for which Cloudflare would issue temporary credentials."""

    credential_type: Literal["cloudflare-r2"]
    token: Printable
    # It becomes part of an address.
    account_id: Annotated[str, matching(r"[0-9A-Za-z_-]{1,64}", "must be 1 to 64 of a-z, A-Z, 0-9, '-' and '_'")]


class _S3SystemIdentity(JsonFields):
    type: Literal["s3"]
    credential_type: Literal["aws-system-identity"]
    external_id: Printable | None = None


class _ServiceAccount(BaseModel):
    model_config = ConfigDict(extra="allow", hide_input_in_errors=True, strict=True)

    client_email: Printable
    private_key: Annotated[Text, matching(r"[ -~\r\n]+", "must be printable ASCII in lines")]
    private_key_id: Printable
    token_uri: Printable
    # Of another server than Google's, for emulators.
    gcs_base_url: SendableUrl | None = None


class _GcsServiceAccountKey(JsonFields):
    type: Literal["gcs"]
    credential_type: Literal["service-account-key"]
    key: _ServiceAccount


class _GcsSystemIdentity(JsonFields):
    type: Literal["gcs"]
    credential_type: Literal["gcp-system-identity"]


class _AzSharedAccessKey(JsonFields):
    type: Literal["az"]
    credential_type: Literal["shared-access-key"]
    key: Printable


class _AzClientCredentials(JsonFields):
    type: Literal["az"]
    credential_type: Literal["client-credentials"]
    client_id: Printable
    # It becomes part of an address, and is an id or a domain.
    tenant_id: Annotated[
        str,
        matching(r"[0-9A-Za-z][0-9A-Za-z._-]{0,252}", "must be 1 to 253 of a-z, A-Z, 0-9, '.', '-' and '_', first a letter or digit"),
    ]
    client_secret: Printable


class _AzSystemIdentity(JsonFields):
    type: Literal["az"]
    credential_type: Literal["azure-system-identity"]


_KINDS: TypeAdapter[JsonFields] = TypeAdapter(
    Annotated[
        Annotated[_S3AccessKey, Tag("s3/access-key")]
        | Annotated[_S3SystemIdentity, Tag("s3/aws-system-identity")]
        | Annotated[_S3CloudflareR2, Tag("s3/cloudflare-r2")]
        | Annotated[_GcsServiceAccountKey, Tag("gcs/service-account-key")]
        | Annotated[_GcsSystemIdentity, Tag("gcs/gcp-system-identity")]
        | Annotated[_AzSharedAccessKey, Tag("az/shared-access-key")]
        | Annotated[_AzClientCredentials, Tag("az/client-credentials")]
        | Annotated[_AzSystemIdentity, Tag("az/azure-system-identity")],
        Discriminator(lambda json: f"{json.get('type')}/{json.get('credential-type')}"),
    ]
)
_RULE = (
    "type and credential-type must be one of s3/access-key, s3/aws-system-identity, s3/cloudflare-r2, gcs/service-account-key, "
    "gcs/gcp-system-identity, az/shared-access-key, az/client-credentials, az/azure-system-identity"
)


def parse_storage_credential(json: object) -> StorageCredential:
    """Parses a credential. Raises BadRequest, which names the field and never its value."""
    fields = parsed(_KINDS, json, "storage-credential", _RULE).to_json()
    document = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    return StorageCredential(fields["type"], fields["credential-type"], document)
