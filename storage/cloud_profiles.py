"""Profiles of the cloud stores, with the fields and defaults of Lakekeeper's storage profiles."""

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, ip_address
from socket import inet_aton, inet_ntoa
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from storage.locations import StorageLocation
from storage.profile_fields import ProfileFields
from storage.storage_profile import StorageProfile

TOKEN_VALIDITY_SECONDS_DEFAULT = 3_600
TOKEN_VALIDITY_SECONDS_MIN = 900
TOKEN_VALIDITY_SECONDS_MAX = 43_200
SESSION_TAGS_MAX = 50
AWS_IDENTITY = "s3"
ADLS_AUTHORITY_DEFAULT = "https://login.microsoftonline.com"

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_GCS_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_FILESYSTEM = re.compile(r"[a-z0-9]([a-z0-9-]{1,61}[a-z0-9])")
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+")
_NUMBERS = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*")
_AWS_HOST = re.compile(r".*\.amazonaws\.com(\.cn)?")


def _matching(fields: ProfileFields, name: str, pattern: re.Pattern[str], rule: str) -> str:
    text = fields.text(name)
    if not pattern.fullmatch(text):
        raise fields.refusal(name, rule)
    return text


def _url(fields: ProfileFields, name: str) -> str | None:
    """An http(s) address without user, query or fragment, no trailing slash."""
    text = fields.optional_text(name)
    if text is None:
        return None
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise fields.refusal(name, "must be a URL") from None
    plain = parts.username is None and parts.password is None and not parts.query and not parts.fragment
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain or not text.isascii() or not text.isprintable():
        raise fields.refusal(name, "must be an http or https URL without user, query and fragment")
    return text.rstrip("/")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a store is, in one spelling: an address that is spelled otherwise and asks the same server for the same is equal.

    host -- in lower case, without a dot at its end; an IP address as numbers are usually written, IPv6 in brackets. path -- its segments.
    """

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
        return cls(_host(unquote(parts.hostname or "").lower().rstrip(".")), port, tuple(path))

    def __str__(self) -> str:
        return "/".join((f"{self.host}:{self.port}", *self.path)).replace("|", "%7C")


def _host(text: str) -> str:
    """A client takes `127.1`, `0x7f.0.0.1` and `2130706433` for the address 127.0.0.1."""
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


def _key_prefix(fields: ProfileFields) -> str | None:
    prefix = fields.optional_text("key-prefix")
    return prefix.strip("/") or None if prefix else None


def _storage_layout(fields: ProfileFields) -> dict[str, Any]:
    """Paths are built from ids alone here, so of Lakekeeper's layouts only the default can be asked for."""
    layout = fields.mapping("storage-layout") or {"type": "default"}
    if layout != {"type": "default"}:
        raise fields.refusal("storage-layout", 'must be {"type": "default"}: locations are built from ids, never from names')
    return layout


def _base(scheme: str, authority: str, key_prefix: str | None) -> StorageLocation:
    path = f"/{key_prefix}" if key_prefix else ""
    return StorageLocation.parse_base(f"{scheme}://{authority}{path}", what="storage-profile: key-prefix")


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


class CloudProfile(StorageProfile):
    """What the cloud stores share: one scheme for all, its aliases only where the profile says so."""

    schemes: ClassVar[tuple[str, ...]]

    def check_scheme(self, location: StorageLocation, field: str) -> None:
        if location.scheme not in self.schemes and not self.fields.get("allow-alternative-protocols", False):
            raise ProfileFields({}, field).refusal(
                f"scheme {location.scheme}:", "is served only with allow-alternative-protocols in the storage profile"
            )


class S3Profile(CloudProfile):
    """AWS S3 or a store that speaks its protocol."""

    type = "s3"
    schemes = ("s3",)

    @classmethod
    def parse(cls, fields: ProfileFields) -> "S3Profile":
        values = _without_none(
            {
                "bucket": _matching(fields, "bucket", _BUCKET, "must be 3 to 63 of a-z, 0-9, '.' and '-'"),
                "key-prefix": _key_prefix(fields),
                "region": fields.text("region"),
                "endpoint": _url(fields, "endpoint"),
                "sts-endpoint": _url(fields, "sts-endpoint"),
                "flavor": fields.choice("flavor", "aws", ("aws", "s3-compat")),
                "path-style-access": fields.flag("path-style-access", False),
                "sts-enabled": fields.flag("sts-enabled", False),
                "remote-signing-enabled": fields.flag("remote-signing-enabled", True),
                "remote-signing-url-style": fields.choice("remote-signing-url-style", "auto", ("auto", "path", "virtual-host")),
                "assume-role-arn": fields.optional_text("assume-role-arn"),
                "sts-role-arn": fields.optional_text("sts-role-arn"),
                "sts-token-validity-seconds": fields.number(
                    "sts-token-validity-seconds",
                    TOKEN_VALIDITY_SECONDS_DEFAULT,
                    TOKEN_VALIDITY_SECONDS_MIN,
                    TOKEN_VALIDITY_SECONDS_MAX,
                ),
                "sts-session-tags": _session_tags(fields),
                "allow-alternative-protocols": fields.flag("allow-alternative-protocols", False),
                "push-s3-delete-disabled": fields.flag("push-s3-delete-disabled", True),
                "aws-kms-key-arn": fields.optional_text("aws-kms-key-arn"),
                "legacy-md5-behavior": fields.flag("legacy-md5-behavior", False),
                "storage-layout": _storage_layout(fields),
            }
        )
        role = values.get("assume-role-arn") or values.get("sts-role-arn")
        if values["sts-enabled"] and values["flavor"] == "aws" and not role:
            raise fields.refusal("sts-enabled", "needs assume-role-arn or sts-role-arn with flavor aws")
        allowed = fields.allowed_locations("s3")
        fields.end()
        return cls(_base("s3", values["bucket"], values.get("key-prefix")), values, allowed)

    @cached_property
    def endpoint(self) -> Endpoint | None:
        """None where the profile names none: AWS's own."""
        text = self.fields.get("endpoint")
        return None if text is None else Endpoint.parse(text)

    @cached_property
    def storage_identity(self) -> str:
        # Buckets are one space of names over all of AWS, whichever of its hosts is named.
        if self.endpoint is None or _AWS_HOST.fullmatch(self.endpoint.host):
            return AWS_IDENTITY
        return f"s3@{self.endpoint}"

    def client_config(self) -> dict[str, str]:
        config = {"client.region": self.fields["region"], "s3.region": self.fields["region"]}
        if "endpoint" in self.fields:
            config["s3.endpoint"] = self.fields["endpoint"]
        config["s3.path-style-access"] = "true" if self.fields["path-style-access"] else "false"
        if "aws-kms-key-arn" in self.fields:
            config |= {"s3.sse.type": "kms", "s3.sse.key": self.fields["aws-kms-key-arn"]}
        return config


def _session_tags(fields: ProfileFields) -> dict[str, str]:
    tags = fields.mapping("sts-session-tags")
    if len(tags) > SESSION_TAGS_MAX or not all(isinstance(value, str) and 1 <= len(key) <= 128 for key, value in tags.items()):
        raise fields.refusal("sts-session-tags", f"must be at most {SESSION_TAGS_MAX} texts by name")
    return tags


class GcsProfile(CloudProfile):
    """Google Cloud Storage."""

    type = "gcs"
    schemes = ("gs",)

    @classmethod
    def parse(cls, fields: ProfileFields) -> "GcsProfile":
        values = _without_none(
            {
                "bucket": _matching(fields, "bucket", _GCS_BUCKET, "must be 3 to 222 of a-z, 0-9, '.', '_' and '-'"),
                "key-prefix": _key_prefix(fields),
                "sts-enabled": fields.flag("sts-enabled", True),
                "storage-layout": _storage_layout(fields),
            }
        )
        allowed = fields.allowed_locations("gs")
        fields.end()
        return cls(_base("gs", values["bucket"], values.get("key-prefix")), values, allowed)

    @property
    def storage_identity(self) -> str:
        return "gcs"

    def client_config(self) -> dict[str, str]:
        return {}


class AdlsProfile(CloudProfile):
    """Azure Data Lake Storage Gen2, hierarchical namespace on."""

    type = "adls"
    schemes = ("abfss",)

    @classmethod
    def parse(cls, fields: ProfileFields) -> "AdlsProfile":
        host_rule = "must be a host name"
        values = _without_none(
            {
                "account-name": _matching(fields, "account-name", _ACCOUNT, "must be 3 to 24 of a-z and 0-9"),
                "filesystem": _matching(fields, "filesystem", _FILESYSTEM, "must be 3 to 63 of a-z, 0-9 and '-'"),
                "key-prefix": _key_prefix(fields),
                "host": fields.optional_text("host") or "dfs.core.windows.net",
                "authority-host": _url(fields, "authority-host") or ADLS_AUTHORITY_DEFAULT,
                "sas-enabled": fields.flag("sas-enabled", True),
                "sas-token-validity-seconds": fields.number(
                    "sas-token-validity-seconds",
                    TOKEN_VALIDITY_SECONDS_DEFAULT,
                    TOKEN_VALIDITY_SECONDS_MIN,
                    TOKEN_VALIDITY_SECONDS_MAX,
                ),
                "allow-alternative-protocols": fields.flag("allow-alternative-protocols", False),
                "storage-layout": _storage_layout(fields),
            }
        )
        if not _HOST.fullmatch(values["host"]):
            raise fields.refusal("host", host_rule)
        allowed = fields.allowed_locations("abfs")
        authority = f"{values['filesystem']}@{values['account-name']}.{values['host']}"
        fields.end()
        return cls(_base("abfss", authority, values.get("key-prefix")), values, allowed)

    @property
    def storage_identity(self) -> str:
        return "adls"

    def client_config(self) -> dict[str, str]:
        return {}
