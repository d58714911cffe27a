"""Warehouses: create, list, load and statistics, as in Lakekeeper's management API (`/management/v1/warehouse`), and configuration."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import orjson
import structlog
from aiohttp import web

from ...access.request_context import PROJECT_ID_DEFAULT
from ...access.resolve_warehouse import warehouse_by_id
from ...commands.warehouses.create_warehouse import CreateWarehouse
from ...commands.warehouses.create_warehouse import create_warehouse as execute_create_warehouse
from ...commands.warehouses.update_warehouse_config import update_warehouse_config as execute_update_warehouse_config
from ...domain.errors import BadRequest, NoSuchProject, NoSuchWarehouse, UnsupportedOperation
from ...domain.identifiers import parse_name, uuid_or_none
from ...domain.properties import PropertyUpdate
from ...domain.warehouse import UpdateWarehouseConfig
from ...queries import load_warehouse as load_warehouse_query
from ...queries.load_statistics import load_statistics
from ..api_request import ApiRequest
from ..bodies import BodyReader
from ..paging import listing_digest, page_token, parse_page
from ..path_parameters import check_parameters, decode_segment, parameter_values

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
_FORMAT_VERSIONS = [1, 2, 3]
_FORMAT_VERSION_DEFAULT = 2


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
    )
    context = call.command_context(None, body, ())
    result = await execute_create_warehouse(call.catalog.commands, context, command, permitted=call.catalog.permitted_profiles)
    assert isinstance(result.body, bytes), "created at once, without approval"
    if not result.replayed and (warnings := orjson.loads(result.body).get("warnings")):
        _log.warning("storage_fields_unused", warehouse=command.name, warnings=warnings)
    return await call.command_response(result)


async def list_warehouses(call: ApiRequest) -> web.Response:
    """All warehouses, because all are active; none if `warehouseStatus` requests only others."""
    raw_query = call.request.rel_url.raw_query_string
    check_parameters(raw_query, (_STATUS, _PROJECT), repeatable=(_STATUS,))
    _refuse_other_project(call.request.headers.get(PROJECT_HEADER))
    _refuse_other_project(call.query.get(_PROJECT))
    statuses = parameter_values(raw_query, _STATUS)
    if not set(statuses) <= set(_STATUSES):
        raise BadRequest(f"Invalid parameter '{_STATUS}': must be one of {', '.join(_STATUSES)}")
    wanted = not statuses or "active" in statuses
    found = await load_warehouse_query.list_warehouses(call.catalog.queries, call.context) if wanted else []
    return await call.json({"warehouses": found})


async def get_warehouse(call: ApiRequest) -> web.Response:
    return await call.json(await load_warehouse_query.load_warehouse(call.catalog.queries, call.context, _warehouse_id(call)))


async def update_warehouse_config(call: ApiRequest) -> web.Response:
    """200 with the resulting defaults and overrides."""
    warehouse_id = _warehouse_id(call)
    body, fields = await call.fields()
    fields.refuse_unknown(_CONFIG_FIELDS)
    defaults, overrides = (_property_update(call, fields, name) for name in _CONFIG_FIELDS)
    command = UpdateWarehouseConfig(defaults, overrides)
    warehouse = await warehouse_by_id(call.catalog.backends, call.context.project_id, warehouse_id)
    context = call.command_context(warehouse, body, ())
    result = await execute_update_warehouse_config(call.catalog.commands, context, warehouse, command)
    return await call.command_response(result)


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
    versions = fields.integers_or_none("allowed-format-versions", len(_FORMAT_VERSIONS))
    if versions is not None and sorted(versions) != _FORMAT_VERSIONS:
        raise UnsupportedOperation(f"Field 'allowed-format-versions' must be {_FORMAT_VERSIONS}: every warehouse accepts all of them")
    if fields.integer_or_none("default-format-version") not in (None, _FORMAT_VERSION_DEFAULT):
        raise UnsupportedOperation(f"Field 'default-format-version' must be {_FORMAT_VERSION_DEFAULT}: every warehouse has this default")
    if fields.text_or_none("managed-by") not in (None, "self-managed"):
        raise UnsupportedOperation("Field 'managed-by' must be self-managed: instance administrators are not supported")
