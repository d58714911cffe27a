"""Which storage profile may replace that of a warehouse: one with which every existing location is reached and claimed as before."""

from ..domain.errors import IncompatibleStorageProfile
from .cloud_profiles import AdlsProfile, GcsProfile, S3Profile
from .storage_profile import LocalProfile, StorageProfile

_LOCATION_FIELDS: dict[type[StorageProfile], tuple[str, ...]] = {
    LocalProfile: ("directory",),
    S3Profile: ("bucket",),
    GcsProfile: ("bucket",),
    AdlsProfile: ("account_name", "filesystem", "host"),
}
"""The fields that say where a warehouse is, besides `key-prefix`."""


def check_compatible(current: StorageProfile, new: StorageProfile) -> None:
    """Raises IncompatibleStorageProfile, which names the field that may not be changed so."""
    if new.type != current.type:
        raise _refused("type", "it would be another kind of store")
    for name in _LOCATION_FIELDS[type(current)]:
        if getattr(new, name) != getattr(current, name):
            raise _refused(name, "files would not be found")
    if new.base.text != current.base.text:
        raise _refused("key-prefix", "files would not be found")
    if isinstance(current, S3Profile) and isinstance(new, S3Profile):
        if new.storage_identity != current.storage_identity:
            raise _refused("endpoint", "it is another store")
        if new.region != current.region and new.endpoint is None:
            raise _refused("region", "without an endpoint, it says where the bucket is")
    for location in current.allowed:
        if not any(root.contains(location) for root in new.roots):
            raise _refused("allowed-locations", f"tables may be in {location}")


def _refused(name: str, reason: str) -> IncompatibleStorageProfile:
    return IncompatibleStorageProfile(f"Invalid storage-profile: {name.replace('_', '-')!r} may not be changed: {reason}")
