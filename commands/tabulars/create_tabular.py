"""What creating tables and creating views share."""

from abc import abstractmethod
from dataclasses import dataclass
from uuid import UUID

from uuid_utils.compat import uuid7

from ...access.warehouse import Warehouse
from ...database.connections import Connection
from ...domain.commands import CreateTable, CreateView
from ...domain.documents import Json
from ...domain.identifiers import TabularIdentifier
from ...domain.names import FreeName, ResolvedName
from ...security.property_rules import refuse_credential_properties
from ...storage.location_policy import check_document_locations
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision, parent_of
from ..execution.offload import in_thread_if, is_large_request
from .names_and_locations import NewName, location_key, location_of, path_keys, refuse_taken_locations


@dataclass(slots=True, eq=False)
class TabularCreation(CommandHandler):
    """200. The namespace must exist, the name must be free in it, and no other object may claim the locations."""

    command: CreateTable | CreateView
    executor: CommandExecutor
    found: ResolvedName | None = None

    @property
    @abstractmethod
    def new_name(self) -> NewName:
        """The name of the new object."""

    @abstractmethod
    def new_metadata(self, object_id: UUID, location: str) -> Json:
        """The first document."""

    @abstractmethod
    async def decide_creation(self, name: FreeName, object_id: UUID, metadata: Json) -> Decision:
        """Decides on the creation with this name and document."""

    @property
    def identifier(self) -> TabularIdentifier:
        return TabularIdentifier(self.command.namespace, self.command.name)

    async def resolve(self) -> CommandTargets:
        async with self.executor.connection() as connection:
            self.found = await self.new_name.find(connection)
        return CommandTargets(other_resources=[parent_of(self.found, self.warehouse)])

    async def decide(self) -> Decision:
        command, warehouse, large = self.command, self.warehouse, is_large_request(self.context)
        await in_thread_if(large, refuse_credential_properties, command.properties, "properties")
        name = self.new_name.check(self.found)
        assert self.found is not None, "the namespace of a free name exists"
        object_id = uuid7()
        metadata = await in_thread_if(large, self._checked_metadata, object_id, self.found.namespace_location)
        if command.location is not None or path_keys(warehouse, metadata):
            async with self.executor.connection() as connection:
                await refuse_locations_taken_by_others(connection, warehouse, metadata, self.new_name)
        return await self.decide_creation(name, object_id, metadata)

    def _checked_metadata(self, object_id: UUID, namespace_location: str) -> Json:
        location = location_of(self.warehouse, self.command.location, namespace_location, object_id)
        metadata = self.new_metadata(object_id, location)
        check_document_locations(self.warehouse.profile, None, metadata)
        return metadata


async def refuse_locations_taken_by_others(connection: Connection, warehouse: Warehouse, metadata: Json, name: NewName) -> None:
    """Raises BadRequest if another object claims a location of the new table or view, before a file is written there."""
    await refuse_taken_locations(connection, [location_key(warehouse, metadata), *(path_keys(warehouse, metadata) or ())], name)
