"""Finds S3 locations that are the same although their profiles differ: by another endpoint, or a bucket in the endpoint's host."""

from contextlib import suppress
from ipaddress import ip_address

from ..domain.errors import BadRequest
from .cloud_profiles import AWS_IDENTITY, S3Profile, is_ip_address
from .locations import StorageLocation

_Address = tuple[str, int | None, tuple[str, ...]]
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


def refuse_bucket_before_address(profile: S3Profile) -> None:
    """Raises BadRequest if the bucket would be prefixed to an IP address: bucket 10.0 at 127.1 is the host 10.0.127.1, another server."""
    if profile.server is not None and not profile.path_style_access and is_ip_address(profile.server.host):
        raise BadRequest("Invalid storage-profile: path-style-access must be true: the host of the endpoint is an IP address")


def shared_buckets(one: S3Profile, other: S3Profile) -> tuple[StorageLocation, StorageLocation] | None:
    """Locations of both profiles that overlap although their claims do not; None if there are none."""
    if one.storage_identity == other.storage_identity:
        return None
    for mine in one.roots:
        for theirs in other.roots:
            if any(_overlap(here, there) for here in _addresses(one, mine) for there in _addresses(other, theirs)):
                return mine, theirs
    return None


def _addresses(profile: S3Profile, root: StorageLocation) -> list[_Address]:
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


def _overlap(one: _Address, other: _Address) -> bool:
    shorter = min(len(one[2]), len(other[2]))
    return one[:2] == other[:2] and one[2][:shorter] == other[2][:shorter]
