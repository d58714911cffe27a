"""CreateWarehouse: creates a warehouse with a storage profile, and stores its credential in the secret store."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

import orjson
import structlog
from uuid_utils.compat import uuid7

from ...access.authorization import Resource
from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.documents import Json
from ...domain.events import WarehouseCreated
from ...domain.project import ProjectState
from ...domain.warehouse import (
    DeleteProfile,
    FormatVersionPolicy,
    WarehouseState,
    checked_delete_profile,
    checked_policy,
    decide_create,
    decide_policies,
)
from ...projections import projects, warehouses
from ...projections.response_bodies import warehouse_result
from ...storage.permitted_profiles import PermittedProfiles
from ...storage.store_checks import StoreCheck
from ...storage.unused_fields import unused_fields
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision
from .requested_storage import RequestedStorage, store_credential, with_keyed_hash
from .shared_storage import read_sharing, refuse_shared_locations, storage_lock

_log = structlog.get_logger("icecore.commands")

_UNNAMED_SECONDS_MAX = 3600.0
"""An older credential without a warehouse is left over from an interrupted creation or from a deletion. No creation takes this long."""


@dataclass(frozen=True, slots=True)
class CreateWarehouse:
    """storage_profile, storage_credential -- Lakekeeper's JSON (or `{"type": "local", "directory": …}` without a credential)."""

    name: str
    storage_profile: Json
    storage_credential: Json | None = None
    exact_names: bool = False
    format_versions: FormatVersionPolicy = field(default_factory=FormatVersionPolicy)
    delete_profile: DeleteProfile = field(default_factory=DeleteProfile)
    purge_default: bool = False


async def create_warehouse(
    executor: CommandExecutor,
    context: RequestContext,
    command: CreateWarehouse,
    *,
    permitted: PermittedProfiles | None = None,
    needs_review: bool = True,
    on_check: Callable[[StoreCheck], None] = lambda _: None,
) -> CommandResponse:
    """201 with the warehouse as it is loaded, and `warnings` if fields have no effect. Raises AlreadyExists if the name is taken.

    permitted -- profiles that are permitted, else Forbidden; None for an operator. needs_review -- False: approval hooks are not asked.
    on_check -- called with each check of the store; StoreCheckFailed if one fails.
    """
    policy, delete_profile = checked_policy(command.format_versions), checked_delete_profile(command.delete_profile)
    command = replace(command, format_versions=policy, delete_profile=delete_profile)
    storage = RequestedStorage.parse(executor.backends, command.storage_profile, command.storage_credential, permitted)
    context = with_keyed_hash(executor, context)
    warehouse = Warehouse(uuid7(), command.name, context.project_id, storage.profile, None, command.exact_names)
    async with AsyncExitStack() as opened:
        creation = _CreationHandler(context, warehouse, command, executor, storage, needs_review, on_check, opened)
        return await executor.execute(creation)


@dataclass(slots=True, eq=False)
class _CreationHandler(CommandHandler):
    """warehouse -- the new warehouse, without its credential. opened -- ends after the append; it holds `storage_lock`."""

    command: CreateWarehouse
    executor: CommandExecutor
    storage: RequestedStorage
    needs_review: bool
    on_check: Callable[[StoreCheck], None]
    opened: AsyncExitStack
    prepared: bool = False

    async def resolve(self) -> CommandTargets:
        return CommandTargets(other_resources=[Resource("project", self.context.project_id)])

    async def prepare(self) -> None:
        """Checks the store before the lock is taken: a store that does not respond delays no creation in another store."""
        if self.prepared:
            # The command is decided again.
            return
        await self.storage.check_permitted(self.context.project_id)
        await self._created()
        await self.storage.check_store(self.executor, self.on_check)
        await self.opened.enter_async_context(storage_lock(self.executor))
        self.prepared = True

    async def _created(self) -> tuple[WarehouseCreated, ProjectState]:
        """The event and the project. Raises the refusal if the project does not exist, the name is taken or the storage is shared."""
        name, profile = self.warehouse.name, self.warehouse.profile
        async with self.executor.connection() as connection:
            project = await projects.find(connection, self.context.project_id)
            taken = await warehouses.read_by_name(connection, project.id, name) is not None
            others = await read_sharing(connection, profile)
        created = decide_create(name, profile.to_json(), exact_names=self.warehouse.exact_names, taken=taken)
        await refuse_shared_locations(profile, others, project.id)
        return created, project

    async def decide(self) -> Decision:
        created, project = await self._created()
        await self._destroy_unnamed_credentials()
        created = replace(created, secret_ref=await store_credential(self.executor, self.context, self.storage.credential))
        append_request = AppendRequest(self.context)
        command = self.command
        policies = decide_policies(command.format_versions, command.delete_profile, purge_default=command.purge_default)
        # Nothing is created in a project after its deletion.
        append_request.depend_on(project)
        state = append_request.add(self.warehouse.id, self.warehouse.id, None, [created, *policies])
        assert isinstance(state, WarehouseState)
        result = warehouse_result(state, None if self.storage.credential is None else self.storage.credential.kind)
        if found := unused_fields(self.storage.profile, self.storage.credential):
            result["warnings"] = found
        body = orjson.dumps(result)
        record = IdempotencyRecord(201, body=body)
        return Decision(append_request, record, CommandResponse(201, body), secret_ref=created.secret_ref, needs_review=self.needs_review)

    async def _destroy_unnamed_credentials(self) -> None:
        """Deletes credentials of creations whose process was killed between storing the credential and the append."""
        async with self.executor.connection() as connection:
            named = await warehouses.read_secret_refs(connection, self.context.project_id)
            destroyed = await self.executor.secrets.destroy_unnamed(connection, self.context.project_id, named, _UNNAMED_SECONDS_MAX)
        if destroyed:
            _log.info("unused_credentials_deleted", deleted=destroyed)
