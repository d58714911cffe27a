"""Builds the changes that hooks review, with names, documents and the properties of enclosing namespaces."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import orjson
from cachetools import LRUCache

from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..database.connections import OpenConnection
from ..domain.documents import Json
from ..domain.events import (
    NamespaceDropped,
    TableCommitted,
    TableCreated,
    TableDropped,
    TableOverwritten,
    TableRegistered,
    ViewDropped,
    ViewRegistered,
)
from ..domain.namespace import NamespaceState
from ..domain.proposal import ProposalState
from ..domain.streams import State, StreamChange
from ..domain.table import TableState
from ..domain.view import ViewState
from ..domain.warehouse import (
    DeleteProfile,
    FormatVersionPolicy,
    WarehouseState,
)
from ..domain.warehouse_config import WarehouseConfig
from ..projections import names, namespaces
from .contract import ObjectChange, ObjectKind, ProposedChange

NAMESPACES_CACHED_MAX = 10_000
# Updates that name files written by the client. A client deletes these files on a refusal, so a proposal could not be applied later.
_ACTIONS_WITH_FILES = frozenset({"add-snapshot", "set-statistics", "set-partition-statistics"})

Levels = tuple[str, ...]


class ChangeReader:
    """Builds a proposed change from what a command decided. Paths of namespaces are read once for each event of their warehouse, which has
    one for every move.
    """

    def __init__(self, open_connection: OpenConnection) -> None:
        self._open_connection = open_connection
        self._cache: LRUCache[tuple[UUID | None, UUID], Levels] = LRUCache(NAMESPACES_CACHED_MAX)

    async def read(
        self, context: RequestContext, warehouse: Warehouse, changes: Sequence[StreamChange], dependencies: dict[UUID, UUID]
    ) -> ProposedChange:
        """Raises ServiceUnavailable if names cannot be read.

        dependencies -- receives the namespaces whose properties a hook reads, with their newest events at the first read.
        """
        objects = [await self._object(warehouse, change) for change in changes if not isinstance(change.after, ProposalState)]

        async def declared(levels: Levels) -> Sequence[Mapping[str, str]]:
            keys = [warehouse.name_lookup.key(level) for level in levels]
            async with self._open_connection() as connection:
                found = await namespaces.read_declared(connection, warehouse.id, keys)
            for each in found:
                dependencies.setdefault(each.namespace_id, each.event_id)
            return [orjson.loads(each.properties) for each in found]

        approved = context.approves
        return ProposedChange(
            context.operation if approved is None else approved.operation,
            context.principal.id,
            context.request_id,
            warehouse.id,
            warehouse.name,
            tuple(objects),
            None if approved is None else approved.proposal_id,
            declared,
        )

    async def _object(self, warehouse: Warehouse, change: StreamChange) -> ObjectChange:
        before, after = _present(change.before), _present(change.after)
        state = change.after
        uuid: str | None = None
        match state:
            case TableState():
                uuid = state.document.value["table-uuid"]
            case ViewState():
                uuid = state.metadata["view-uuid"]
        name_before = None if before is None else await self._name(warehouse, before)
        name_after = None if after is None else await self._name(warehouse, after)
        topics = tuple(event.TOPIC for event in change.events)
        partial = isinstance(state, TableState) and state.document.is_head_alone
        return ObjectChange(_kind(state), state.id, uuid, name_before, name_after, _document(before), _document(after), topics, partial)

    async def _name(self, warehouse: Warehouse, state: State) -> Levels:
        match state:
            case TableState() | ViewState():
                return (*await self._levels(warehouse, state.namespace_id), state.name)
            case NamespaceState():
                return (*await self._levels(warehouse, state.parent_id), state.name)
            case WarehouseState():
                return (state.name,)
        raise AssertionError("a proposal is no object of the catalog")

    async def _levels(self, warehouse: Warehouse, namespace_id: UUID) -> Levels:
        if namespace_id == warehouse.id:
            return ()
        key = (warehouse.event_id, namespace_id)
        known = self._cache.get(key)
        if known is None:
            async with self._open_connection() as connection:
                known = (await names.path_names(connection, namespace_id))[1:]
            if known:
                self._cache[key] = known
        return known


def changed_objects(warehouse: Warehouse, changes: Sequence[StreamChange]) -> list[Json]:
    """The objects of the changes, with their newest events before the change and their parents after it.

    For a drop also the warehouse, which decides whether the drop is final and whether it deletes the files.
    """
    objects: list[Json] = [
        {
            "kind": _kind(each.after),
            "id": str(each.after.id),
            "event-id": None if each.before is None else str(each.before.event_id),
            "parent-id": _parent_id(each.after),
        }
        for each in changes
        if not isinstance(each.after, ProposalState)
    ]
    if any(_depends_on_warehouse(event) for each in changes for event in each.events):
        event_id = None if warehouse.event_id is None else str(warehouse.event_id)
        objects.append({"kind": "warehouse", "id": str(warehouse.id), "event-id": event_id, "parent-id": None})
    return objects


def _depends_on_warehouse(event: object) -> bool:
    return isinstance(event, TableDropped | ViewDropped) or (isinstance(event, NamespaceDropped) and event.root_id is not None)


def held_objects(warehouse: Warehouse, change: ProposedChange, changes: Sequence[StreamChange]) -> list[Json]:
    """As `changed_objects`, with the names of the objects: what a proposal stores."""
    names = [[*(each.name_before or each.name_after or ())] for each in change.objects]
    objects = changed_objects(warehouse, changes)
    names += [[warehouse.name]] * (len(objects) - len(names))
    return [{**each, "name": name} for each, name in zip(objects, names, strict=True)]


def _kind(state: State) -> ObjectKind:
    match state:
        case TableState():
            return "table"
        case ViewState():
            return "view"
        case NamespaceState():
            return "namespace"
    return "warehouse"


def _parent_id(state: State) -> str | None:
    match state:
        case TableState() | ViewState():
            return str(state.namespace_id)
        case NamespaceState():
            return str(state.parent_id)
    return None


def carries_files(changes: Sequence[StreamChange]) -> bool:
    """Whether the change refers to files that the client has written and deletes on a refusal."""
    return any(_carries_files(event) for change in changes for event in change.events)


def _carries_files(event: object) -> bool:
    match event:
        case TableCommitted():
            return not _ACTIONS_WITH_FILES.isdisjoint(event.actions)
        case TableRegistered() | TableOverwritten() | ViewRegistered():
            return True
        case TableCreated():
            return bool(event.metadata["snapshots"] or event.metadata["statistics"] or event.metadata["partition-statistics"])
    return False


def _present(state: State | None) -> State | None:
    """None if the object has no name in the catalog."""
    match state:
        case TableState() | ViewState() | NamespaceState():
            return state if state.status == "live" else None
        case WarehouseState():
            return state if state.status != "deleted" else None
    return state


def _document(state: State | None) -> Json | None:
    match state:
        case TableState():
            return state.document.value
        case ViewState():
            return state.metadata
        case NamespaceState():
            return {"properties": state.properties}
        case WarehouseState():
            return _warehouse_document(state)
    return None


def _warehouse_document(state: WarehouseState) -> Json:
    document, policy = dict(state.storage_profile), state.format_versions
    if state.config != WarehouseConfig():
        document["config"] = state.config.to_json()
    if state.status != "active":
        document["status"] = state.status
    if state.protected:
        document["protected"] = True
    if state.read_only:
        document["read-only"] = True
    if policy != FormatVersionPolicy():
        document |= {"allowed-format-versions": [*policy.allowed], "default-format-version": policy.default}
    if state.delete_profile != DeleteProfile():
        document["delete-profile"] = state.delete_profile.to_json()
    if state.purge_default:
        document["purge-default"] = True
    return document
