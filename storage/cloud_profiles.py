"""Profiles of the cloud stores, with the fields and defaults of Lakekeeper's storage profiles."""

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, ip_address
from socket import inet_aton, inet_ntoa
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, AliasChoices, Field, ValidationInfo, field_validator, model_validator

from ..domain.errors import BadRequest
from .json_fields import Text, matching
from .locations import StorageLocation
from .storage_profile import StorageLayout, StorageProfile

TOKEN_VALIDITY_SECONDS_DEFAULT = 3_600
TOKEN_VALIDITY_SECONDS_MIN = 900
TOKEN_VALIDITY_SECONDS_MAX = 43_200
SESSION_TAGS_MAX = 50
AWS_IDENTITY = "s3"
ADLS_AUTHORITY_DEFAULT = "https://login.microsoftonline.com"

_NUMBERS = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*")
_REGION = re.compile(r"[A-Za-z0-9-]+")
_AWS_HOST = re.compile(r".*\.amazonaws\.com(\.cn)?")


def _check_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise ValueError("must be a URL") from None
    plain = parts.username is None and parts.password is None and not parts.query and not parts.fragment
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain or not text.isascii() or not text.isprintable():
        raise ValueError("must be an http or https URL without user, query and fragment")
    return text.rstrip("/")


_Url = Annotated[Text, AfterValidator(_check_url)]
"""An http(s) URL without user, query, fragment or trailing slash."""
_ValiditySeconds = Annotated[int, Field(ge=TOKEN_VALIDITY_SECONDS_MIN, le=TOKEN_VALIDITY_SECONDS_MAX)]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The normalized URL of a store: two spellings of the same URL are equal.

    host -- in lower case, without a final dot; IP addresses in their usual form, IPv6 in brackets. path -- its segments.
    """

    scheme: str
    host: str
    port: int
    path: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Endpoint":
        parts = urlsplit(text)
        port = (443 if parts.scheme == "https" else 80) if parts.port is None else parts.port
        path: list[str] = []
        for segment in unquote(parts.path).split("/"):
            if segment == "..":
                del path[-1:]
            elif segment not in ("", "."):
                path.append(segment)
        return cls(parts.scheme, _host(unquote(parts.hostname or "").lower().rstrip(".")), port, tuple(path))

    @property
    def address(self) -> str:
        """Where the store is, whichever scheme is used."""
        return "/".join((f"{self.host}:{self.port}", *self.path)).replace("|", "%7C")


def _host(text: str) -> str:
    """Normalizes a host: clients read `127.1`, `0x7f.0.0.1` and `2130706433` as 127.0.0.1."""
    if _NUMBERS.fullmatch(text):
        with suppress(OSError):
            text = inet_ntoa(inet_aton(text))
    try:
        address = ip_address(text)
    except ValueError:
        return text
    if isinstance(address, IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or f"[{address}]")


def is_ip_address(host: str) -> bool:
    """Whether the host of an Endpoint is an IP address, to which no bucket name can be prefixed."""
    with suppress(ValueError):
        ip_address(host.strip("[]"))
        return True
    # Clients read a name that ends in a number as an address, or refuse it.
    return _NUMBERS.fullmatch(host.rpartition(".")[2]) is not None


def _is_address(endpoint: str | None) -> bool:
    """Whether the endpoint's host is an IP address or `localhost`."""
    host = "" if endpoint is None else Endpoint.parse(endpoint).host
    return host == "localhost" or (host != "" and is_ip_address(host))


class CloudProfile(StorageProfile):
    """The base of cloud profiles: one scheme, and its aliases only if the profile permits them."""

    key_prefix: Text | None = None
    storage_layout: StorageLayout | None = StorageLayout(type="default")

    scheme: ClassVar[str]

    @field_validator("key_prefix")
    @classmethod
    def _strip_prefix(cls, prefix: str | None) -> str | None:
        return prefix.strip("/") or None if prefix else None

    @property
    def authority(self) -> str:
        """The authority of the base: the bucket, or the filesystem with its host."""
        raise NotImplementedError

    @cached_property
    def base(self) -> StorageLocation:
        text = "/".join(filter(None, (f"{self.scheme}://{self.authority}", self.key_prefix)))
        return StorageLocation.parse_base(text, field="storage-profile: key-prefix")

    def check_scheme(self, location: StorageLocation, field: str) -> None:
        if location.scheme != self.scheme and not getattr(self, "allow_alternative_protocols", False):
            raise BadRequest(f"Invalid {field}: the scheme {location.scheme} needs allow-alternative-protocols in the storage profile")


class S3Profile(CloudProfile):
    """Amazon S3 or an S3-compatible store."""

    type: Literal["s3"]
    bucket: Annotated[str, matching(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "must be 3 to 63 of a-z, 0-9, '.' and '-'")]
    region: Text
    endpoint: _Url | None = None
    sts_endpoint: _Url | None = None
    flavor: Annotated[Literal["aws", "s3-compat", "minio"], AfterValidator(lambda flavor: "s3-compat" if flavor == "minio" else flavor)] = (
        "aws"
    )
    path_style_access: bool = Field(default_factory=lambda fields: _is_address(fields.get("endpoint")))
    sts_enabled: bool = False
    remote_signing_enabled: bool = False
    remote_signing_url_style: Annotated[
        Literal["auto", "path", "virtual_host"],
        Field(validation_alias=AliasChoices("remote-signing-url-style", "s3-url-detection-mode")),
    ] = "auto"
    assume_role_arn: Text | None = None
    sts_role_arn: Text | None = None
    sts_token_validity_seconds: _ValiditySeconds = TOKEN_VALIDITY_SECONDS_DEFAULT
    sts_session_tags: dict[Annotated[str, Field(min_length=1, max_length=128)], str] = Field(default={}, max_length=SESSION_TAGS_MAX)
    allow_alternative_protocols: bool = True
    push_s3_delete_disabled: bool = False
    aws_kms_key_arn: Text | None = None
    legacy_md5_behavior: bool = False

    kind, scheme = "s3", "s3"

    @field_validator("endpoint")
    @classmethod
    def _without_bucket(cls, endpoint: str | None, info: ValidationInfo) -> str | None:
        """Cloudflare shows the endpoint of a bucket with its name as the path. Lakekeeper leaves it out too."""
        if endpoint is None or not urlsplit(endpoint).path:
            return endpoint
        return endpoint.removesuffix(f"/{info.data.get('bucket')}")

    @model_validator(mode="after")
    def _check_role(self) -> Self:
        if self.sts_enabled and self.flavor == "aws" and not (self.assume_role_arn or self.sts_role_arn):
            raise BadRequest("Invalid storage-profile: sts-enabled needs assume-role-arn or sts-role-arn with flavor aws")
        return self

    @property
    def authority(self) -> str:
        return self.bucket

    @cached_property
    def server(self) -> Endpoint | None:
        """The normalized endpoint; None if the profile has none and uses that of AWS."""
        return None if self.endpoint is None else Endpoint.parse(self.endpoint)

    @cached_property
    def storage_identity(self) -> str:
        # Bucket names are unique in all of AWS, whichever of its hosts is used.
        if self.server is None or _AWS_HOST.fullmatch(self.server.host):
            return AWS_IDENTITY
        return f"s3@{self.server.address}"

    @property
    def endpoint_url(self) -> str | None:
        if self.endpoint is not None:
            return self.endpoint
        # Any text may be in its place.
        return f"https://s3.{self.region}.amazonaws.com" if _REGION.fullmatch(self.region) else None

    def client_config(self) -> dict[str, str]:
        config = {"client.region": self.region, "s3.region": self.region}
        if self.endpoint is not None:
            config["s3.endpoint"] = self.endpoint
        config["s3.path-style-access"] = "true" if self.path_style_access else "false"
        if self.aws_kms_key_arn is not None:
            config |= {"s3.sse.type": "kms", "s3.sse.key": self.aws_kms_key_arn}
        return config

    def soft_deletion_config(self) -> dict[str, str]:
        return {"s3.delete-enabled": "false"} if self.push_s3_delete_disabled else {}


class GcsProfile(CloudProfile):
    """Google Cloud Storage."""

    type: Literal["gcs"]
    bucket: Annotated[str, matching(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]", "must be 3 to 222 of a-z, 0-9, '.', '_' and '-'")]
    sts_enabled: bool = True

    kind, scheme = "gs", "gs"

    @property
    def authority(self) -> str:
        return self.bucket

    @property
    def storage_identity(self) -> str:
        return "gcs"


class AdlsProfile(CloudProfile):
    """Azure Data Lake Storage Gen2, with hierarchical namespace."""

    type: Annotated[Literal["adls", "azdls"], AfterValidator(lambda _: "adls")]
    account_name: Annotated[str, matching(r"[a-z0-9]{3,24}", "must be 3 to 24 of a-z and 0-9")]
    filesystem: Annotated[str, matching(r"[a-z0-9]([a-z0-9-]{1,61}[a-z0-9])", "must be 3 to 63 of a-z, 0-9 and '-'")]
    host: Annotated[str, matching(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+", "must be a host name")] = (
        "dfs.core.windows.net"
    )
    authority_host: _Url = ADLS_AUTHORITY_DEFAULT
    sas_enabled: bool = True
    sas_token_validity_seconds: _ValiditySeconds = TOKEN_VALIDITY_SECONDS_DEFAULT
    allow_alternative_protocols: bool = False

    kind, scheme = "abfs", "abfss"

    @property
    def authority(self) -> str:
        return f"{self.filesystem}@{self.account_name}.{self.host}"

    @property
    def storage_identity(self) -> str:
        return "adls"
