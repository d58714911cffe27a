"""Warehouses: create, list, load, change and delete them, as in Lakekeeper's management API (`/management/v1/warehouse`)."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import orjson
import structlog
from aiohttp import web

from ...access.request_context import PROJECT_ID_DEFAULT
from ...access.resolve_warehouse import warehouse_by_id
from ...commands.warehouses.change_warehouse import change_warehouse as execute_change_warehouse
from ...commands.warehouses.change_warehouse import delete_warehouse as execute_delete_warehouse
from ...commands.warehouses.change_warehouse import rename_warehouse as execute_rename_warehouse
from ...commands.warehouses.create_warehouse import CreateWarehouse
from ...commands.warehouses.create_warehouse import create_warehouse as execute_create_warehouse
from ...commands.warehouses.update_warehouse_config import update_warehouse_config as execute_update_warehouse_config
from ...domain.errors import BadRequest, NoSuchProject, NoSuchWarehouse, UnsupportedOperation
from ...domain.format_versions import FORMAT_VERSIONS
from ...domain.identifiers import parse_name, uuid_or_none
from ...domain.properties import PropertyUpdate
from ...domain.warehouse import (
    DeleteWarehouse,
    FormatVersionPolicy,
    RenameWarehouse,
    SetWarehouseProtection,
    SetWarehouseStatus,
    UpdateWarehouseConfig,
    UpdateWarehouseFormatVersionPolicy,
)
from ...queries import load_warehouse as load_warehouse_query
from ...queries.load_statistics import load_statistics
from ..api_request import POSITION_HEADER, ApiRequest, Command, Execute
from ..bodies import BodyReader
from ..paging import listing_digest, page_token, parse_page
from ..path_parameters import check_parameters, decode_segment, parameter_values, parse_boolean

_log = structlog.get_logger("icecore.api")

PROJECT_HEADER = "x-project-id"
_STATUSES = ("active", "inactive")
_STATUS, _PROJECT = "warehouseStatus", "projectId"
STATISTICS_PARAMETERS = ("page_token", "page_size")
_HOUR = timedelta(hours=1)
_FIELDS = frozenset(
    {
        "warehouse-name", "project-id", "storage-profile", "storage-credential", "delete-profile", "allowed-format-versions",
        "default-format-version", "managed-by", "exact-names",
    }
)  # fmt: skip
_CONFIG_FIELDS = ("defaults", "overrides")
_UPDATE_FIELDS = ("updates", "removals")
_ALLOWED, _DEFAULT = "allowed-format-versions", "default-format-version"


async def create_warehouse(call: ApiRequest) -> web.Response:
    """201 with the warehouse. Its profile must be one that the operator permits."""
    _refuse_other_project(call.request.headers.get(PROJECT_HEADER))
    body, fields = await call.fields()
    fields.refuse_unknown(_FIELDS)
    _refuse_other_project(fields.text_or_none("project-id"))
    _refuse_what_is_not_served(fields)
    command = CreateWarehouse(
        name=fields.name("warehouse-name", "warehouse name", parse_name),
        storage_profile=fields.object("storage-profile"),
        storage_credential=fields.object_or_none("storage-credential"),
        exact_names=fields.boolean("exact-names"),
        format_versions=_format_version_policy(fields),
    )
    context = call.command_context(None, body, ())
    result = await execute_create_warehouse(call.catalog.commands, context, command, permitted=call.catalog.permitted_profiles)
    assert isinstance(result.body, bytes), "created at once, without approval"
    if not result.replayed and (warnings := orjson.loads(result.body).get("warnings")):
        _log.warning("storage_fields_unused", warehouse=command.name, warnings=warnings)
    return await call.command_response(result)


async def list_warehouses(call: ApiRequest) -> web.Response:
    """The warehouses with a requested `warehouseStatus`; without one the active ones, as in Lakekeeper."""
    raw_query = call.request.rel_url.raw_query_string
    check_parameters(raw_query, (_STATUS, _PROJECT), repeatable=(_STATUS,))
    _refuse_other_project(call.request.headers.get(PROJECT_HEADER))
    _refuse_other_project(call.query.get(_PROJECT))
    statuses = parameter_values(raw_query, _STATUS)
    if not set(statuses) <= set(_STATUSES):
        raise BadRequest(f"Invalid parameter '{_STATUS}': must be one of {', '.join(_STATUSES)}")
    found = await load_warehouse_query.list_warehouses(call.catalog.queries, call.context, statuses or ("active",))
    return await call.json({"warehouses": found})


async def get_warehouse(call: ApiRequest) -> web.Response:
    return await call.json(await load_warehouse_query.load_warehouse(call.catalog.queries, call.context, _warehouse_id(call)))


async def update_warehouse_config(call: ApiRequest) -> web.Response:
    """200 with the resulting defaults and overrides."""
    body, fields = await call.fields()
    fields.refuse_unknown(_CONFIG_FIELDS)
    defaults, overrides = (_property_update(call, fields, name) for name in _CONFIG_FIELDS)
    return await _execute(call, execute_update_warehouse_config, UpdateWarehouseConfig(defaults, overrides), body)


async def rename_warehouse(call: ApiRequest) -> web.Response:
    body, fields = await call.fields()
    fields.refuse_unknown(("new-name",))
    command = RenameWarehouse(fields.name("new-name", "warehouse name", parse_name))
    return await _execute(call, execute_rename_warehouse, command, body)


async def activate_warehouse(call: ApiRequest) -> web.Response:
    return await _set_status(call, active=True)


async def deactivate_warehouse(call: ApiRequest) -> web.Response:
    return await _set_status(call, active=False)


async def set_warehouse_protection(call: ApiRequest) -> web.Response:
    """200 with the protection, as in Lakekeeper."""
    body, fields = await call.fields()
    fields.refuse_unknown(("protected",))
    command = SetWarehouseProtection(fields.required_boolean("protected"))
    response = await _execute(call, execute_change_warehouse, command, body)
    protection = await call.json({"protected": command.protected, "updated_at": None})
    protection.headers[POSITION_HEADER] = response.headers[POSITION_HEADER]
    return protection


async def update_warehouse_format_version_policy(call: ApiRequest) -> web.Response:
    body, fields = await call.fields()
    fields.refuse_unknown((_ALLOWED, _DEFAULT))
    if fields.integers_or_none(_ALLOWED, len(FORMAT_VERSIONS)) is None:
        raise fields.invalid(_ALLOWED, "is required")
    return await _execute(call, execute_change_warehouse, UpdateWarehouseFormatVersionPolicy(_format_version_policy(fields)), body)


async def delete_warehouse(call: ApiRequest) -> web.Response:
    """204. `force`: also if it is protected."""
    force = parse_boolean(call.query.get("force", "false"), "force")
    return await _execute(call, execute_delete_warehouse, DeleteWarehouse(force), b"", (force,))


async def _set_status(call: ApiRequest, *, active: bool) -> web.Response:
    """200 without a body, as in Lakekeeper. A body is ignored: clients send an empty one."""
    response = await _execute(call, execute_change_warehouse, SetWarehouseStatus(active), b"")
    return web.Response(headers={POSITION_HEADER: response.headers[POSITION_HEADER]})


async def _execute(
    call: ApiRequest, execute: Execute[Command], command: Command, body: bytes, options: tuple[bool, ...] = ()
) -> web.Response:
    """Runs a command on the warehouse in the path, active or not. `options` are the query parameters that change what it does."""
    warehouse_id = _warehouse_id(call)
    async with call.catalog.backends.connection() as connection:
        warehouse = await warehouse_by_id(connection, call.context.project_id, warehouse_id, or_deleted=True)
    result = await execute(call.catalog.commands, call.command_context(warehouse, body, options), warehouse, command)
    return await call.command_response(result)


def _format_version_policy(fields: BodyReader) -> FormatVersionPolicy:
    allowed = fields.integers_or_none(_ALLOWED, len(FORMAT_VERSIONS))
    return FormatVersionPolicy(FORMAT_VERSIONS if allowed is None else tuple(allowed), fields.integer_or_none(_DEFAULT))


def _property_update(call: ApiRequest, fields: BodyReader, name: str) -> PropertyUpdate:
    """A change like the spec's UpdateNamespacePropertiesRequest; none if the field is absent."""
    if fields.object_or_none(name) is None:
        return PropertyUpdate()
    change = fields.fields(name)
    change.refuse_unknown(_UPDATE_FIELDS)
    return PropertyUpdate(removals=change.texts("removals", call.catalog.limits.properties_max), updates=change.properties("updates"))


async def get_warehouse_statistics(call: ApiRequest) -> web.Response:
    """A page of hours, newest first. Hours without changes are left out, as in Lakekeeper."""
    warehouse_id = _warehouse_id(call)
    listing = listing_digest("statistics", str(warehouse_id))
    requested = parse_page(call.query, listing, call.catalog.limits, STATISTICS_PARAMETERS, size_alone=True)
    before, size = None if requested.after is None else _hour(requested.after), requested.size or call.catalog.limits.page_size_default
    page = await load_statistics(call.catalog.queries, call.context, warehouse_id, before=before, size=size)
    stats = [
        {
            # The end of the hour, as in Lakekeeper.
            "timestamp": each.begins_at + _HOUR,
            "number-of-tables": each.counts.tables,
            "number-of-views": each.counts.views,
            "number-of-namespaces": each.counts.namespaces,
            "number-of-commits": each.counts.commits,
            "updated-at": each.updated_at,
        }
        for each in page.hours
    ]
    token = None if page.next_before is None else page_token(listing, page.next_before.isoformat())
    return await call.json({"warehouse-ident": warehouse_id, "stats": stats, "position": page.position, "next-page-token": token})


def _warehouse_id(call: ApiRequest) -> UUID:
    _refuse_other_project(call.request.headers.get(PROJECT_HEADER))
    text = decode_segment(call.segments["warehouse_id"], "warehouse id")
    warehouse_id = uuid_or_none(text)
    if warehouse_id is None:
        raise NoSuchWarehouse(f"Warehouse does not exist: {text[:64]} (must be an id; GET /management/v1/warehouse lists ids)")
    return warehouse_id


def _hour(text: str) -> datetime:
    """The hour of a page token, which a client may have forged."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRequest(f"Invalid parameter '{STATISTICS_PARAMETERS[0]}': not a token of this catalog") from None


def _refuse_other_project(text: str | None) -> None:
    if text is not None and uuid_or_none(text) != PROJECT_ID_DEFAULT:
        raise NoSuchProject(f"Project does not exist: {text[:64]}; the only one is {PROJECT_ID_DEFAULT}")


def _refuse_what_is_not_served(fields: BodyReader) -> None:
    """Refuses features of Lakekeeper that this catalog does not have, and accepts fields that ask only for what it does anyway."""
    delete_profile = fields.object_or_none("delete-profile")
    if delete_profile is not None and delete_profile != {"type": "hard"}:
        raise UnsupportedOperation('Field \'delete-profile\' must be {"type": "hard"}: soft delete is not supported')
    if fields.text_or_none("managed-by") not in (None, "self-managed"):
        raise UnsupportedOperation("Field 'managed-by' must be self-managed: instance administrators are not supported")
