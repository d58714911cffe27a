"""A namespace and its properties."""

from database.connections import Connection
from domain.identifiers import NamespaceIdentifier
from projections import names, namespaces
from projections.bounded_reads import LargeDocument
from queries.answers import NamespaceAnswer
from queries.freshness import content_tag
from queries.read_side import Fresh, ReadSide
from queries.warehouse import Warehouse


async def load_namespace(reads: ReadSide, warehouse: Warehouse, namespace: NamespaceIdentifier) -> NamespaceAnswer:
    """Levels as the client spelled them; NoSuchNamespace."""

    async def read(connection: Connection, bytes_max: int) -> Fresh[dict[str, str]] | LargeDocument:
        namespace_id = await names.find_namespace(connection, warehouse.scope, namespace)
        properties = await namespaces.read_properties(connection, namespace_id, warehouse.as_of, bytes_max)
        if isinstance(properties, LargeDocument):
            return properties
        size = sum(len(key) + len(value) for key, value in properties.items())
        return Fresh(properties, size, (content_tag(namespace_id),))

    key = ("namespace", *warehouse.scope.namespace_path(namespace))
    properties = await reads.answer_found(key, warehouse.as_of, lambda: reads.read_within(read))
    return NamespaceAnswer(namespace.levels, properties)


async def namespace_exists(reads: ReadSide, warehouse: Warehouse, namespace: NamespaceIdentifier) -> None:
    """NoSuchNamespace where it does not."""
    await load_namespace(reads, warehouse, namespace)
