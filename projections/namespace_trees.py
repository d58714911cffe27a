"""Namespaces with all that is in them: reads a tree, what one command dropped, and the soft-deleted trees of a warehouse."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.identifiers import ContentKind
from .soft_deleted import BEFORE_ALL, SoftDeleted, with_namespaces

_SQL = named_sql("icecore.projections", "namespace_trees.sql")


class TreeNode(NamedTuple):
    """An object in a tree. The root has no parent and an empty name here. deleted -- whether it is soft-deleted."""

    kind: ContentKind
    object_id: UUID
    parent_id: UUID | None
    name: str
    deleted: bool


class DeletedInside(NamedTuple):
    """A soft-deleted object in a tree, and how many there are in all. purges -- whether its files are deleted when it has expired."""

    kind: ContentKind
    object_id: UUID
    parent_id: UUID
    name: str
    protected: bool
    purges: bool
    total: int


class Dropped(NamedTuple):
    """An object that a command dropped, and the event."""

    kind: ContentKind
    object_id: UUID
    event_id: UUID


async def begin_one_moment(connection: Connection) -> None:
    """The statements of the current transaction read one moment."""
    await connection.execute(_SQL["one_moment"])


async def read_tree(connection: Connection, root_id: UUID, limit: int, *, with_deleted: bool) -> list[TreeNode]:
    """The namespace and at most `limit` objects in it, each after its parent. with_deleted -- also what is soft-deleted."""
    parameters = {"root_id": root_id, "with_deleted": with_deleted, "limit": limit + 1}
    return [TreeNode(*row) for row in await (await connection.execute(_SQL["tree"], parameters, binary=True)).fetchall()]


async def last_expiry(connection: Connection, namespace_ids: Sequence[UUID]) -> int | None:
    """When the last of what is soft-deleted in these namespaces expires, in milliseconds since 1970, UTC; None: nothing is."""
    row = await (await connection.execute(_SQL["last_expiry"], {"namespace_ids": list(namespace_ids)})).fetchone()
    return None if row is None else row[0]


async def deleted_inside(connection: Connection, namespace_ids: Sequence[UUID], limit: int, *, inside_deleted: bool) -> list[DeletedInside]:
    """At most `limit` of what is soft-deleted in these namespaces, each after its parent.

    inside_deleted -- also what is in soft-deleted namespaces.
    """
    parameters = {"namespace_ids": list(namespace_ids), "inside_deleted": inside_deleted, "limit": limit}
    return [DeletedInside(*row) for row in await (await connection.execute(_SQL["deleted_inside"], parameters, binary=True)).fetchall()]


async def dropped_together(connection: Connection, namespace_id: UUID, version: int) -> list[Dropped]:
    """What was dropped by the command that dropped the namespace by its event `version`, in the order of the events."""
    parameters = {"namespace_id": namespace_id, "version": version}
    cursor = await connection.execute(_SQL["dropped_together"], parameters, binary=True)
    return [Dropped(*row) for row in await cursor.fetchall()]


async def is_taken(connection: Connection, parent_id: UUID, name_key: str) -> bool:
    """Whether a namespace in `parent_id` has the name now."""
    row = await (await connection.execute(_SQL["is_taken"], {"parent_id": parent_id, "name_key": name_key})).fetchone()
    return row == (True,)


async def list_roots(connection: Connection, warehouse_id: UUID, after: UUID | None, size: int) -> list[SoftDeleted]:
    """At most `size` namespaces that can be undropped, in the order of their ids after the id `after`."""
    parameters = {"warehouse_id": warehouse_id, "after": after or BEFORE_ALL, "size": size}
    found = [SoftDeleted(*row) for row in await (await connection.execute(_SQL["roots"], parameters, binary=True)).fetchall()]
    return await with_namespaces(connection, found)


def kinds_of(nodes: Sequence[TreeNode | Dropped]) -> dict[ContentKind, list[UUID]]:
    """The ids by kind, in order."""
    found: dict[ContentKind, list[UUID]] = {"namespace": [], "table": [], "view": []}
    for node in nodes:
        found[node.kind].append(node.object_id)
    return found
