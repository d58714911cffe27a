"""Tables, views and namespaces that are soft-deleted now: lists them, and finds those that are due to expire."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.identifiers import ContentKind
from .names import levels, names_above

_SQL = named_sql("icecore.projections", "soft_deleted.sql")
BEFORE_ALL = UUID(int=0)


TABULARS: tuple[ContentKind, ...] = ("table", "view")
EVERY_KIND: tuple[ContentKind, ...] = (*TABULARS, "namespace")


class SoftDeleted(NamedTuple):
    """A soft-deleted table, view or namespace. namespace -- the levels above it, outermost first; namespace_id -- of its parent.
    expires_at_ms -- milliseconds since 1970, UTC. purges -- whether the files of a table are deleted after that.
    """

    object_id: UUID
    kind: ContentKind
    name: str
    namespace_id: UUID
    expires_at_ms: int
    dropped_at: datetime
    created_at: datetime
    purges: bool = False
    namespace: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Its name with its namespace, for people."""
        return ".".join([*self.namespace, self.name])

    @property
    def described(self) -> str:
        """Its kind, name and id, for messages."""
        return f"{self.kind} {self.path} ({self.object_id})"


class Due(NamedTuple):
    """A soft-deleted object that is due to expire.

    now_ms -- the earlier of the two clocks. due_namespace_id -- the namespace above that is due, if the object itself is not.
    """

    expires_at_ms: int
    object_id: UUID
    kind: ContentKind
    warehouse_id: UUID
    now_ms: int
    due_namespace_id: UUID | None = None


async def list_soft_deleted(
    connection: Connection,
    warehouse_id: UUID,
    namespace_id: UUID | None,
    after: UUID | None,
    size: int,
    kinds: Sequence[ContentKind] = TABULARS,
) -> list[SoftDeleted]:
    """At most `size` soft-deleted objects of a warehouse, or in one of its namespaces, in the order of their ids after the id `after`."""
    parameters = {"parent_id": namespace_id or warehouse_id, "after": after or BEFORE_ALL, "size": size, "kinds": list(kinds)}
    cursor = await connection.execute(_SQL["of_warehouse" if namespace_id is None else "of_namespace"], parameters, binary=True)
    return await with_namespaces(connection, [SoftDeleted(*row) for row in await cursor.fetchall()])


async def with_namespaces(connection: Connection, found: Sequence[SoftDeleted]) -> list[SoftDeleted]:
    """The same with the levels of their namespaces."""
    above = await names_above(connection, list({each.namespace_id for each in found})) if found else {}
    return [each._replace(namespace=levels(above, each.namespace_id)) for each in found]


async def statuses(
    connection: Connection, warehouse_id: UUID, objects: Sequence[tuple[Literal["table", "view"], UUID]]
) -> dict[tuple[str, UUID], str]:
    """The status of each table or view, by kind and id; nothing for those that the warehouse does not have."""
    parameters = {"warehouse_id": warehouse_id, "kinds": [kind for kind, _ in objects], "ids": [object_id for _, object_id in objects]}
    rows = await (await connection.execute(_SQL["statuses"], parameters, binary=True)).fetchall()
    return {(kind, object_id): status for kind, object_id, status in rows if status is not None}


async def database_now_ms(connection: Connection) -> int:
    """Milliseconds since 1970, UTC, by Postgres's clock."""
    row = await (await connection.execute(_SQL["database_now"])).fetchone()
    assert row is not None
    return int(row[0])


async def due(
    connection: Connection,
    now_ms: int,
    after: tuple[int, UUID] | None,
    without_warehouses: Sequence[UUID],
    limit: int,
    kinds: Sequence[ContentKind] = TABULARS,
) -> Sequence[Due]:
    """What has expired by `now_ms` and also by Postgres's clock, in the order of the expiry, after a pair of moment and id; nothing of the
    warehouses `without_warehouses`, and no namespace with something soft-deleted in it.
    """
    after_ms, after_id = after or (-1, BEFORE_ALL)
    parameters = {
        "now_ms": now_ms,
        "after_ms": after_ms,
        "after_id": after_id,
        "limit": limit,
        "without_warehouses": list(without_warehouses),
        "kinds": list(kinds),
    }
    return [Due(*row) for row in await (await connection.execute(_SQL["due"], parameters, binary=True)).fetchall()]


async def due_inside(
    connection: Connection, now_ms: int, after: UUID | None, without_warehouses: Sequence[UUID], limit: int, kinds: Sequence[ContentKind]
) -> Sequence[Due]:
    """What is not due itself, but in a namespace that was dropped finally, or below one, in the order of ids after `after`. Otherwise as
    `due`.
    """
    parameters = {
        "now_ms": now_ms,
        "after_id": after or BEFORE_ALL,
        "limit": limit,
        "without_warehouses": list(without_warehouses),
        "kinds": list(kinds),
    }
    return [Due(*row) for row in await (await connection.execute(_SQL["due_inside"], parameters, binary=True)).fetchall()]
