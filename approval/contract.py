"""Approval: what a hook is shown of a change before it takes effect, and what it may say of it.

A hook is a class whose objects have `async def review(self, change: ProposedChange) -> Verdict`; docs/how-to/approval.md says how to
configure one. It is asked on a thread of its own, unless `never_blocks` of it is true. Documents are shared with the catalog: a hook
looks and never changes them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID

from ..domain.documents import Json


@dataclass(frozen=True, slots=True)
class Allow:
    """The hook has nothing against the change."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The change does not take effect; `reason` is what the client is told.

    invalid -- the request says something that cannot be meant, whatever there is already: it is answered 400, and not as a conflict.
    """

    reason: str
    invalid: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """The change waits as a proposal until somebody approves it, at most `expires_in_seconds`; `reason` is what the client is told."""

    reason: str
    expires_in_seconds: float


Verdict = Allow | Refuse | Hold
ALLOW = Allow()


class NoVerdictError(Exception):
    """A hook that can give no verdict raises it; its text goes into the log as it stands, and holds no secret and nobody else's words."""


REVIEWED_OPERATIONS = frozenset(
    {
        "createWarehouse", "createNamespace", "updateProperties", "dropNamespace",
        "createTable", "registerTable", "updateTable", "dropTable", "unregisterTable", "renameTable", "commitTransaction",
        "createView", "registerView", "replaceView", "dropView", "renameView",
    }
)  # fmt: skip
"""operationIds of the changes that hooks are asked about."""

ObjectKind = Literal["table", "view", "namespace", "warehouse"]


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One thing a change is about.

    id -- Icecore's own, the same through renames. uuid -- Iceberg's table-uuid or view-uuid; None for other kinds.
    name_before, name_after -- levels, outermost first, without the warehouse; None where it is not there before or after.
    before, after -- the metadata document (of a namespace: `properties`; of a warehouse: its storage profile); None as the names.
    topics -- of the events that make the change, such as `table.committed.v1`.
    """

    kind: ObjectKind
    id: UUID
    uuid: str | None
    name_before: tuple[str, ...] | None
    name_after: tuple[str, ...] | None
    before: Json | None
    after: Json | None
    topics: tuple[str, ...]

    @property
    def names(self) -> list[tuple[str, ...]]:
        """Both, or the one there is."""
        return list(dict.fromkeys(name for name in (self.name_before, self.name_after) if name is not None))

    @property
    def namespaces(self) -> list[tuple[str, ...]]:
        """The levels of the namespaces it is, or lies in, before and after."""
        if self.kind == "warehouse":
            return []
        return list(dict.fromkeys(name if self.kind == "namespace" else name[:-1] for name in self.names))


NamespaceProperties = Callable[[tuple[str, ...]], Awaitable[Sequence[Mapping[str, str]]]]


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """A command that was decided and has not taken effect.

    operation -- the REST spec's operationId. actor -- an opaque id. approves -- the proposal whose approval this is: Hold then counts
    as Allow.
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
        """What the namespace and those above it declare now, the outermost first; fewer than `levels` where it is not there yet."""
        return await self.declared(levels)


class ApprovalHook(Protocol):
    """What looks at changes. Raising, and taking longer than its timeout, is no verdict: then its policy holds."""

    async def review(self, change: ProposedChange) -> Verdict: ...
