"""CreateWarehouse: creates a warehouse with a storage profile, and stores its credential in the secret store."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

import orjson
import psycopg
import structlog
from uuid_utils.compat import uuid7

from ...access.authorization import Resource
from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...database.advisory_locks import AdvisoryLock, try_lock, unlock
from ...domain.documents import Json
from ...domain.errors import BadRequest, ServiceUnavailable
from ...domain.events import WarehouseCreated
from ...domain.identifiers import name_key
from ...domain.warehouse import FormatVersionPolicy, WarehouseState, checked_policy, decide_create, decide_format_versions
from ...projections import warehouses
from ...projections.results import warehouse_result
from ...security.property_rules import refuse_credential_properties
from ...storage.credentials import StorageCredential, parse_storage_credential
from ...storage.json_fields import refuse_long
from ...storage.locations import StorageLocation
from ...storage.object_store import ObjectStore
from ...storage.permitted_profiles import PermittedProfiles
from ...storage.profiles import LocalProfile, S3Profile, StorageProfile, parse_storage_profile
from ...storage.same_bucket import refuse_bucket_before_address, refuse_bucket_in_endpoint, shared_buckets
from ...storage.same_folder import shared_folders
from ...storage.store_checks import StoreCheck, check_store
from ...storage.unused_fields import unused_fields
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, Decision, Resolved
from ..execution.submission import IdempotencyRecord, Submission

_log = structlog.get_logger("icecore.commands")

_LOCK_WAIT_SECONDS_MAX = 10.0
_LOCK_RETRY_SECONDS = 0.05
_UNNAMED_SECONDS_MAX = 3600.0
"""An older credential without a warehouse is left over from an interrupted creation or from a deletion. No creation takes this long."""

_Profile = TypeVar("_Profile", bound=StorageProfile)


@dataclass(frozen=True, slots=True)
class CreateWarehouse:
    """storage_profile, storage_credential -- Lakekeeper's JSON (or `{"type": "local", "directory": …}` without a credential)."""

    name: str
    storage_profile: Json
    storage_credential: Json | None = None
    exact_names: bool = False
    format_versions: FormatVersionPolicy = field(default_factory=FormatVersionPolicy)


async def create_warehouse(
    executor: CommandExecutor,
    context: RequestContext,
    command: CreateWarehouse,
    *,
    permitted: PermittedProfiles | None = None,
    reviewed: bool = True,
    on_check: Callable[[StoreCheck], None] = lambda _: None,
) -> CommandResponse:
    """201 with the warehouse as it is loaded, and `warnings` if fields have no effect. Raises AlreadyExists if the name is taken.

    permitted -- profiles that are permitted, else Forbidden; None for an operator. reviewed -- False: approval hooks are not asked.
    on_check -- called with each check of the store; StoreCheckFailed if one fails.
    """
    command = replace(command, format_versions=checked_policy(command.format_versions))
    profile = parse_storage_profile(command.storage_profile)
    # The stored form, with defaults filled in. Listings and later creations read it again.
    refuse_long(profile.to_json(), "storage-profile")
    credential = None if command.storage_credential is None else parse_storage_credential(command.storage_credential)
    refuse_credential_properties(getattr(profile, "sts_session_tags", {}), "storage-profile: sts-session-tags")
    store = executor.backends.open_new_store(profile, credential)
    if isinstance(profile, S3Profile):
        refuse_bucket_in_endpoint(profile)
        refuse_bucket_before_address(profile)
    if context.idempotency_key is not None:
        # The log keeps the hash. It is keyed, because a weak secret could be guessed from a plain hash.
        context = replace(context, request_hash=executor.secrets.keyed_hash(context.request_hash))
    warehouse = Warehouse(uuid7(), command.name, context.project_id, profile, None, command.exact_names)
    async with AsyncExitStack() as opened:
        creation = _Creation(context, warehouse, command, executor, store, credential, permitted, reviewed, on_check, opened)
        return await executor.execute(creation)


@dataclass(slots=True, eq=False)
class _Creation(CommandHandler):
    """warehouse -- the new warehouse, without its credential. opened -- ends after the append; it holds `_creation_lock`."""

    command: CreateWarehouse
    executor: CommandExecutor
    store: ObjectStore
    credential: StorageCredential | None
    permitted: PermittedProfiles | None
    reviewed: bool
    on_check: Callable[[StoreCheck], None]
    opened: AsyncExitStack
    prepared: bool = False

    async def resolve(self) -> Resolved:
        return Resolved(other_resources=[Resource("project", self.context.project_id)])

    async def prepare(self) -> None:
        """Checks the store before the lock is taken: a store that does not respond delays no creation in another store."""
        if self.prepared:
            # The command is decided again.
            return
        if self.permitted is not None:
            await self.permitted.check(self.warehouse.profile, self.credential)
        await self._created()
        if not self.executor.skip_storage_validation:
            async with self.executor.store_check_limit.acquired(self.warehouse.profile.storage_identity):
                await check_store(self.store, self.warehouse.profile, self.on_check)
        await self.opened.enter_async_context(_creation_lock(self.executor))
        self.prepared = True

    async def _created(self) -> tuple[WarehouseCreated, list[WarehouseState]]:
        """The event, and the other warehouses. Raises the refusal if the name is taken or the storage is shared."""
        name, profile = self.warehouse.name, self.warehouse.profile
        async with self.executor.connection() as connection:
            others = await warehouses.read_all(connection, self.context.project_id)
        taken = any(other.name_key == name_key(name) for other in others)
        created = decide_create(name, profile.to_json(), exact_names=self.warehouse.exact_names, taken=taken)
        await _refuse_shared_locations(profile, others)
        return created, others

    async def decide(self) -> Decision:
        created, others = await self._created()
        await self._destroy_unnamed_credentials(others)
        if self.credential is not None:
            async with self.executor.connection() as connection:
                secret_ref = await self.executor.secrets.put(connection, self.context.project_id, self.credential.to_bytes())
            created = replace(created, secret_ref=secret_ref)
        submission = Submission(self.context)
        format_versions = decide_format_versions(self.command.format_versions)
        state = submission.add(self.warehouse.id, self.warehouse.id, None, [created, *format_versions])
        assert isinstance(state, WarehouseState)
        result = warehouse_result(state, None if self.credential is None else self.credential.kind)
        if found := unused_fields(self.warehouse.profile, self.credential):
            result["warnings"] = found
        body = orjson.dumps(result)
        record = IdempotencyRecord(201, body=body)
        return Decision(submission, record, CommandResponse(201, body), secret_ref=created.secret_ref, reviewed=self.reviewed)

    async def _destroy_unnamed_credentials(self, warehouses: Sequence[WarehouseState]) -> None:
        """Deletes credentials of creations whose process was killed between storing the credential and the append."""
        named = [state.secret_ref for state in warehouses if state.secret_ref is not None]
        async with self.executor.connection() as connection:
            destroyed = await self.executor.secrets.destroy_unnamed(connection, self.context.project_id, named, _UNNAMED_SECONDS_MAX)
        if destroyed:
            _log.info("unused_credentials_deleted", credentials=destroyed)


@asynccontextmanager
async def _creation_lock(executor: CommandExecutor) -> AsyncIterator[None]:
    """Permits one creation at a time among all processes, because each must see the other's locations. Raises ServiceUnavailable."""
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS_MAX
    try:
        # Creations in this process wait here in their order. If each polled Postgres, it would take a connection twenty times a second.
        async with asyncio.timeout(_LOCK_WAIT_SECONDS_MAX):
            await executor.warehouse_creation_lock.acquire()
    except TimeoutError:
        raise _locked() from None
    try:
        async with _advisory_creation_lock(executor, deadline):
            yield
    finally:
        executor.warehouse_creation_lock.release()


@asynccontextmanager
async def _advisory_creation_lock(executor: CommandExecutor, deadline: float) -> AsyncIterator[None]:
    while True:
        async with executor.backends.sessions.connection(math.inf) as connection:
            if await try_lock(connection, AdvisoryLock.CREATE_WAREHOUSE):
                try:
                    yield
                finally:
                    # A session that has ended holds no lock. The outcome of the command is known already.
                    with suppress(psycopg.OperationalError):
                        await unlock(connection, AdvisoryLock.CREATE_WAREHOUSE)
                return
        if time.monotonic() > deadline:
            raise _locked()
        # The connection is returned before the pause, because the creation in progress needs one.
        await asyncio.sleep(_LOCK_RETRY_SECONDS)


def _locked() -> ServiceUnavailable:
    return ServiceUnavailable("Other warehouses are being created; try again later", retry_after_seconds=1)


async def _refuse_shared_locations(profile: StorageProfile, states: Sequence[WarehouseState]) -> None:
    """Refuses a profile whose storage another warehouse reaches through a different path or endpoint, because claims would not match.

    Warehouses with the same path and endpoint may share storage, because claims keep their objects apart.
    """
    if isinstance(profile, LocalProfile):
        folders = await asyncio.to_thread(lambda: [*_others_of(profile, states)])
        await _refuse_shared_folders(profile, folders)
    elif isinstance(profile, S3Profile):
        # In a thread, because there may be many warehouses, each with a hundred locations.
        await asyncio.to_thread(_refuse_shared_buckets, profile, states)


def _others_of(profile: _Profile, states: Sequence[WarehouseState]) -> Iterator[tuple[str, _Profile]]:
    """The other profiles of the same type, with their warehouses' names."""
    for state in states:
        if state.storage_profile["type"] == profile.type:
            other = parse_storage_profile(state.storage_profile)
            assert isinstance(other, type(profile))
            yield state.name, other


def _refuse_shared_buckets(profile: S3Profile, states: Sequence[WarehouseState]) -> None:
    # Profiles with the same endpoint are in the same store, where claims keep objects apart. They need not be parsed.
    elsewhere = [state for state in states if state.storage_profile.get("endpoint") != profile.endpoint]
    for name, other in _others_of(profile, elsewhere):
        if (found := shared_buckets(profile, other)) is not None:
            raise _shared_location(*found, name, "another endpoint", "endpoint")


async def _refuse_shared_folders(profile: LocalProfile, others: Sequence[tuple[str, LocalProfile]]) -> None:
    try:
        found = await shared_folders(profile, [other for _, other in others])
    except TimeoutError:
        raise ServiceUnavailable("The folders of all warehouses could not be compared: the file system did not respond in time") from None
    if found is not None:
        shared, mine, theirs = found
        name = next(name for name, other in others if other is shared)
        raise _shared_location(mine, theirs, name, "a symbolic link or a mount", "path")


def _shared_location(mine: StorageLocation, theirs: StorageLocation, name: str, through: str, spelled_by: str) -> BadRequest:
    return BadRequest(
        f"Invalid storage-profile: {mine} overlaps {theirs} of the warehouse {name} through {through}; "
        f"use the same {spelled_by} as that warehouse"
    )
