"""CreateWarehouse: a name, a storage profile, and a credential that goes to the secret store."""

from dataclasses import dataclass

import orjson
from uuid_utils.compat import uuid7

from commands.context import Answer, CommandContext
from commands.submission import Submission
from commands.write_side import WriteSide
from domain import warehouse as warehouse_rules
from domain.documents import Json
from domain.errors import AlreadyExists, InternalError
from storage.credentials import parse_storage_credential
from storage.object_store import open_store
from storage.profiles import parse_storage_profile


@dataclass(frozen=True, slots=True)
class CreateWarehouse:
    """storage_profile, storage_credential -- Lakekeeper's JSON (or `{"type": "local", "directory": …}` without a credential)."""

    name: str
    storage_profile: Json
    storage_credential: Json | None = None
    exact_names: bool = False


async def create_warehouse(write: WriteSide, context: CommandContext, command: CreateWarehouse) -> Answer:
    """201 with the warehouse's id; AlreadyExists where the project has one of that name."""
    profile = parse_storage_profile(command.storage_profile)
    credential = None if command.storage_credential is None else parse_storage_credential(command.storage_credential)
    open_store(profile, credential)  # refuses a credential that does not belong to the profile
    warehouse_rules.create(command.name, profile.to_json(), None, exact_names=command.exact_names)
    secret_ref = None
    if credential is not None:
        async with write.connection() as connection:
            secret_ref = await write.secrets.put(connection, context.project_id, credential.to_bytes())
    created = warehouse_rules.create(command.name, profile.to_json(), secret_ref, exact_names=command.exact_names)
    warehouse_id = uuid7()
    submission = Submission(context)
    submission.add(warehouse_id, warehouse_id, None, [created])
    result = await write.submit(submission)
    if result.outcome == "appended":
        return Answer(201, orjson.dumps({"warehouse-id": warehouse_id}), result.position)
    if secret_ref is not None:
        async with write.connection() as connection:
            await write.secrets.destroy(connection, context.project_id, secret_ref)
    if result.outcome == "claim":
        raise AlreadyExists(f"Warehouse already exists: {command.name}")
    raise InternalError("The log refused the warehouse")
