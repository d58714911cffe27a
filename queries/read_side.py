"""The read side as questions see it: connections to the read models, and the object stores behind the tables."""

from contextlib import AbstractAsyncContextManager
from uuid import UUID

from projections.connections import Connection, ConnectionHandOff
from queries.warehouse import Warehouse
from security.secrets import SecretStore
from storage.credentials import StorageCredential
from storage.object_store import ObjectStore, ObjectStores


class ReadSide:
    """What every question takes."""

    def __init__(self, connections: ConnectionHandOff, stores: ObjectStores, secrets: SecretStore) -> None:
        self._connections = connections
        self._stores = stores
        self._secrets = secrets
        self._credentials: dict[UUID, StorageCredential] = {}

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        return self._connections.connection()

    async def store(self, warehouse: Warehouse) -> ObjectStore:
        """The warehouse's object store, opened with its own credential."""
        credential = None
        if warehouse.secret_ref is not None:
            credential = self._credentials.get(warehouse.secret_ref)
            if credential is None:
                async with self.connection() as connection:
                    data = await self._secrets.get(connection, warehouse.project_id, warehouse.secret_ref)
                # A secret's bytes never change under its reference.
                credential = self._credentials[warehouse.secret_ref] = StorageCredential.from_bytes(data)
        return self._stores.open(warehouse.profile, credential)
