"""Finds S3 locations that are the same although their profiles differ: by another endpoint, or a bucket in the endpoint's host."""

from contextlib import suppress
from ipaddress import ip_address

from ..domain.errors import BadRequest
from .cloud_profiles import AWS_IDENTITY, S3Profile
from .locations import StorageLocation

_Place = tuple[str, int | None, tuple[str, ...]]
"""Host, port (None: the default of http or https), and path of a request."""


def refuse_bucket_in_endpoint(profile: S3Profile) -> None:
    """Raises BadRequest if the endpoint contains the bucket, which is a separate field: stores accept both forms."""
    endpoint = profile.server
    if endpoint is None:
        return
    label = endpoint.host.partition(".")[0]
    # Hosts of AWS begin with the service; a VPC endpoint has `bucket` or an access point before its own name.
    of_aws = profile.storage_identity == AWS_IDENTITY and not label.startswith("s3") and ".vpce" not in endpoint.host
    for bucket in {root.authority for root in profile.roots}:
        if of_aws or endpoint.host.startswith(f"{bucket}.") or bucket in endpoint.path:
            raise BadRequest("Invalid storage-profile: endpoint must not contain the bucket; use the field bucket")


def shared_buckets(one: S3Profile, other: S3Profile) -> tuple[StorageLocation, StorageLocation] | None:
    """Locations of both profiles that overlap although their claims do not; None if there are none."""
    if one.storage_identity == other.storage_identity:
        return None
    for mine in one.roots:
        for theirs in other.roots:
            if any(_overlap(here, there) for here in _places(one, mine) for there in _places(other, theirs)):
                return mine, theirs
    return None


def _places(profile: S3Profile, root: StorageLocation) -> list[_Place]:
    """The location in path style and in virtual-host style: a store may serve both, whichever the profile uses."""
    endpoint = profile.server
    if endpoint is None:
        return []
    port = None if endpoint.port in (80, 443) else endpoint.port
    host = _host(endpoint.host)
    return [
        (host, port, (*endpoint.path, root.authority, *root.segments)),
        (f"{root.authority}.{host}", port, (*endpoint.path, *root.segments)),
    ]


def _host(host: str) -> str:
    """Normalizes the names of this machine: 127.0.0.0/8, ::1, localhost and names below it, and 0.0.0.0 and ::."""
    before, _, last = host.rpartition(".")
    if last == "localhost":
        return f"{before}.localhost".removeprefix(".")
    with suppress(ValueError):
        address = ip_address(host.strip("[]"))
        if address.is_loopback or address.is_unspecified:
            return "localhost"
    return host


def _overlap(one: _Place, other: _Place) -> bool:
    shorter = min(len(one[2]), len(other[2]))
    return one[:2] == other[:2] and one[2][:shorter] == other[2][:shorter]
