"""Commands on namespaces, tables and views, as values. They contain everything but the principal and the warehouse."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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
class DropNamespace:
    namespace: NamespaceIdentifier


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
    table: TabularIdentifier
    purge_requested: bool


@dataclass(frozen=True, slots=True)
class UnregisterTable:
    table: TabularIdentifier


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
    view: TabularIdentifier


@dataclass(frozen=True, slots=True)
class RenameView:
    source: TabularIdentifier
    destination: TabularIdentifier


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
