"""Warehouses: create, list, load, change and delete them, as in Lakekeeper's management API (`/management/v1/warehouse`)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import orjson
import structlog
from aiohttp import web

from ...access.resolve_warehouse import warehouse_by_id
from ...access.warehouse import Warehouse
from ...commands.warehouses.change_warehouse import change_warehouse as execute_change_warehouse
from ...commands.warehouses.change_warehouse import delete_warehouse as execute_delete_warehouse
from ...commands.warehouses.change_warehouse import rename_warehouse as execute_rename_warehouse
from ...commands.warehouses.create_warehouse import CreateWarehouse
from ...commands.warehouses.create_warehouse import create_warehouse as execute_create_warehouse
from ...commands.warehouses.update_storage import StorageUpdate, UpdateStorageCredential, UpdateStorageProfile
from ...commands.warehouses.update_storage import update_storage as execute_update_storage
from ...commands.warehouses.update_warehouse_config import update_warehouse_config as execute_update_warehouse_config
from ...commands.warehouses.validate_storage import validate_access, validate_creation, validate_update
from ...domain.errors import BadRequest, NoSuchWarehouse, UnsupportedOperation
from ...domain.format_versions import FORMAT_VERSIONS
from ...domain.identifiers import parse_name, uuid_or_none
from ...domain.properties import PropertyUpdate
from ...domain.warehouse import (
    DeleteProfile,
    DeleteWarehouse,
    FormatVersionPolicy,
    RenameWarehouse,
    SetWarehouseProtection,
    SetWarehousePurgeDefault,
    SetWarehouseReadOnly,
    SetWarehouseStatus,
    UpdateWarehouseDeleteProfile,
    UpdateWarehouseFormatVersionPolicy,
)
from ...domain.warehouse_config import UpdateWarehouseConfig
from ...queries import load_warehouse as load_warehouse_query
from ...queries.load_statistics import HourlyStatistics, load_statistics
from ..api_request import POSITION_HEADER, PROJECT_PARAMETER, ApiRequest, Command, Execute
from ..bodies import BodyReader
from ..paging import listing_digest, page_token, parse_page
from ..path_parameters import decode_segment, parameter_values, parse_boolean

_log = structlog.get_logger("icecore.api")

_STATUSES = ("active", "inactive")
_STATUS = "warehouseStatus"
_INCLUDE_DEACTIVATED = "include_deactivated"
"""The name in the description of Lakekeeper's operation."""
LIST_PARAMETERS = frozenset({_STATUS, _INCLUDE_DEACTIVATED, PROJECT_PARAMETER})
STATISTICS_PARAMETERS = ("page_token", "page_size")
_HOUR = timedelta(hours=1)
_FIELDS = frozenset(
    {
        "warehouse-name", "project-id", "storage-profile", "storage-credential", "delete-profile", "allowed-format-versions",
        "default-format-version", "managed-by", "exact-names", "purge-default",
    }
)  # fmt: skip
_MANAGED_BY = "managed-by"
_PROFILE, _CREDENTIAL, _NEW_CREDENTIAL = "storage-profile", "storage-credential", "new-storage-credential"
_UPDATED_AT = "updated-at"
_CONFIG_FIELDS = ("defaults", "overrides")
_UPDATE_FIELDS = ("updates", "removals")
_ALLOWED, _DEFAULT = "allowed-format-versions", "default-format-version"
_DELETE_PROFILE, _PURGE_DEFAULT = "delete-profile", "purge-default"


async def create_warehouse(request: ApiRequest) -> web.Response:
    """201 with the warehouse. Its profile must be one that the operator permits."""
    body, fields = await _creation_fields(request)
    if fields.text_or_none(_MANAGED_BY) not in (None, "self-managed"):
        raise UnsupportedOperation("Field 'managed-by' must be self-managed: instance administrators are not supported")
    command = _creation(fields, fields.name("warehouse-name", "warehouse name", parse_name))
    context = request.command_context(None, body, ())
    result = await execute_create_warehouse(request.catalog.commands, context, command, permitted=request.catalog.permitted_profiles)
    assert isinstance(result.body, bytes), "created at once, without approval"
    if not result.replayed and (warnings := orjson.loads(result.body).get("warnings")):
        _log.warning("storage_fields_unused", warehouse=command.name, warnings=warnings)
    return await request.command_response(result)


async def validate_warehouse(request: ApiRequest) -> web.Response:
    """200 with the checks of a creation, which is not made."""
    _, fields = await _creation_fields(request)
    command, permitted = _creation(fields, fields.text("warehouse-name")), request.catalog.permitted_profiles
    return await request.json(
        await validate_creation(request.catalog.commands, request.context, command, fields.text_or_none(_MANAGED_BY), permitted)
    )


async def _creation_fields(request: ApiRequest) -> tuple[bytes, BodyReader]:
    body, fields = await request.read_body_fields()
    fields.refuse_unknown(_FIELDS)
    await request.resolve_project(fields.text_or_none("project-id"))
    return body, fields


def _creation(fields: BodyReader, name: str) -> CreateWarehouse:
    return CreateWarehouse(
        name=name,
        storage_profile=fields.object(_PROFILE),
        storage_credential=fields.object_or_none(_CREDENTIAL),
        exact_names=fields.boolean("exact-names"),
        format_versions=_format_version_policy(fields),
        delete_profile=DeleteProfile() if fields.object_or_none(_DELETE_PROFILE) is None else _delete_profile(fields),
        purge_default=fields.boolean(_PURGE_DEFAULT),
    )


async def list_warehouses(request: ApiRequest) -> web.Response:
    """The warehouses with a requested `warehouseStatus`; without one the active ones, as in Lakekeeper; all with `include_deactivated`."""
    raw_query = request.http_request.rel_url.raw_query_string
    statuses = parameter_values(raw_query, _STATUS)
    if not set(statuses) <= set(_STATUSES):
        raise BadRequest(f"Invalid parameter '{_STATUS}': must be one of {', '.join(_STATUSES)}")
    deactivated = parse_boolean(request.query.get(_INCLUDE_DEACTIVATED) or "false", _INCLUDE_DEACTIVATED)
    default = _STATUSES if deactivated else ("active",)
    found = await load_warehouse_query.list_warehouses(request.catalog.queries, request.context, statuses or default)
    return await request.json({"warehouses": found})


async def get_warehouse(request: ApiRequest) -> web.Response:
    return await request.json(
        await load_warehouse_query.load_warehouse(request.catalog.queries, request.context, parse_warehouse_id(request))
    )


async def update_warehouse_config(request: ApiRequest) -> web.Response:
    """200 with the resulting defaults and overrides."""
    body, fields = await request.read_body_fields()
    fields.refuse_unknown(_CONFIG_FIELDS)
    defaults, overrides = (_property_update(request, fields, name) for name in _CONFIG_FIELDS)
    return await execute_on_warehouse(request, execute_update_warehouse_config, UpdateWarehouseConfig(defaults, overrides), body)


async def rename_warehouse(request: ApiRequest) -> web.Response:
    body, fields = await request.read_body_fields()
    fields.refuse_unknown(("new-name",))
    command = RenameWarehouse(fields.name("new-name", "warehouse name", parse_name))
    return await execute_on_warehouse(request, execute_rename_warehouse, command, body)


async def activate_warehouse(request: ApiRequest) -> web.Response:
    return await _set_status(request, active=True)


async def deactivate_warehouse(request: ApiRequest) -> web.Response:
    return await _set_status(request, active=False)


async def set_warehouse_protection(request: ApiRequest) -> web.Response:
    """200 with the protection, as in Lakekeeper."""
    body, fields = await request.read_body_fields()
    fields.refuse_unknown(("protected",))
    command = SetWarehouseProtection(fields.required_boolean("protected"))
    response = await execute_on_warehouse(request, execute_change_warehouse, command, body)
    position = int(response.headers[POSITION_HEADER])
    updated = await load_warehouse_query.updated_up_to(request.catalog.queries, parse_warehouse_id(request), position)
    protection = await request.json({"protected": command.protected, "updated_at": updated})
    protection.headers[POSITION_HEADER] = response.headers[POSITION_HEADER]
    return protection


async def set_warehouse_read_only(request: ApiRequest) -> web.Response:
    body, fields = await request.read_body_fields()
    fields.refuse_unknown(("read-only",))
    return await execute_on_warehouse(request, execute_change_warehouse, SetWarehouseReadOnly(fields.required_boolean("read-only")), body)


async def update_warehouse_format_version_policy(request: ApiRequest) -> web.Response:
    body, fields = await request.read_body_fields()
    fields.refuse_unknown((_ALLOWED, _DEFAULT))
    if fields.integers_or_none(_ALLOWED, len(FORMAT_VERSIONS)) is None:
        raise fields.missing_error(_ALLOWED)
    return await execute_on_warehouse(
        request, execute_change_warehouse, UpdateWarehouseFormatVersionPolicy(_format_version_policy(fields)), body
    )


async def update_storage_profile(request: ApiRequest) -> web.Response:
    """200 with the warehouse. The former credential is not kept, as in Lakekeeper."""
    return await _update_storage(request, *await _profile_update(request))


async def update_storage_credential(request: ApiRequest) -> web.Response:
    """200 with the warehouse. Without a credential, the former one is removed, as in Lakekeeper."""
    return await _update_storage(request, *await _credential_update(request))


async def validate_storage_profile(request: ApiRequest) -> web.Response:
    """200 with the checks of an update, which is not made."""
    command, _ = await _profile_update(request)
    return await _validate_update(request, command)


async def validate_storage_credential(request: ApiRequest) -> web.Response:
    """200 with the checks of an update, which is not made."""
    command, _ = await _credential_update(request)
    return await _validate_update(request, command)


async def validate_storage_access(request: ApiRequest) -> web.Response:
    """200 with the checks of the storage that the warehouse has. A body is ignored."""
    return await request.json(await validate_access(request.catalog.commands, request.context, await requested_warehouse(request)))


async def _validate_update(request: ApiRequest, command: StorageUpdate) -> web.Response:
    warehouse, permitted = await requested_warehouse(request), request.catalog.permitted_profiles
    return await request.json(await validate_update(request.catalog.commands, request.context, warehouse, command, permitted))


async def _profile_update(request: ApiRequest) -> tuple[StorageUpdate, bytes]:
    """The command and the body."""
    body, fields = await request.read_body_fields()
    fields.refuse_unknown((_PROFILE, _CREDENTIAL))
    return UpdateStorageProfile(fields.object(_PROFILE), fields.object_or_none(_CREDENTIAL)), body


async def _credential_update(request: ApiRequest) -> tuple[StorageUpdate, bytes]:
    """The command and the body."""
    body, fields = await request.read_body_fields()
    fields.refuse_unknown((_NEW_CREDENTIAL,))
    return UpdateStorageCredential(fields.object_or_none(_NEW_CREDENTIAL)), body


async def _update_storage(request: ApiRequest, command: StorageUpdate, body: bytes) -> web.Response:
    return await execute_on_warehouse(request, partial(execute_update_storage, permitted=request.catalog.permitted_profiles), command, body)


async def update_warehouse_delete_profile(request: ApiRequest) -> web.Response:
    """200 with the warehouse. It concerns later drops."""
    body, fields = await request.read_body_fields()
    fields.refuse_unknown((_DELETE_PROFILE,))
    return await execute_on_warehouse(request, execute_change_warehouse, UpdateWarehouseDeleteProfile(_delete_profile(fields)), body)


async def set_warehouse_purge_default(request: ApiRequest) -> web.Response:
    """200 with the warehouse. Lakekeeper has no such route: there, a drop that does not say so deletes the files."""
    body, fields = await request.read_body_fields()
    fields.refuse_unknown((_PURGE_DEFAULT,))
    return await execute_on_warehouse(
        request, execute_change_warehouse, SetWarehousePurgeDefault(fields.required_boolean(_PURGE_DEFAULT)), body
    )


async def delete_warehouse(request: ApiRequest) -> web.Response:
    """204. `force`: also if it is protected."""
    force = parse_boolean(request.query.get("force", "false"), "force")
    return await execute_on_warehouse(request, execute_delete_warehouse, DeleteWarehouse(force), b"", (force,))


async def _set_status(request: ApiRequest, *, active: bool) -> web.Response:
    """200 without a body, as in Lakekeeper. A body is ignored: clients send an empty one."""
    response = await execute_on_warehouse(request, execute_change_warehouse, SetWarehouseStatus(active), b"")
    return web.Response(headers={POSITION_HEADER: response.headers[POSITION_HEADER]})


async def execute_on_warehouse(
    request: ApiRequest, execute: Execute[Command], command: Command, body: bytes, options: tuple[bool | None, ...] = ()
) -> web.Response:
    """Runs a command on the warehouse in the path, active or not. `options` are the query parameters that change what it does."""
    warehouse = await requested_warehouse(request, or_deleted=True)
    result = await execute(request.catalog.commands, request.command_context(warehouse, body, options), warehouse, command)
    if isinstance(result.body, bytes) and _UPDATED_AT in (members := orjson.loads(result.body)):
        # The time is that of the event, which the command could not know yet.
        updated = await load_warehouse_query.updated_up_to(request.catalog.queries, warehouse.id, result.position)
        result = replace(result, body=orjson.dumps({**members, _UPDATED_AT: updated}))
    return await request.command_response(result)


async def requested_warehouse(request: ApiRequest, *, or_deleted: bool = False) -> Warehouse:
    """The warehouse in the path, active or not. Raises NoSuchWarehouse."""
    warehouse_id = parse_warehouse_id(request)
    async with request.catalog.backends.connection() as connection:
        return await warehouse_by_id(connection, request.context.project_id, warehouse_id, or_deleted=or_deleted)


def _delete_profile(fields: BodyReader) -> DeleteProfile:
    """Lakekeeper's TabularDeleteProfile."""
    profile = fields.fields(_DELETE_PROFILE)
    kind = profile.text("type")
    if kind not in ("hard", "soft"):
        raise profile.invalid_error("type", "must be hard or soft")
    # The second spelling is an alias in Lakekeeper. Of a hard profile, the field is ignored there.
    spellings = ("expiration-seconds", "expiration_seconds")
    profile.refuse_unknown(("type", *spellings))
    seconds = next((given for name in spellings if (given := profile.integer_or_none(name)) is not None), None)
    if kind == "hard":
        return DeleteProfile(None)
    if seconds is None:
        raise profile.missing_error("expiration-seconds")
    return DeleteProfile(seconds)


def _format_version_policy(fields: BodyReader) -> FormatVersionPolicy:
    allowed = fields.integers_or_none(_ALLOWED, len(FORMAT_VERSIONS))
    return FormatVersionPolicy(FORMAT_VERSIONS if allowed is None else tuple(allowed), fields.integer_or_none(_DEFAULT))


def _property_update(request: ApiRequest, fields: BodyReader, name: str) -> PropertyUpdate:
    """A change like the spec's UpdateNamespacePropertiesRequest; none if the field is absent."""
    if fields.object_or_none(name) is None:
        return PropertyUpdate()
    change = fields.fields(name)
    change.refuse_unknown(_UPDATE_FIELDS)
    return PropertyUpdate(removals=change.texts("removals", request.catalog.limits.properties_max), updates=change.properties("updates"))


async def get_warehouse_statistics(request: ApiRequest) -> web.Response:
    """A page of hours, newest first. Hours without changes are left out, as in Lakekeeper."""
    warehouse_id = parse_warehouse_id(request)
    listing = listing_digest("statistics", str(warehouse_id))
    requested = parse_page(request.query, listing, request.catalog.limits, STATISTICS_PARAMETERS, size_alone=True)
    before, size = None if requested.after is None else _hour(requested.after), requested.size or request.catalog.limits.page_size_default
    page = await load_statistics(request.catalog.queries, request.context, warehouse_id, before=before, size=size)
    stats = [written_hour(each) for each in page.hours]
    token = None if page.next_before is None else page_token(listing, page.next_before.isoformat())
    return await request.json({"warehouse-ident": warehouse_id, "stats": stats, "position": page.position, "next-page-token": token})


def written_hour(hour: HourlyStatistics) -> dict[str, object]:
    """Lakekeeper's WarehouseStatistics."""
    return {
        # The end of the hour, as in Lakekeeper.
        "timestamp": hour.begins_at + _HOUR,
        "number-of-tables": hour.counts.tables,
        "number-of-views": hour.counts.views,
        "number-of-namespaces": hour.counts.namespaces,
        "number-of-commits": hour.counts.commits,
        "updated-at": hour.updated_at,
    }


def parse_warehouse_id(request: ApiRequest) -> UUID:
    """The id in the path. Raises NoSuchWarehouse if it is none."""
    text = decode_segment(request.segments["warehouse_id"], "warehouse id")
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
