"""CreateWarehouse: creates a warehouse with a storage profile, and stores its credential in the secret store."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
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
from ...domain.identifiers import name_key
from ...domain.warehouse import WarehouseState, decide_create
from ...projections import warehouses
from ...projections.results import warehouse_result
from ...security.property_rules import refuse_credential_properties
from ...storage.credentials import StorageCredential, parse_storage_credential
from ...storage.json_fields import refuse_long
from ...storage.locations import StorageLocation
from ...storage.object_store import ObjectStore, open_store
from ...storage.permitted_profiles import PermittedProfiles
from ...storage.profiles import LocalProfile, S3Profile, StorageProfile, parse_storage_profile
from ...storage.same_bucket import refuse_bucket_in_endpoint, shared_buckets
from ...storage.same_folder import shared_folders
from ...storage.store_checks import StoreCheck, check_store
from ..execution.answer import Answer
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, Decision, Resolved
from ..execution.submission import IdempotencyRecord, Submission

_log = structlog.get_logger("icecore.commands")

_ALONE_WAIT_SECONDS_MAX = 10.0
_PAUSE_SECONDS = 0.05
_UNNAMED_SECONDS_MAX = 3600.0
"""A credential that no warehouse names after that is of a creation that was ended in the middle; none takes so long."""

_Profile = TypeVar("_Profile", bound=StorageProfile)


@dataclass(frozen=True, slots=True)
class CreateWarehouse:
    """storage_profile, storage_credential -- Lakekeeper's JSON (or `{"type": "local", "directory": …}` without a credential)."""

    name: str
    storage_profile: Json
    storage_credential: Json | None = None
    exact_names: bool = False


async def create_warehouse(
    executor: CommandExecutor,
    context: RequestContext,
    command: CreateWarehouse,
    *,
    permitted: PermittedProfiles | None = None,
    reviewed: bool = True,
    on_check: Callable[[StoreCheck], None] = lambda _: None,
) -> Answer:
    """201 with the warehouse as it is loaded; AlreadyExists where the project has one of that name.

    permitted -- what its profile must be one of: Forbidden; None for an operator's own. reviewed -- False: no approval hook is asked.
    on_check -- told each check of its store; StoreCheckFailed where one fails.
    """
    profile = parse_storage_profile(command.storage_profile)
    # As it is kept, defaults filled in: every listing, and every creation of another warehouse, reads it again.
    refuse_long(profile.to_json(), "storage-profile")
    credential = None if command.storage_credential is None else parse_storage_credential(command.storage_credential)
    refuse_credential_properties(getattr(profile, "sts_session_tags", {}), "storage-profile: sts-session-tags")
    store = open_store(profile, credential)  # refuses a credential that does not belong to the profile
    if isinstance(profile, S3Profile):
        refuse_bucket_in_endpoint(profile)
    if context.idempotency_key is not None:
        # The hash is kept in the log, and a hash of a weak secret tells it to who tries them all.
        context = replace(context, request_hash=executor.secrets.keyed_hash(context.request_hash))
    warehouse = Warehouse(uuid7(), command.name, context.project_id, profile, None, command.exact_names)
    async with _alone(executor):
        return await executor.execute(_Creation(context, warehouse, command, executor, store, credential, permitted, reviewed, on_check))


@dataclass(slots=True, eq=False)
class _Creation(CommandHandler):
    """warehouse -- the one to be, without its credential."""

    command: CreateWarehouse
    executor: CommandExecutor
    store: ObjectStore
    credential: StorageCredential | None
    permitted: PermittedProfiles | None
    reviewed: bool
    on_check: Callable[[StoreCheck], None]
    checked: bool = False

    async def resolve(self) -> Resolved:
        return Resolved(within=[Resource("project", self.context.project_id)])

    async def prepare(self) -> None:
        if self.permitted is not None:
            await self.permitted.check(self.warehouse.profile, self.credential)

    async def decide(self) -> Decision:
        name, profile = self.warehouse.name, self.warehouse.profile
        async with self.executor.connection() as connection:
            others = await warehouses.read_all(connection, self.context.project_id)
        taken = any(other.name_key == name_key(name) for other in others)
        created = decide_create(name, profile.to_json(), exact_names=self.warehouse.exact_names, taken=taken)
        await _refuse_shared_places(profile, others)
        await self._check_store()
        await self._destroy_unnamed_credentials(others)
        if self.credential is not None:
            async with self.executor.connection() as connection:
                secret_ref = await self.executor.secrets.put(connection, self.context.project_id, self.credential.to_bytes())
            created = replace(created, secret_ref=secret_ref)
        submission = Submission(self.context)
        state = submission.add(self.warehouse.id, self.warehouse.id, None, [created])
        assert isinstance(state, WarehouseState)
        body = orjson.dumps(warehouse_result(state, None if self.credential is None else self.credential.kind))
        record = IdempotencyRecord(201, body=body)
        return Decision(submission, record, Answer(201, body), secret_ref=created.secret_ref, reviewed=self.reviewed)

    async def _check_store(self) -> None:
        """Once, however often it is decided."""
        if self.checked or self.executor.skip_storage_validation:
            return
        await check_store(self.store, self.warehouse.profile, self.on_check)
        self.checked = True

    async def _destroy_unnamed_credentials(self, warehouses: Sequence[WarehouseState]) -> None:
        """What creations left behind whose process was killed between storing the credential and the append."""
        named = [state.secret_ref for state in warehouses if state.secret_ref is not None]
        async with self.executor.connection() as connection:
            destroyed = await self.executor.secrets.destroy_unnamed(connection, self.context.project_id, named, _UNNAMED_SECONDS_MAX)
        if destroyed:
            _log.info("unused_credentials_deleted", credentials=destroyed)


@asynccontextmanager
async def _alone(executor: CommandExecutor) -> AsyncIterator[None]:
    """In all processes: of two that are created at once neither would find the other's places. Raises ServiceUnavailable."""
    deadline = time.monotonic() + _ALONE_WAIT_SECONDS_MAX
    try:
        # Those of this process wait here, in the order they came: each that asked Postgres would take a connection twenty times a second.
        async with asyncio.timeout(_ALONE_WAIT_SECONDS_MAX):
            await executor.creating_warehouse.acquire()
    except TimeoutError:
        raise _others_are_created() from None
    try:
        async with _alone_of_processes(executor, deadline):
            yield
    finally:
        executor.creating_warehouse.release()


@asynccontextmanager
async def _alone_of_processes(executor: CommandExecutor, deadline: float) -> AsyncIterator[None]:
    while True:
        async with executor.backends.connections.connection(math.inf) as connection:
            if await try_lock(connection, AdvisoryLock.CREATE_WAREHOUSE):
                try:
                    yield
                finally:
                    # A session that has ended holds nothing; what became of the warehouse is known by now.
                    with suppress(psycopg.OperationalError):
                        await unlock(connection, AdvisoryLock.CREATE_WAREHOUSE)
                return
        if time.monotonic() > deadline:
            raise _others_are_created()
        # Without a connection in hand: who is at it needs another one.
        await asyncio.sleep(_PAUSE_SECONDS)


def _others_are_created() -> ServiceUnavailable:
    return ServiceUnavailable("Other warehouses are being created", retry_after_seconds=1)


async def _refuse_shared_places(profile: StorageProfile, states: Sequence[WarehouseState]) -> None:
    """Two warehouses may use one place, because what lies there is claimed by its path and store; not by two paths or endpoints."""
    if isinstance(profile, LocalProfile):
        folders = await asyncio.to_thread(lambda: [*_others_of(profile, states)])
        await _refuse_shared_folders(profile, folders)
    elif isinstance(profile, S3Profile):
        # There may be many of them, each with a hundred locations.
        await asyncio.to_thread(_refuse_shared_buckets, profile, states)


def _others_of(profile: _Profile, states: Sequence[WarehouseState]) -> Iterator[tuple[str, _Profile]]:
    """The profiles of its kind, each with its warehouse's name."""
    for state in states:
        if state.storage_profile["type"] == profile.type:
            other = parse_storage_profile(state.storage_profile)
            assert isinstance(other, type(profile))
            yield state.name, other


def _refuse_shared_buckets(profile: S3Profile, states: Sequence[WarehouseState]) -> None:
    # Those with one endpoint are in one store, where claims tell their places apart: they are not even parsed.
    elsewhere = [state for state in states if state.storage_profile.get("endpoint") != profile.endpoint]
    for name, other in _others_of(profile, elsewhere):
        if (found := shared_buckets(profile, other)) is not None:
            raise _shared_place(*found, name, "another endpoint", "endpoint")


async def _refuse_shared_folders(profile: LocalProfile, others: Sequence[tuple[str, LocalProfile]]) -> None:
    try:
        found = await shared_folders(profile, [other for _, other in others])
    except TimeoutError:
        raise ServiceUnavailable("The folders of all warehouses could not be compared: the file system did not answer in time") from None
    if found is not None:
        shared, mine, theirs = found
        name = next(name for name, other in others if other is shared)
        raise _shared_place(mine, theirs, name, "a symbolic link or a mount", "path")


def _shared_place(mine: StorageLocation, theirs: StorageLocation, name: str, way: str, spelled_by: str) -> BadRequest:
    return BadRequest(
        f"Invalid storage-profile: {mine} overlaps {theirs} of the warehouse {name} through {way}; "
        f"use the same {spelled_by} as that warehouse"
    )
