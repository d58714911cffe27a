"""Names of tables and views, which share one name space: what a name refers to, and who may take it."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from .errors import AlreadyExists, CommitFailed, NamespaceSoftDeleted, NoSuchNamespace, NoSuchTable, NoSuchView, TabularExpired
from .identifiers import TabularIdentifier


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """The namespace of a name with its location, and the table or view that the name refers to, if any."""

    namespace_id: UUID
    object_id: UUID | None
    kind: str | None
    namespace_location: str


@dataclass(frozen=True, slots=True)
class FreeName:
    """A name that a table or view may take. `name_key` is its form for comparison."""

    namespace_id: UUID
    name: str
    name_key: str


def decide_new_name(
    found: ResolvedName | None, identifier: TabularIdentifier, name_key: str, kind: Literal["table", "view"], *, staged: bool = False
) -> FreeName:
    """The name of a new table or view. Raises NoSuchNamespace, AlreadyExists or CommitFailed with the Java reference's messages.

    found -- what the name refers to; None: the namespace does not exist.
    staged -- for a staged create. An existing table violates its requirement `assert-create`.
    """
    if found is None:
        raise NoSuchNamespace(f"Namespace does not exist: {identifier.namespace}")
    if found.object_id is None:
        return FreeName(found.namespace_id, identifier.name, name_key)
    if staged and found.kind == "table":
        raise CommitFailed(f"Requirement failed: table already exists: {identifier}")
    held_by = str(found.kind).capitalize()
    raise AlreadyExists(f"{held_by}{'' if found.kind == kind else ' with same name'} already exists: {identifier}")


def decide_destination(
    found: ResolvedName | None, object_id: UUID, source: TabularIdentifier, destination: TabularIdentifier, name_key: str
) -> FreeName:
    """The new name of the table or view `object_id`, which may be another spelling of its current name.

    Raises NoSuchNamespace, or AlreadyExists if another object has the name.
    """
    if found is None:
        raise NoSuchNamespace(f"Namespace does not exist: {destination.namespace}")
    if found.object_id not in (None, object_id):
        raise AlreadyExists(f"Cannot rename {source} to {destination}. {str(found.kind).capitalize()} already exists")
    return FreeName(found.namespace_id, destination.name, name_key)


def decide_undropped_name(
    kind: Literal["table", "view"], object_id: UUID, status: str, name: str, found: ResolvedName | None, deleted_with: str | None
) -> None:
    """Checks that a soft-deleted table or view may have its name again.

    Raises TabularExpired if its drop is final, NamespaceSoftDeleted if its namespace is soft-deleted, and AlreadyExists if another object
    has the name.

    found -- what the name refers to. deleted_with -- describes the namespace that its namespace was dropped with; None: that is live, or
        undropped by the same command.
    """
    assert status != "live", "then nothing changes"
    if status != "soft-deleted":
        raise TabularExpired(f"The drop of {kind} {name} ({object_id}) is final: it has expired, or was never soft-deleted")
    if deleted_with is not None:
        raise NamespaceSoftDeleted(f"The namespace of {kind} {name} ({object_id}) is soft-deleted: undrop namespace {deleted_with}")
    if found is not None and found.object_id is not None:
        raise AlreadyExists(f"Cannot undrop {kind} {name} ({object_id}): another {found.kind} has the name now; rename or drop it first")


def no_tabular_with_id(kind: Literal["table", "view"], object_id: UUID) -> NoSuchTable | NoSuchView:
    """The error for an id of the kind that the warehouse does not have."""
    return (NoSuchTable if kind == "table" else NoSuchView)(f"The warehouse has no {kind} with the id {object_id}")
