"""Parses storage profiles of every kind."""

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
    """Parses a profile: `local`, or `s3`, `gcs`, `adls` with Lakekeeper's fields. Raises BadRequest, which names the field."""
    return parsed(_KINDS, json, "storage-profile", "type must be one of local, s3, gcs, adls")
