"""Tables: list, create, register, load, commit, drop, rename (spec: /v1/{prefix}/namespaces/{namespace}/tables)."""

from aiohttp import web

from ...commands.tables.commit_table import commit_table
from ...commands.tables.create_table import create_table as execute_create_table
from ...commands.tables.drop_table import drop_table as execute_drop_table
from ...commands.tables.register_table import register_table as execute_register_table
from ...commands.tables.rename_table import rename_table as execute_rename_table
from ...commands.tables.unregister_table import unregister_table as execute_unregister_table
from ...domain.commands import CommitTable, CreateTable, DropTable, RegisterTable, RenameTable, UnregisterTable
from ...domain.errors import BadRequest
from ...domain.identifiers import TabularIdentifier
from ...domain.metadata.requirements import is_creation
from ...queries import list_tabulars
from ...queries import load_credentials as load_credentials_query
from ...queries import load_table as load_table_query
from ..api_request import ApiRequest
from ..bodies import BodyReader
from ..limits import ApiLimits
from ..path_parameters import parse_boolean, parse_existing_namespace, parse_existing_tabular, parse_new_tabular
from .force import force_option, requested_force
from .listings import list_identifiers

SNAPSHOTS = "snapshots"
"""The parameter of a load that says which snapshots the client needs."""
SNAPSHOTS_DEFAULT = "all"
_SNAPSHOTS_LOADED = (SNAPSHOTS_DEFAULT, "refs")


def existing_table(request: ApiRequest) -> TabularIdentifier:
    """The table that the request's path names."""
    return parse_existing_tabular(request.segments["namespace"], request.segments["table"], "table")


def _parse_new_table(request: ApiRequest) -> TabularIdentifier:
    """The table that a commit creates."""
    return parse_new_tabular(request.segments["namespace"], request.segments["table"], "table name")


async def list_tables(request: ApiRequest) -> web.Response:
    return await list_identifiers(request, list_tabulars.list_tables)


async def create_table(request: ApiRequest) -> web.Response:
    body, fields = await request.read_body_fields()
    command = CreateTable(
        namespace=parse_existing_namespace(request.segments["namespace"]),
        name=fields.name("name", "table name"),
        location=fields.text_or_none("location"),
        schema=fields.object("schema"),
        partition_spec=fields.object_or_none("partition-spec"),
        write_order=fields.object_or_none("write-order"),
        properties=fields.properties("properties"),
        stage_create=fields.boolean("stage-create"),
    )
    return await request.execute(execute_create_table, command, body=body)


async def register_table(request: ApiRequest) -> web.Response:
    body, fields = await request.read_body_fields()
    command = RegisterTable(
        namespace=parse_existing_namespace(request.segments["namespace"]),
        name=fields.name("name", "table name"),
        metadata_location=fields.text("metadata-location"),
        overwrite=fields.boolean("overwrite"),
    )
    return await request.execute(execute_register_table, command, body=body)


async def load_table(request: ApiRequest) -> web.Response:
    """A LoadTableResult, or 304 if the client's `If-None-Match` is the current ETag."""
    table = existing_table(request)
    snapshots = request.query.get(SNAPSHOTS) or SNAPSHOTS_DEFAULT
    if snapshots not in _SNAPSHOTS_LOADED:
        raise BadRequest("Invalid parameter 'snapshots': must be all or refs")
    if_none_match = request.http_request.headers.get("If-None-Match")
    warehouse = await request.warehouse()
    result = await load_table_query.load_table(request.catalog.queries, request.context, warehouse, table, snapshots, if_none_match)
    headers = {"ETag": result.etag}
    if result.body is None:
        return web.Response(status=304, headers=headers)
    return await request.json_bytes(result.body, headers=headers, keep_compressed=True)


async def table_exists(request: ApiRequest) -> web.Response:
    warehouse = await request.warehouse()
    await load_table_query.table_exists(request.catalog.queries, request.context, warehouse, existing_table(request))
    return web.Response(status=204)


def parse_commit_table(table: TabularIdentifier, fields: BodyReader, limits: ApiLimits) -> CommitTable:
    """A CommitTableRequest of the spec."""
    return CommitTable(
        table=table,
        requirements=fields.objects("requirements", limits.requirements_max),
        updates=fields.objects("updates", limits.updates_max),
    )


async def update_table(request: ApiRequest) -> web.Response:
    """Commits to a table, or creates a staged one. The path names the table; the body's `identifier` is ignored."""
    body, fields = await request.read_body_fields()
    creates = is_creation(fields.objects("requirements", request.catalog.limits.requirements_max))
    command = parse_commit_table(_parse_new_table(request) if creates else existing_table(request), fields, request.catalog.limits)
    return await request.execute(commit_table, command, body=body)


async def drop_table(request: ApiRequest) -> web.Response:
    """Drops a table. Its files are deleted only if `purgeRequested` is true, or is omitted and the warehouse purges by default.

    `force` drops a protected table, and makes the drop final even in a warehouse with soft deletion.
    """
    purge = request.query.get("purgeRequested") or None
    purge_requested = None if purge is None else parse_boolean(purge, "purgeRequested")
    force = requested_force(request)
    command = DropTable(table=existing_table(request), purge_requested=purge_requested, force=force)
    response = await request.execute(execute_drop_table, command, options=(purge_requested, *force_option(force)))
    if request.http_request.headers.get("User-Agent", "").startswith("ClickHouse/"):
        # ClickHouse takes 204 for a failure and repeats the request (ClickHouse/ClickHouse#89206).
        response.set_status(200)
    return response


async def unregister_table(request: ApiRequest) -> web.Response:
    """`force`: also if it is protected."""
    force = requested_force(request)
    command = UnregisterTable(table=existing_table(request), force=force)
    return await request.execute(execute_unregister_table, command, options=force_option(force))


async def rename_table(request: ApiRequest) -> web.Response:
    body, fields = await request.read_body_fields()
    command = RenameTable(source=fields.existing_identifier("source", "table"), destination=fields.identifier("destination", "table name"))
    return await request.execute(execute_rename_table, command, body=body)


async def load_credentials(request: ApiRequest) -> web.Response:
    warehouse = await request.warehouse()
    body = await load_credentials_query.load_credentials(request.catalog.queries, request.context, warehouse, existing_table(request))
    response = await request.json_bytes(body)
    response.headers["Cache-Control"] = "private, no-store"
    return response
