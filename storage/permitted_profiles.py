"""Which storage profiles a server accepts from unauthenticated clients: those that its operator permits."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from ..domain.errors import Forbidden, MissingCredential, ServiceUnavailable
from .cloud_profiles import ADLS_AUTHORITY_DEFAULT, AdlsProfile, Endpoint, GcsProfile, S3Profile
from .credentials import StorageCredential
from .locations import StorageLocation
from .profiles import LocalProfile, StorageProfile
from .same_folder import in_thread

_REGION = re.compile(r"[a-z0-9-]+")
"""The region is part of the host name if no endpoint is given."""
_ADLS_HOSTS = (".dfs.core.windows.net", ".blob.core.windows.net")
_ASK_OPERATOR = "an operator can use `icecore warehouse create`, `storage` or `credential`, or"


@dataclass(frozen=True, slots=True)
class PermittedProfiles:
    """The operator's rules. By default, only the clouds' own stores with a credential are permitted.

    local_roots -- absolute directories below which local warehouses are permitted. endpoints -- of stores other than the clouds' own. The
    server sends requests there, and may reach hosts that its clients cannot. without_credential -- whether stores may be accessed
    anonymously, which may succeed only because of the server's network.
    """

    local_roots: tuple[Path, ...] = ()
    endpoints: frozenset[Endpoint] = frozenset()
    without_credential: bool = False

    async def check(self, profile: StorageProfile, credential: StorageCredential | None, project_id: UUID | None = None) -> None:
        """Raises Forbidden, MissingCredential, or ServiceUnavailable if the file system does not respond.

        project_id -- for the limit on checks of folders.
        """
        if isinstance(profile, LocalProfile):
            await self._check_local(profile, project_id)
            return
        if credential is None and not self.without_credential:
            raise MissingCredential(
                f"A storage-credential is required: {_ASK_OPERATOR} permit warehouses without one "
                "with ICECORE_WAREHOUSES_WITHOUT_CREDENTIAL=true"
            )
        for field, address in _addresses(profile, credential):
            if not self._may_ask(address):
                raise Forbidden(f"The {field} is not permitted: {_ASK_OPERATOR} list it in ICECORE_WAREHOUSE_ENDPOINTS")
        if isinstance(profile, S3Profile) and profile.endpoint is None and not _REGION.fullmatch(profile.region):
            raise Forbidden("The storage-profile's region is not an AWS region; a store that is not AWS needs an endpoint")

    def _may_ask(self, address: object) -> bool:
        try:
            return isinstance(address, str) and Endpoint.parse(address) in self.endpoints
        except ValueError:
            return False

    async def _check_local(self, profile: LocalProfile, project_id: UUID | None) -> None:
        try:
            outside = await in_thread(lambda: _outside(profile, self.local_roots), project_id) if self.local_roots else profile.base
        except TimeoutError:
            raise ServiceUnavailable(
                "Local folders could not be checked in time: the file system does not respond, or other checks are running",
                retry_after_seconds=1,
            ) from None
        if outside is not None:
            raise Forbidden(
                f"{outside} is not below a directory that is permitted for local warehouses: {_ASK_OPERATOR} "
                "list a directory in ICECORE_LOCAL_WAREHOUSE_ROOTS"
            )


def _outside(profile: LocalProfile, roots: tuple[Path, ...]) -> StorageLocation | None:
    """A folder of the profile that is below none of the roots, as spelled or after resolving links; None if there is none."""
    for folder in profile.roots:
        spelled = Path("/", *folder.segments)
        above = [root for root in roots if root in spelled.parents]
        # A path outside the roots is not looked at: its file system may be mounted by that, or hang.
        if not above or not any(Path(os.path.realpath(root)) in Path(os.path.realpath(spelled)).parents for root in above):
            return folder
    return None


def _addresses(profile: StorageProfile, credential: StorageCredential | None) -> Iterator[tuple[str, object]]:
    """The addresses to which the server would send requests besides the clouds' own hosts, each with its field."""
    if isinstance(profile, S3Profile):
        for name, address in (("endpoint", profile.endpoint), ("sts-endpoint", profile.sts_endpoint)):
            if address is not None:
                yield f"storage-profile's {name}", address
    elif isinstance(profile, GcsProfile):
        key = None if credential is None else credential.fields.get("key")
        if isinstance(key, dict) and "gcs_base_url" in key:
            yield "storage-credential's key.gcs_base_url", key["gcs_base_url"]
    else:
        assert isinstance(profile, AdlsProfile), "every profile has its rule"
        # An allowed location contains its own host.
        for host in {root.authority.partition("@")[2] for root in profile.roots}:
            if not host.endswith(_ADLS_HOSTS):
                yield f"host {host} of the storage-profile", f"https://{host}"
        if profile.authority_host != ADLS_AUTHORITY_DEFAULT:
            yield "storage-profile's authority-host", profile.authority_host
