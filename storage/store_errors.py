"""Errors of object stores: a file is missing, exists already or is too large, or the store is unreachable."""

from ..domain.errors import AlreadyExists, NotFound, PayloadTooLarge, ServiceUnavailable
from .locations import StorageLocation

METADATA_BYTES_MAX = 32 * 1024 * 1024
"""Limit on a metadata file, both stored and decompressed."""


def file_not_found(location: StorageLocation) -> NotFound:
    """Has the message of the Java reference (RESTCatalogAdapter with a missing file), which clients and its test kit compare."""
    return NotFound(f"Failed to open input stream for file: {location.text}")


def file_exists(location: StorageLocation) -> AlreadyExists:
    return AlreadyExists(f"File already exists: {location.text}")


def file_too_large(location: StorageLocation, bytes_max: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"File is larger than {bytes_max} bytes: {location.text}")


class StoreUnavailable(ServiceUnavailable, status=503, type="ServiceUnavailableException"):
    """An object store is unreachable, does not respond, or refuses the credential."""


RETRY_AFTER_SECONDS = 1
"""Files are written and read before the append, so that a request may be sent again."""


def store_unavailable(location: StorageLocation, reason: str, endpoint_url: str | None = None) -> StoreUnavailable:
    """`reason` must be our own text: a store's error text may contain headers and keys. endpoint_url -- of the store's profile."""
    message = f"The object store{at_endpoint(endpoint_url)} could not be used ({reason}): {location.text}"
    return StoreUnavailable(message, retry_after_seconds=RETRY_AFTER_SECONDS)


def at_endpoint(endpoint_url: str | None) -> str:
    """Where a store is, for an error; empty if its locations say it."""
    return "" if endpoint_url is None else f" at {endpoint_url}"
