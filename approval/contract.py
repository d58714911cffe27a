"""Approval hooks: the interface of hooks that review a change before it is committed.

A hook is a class whose objects have `async def review(self, change: ProposedChange) -> Verdict`; docs/how-to/approval.md says how to
configure one. `review` runs on a separate thread, unless the hook's `never_blocks` is true. Documents are shared with the catalog: a hook
must not modify them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID

from ..domain.documents import Json


@dataclass(frozen=True, slots=True)
class Allow:
    """The hook allows the change."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The change is refused, and the client receives `reason`.

    invalid -- the request itself is wrong in every state: the status is 400 instead of that of a conflict.
    """

    reason: str
    invalid: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """The change waits as a proposal until it is approved, at most `expires_in_seconds`; the client receives `reason`."""

    reason: str
    expires_in_seconds: float


Verdict = Allow | Refuse | Hold
ALLOW = Allow()


class NoVerdictError(Exception):
    """Raised by a hook that cannot give a verdict. Its text is logged unchanged and must contain no secret and no text of other systems."""


REVIEWED_OPERATIONS = frozenset(
    {
        "createWarehouse", "updateWarehouseConfig", "renameWarehouse", "activateWarehouse", "deactivateWarehouse",
        "setWarehouseProtection", "updateWarehouseFormatVersionPolicy", "updateStorageProfile", "updateStorageCredential",
        "setWarehouseReadOnly",
        "updateWarehouseDeleteProfile", "setWarehousePurgeDefault", "deleteWarehouse", "undropTabulars", "undropNamespace",
        "setTaskQueueConfig",
        "createNamespace", "updateProperties", "setNamespaceProtection", "moveNamespace", "dropNamespace",
        "createTable", "registerTable", "updateTable", "dropTable", "unregisterTable", "renameTable", "commitTransaction",
        "setTableProtection",
        "createView", "registerView", "replaceView", "dropView", "renameView", "setViewProtection",
    }
)  # fmt: skip
"""operationIds of the changes that hooks review."""

ObjectKind = Literal["table", "view", "namespace", "warehouse"]


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One object that a change affects.

    id -- Icecore's id, which survives renames. uuid -- Iceberg's table-uuid or view-uuid; None for other kinds.
    name_before, name_after -- levels, outermost first, without the warehouse; None if the object does not exist before or after.
    before, after -- the metadata document (of a namespace: `properties`; of a warehouse: its storage profile, with its `config`, `status`,
        `protected`, `read-only`, format versions, `delete-profile` and `purge-default` where they differ from those of a new warehouse), or
        None.
    topics -- of the events of the change, such as `table.committed.v1`.
    partial -- `before` and `after` of a table lack their lists and `refs` (schemas, snapshots and so on), because the metadata of all
        objects of the change is larger than what the server reads at a time. Only an undrop of a namespace has such changes.
    """

    kind: ObjectKind
    id: UUID
    uuid: str | None
    name_before: tuple[str, ...] | None
    name_after: tuple[str, ...] | None
    before: Json | None
    after: Json | None
    topics: tuple[str, ...]
    partial: bool = False

    @property
    def names(self) -> list[tuple[str, ...]]:
        """The names before and after, without None and duplicates."""
        return list(dict.fromkeys(name for name in (self.name_before, self.name_after) if name is not None))

    @property
    def namespaces(self) -> list[tuple[str, ...]]:
        """The namespace itself, or the namespace that contains the object, before and after."""
        if self.kind == "warehouse":
            return []
        return list(dict.fromkeys(name if self.kind == "namespace" else name[:-1] for name in self.names))


NamespaceProperties = Callable[[tuple[str, ...]], Awaitable[Sequence[Mapping[str, str]]]]


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """A command that was decided and is not committed yet.

    operation -- operationId of the REST specification. actor -- an opaque id. approves -- the proposal that is being approved, or
    None; a Hold then counts as Allow.
    """

    operation: str
    actor: str
    request_id: str
    warehouse_id: UUID
    warehouse_name: str
    objects: tuple[ObjectChange, ...]
    approves: UUID | None
    declared: NamespaceProperties

    async def namespace_properties(self, levels: tuple[str, ...]) -> Sequence[Mapping[str, str]]:
        """Properties of the namespace and its parents, outermost first; fewer than `levels` if some do not exist yet."""
        return await self.declared(levels)


class ApprovalHook(Protocol):
    """Reviews changes. If `review` raises or exceeds its timeout, the hook's `on_failure` applies."""

    async def review(self, change: ProposedChange) -> Verdict: ...
