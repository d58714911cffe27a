"""Finds fields of a storage profile and credential that are accepted and have no effect yet."""

from .cloud_profiles import AdlsProfile, GcsProfile, S3Profile
from .credentials import AWS_SYSTEM_IDENTITY, StorageCredential
from .storage_profile import StorageProfile

_VENDING = "Icecore does not vend credentials yet"
_SIGNING = "Icecore does not sign requests of clients yet"
_ROLES = f"only a credential of the type {AWS_SYSTEM_IDENTITY} assumes a role"

UNUSED_FIELDS: dict[type[StorageProfile], dict[str, str]] = {
    S3Profile: {
        "sts-enabled": _VENDING,
        "sts-role-arn": _VENDING,
        "sts-token-validity-seconds": _VENDING,
        "sts-session-tags": _VENDING,
        "remote-signing-enabled": _SIGNING,
        "remote-signing-url-style": _SIGNING,
        "legacy-md5-behavior": "Icecore sends no MD5 checksums",
    },
    GcsProfile: {"sts-enabled": _VENDING},
    AdlsProfile: {"sas-enabled": _VENDING, "sas-token-validity-seconds": _VENDING},
}
"""The fields of each kind of profile, with the reason."""
ROLE_FIELDS = ("assume-role-arn", "sts-endpoint", "external-id")
"""Fields that have an effect only if the server's own identity assumes a role."""
_ACTUAL_VALUES = {
    "sts-enabled": False,
    "sts-session-tags": {},
    "remote-signing-enabled": False,
    "legacy-md5-behavior": False,
    "sas-enabled": False,
}
"""Values that describe what Icecore does."""


def unused_fields(profile: StorageProfile, credential: StorageCredential | None) -> list[str]:
    """A sentence for each field that was given and has no effect."""
    reasons = dict(UNUSED_FIELDS.get(type(profile), {}))
    if isinstance(profile, S3Profile):
        if credential is None or credential.credential_type != AWS_SYSTEM_IDENTITY:
            reasons |= dict.fromkeys(ROLE_FIELDS, _ROLES)
        elif profile.assume_role_arn is None:
            reasons |= dict.fromkeys(ROLE_FIELDS, "the storage-profile has no assume-role-arn")
    given = {name.replace("_", "-") for name in profile.model_fields_set}
    values = profile.to_json()
    found = [("storage-profile", name) for name in reasons if name in given and values[name] != _ACTUAL_VALUES.get(name)]
    if credential is not None and "external-id" in reasons and "external-id" in credential.fields:
        found.append(("storage-credential", "external-id"))
    return [f"{where}: {name} has no effect: {reasons[name]}" for where, name in found]
