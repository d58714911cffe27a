"""Every kind of storage profile behind one parser."""

from typing import Annotated

from pydantic import Field, TypeAdapter

from .cloud_profiles import AdlsProfile, GcsProfile, S3Profile
from .json_fields import parsed
from .storage_profile import LocalProfile, StorageProfile

__all__ = ["AdlsProfile", "GcsProfile", "LocalProfile", "S3Profile", "StorageProfile", "parse_storage_profile"]

_KINDS: TypeAdapter[StorageProfile] = TypeAdapter(
    Annotated[LocalProfile | S3Profile | GcsProfile | AdlsProfile, Field(discriminator="type")]
)


def parse_storage_profile(json: object) -> StorageProfile:
    """The profile that `json` describes: `local`, or `s3`, `gcs`, `adls` with Lakekeeper's fields; BadRequest names the field."""
    return parsed(_KINDS, json, "storage-profile", "type must be one of local, s3, gcs, adls")
