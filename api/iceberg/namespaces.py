"""Namespaces: list, create, load, check, drop, change properties (spec: /v1/{prefix}/namespaces)."""

import orjson
from aiohttp import web

from ...access.warehouse import Warehouse
from ...commands.namespaces.create_namespace import create_namespace as execute_create_namespace
from ...commands.namespaces.drop_namespace import drop_namespace as execute_drop_namespace
from ...commands.namespaces.drop_namespace_tree import plan_namespace_drop
from ...commands.namespaces.update_namespace_properties import update_namespace_properties
from ...domain.commands import CreateNamespace, DropNamespace, UpdateNamespaceProperties
from ...domain.errors import BadRequest, NoSuchNamespace
from ...domain.identifiers import NamespaceIdentifier, name_key
from ...queries import list_namespaces as list_namespaces_query
from ...queries import load_namespace
from ..api_request import ApiRequest
from ..paging import listing_digest, parse_page
from ..path_parameters import parse_boolean, parse_existing_namespace, parse_parent
from .drop_plans import written_plan
from .force import force_option, requested_force
from .listings import bounded, listing_context, requested_members, respond_listing, with_objects


async def list_namespaces(request: ApiRequest) -> web.Response:
    """Lists the namespaces in `parent`, or the top level. A parent that was encoded twice is found too."""
    warehouse = await request.warehouse()
    text = request.query.get("parent")
    readings: list[NamespaceIdentifier | None] = [*parse_parent(text)] if text else [None]
    for parent in readings[:-1]:
        try:
            return await _children(request, warehouse, parent)
        except NoSuchNamespace:
            continue
    return await _children(request, warehouse, readings[-1])


async def _children(request: ApiRequest, warehouse: Warehouse, parent: NamespaceIdentifier | None) -> web.Response:
    levels = () if parent is None else parent.levels
    listing = listing_digest("namespaces", warehouse.prefix, *(name_key(level, exact=warehouse.exact_names) for level in levels))
    # The name is a level of its own after those of the parent.
    before = orjson.dumps(levels)[:-1] + (b"," if levels else b"")
    members = requested_members(request, "namespace-uuids")
    page = with_objects(bounded(parse_page(request.query, listing, request.catalog.limits), before), members)
    found = await list_namespaces_query.list_namespaces(request.catalog.queries, listing_context(request), warehouse, parent, page)
    return await respond_listing(request, "namespaces", found, listing, before, b"]", members)


async def create_namespace(request: ApiRequest) -> web.Response:
    body, fields = await request.read_body_fields()
    command = CreateNamespace(namespace=fields.namespace("namespace"), properties=fields.properties("properties"))
    return await request.execute(execute_create_namespace, command, body=body)


async def load_namespace_metadata(request: ApiRequest) -> web.Response:
    namespace = parse_existing_namespace(request.segments["namespace"])
    warehouse = await request.warehouse()
    result = await load_namespace.load_namespace(request.catalog.queries, request.context, warehouse, namespace)
    return await request.json({"namespace": result.levels, "properties": dict(result.properties)})


async def namespace_exists(request: ApiRequest) -> web.Response:
    namespace = parse_existing_namespace(request.segments["namespace"])
    warehouse = await request.warehouse()
    await load_namespace.namespace_exists(request.catalog.queries, request.context, warehouse, namespace)
    return web.Response(status=204)


async def drop_namespace(request: ApiRequest) -> web.Response:
    """`force`: also if it is protected; a recursive drop is then final. `recursive`: with all that is in it; `purge`: whether the files
    of its tables are deleted, if not the warehouse's purge default. `dryRun`: 200 with what a recursive drop would do.
    """
    force = requested_force(request)
    recursive = parse_boolean(request.query.get("recursive") or "false", "recursive")
    dry_run = parse_boolean(request.query.get("dryRun") or "false", "dryRun")
    asked = request.query.get("purge") or None
    purge = None if asked is None else parse_boolean(asked, "purge")
    namespace = parse_existing_namespace(request.segments["namespace"])
    command = DropNamespace(namespace=namespace, force=force, recursive=recursive, purge=purge if recursive else None)
    if not recursive:
        if dry_run:
            raise BadRequest("Invalid parameter 'dryRun': only for a recursive drop (recursive=true)")
        return await request.execute(execute_drop_namespace, command, options=force_option(force))
    if dry_run:
        plan = await plan_namespace_drop(request.catalog.commands, request.context, await request.warehouse(), command)
        return await request.json(written_plan(plan))
    return await request.execute(execute_drop_namespace, command, options=(force, True, purge is not None, bool(purge)))


async def update_properties(request: ApiRequest) -> web.Response:
    body, fields = await request.read_body_fields()
    command = UpdateNamespaceProperties(
        namespace=parse_existing_namespace(request.segments["namespace"]),
        removals=fields.texts("removals", request.catalog.limits.properties_max),
        updates=fields.properties("updates"),
    )
    return await request.execute(update_namespace_properties, command, body=body)
