"""Whether namespaces, tables and views are protected, by their ids."""

from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.errors import CatalogError, NoSuchNamespace, NoSuchTable, NoSuchView
from ..domain.identifiers import ContentKind

"""The kinds of objects that can be protected, besides warehouses."""

_SQL = named_sql("icecore.projections", "protection.sql")
_NO_SUCH: dict[ContentKind, type[CatalogError]] = {"namespace": NoSuchNamespace, "table": NoSuchTable, "view": NoSuchView}


async def find(connection: Connection, warehouse_id: UUID, kind: ContentKind, object_id: UUID) -> bool:
    """Whether the object is protected now. Raises NoSuchNamespace, NoSuchTable or NoSuchView if the warehouse has no such object."""
    row = await (await connection.execute(_SQL[kind], {"object_id": object_id}, binary=True)).fetchone()
    if row is None or row[:2] != (warehouse_id, True):
        raise no_such_object(kind, str(object_id))
    protected: bool = row[2]
    return protected


def no_such_object(kind: ContentKind, object_id: str) -> CatalogError:
    """The error for an id that no object of the kind has."""
    return _NO_SUCH[kind](f"{kind.capitalize()} does not exist: {object_id}")
