"""UpdateStorageProfile and UpdateStorageCredential: change where clients reach a warehouse's files, and with which credential."""

from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

import orjson

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...access.warehouse_result import load_result
from ...domain.documents import Json
from ...domain.errors import CatalogError
from ...domain.warehouse import WarehouseState, decide_storage
from ...projections import warehouses
from ...security.secrets import SecretUnreadable
from ...storage.compatible_profiles import check_compatible
from ...storage.credentials import StorageCredential
from ...storage.permitted_profiles import PermittedProfiles
from ...storage.profiles import StorageProfile, parse_storage_profile
from ...storage.store_checks import StoreCheck
from ...storage.unused_fields import unused_fields
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision
from ..execution.resolver import OutdatedRead, ResolvedStream
from .requested_storage import RequestedStorage, checked_profile, parsed_credential, store_credential, with_keyed_hash
from .shared_storage import read_sharing, refuse_shared_locations, storage_lock


@dataclass(frozen=True, slots=True)
class UpdateStorageProfile:
    """storage_profile, storage_credential -- Lakekeeper's JSON. Without a credential the store needs none: the former is not kept."""

    storage_profile: Json
    storage_credential: Json | None = None


@dataclass(frozen=True, slots=True)
class UpdateStorageCredential:
    """storage_credential -- Lakekeeper's JSON; None removes the credential."""

    storage_credential: Json | None


StorageUpdate = UpdateStorageProfile | UpdateStorageCredential


async def update_storage(
    executor: CommandExecutor,
    context: RequestContext,
    warehouse: Warehouse,
    command: StorageUpdate,
    *,
    permitted: PermittedProfiles | None = None,
    on_check: Callable[[StoreCheck], None] = lambda _: None,
) -> CommandResponse:
    """200 with the warehouse as it is loaded, and `warnings` if fields have no effect. The former credential is destroyed.

    Raises IncompatibleStorageProfile if existing locations would not be reached. permitted, on_check -- as for create_warehouse.
    """
    credential = parsed_credential(command.storage_credential)
    profile = checked_profile(command.storage_profile, credential) if isinstance(command, UpdateStorageProfile) else None
    async with AsyncExitStack() as opened:
        handler = _UpdateHandler(
            with_keyed_hash(executor, context), warehouse, command, executor, profile, credential, permitted, on_check, opened
        )
        response = await executor.execute(handler)
    if handler.replaced is not None:
        # If this fails, a creation of a warehouse destroys it after an hour.
        with suppress(CatalogError):
            await _destroy_replaced(executor, warehouse, handler.replaced)
    return response


async def _destroy_replaced(executor: CommandExecutor, warehouse: Warehouse, secret_ref: UUID) -> None:
    """Destroys a credential, unless the warehouse has it still: the response may be that of an earlier request with the same key."""
    async with executor.connection() as connection:
        state = await warehouses.read_of_any_project(connection, warehouse.id)
        if state is not None and state.secret_ref != secret_ref:
            await executor.secrets.destroy(connection, warehouse.project_id, secret_ref)


@dataclass(slots=True, eq=False)
class _UpdateHandler(CommandHandler):
    """profile -- the new one; None: it stays. opened -- ends after the append; it holds `storage_lock` if the profile changes.
    replaced -- the credential that the decision replaces.
    """

    allows_inactive_warehouse: ClassVar[bool] = True
    allows_read_only_warehouse: ClassVar[bool] = True

    command: StorageUpdate
    executor: CommandExecutor
    profile: StorageProfile | None
    credential: StorageCredential | None
    permitted: PermittedProfiles | None
    on_check: Callable[[StoreCheck], None]
    opened: AsyncExitStack
    stream: ResolvedStream[WarehouseState] | None = None
    checked: RequestedStorage | None = None
    replaced: UUID | None = None

    async def resolve(self) -> CommandTargets:
        self.stream = self.executor.resolver.warehouse(self.warehouse)
        return CommandTargets([self.stream])

    async def prepare(self) -> None:
        """Checks the store before the lock is taken, as a creation does; again only if the profile has changed meanwhile."""
        profile = self.warehouse.profile if self.profile is None else self.profile.replacing(self.warehouse.profile)
        if self.checked is not None and self.checked.profile == profile:
            return
        check_compatible(self.warehouse.profile, profile)
        storage = RequestedStorage.open(self.executor.backends, profile, self.credential, self.permitted)
        await storage.check_permitted(self.context.project_id)
        await storage.check_store(self.executor, self.on_check)
        if self.profile is not None:
            await self.opened.enter_async_context(storage_lock(self.executor))
        self.checked = storage

    async def decide(self) -> Decision:
        assert self.stream is not None
        assert self.checked is not None, "the store is checked first"
        state, generation = await self.stream.read_named()
        profile = await self._new_profile(state)
        keeps = await self._has_credential(state)
        stored = None if keeps else await store_credential(self.executor, self.context, self.credential)
        append_request, after = AppendRequest(self.context), state
        storage_profile = state.storage_profile if self.profile is None else profile.to_json()
        event = decide_storage(state, storage_profile, state.secret_ref if keeps else stored)
        if event is None:
            append_request.depend_on(state)
        else:
            changed = append_request.add(state.id, state.id, state, [event], generation)
            assert isinstance(changed, WarehouseState)
            after = changed
        self.replaced = None if keeps else state.secret_ref
        result = await load_result(self.executor.backends, after)
        if self.profile is not None and (found := unused_fields(profile, self.credential)):
            result["warnings"] = found
        body = orjson.dumps(result)
        return Decision(append_request, IdempotencyRecord(200, body=body), CommandResponse(200, body), secret_ref=stored)

    async def _new_profile(self, state: WarehouseState) -> StorageProfile:
        """The profile after the update. Raises the refusal if it may not replace the current one."""
        assert self.checked is not None
        current = parse_storage_profile(state.storage_profile)
        if self.profile is None:
            if current != self.checked.profile:
                # The credential was checked with a former profile.
                raise OutdatedRead
            return current
        profile = self.profile.replacing(current)
        check_compatible(current, profile)
        async with self.executor.connection() as connection:
            others = await read_sharing(connection, profile)
        await refuse_shared_locations(profile, [other for other in others if other.id != state.id], state.project_id, current)
        return profile

    async def _has_credential(self, state: WarehouseState) -> bool:
        """Whether the warehouse has the credential of the request, or neither has one."""
        if state.secret_ref is None or self.credential is None:
            return state.secret_ref is None and self.credential is None
        try:
            return await self.executor.backends.credential(state.project_id, state.secret_ref) == self.credential
        except SecretUnreadable:
            return False
