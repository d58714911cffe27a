"""Warehouses: create, list, load, on the wire of Lakekeeper's management API (`/management/v1/warehouse`)."""

from aiohttp import web

from access.request_context import PROJECT_ID_DEFAULT
from api.bodies import Fields
from api.call import POSITION_HEADER, Call
from api.targets import check_parameters, decode_segment, parameter_values
from commands.warehouses.create_warehouse import CreateWarehouse
from commands.warehouses.create_warehouse import create_warehouse as execute_create_warehouse
from domain.errors import BadRequest, NoSuchProject, NoSuchWarehouse, UnsupportedOperation
from domain.identifiers import uuid_or_none
from queries import load_warehouse as question

PROJECT_HEADER = "x-project-id"
_STATUSES = ("active", "inactive")
_STATUS, _PROJECT = "warehouseStatus", "projectId"
_FIELDS = frozenset(
    {
        "warehouse-name", "project-id", "storage-profile", "storage-credential", "delete-profile", "allowed-format-versions",
        "default-format-version", "managed-by", "exact-names",
    }
)  # fmt: skip
_FORMAT_VERSIONS = [1, 2, 3]
_FORMAT_VERSION_DEFAULT = 2


async def create_warehouse(call: Call) -> web.Response:
    """201 with the warehouse; of its profile, what the operator permits."""
    _refuse_other_project(call.request.headers.get(PROJECT_HEADER))
    body, fields = await call.fields()
    fields.refuse_unknown(_FIELDS)
    _refuse_other_project(fields.text_or_none("project-id"))
    _refuse_what_is_not_served(fields)
    command = CreateWarehouse(
        name=fields.name("warehouse-name", "warehouse name"),
        storage_profile=fields.object("storage-profile"),
        storage_credential=fields.object_or_none("storage-credential"),
        exact_names=fields.boolean("exact-names"),
    )
    context = call.command_context(None, body, ())
    answer = await execute_create_warehouse(call.catalog.commands, context, command, permitted=call.catalog.permitted_profiles)
    assert answer.body is not None
    headers = {POSITION_HEADER: str(answer.position)}
    return await call.json_bytes(answer.body, status=answer.status, headers=headers, counted=answer.replayed)


async def list_warehouses(call: Call) -> web.Response:
    """All of them, as they are all active; none where `warehouseStatus` asks for others alone."""
    raw_query = call.request.rel_url.raw_query_string
    check_parameters(raw_query, (_STATUS, _PROJECT), repeatable=(_STATUS,))
    _refuse_other_project(call.request.headers.get(PROJECT_HEADER))
    _refuse_other_project(call.query.get(_PROJECT))
    statuses = parameter_values(raw_query, _STATUS)
    if not set(statuses) <= set(_STATUSES):
        raise BadRequest(f"Invalid parameter '{_STATUS}': must be one of {', '.join(_STATUSES)}")
    wanted = not statuses or "active" in statuses
    found = await question.list_warehouses(call.catalog.queries, call.context) if wanted else []
    return await call.json({"warehouses": found})


async def get_warehouse(call: Call) -> web.Response:
    _refuse_other_project(call.request.headers.get(PROJECT_HEADER))
    text = decode_segment(call.segments["warehouse_id"], "warehouse id")
    warehouse_id = uuid_or_none(text)
    if warehouse_id is None:
        raise NoSuchWarehouse(f"Warehouse does not exist: {text[:64]}")
    return await call.json(await question.load_warehouse(call.catalog.queries, call.context, warehouse_id))


def _refuse_other_project(text: str | None) -> None:
    if text is not None and uuid_or_none(text) != PROJECT_ID_DEFAULT:
        raise NoSuchProject(f"Project does not exist: {text[:64]}; the only one is {PROJECT_ID_DEFAULT}")


def _refuse_what_is_not_served(fields: Fields) -> None:
    """What Lakekeeper has and this catalog does not is refused; what says no more than how things are here is taken."""
    delete_profile = fields.object_or_none("delete-profile")
    if delete_profile is not None and delete_profile != {"type": "hard"}:
        raise UnsupportedOperation('Field \'delete-profile\' must be {"type": "hard"}: there is no soft deletion here')
    versions = fields.integers_or_none("allowed-format-versions", len(_FORMAT_VERSIONS))
    if versions is not None and sorted(versions) != _FORMAT_VERSIONS:
        raise UnsupportedOperation(f"Field 'allowed-format-versions' must be {_FORMAT_VERSIONS}: every warehouse takes all of them here")
    if fields.integer_or_none("default-format-version") not in (None, _FORMAT_VERSION_DEFAULT):
        raise UnsupportedOperation(f"Field 'default-format-version' must be {_FORMAT_VERSION_DEFAULT}: every warehouse has that one here")
    if fields.text_or_none("managed-by") not in (None, "self-managed"):
        raise UnsupportedOperation("Field 'managed-by' must be self-managed: there are no instance administrators here")
