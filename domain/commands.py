"""Commands on namespaces, tables and views, as values. They contain everything but the principal and the warehouse."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from .documents import Json
from .identifiers import NamespaceIdentifier, TabularIdentifier


@dataclass(frozen=True, slots=True)
class CreateNamespace:
    namespace: NamespaceIdentifier
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UpdateNamespaceProperties:
    namespace: NamespaceIdentifier
    removals: Sequence[str]
    updates: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MoveNamespace:
    """destination -- the whole new path. force -- also if it is protected."""

    namespace_id: UUID
    destination: NamespaceIdentifier
    force: bool = False


@dataclass(frozen=True, slots=True)
class DropNamespace:
    """force -- also if it is protected. recursive -- with all that is in it; with `force` that is final, also in a soft-deleting warehouse.
    purge -- of a recursive drop, whether the files of the tables are deleted; None: what the warehouse's purge default says.
    """

    namespace: NamespaceIdentifier
    force: bool = False
    recursive: bool = False
    purge: bool | None = None


@dataclass(frozen=True, slots=True)
class UndropNamespace:
    """With all that was dropped with it. force -- also if files are missing."""

    namespace_id: UUID
    force: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Fields as in the spec's CreateTableRequest; None for omitted ones."""

    namespace: NamespaceIdentifier
    name: str
    location: str | None
    schema: Json
    partition_spec: Json | None
    write_order: Json | None
    properties: Mapping[str, str]
    stage_create: bool


@dataclass(frozen=True, slots=True)
class RegisterTable:
    namespace: NamespaceIdentifier
    name: str
    metadata_location: str
    overwrite: bool


@dataclass(frozen=True, slots=True)
class CommitTable:
    """Requirements and updates as the spec's JSON objects, in the order of the request."""

    table: TabularIdentifier
    requirements: Sequence[Json]
    updates: Sequence[Json]


@dataclass(frozen=True, slots=True)
class CommitTransaction:
    """At least one change, each to a different table. A change that completes a staged create creates its table."""

    changes: Sequence[CommitTable]


@dataclass(frozen=True, slots=True)
class DropTable:
    """purge_requested -- None: what the warehouse's purge default says. force -- also if it is protected, and the drop is final, also in a
    soft-deleting warehouse.
    """

    table: TabularIdentifier
    purge_requested: bool | None
    force: bool = False


@dataclass(frozen=True, slots=True)
class UnregisterTable:
    """force -- also if it is protected."""

    table: TabularIdentifier
    force: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable:
    source: TabularIdentifier
    destination: TabularIdentifier


@dataclass(frozen=True, slots=True)
class CreateView:
    """Fields as in the spec's CreateViewRequest."""

    namespace: NamespaceIdentifier
    name: str
    location: str | None
    schema: Json
    view_version: Json
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RegisterView:
    namespace: NamespaceIdentifier
    name: str
    metadata_location: str


@dataclass(frozen=True, slots=True)
class CommitView:
    """Requirements and updates as the spec's JSON objects, in the order of the request."""

    view: TabularIdentifier
    requirements: Sequence[Json]
    updates: Sequence[Json]


@dataclass(frozen=True, slots=True)
class DropView:
    """force -- also if it is protected, and the drop is final, also in a soft-deleting warehouse."""

    view: TabularIdentifier
    force: bool = False


@dataclass(frozen=True, slots=True)
class RenameView:
    source: TabularIdentifier
    destination: TabularIdentifier


@dataclass(frozen=True, slots=True)
class SetNamespaceProtection:
    """protected -- the namespace is dropped only with `force`."""

    namespace_id: UUID
    protected: bool


@dataclass(frozen=True, slots=True)
class SetTableProtection:
    """protected -- the table is dropped and unregistered only with `force`."""

    table_id: UUID
    protected: bool


@dataclass(frozen=True, slots=True)
class SetViewProtection:
    """protected -- the view is dropped only with `force`."""

    view_id: UUID
    protected: bool


UNDROP_TARGETS_MAX = 100


@dataclass(frozen=True, slots=True)
class UndropTarget:
    kind: Literal["table", "view"]
    id: UUID


@dataclass(frozen=True, slots=True)
class UndropTabulars:
    """At least one target, and at most UNDROP_TARGETS_MAX. force -- also if files are missing."""

    targets: Sequence[UndropTarget]
    force: bool = False


def properties_set(command: object) -> Iterator[Mapping[str, object]]:
    """The properties that a command sets, including those that it removes again."""
    match command:
        case CommitTransaction(changes=changes):
            for change in changes:
                yield from properties_set(change)
        case CommitTable(updates=updates) | CommitView(updates=updates):
            for update in updates:
                if update.get("action") == "set-properties":
                    # Clients before Iceberg 0.14 write `updated`.
                    yield from (update[member] for member in ("updates", "updated") if isinstance(update.get(member), dict))
        case CreateNamespace(properties=properties) | CreateTable(properties=properties) | CreateView(properties=properties):
            yield properties
        case UpdateNamespaceProperties(updates=properties):
            yield properties
