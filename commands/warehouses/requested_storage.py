"""The storage that a request asks for: a profile and a credential, parsed, checked together, and tested with their store."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import UUID

from ...access.backends import Backends
from ...access.request_context import RequestContext
from ...domain.documents import Json
from ...security.property_rules import refuse_credential_properties
from ...storage.credentials import CLOUDFLARE_R2, StorageCredential, parse_storage_credential
from ...storage.json_fields import refuse_long
from ...storage.object_store import ObjectStore
from ...storage.permitted_profiles import PermittedProfiles
from ...storage.profiles import S3Profile, StorageProfile, parse_storage_profile
from ...storage.same_bucket import refuse_bucket_before_address, refuse_bucket_in_endpoint
from ...storage.sendable_fields import refuse_unsendable
from ...storage.store_checks import StoreCheck, check_store
from ..execution.executor import CommandExecutor


@dataclass(frozen=True, slots=True)
class RequestedStorage:
    """A profile and a credential that can be used together, and their store, which is not cached.

    permitted -- profiles that are permitted; None for an operator.
    """

    profile: StorageProfile
    credential: StorageCredential | None
    store: ObjectStore
    permitted: PermittedProfiles | None

    @classmethod
    def parse(cls, backends: Backends, profile: Json, credential: Json | None, permitted: PermittedProfiles | None) -> "RequestedStorage":
        """Parses Lakekeeper's JSON. Contacts nothing. Raises BadRequest, which names the field."""
        parsed = parsed_credential(credential)
        return cls.open(backends, checked_profile(profile, parsed), parsed, permitted)

    @classmethod
    def open(
        cls, backends: Backends, profile: StorageProfile, credential: StorageCredential | None, permitted: PermittedProfiles | None
    ) -> "RequestedStorage":
        """Raises BadRequest if the two cannot be used together."""
        return cls(profile, credential, backends.open_new_store(profile, credential), permitted)

    async def check_permitted(self, project_id: UUID) -> None:
        """Raises Forbidden. Contacts no store."""
        if self.permitted is not None:
            await self.permitted.check(self.profile, self.credential, project_id)

    async def check_store(self, executor: CommandExecutor, on_check: Callable[[StoreCheck], None]) -> None:
        """Raises StoreCheckFailed. Does nothing if the settings say so."""
        if not executor.skip_storage_validation:
            async with executor.store_check_limit.acquired(self.profile.storage_identity):
                await check_store(self.store, self.profile, on_check)


def checked_profile(json: Json, credential: StorageCredential | None) -> StorageProfile:
    """Parses a profile that is about to be stored with a credential. Raises BadRequest, which names the field."""
    profile = (
        _profile_for_r2(json) if credential is not None and credential.credential_type == CLOUDFLARE_R2 else parse_storage_profile(json)
    )
    # The stored form, with defaults filled in. Listings and later creations read it again.
    refuse_long(profile.to_json(), "storage-profile")
    refuse_unsendable(profile)
    refuse_credential_properties(getattr(profile, "sts_session_tags", {}), "storage-profile: sts-session-tags")
    if isinstance(profile, S3Profile):
        refuse_bucket_in_endpoint(profile)
        refuse_bucket_before_address(profile)
    return profile


def _profile_for_r2(json: Json) -> StorageProfile:
    """With a credential of R2, the flavor is always `s3-compat`, and `sts-enabled` is true, as in Lakekeeper."""
    compatible = {**json, "flavor": "s3-compat"} if json.get("type") == "s3" and json.get("flavor") in (None, "aws") else json
    profile = parse_storage_profile(compatible)
    return profile.model_copy(update={"sts_enabled": True}) if isinstance(profile, S3Profile) else profile


def parsed_credential(json: Json | None) -> StorageCredential | None:
    """Raises BadRequest, which names the field and never its value."""
    return None if json is None else parse_storage_credential(json)


async def store_credential(executor: CommandExecutor, context: RequestContext, credential: StorageCredential | None) -> UUID | None:
    """Stores it encrypted, before the event that has its reference. Returns the reference; None without a credential."""
    if credential is None:
        return None
    async with executor.connection() as connection:
        return await executor.secrets.put(connection, context.project_id, credential.to_bytes())


def with_keyed_hash(executor: CommandExecutor, context: RequestContext) -> RequestContext:
    """The context of a request with a credential. The log keeps its hash, from which a weak secret could be guessed if it had no key."""
    if context.idempotency_key is None:
        return context
    return replace(context, request_hash=executor.secrets.keyed_hash(context.request_hash))
