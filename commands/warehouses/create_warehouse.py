"""CreateWarehouse: a name, a storage profile, and a credential that goes to the secret store."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from uuid import UUID

import orjson
import psycopg
from uuid_utils.compat import uuid7

from access.request_context import RequestContext
from access.resolve_warehouse import as_warehouse
from access.warehouse import Warehouse
from approval.hooks import HeldBack
from commands.execution.answer import Answer
from commands.execution.executor import CommandExecutor
from commands.execution.submission import Submission
from database.advisory_locks import AdvisoryLock, try_lock, unlock
from domain.documents import Json
from domain.errors import AlreadyExists, BadRequest, CatalogError, InternalError, ServiceUnavailable
from domain.warehouse import WarehouseState, decide_create
from projections import warehouses
from security.property_rules import refuse_credential_properties
from storage.credentials import parse_storage_credential
from storage.locations import StorageLocation
from storage.object_store import open_store
from storage.profiles import LocalProfile, S3Profile, StorageProfile, parse_storage_profile
from storage.same_bucket import refuse_bucket_in_endpoint, shared_buckets
from storage.same_folder import shared_folders

_ALONE_WAIT_SECONDS_MAX = 10.0
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class CreateWarehouse:
    """storage_profile, storage_credential -- Lakekeeper's JSON (or `{"type": "local", "directory": …}` without a credential)."""

    name: str
    storage_profile: Json
    storage_credential: Json | None = None
    exact_names: bool = False


async def create_warehouse(
    executor: CommandExecutor, context: RequestContext, command: CreateWarehouse, *, reviewed: bool = True
) -> Answer:
    """201 with the warehouse's id; AlreadyExists where the project has one of that name.

    reviewed -- False: no approval hook is asked.
    """
    profile = parse_storage_profile(command.storage_profile)
    credential = None if command.storage_credential is None else parse_storage_credential(command.storage_credential)
    refuse_credential_properties(profile.fields.get("sts-session-tags", {}), "storage-profile: sts-session-tags")
    open_store(profile, credential)  # refuses a credential that does not belong to the profile
    created = decide_create(command.name, profile.to_json(), exact_names=command.exact_names)
    if isinstance(profile, S3Profile):
        refuse_bucket_in_endpoint(profile)
    async with _alone(executor):
        await _refuse_shared_places(executor, context, profile)
        secret_ref = None
        if credential is not None:
            async with executor.connection() as connection:
                secret_ref = await executor.secrets.put(connection, context.project_id, credential.to_bytes())
        warehouse_id = uuid7()
        submission = Submission(context)
        state = submission.add(warehouse_id, warehouse_id, None, [replace(created, secret_ref=secret_ref)])
        assert isinstance(state, WarehouseState)
        if reviewed:
            try:
                await _review(executor, context, as_warehouse(state, None), submission)
            except CatalogError:
                await _forget(executor, context, secret_ref)
                raise
        result = await executor.committer.submit(submission)
        if result.outcome == "appended":
            return Answer(201, orjson.dumps({"warehouse-id": warehouse_id}), result.position)
        await _forget(executor, context, secret_ref)
        if result.outcome == "claim":
            raise AlreadyExists(f"Warehouse already exists: {command.name}")
        raise InternalError("The log refused the warehouse")


@asynccontextmanager
async def _alone(executor: CommandExecutor) -> AsyncIterator[None]:
    """In all processes: of two that are created at once neither would find the other's places. Raises ServiceUnavailable."""
    deadline = time.monotonic() + _ALONE_WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        async with executor.backends.connections.connection(math.inf) as connection:
            if await try_lock(connection, AdvisoryLock.CREATE_WAREHOUSE):
                try:
                    yield
                finally:
                    # A session that has ended holds nothing; what became of the warehouse is known by now.
                    with suppress(psycopg.OperationalError):
                        await unlock(connection, AdvisoryLock.CREATE_WAREHOUSE)
                return
        # Without a connection in hand: who is at it needs another one.
        await asyncio.sleep(_PAUSE_SECONDS)
    raise ServiceUnavailable("Other warehouses are being created", retry_after_seconds=1)


async def _refuse_shared_places(executor: CommandExecutor, context: RequestContext, profile: StorageProfile) -> None:
    """Two warehouses may use one place, because what lies there is claimed by its path and store; not by two paths or endpoints."""
    async with executor.connection() as connection:
        states = await warehouses.read_all(connection, context.project_id)
    others = [(state.name, parse_storage_profile(state.storage_profile)) for state in states]
    if isinstance(profile, LocalProfile):
        await _refuse_shared_folders(profile, [(name, other) for name, other in others if isinstance(other, LocalProfile)])
    for name, other in others:
        if isinstance(profile, S3Profile) and isinstance(other, S3Profile) and (found := shared_buckets(profile, other)) is not None:
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
        f"Invalid storage-profile: {mine} is, contains or lies inside {theirs}, which the warehouse {name} uses, through {way}; "
        f"use the same {spelled_by} as that warehouse"
    )


async def _review(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, submission: Submission) -> None:
    """Raises what refuses it. There is no request that could be run again, so that what is held is refused too."""
    try:
        await executor.appender.ask_hooks(warehouse, submission)
    except HeldBack as held:
        refusal, _ = await executor.proposals.hold(context, warehouse, held)
        raise refusal from None


async def _forget(executor: CommandExecutor, context: RequestContext, secret_ref: UUID | None) -> None:
    """The credential of a warehouse that did not come to be."""
    if secret_ref is not None:
        async with executor.connection() as connection:
            await executor.secrets.destroy(connection, context.project_id, secret_ref)
