"""Connections to Postgres, object stores and the limit on large documents, for one process."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar
from uuid import UUID

from cachetools import LRUCache

from ..database.connections import Connection, ConnectionPool
from ..projections.bounded_reads import BYTES_UNBOUNDED, LargeDocument
from ..security.secrets import SecretStore
from ..storage.credentials import StorageCredential
from ..storage.large_documents import BYTES_CONCURRENT_MAX, LARGE_BYTES_MIN, DocumentReservation, LargeDocuments
from ..storage.object_store import ObjectStore, ObjectStores
from ..storage.storage_profile import StorageProfile
from .warehouse import Warehouse

Value = TypeVar("Value")

CREDENTIALS_CACHED_BYTES_MAX = 8 * 1024 * 1024
"""Room for 10,000 access keys, or a hundred of the longest credentials."""
_CREDENTIAL_BYTES = 600
"""The memory of one credential besides its document."""


class Backends:
    """The connections, stores and caches that the commands and queries of one process share."""

    def __init__(
        self,
        connections: ConnectionPool,
        stores: ObjectStores,
        secrets: SecretStore,
        *,
        session_connections: ConnectionPool | None = None,
        large_documents_bytes_max: int = BYTES_CONCURRENT_MAX,
    ) -> None:
        self.connections = connections
        self.session_connections = session_connections or connections
        """Connections that keep their session of Postgres, for locks."""
        self._stores = stores
        self._secrets = secrets
        # Bounded, because a listing reads the credentials of all warehouses, and clients may create any number of them.
        self._credentials: LRUCache[UUID, StorageCredential] = LRUCache(
            CREDENTIALS_CACHED_BYTES_MAX, getsizeof=lambda credential: _CREDENTIAL_BYTES + len(credential.document)
        )
        self.large_documents = LargeDocuments(large_documents_bytes_max)

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """A connection from the pool."""
        return self.connections.connection()

    def single_use_connection(self) -> AbstractAsyncContextManager[Connection]:
        """A connection for one large result, closed afterwards."""
        return self.connections.single_use_connection()

    def forget_credentials(self) -> None:
        """Empties the cache of credentials. They never change in one log, but after a broken connection the database may have been
        restored.
        """
        self._credentials.clear()

    async def read_with_reservation(
        self, read: Callable[[Connection, int], Awaitable[Value | LargeDocument]], reservation: DocumentReservation | None = None
    ) -> Value:
        """Calls `read` with a limit on the document's bytes. A larger document is read again, without limit, once there is memory for it.

        reservation -- holds the memory for as long as the caller uses the document; without one, it is held only during the read.
        """
        async with self.connection() as connection:
            found = await read(connection, LARGE_BYTES_MIN)
        if not isinstance(found, LargeDocument):
            return found
        # Without holding a connection: a request that has the memory may wait for one.
        async with self.large_documents.reservation() as own:
            await (reservation or own).reserve(found.size)
            async with self.single_use_connection() as connection:
                found = await read(connection, BYTES_UNBOUNDED)
        assert not isinstance(found, LargeDocument)
        return found

    async def store(self, warehouse: Warehouse) -> ObjectStore:
        """The warehouse's object store, opened with its own credential."""
        credential = None if warehouse.secret_ref is None else await self.credential(warehouse.project_id, warehouse.secret_ref)
        return await self._stores.open(warehouse.profile, credential, warehouse.project_id)

    def open_new_store(self, profile: StorageProfile, credential: StorageCredential | None) -> ObjectStore:
        """The store of a warehouse to be created. Raises BadRequest if the profile and credential cannot be used together."""
        return self._stores.open_new(profile, credential)

    async def credential(self, project_id: UUID, secret_ref: UUID) -> StorageCredential:
        """Raises SecretUnreadable if the secret does not exist, or its key is not available."""
        credential = self._credentials.get(secret_ref)
        if credential is None:
            async with self.connection() as connection:
                data = await self._secrets.get(connection, project_id, secret_ref)
            # The secret of a reference never changes.
            credential = self._credentials[secret_ref] = StorageCredential.from_bytes(data)
        return credential
