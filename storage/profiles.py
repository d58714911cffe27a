"""Every kind of storage profile behind one parser."""

from storage.cloud_profiles import AdlsProfile, GcsProfile, S3Profile
from storage.profile_fields import ProfileFields
from storage.storage_profile import LocalProfile, StorageProfile

__all__ = ["AdlsProfile", "GcsProfile", "LocalProfile", "S3Profile", "StorageProfile", "parse_storage_profile"]

_PARSERS = {
    "local": LocalProfile.parse,
    "s3": S3Profile.parse,
    "gcs": GcsProfile.parse,
    "adls": AdlsProfile.parse,
    "azdls": AdlsProfile.parse,
}


def parse_storage_profile(json: object) -> StorageProfile:
    """The profile that `json` describes: `local`, or `s3`, `gcs`, `adls` with Lakekeeper's fields; BadRequest names the field."""
    fields = ProfileFields(json)
    profile_type = fields.text("type")
    parse = _PARSERS.get(profile_type)
    if parse is None:
        raise fields.refusal("type", "must be one of local, s3, gcs, adls")
    return parse(fields)
