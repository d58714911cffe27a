"""Loads a namespace with its properties."""

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..database.connections import Connection
from ..domain.identifiers import NamespaceIdentifier
from ..projections import names, namespaces
from ..projections.bounded_reads import LargeDocument
from .cache_invalidator import paths_tag, stream_tag
from .executor import QueryExecutor, ReadResult
from .results import NamespaceResult


async def load_namespace(
    queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, namespace: NamespaceIdentifier
) -> NamespaceResult:
    """The namespace, with its levels as the client spelled them. Raises NoSuchNamespace."""

    async def read(connection: Connection, bytes_max: int) -> ReadResult[dict[str, str]] | LargeDocument:
        namespace_id = await names.find_namespace(connection, warehouse.name_lookup, namespace)
        properties = await namespaces.read_properties(connection, namespace_id, warehouse.as_of, bytes_max)
        if isinstance(properties, LargeDocument):
            return properties
        size = sum(len(key) + len(value) for key, value in properties.items())
        return ReadResult(properties, Resource("namespace", namespace_id), size, (stream_tag(namespace_id), paths_tag(warehouse.id)))

    key = ("namespace", *warehouse.name_lookup.namespace_path(namespace))
    properties = await queries.execute_with_own_connections(
        context, key, warehouse.as_of, lambda: queries.backends.read_with_reservation(read)
    )
    return NamespaceResult(namespace.levels, properties)


async def namespace_exists(queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, namespace: NamespaceIdentifier) -> None:
    """Raises NoSuchNamespace if the namespace does not exist."""
    await load_namespace(queries, context, warehouse, namespace)
