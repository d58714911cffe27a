"""Errors of object stores: a file is missing, exists already or is too large, or the store is unreachable."""

from ..domain.errors import AlreadyExists, NotFound, PayloadTooLarge, ServiceUnavailable
from .locations import StorageLocation

METADATA_BYTES_MAX = 32 * 1024 * 1024
"""Bytes of a metadata file, stored and unpacked: the largest the server opens."""


def file_not_found(location: StorageLocation) -> NotFound:
    """The sentence of the Java reference (RESTCatalogAdapter over a file that is gone): clients and the kit compare it."""
    return NotFound(f"Failed to open input stream for file: {location.spelled}")


def file_exists(location: StorageLocation) -> AlreadyExists:
    return AlreadyExists(f"File already exists: {location.spelled}")


def file_too_large(location: StorageLocation, bytes_max: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"File is larger than {bytes_max} bytes: {location.spelled}")


RETRY_AFTER_SECONDS = 1
"""Files are written and read before the append, so that a request may be sent again."""


def store_away(location: StorageLocation, reason: str) -> ServiceUnavailable:
    """`reason` is ours: a store's own words may repeat headers and keys."""
    message = f"The object store could not be used ({reason}): {location.spelled}"
    return ServiceUnavailable(message, retry_after_seconds=RETRY_AFTER_SECONDS)
