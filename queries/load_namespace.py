"""A namespace and its properties."""

from domain.identifiers import NamespaceIdentifier
from projections import names, namespaces
from queries.answers import NamespaceAnswer
from queries.read_side import ReadSide
from queries.warehouse import Warehouse


async def load_namespace(reads: ReadSide, warehouse: Warehouse, namespace: NamespaceIdentifier) -> NamespaceAnswer:
    """Levels as the client spelled them; NoSuchNamespace."""
    async with reads.connection() as connection:
        namespace_id = await names.find_namespace(connection, warehouse.scope, namespace)
        return NamespaceAnswer(namespace.levels, await namespaces.read_properties(connection, namespace_id, warehouse.as_of))


async def namespace_exists(reads: ReadSide, warehouse: Warehouse, namespace: NamespaceIdentifier) -> None:
    """NoSuchNamespace where it does not."""
    async with reads.connection() as connection:
        await names.find_namespace(connection, warehouse.scope, namespace)
