"""What keeps the storage of warehouses apart: one is created or changed at a time, and none reaches another's files by other names."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar
from uuid import UUID

import psycopg

from ...database.advisory_locks import AdvisoryLock, try_lock, unlock
from ...database.postgres import Connection
from ...domain.errors import BadRequest, ServiceUnavailable, StorageProfileOverlap
from ...domain.warehouse import WarehouseState
from ...projections import warehouses
from ...storage.locations import StorageLocation
from ...storage.profiles import LocalProfile, S3Profile, StorageProfile, parse_storage_profile
from ...storage.same_bucket import shared_buckets
from ...storage.same_folder import shared_folders
from ..execution.executor import CommandExecutor

_LOCK_WAIT_SECONDS_MAX = 10.0
_LOCK_RETRY_SECONDS = 0.05

_Profile = TypeVar("_Profile", bound=StorageProfile)


@asynccontextmanager
async def storage_lock(executor: CommandExecutor) -> AsyncIterator[None]:
    """Permits one creation or change of a storage profile at a time among all processes, because each must see the other's locations.

    Raises ServiceUnavailable.
    """
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS_MAX
    try:
        # Commands in this process wait here in their order. If each polled Postgres, it would take a connection twenty times a second.
        async with asyncio.timeout(_LOCK_WAIT_SECONDS_MAX):
            await executor.storage_change_lock.acquire()
    except TimeoutError:
        raise _locked() from None
    try:
        async with _advisory_lock(executor, deadline):
            yield
    finally:
        executor.storage_change_lock.release()


@asynccontextmanager
async def _advisory_lock(executor: CommandExecutor, deadline: float) -> AsyncIterator[None]:
    while True:
        async with executor.backends.session_connections.connection(math.inf) as connection:
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
        # The connection is returned before the pause, because the command in progress needs one.
        await asyncio.sleep(_LOCK_RETRY_SECONDS)


def _locked() -> ServiceUnavailable:
    return ServiceUnavailable("Other warehouses are being created or changed; try again later", retry_after_seconds=1)


async def read_sharing(connection: Connection, profile: StorageProfile) -> list[WarehouseState]:
    """The warehouses of the server that may share storage with the profile. The others are not read: there may be thousands."""
    # The file system decides about folders. The filesystem of ADLS is the part before the host.
    names = None if isinstance(profile, LocalProfile) else sorted({root.authority.partition("@")[0] for root in profile.roots})
    endpoint = profile.endpoint if isinstance(profile, S3Profile) else None
    return await warehouses.read_sharing_storage(connection, profile.type, names, endpoint)


async def refuse_shared_locations(
    profile: StorageProfile, states: Sequence[WarehouseState], project_id: UUID, current: StorageProfile | None = None
) -> None:
    """Refuses a profile whose storage another warehouse has or reaches. Raises StorageProfileOverlap, and BadRequest if the other one
    reaches it through another path or endpoint.

    states -- the other warehouses, as `read_sharing` returns them. current -- the profile that is replaced, whose locations are not
        compared again.
    """
    await asyncio.to_thread(_refuse_overlaps, profile, states, project_id, current)
    if isinstance(profile, LocalProfile):
        folders = await asyncio.to_thread(lambda: [*_others_of(profile, states)])
        await _refuse_shared_folders(profile, folders, project_id)
    elif isinstance(profile, S3Profile):
        # In a thread, because there may be many warehouses, each with a hundred locations.
        await asyncio.to_thread(_refuse_shared_buckets, profile, states, project_id)


def _refuse_overlaps(profile: StorageProfile, states: Sequence[WarehouseState], project_id: UUID, current: StorageProfile | None) -> None:
    """The base of a warehouse overlaps no location of another. Allowed locations may overlap: claims keep their objects apart."""
    former = () if current is None else current.roots
    added = [root for root in profile.roots if not any(each.contains(root) for each in former)]
    for state, other in _others_of(profile, states) if added else ():
        if other.storage_identity != profile.storage_identity:
            continue
        for mine in added:
            for theirs in other.roots if mine is profile.base else (other.base,):
                if mine.contains(theirs) or theirs.contains(mine):
                    raise StorageProfileOverlap(f"Invalid storage-profile: {mine} overlaps {_named(theirs, state, project_id)}")


def _others_of(profile: _Profile, states: Sequence[WarehouseState]) -> Iterator[tuple[WarehouseState, _Profile]]:
    """The other profiles of the same type, with their warehouses."""
    for state in states:
        if state.storage_profile["type"] == profile.type:
            other = parse_storage_profile(state.storage_profile)
            assert isinstance(other, type(profile))
            yield state, other


def _refuse_shared_buckets(profile: S3Profile, states: Sequence[WarehouseState], project_id: UUID) -> None:
    # Profiles with the same endpoint are in the same store, where overlaps are visible.
    elsewhere = [state for state in states if state.storage_profile.get("endpoint") != profile.endpoint]
    for state, other in _others_of(profile, elsewhere):
        if (found := shared_buckets(profile, other)) is not None:
            raise _shared_location(*found, state, project_id, "another endpoint")


async def _refuse_shared_folders(profile: LocalProfile, others: Sequence[tuple[WarehouseState, LocalProfile]], project_id: UUID) -> None:
    try:
        found = await shared_folders(profile, [other for _, other in others], project_id)
    except TimeoutError:
        raise ServiceUnavailable(
            "The folders of all warehouses could not be compared in time: the file system does not respond, or other checks are running",
            retry_after_seconds=1,
        ) from None
    if found is not None:
        shared, mine, theirs = found
        state = next(state for state, other in others if other is shared)
        raise _shared_location(mine, theirs, state, project_id, "a symbolic link or a mount")


def _shared_location(mine: StorageLocation, theirs: StorageLocation, state: WarehouseState, project_id: UUID, through: str) -> BadRequest:
    return BadRequest(f"Invalid storage-profile: {mine} overlaps {_named(theirs, state, project_id)} through {through}")


def _named(location: StorageLocation, state: WarehouseState, project_id: UUID) -> str:
    """What the client may know of another warehouse's location: nothing if it is in another project."""
    return f"{location} of the warehouse {state.name}" if state.project_id == project_id else "that of a warehouse in another project"
