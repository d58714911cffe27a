"""What a warehouse contains, at the command line: lists and loads namespaces, tables and views, now or as of a position or time.

The commands use the database directly.
"""

from typing import Any
from uuid import UUID

import orjson
import uvloop
from rich.console import Console
from rich.table import Table

from .access.warehouse import Warehouse
from .compose import Application, open_catalog
from .database.connections import Connection
from .demo_warehouse import operator_context
from .domain.byte_pieces import joined
from .domain.identifiers import ContentKind, NamespaceIdentifier, TabularIdentifier, uuid_or_none
from .exit_codes import CommandFailed, ExitCode
from .log_database import opened_database, require_schema
from .open_warehouse import named_warehouse, open_warehouse
from .output import cell, print_table, printable, shown_milliseconds
from .projections import names
from .projections.protection import no_such_object
from .queries.list_namespaces import list_namespaces
from .queries.list_tabulars import list_tables, list_views
from .queries.load_namespace import load_namespace
from .queries.load_protection import load_protection
from .queries.load_table import load_table
from .queries.load_view import load_view
from .queries.results import Page, PageRequest
from .settings import Settings

_ALL = PageRequest(with_objects=True)
_LISTS = {"namespace": "listNamespaces", "table": "listTables", "view": "listViews"}
_LOADS = {"namespace": "loadNamespaceMetadata", "table": "loadTable", "view": "loadView"}


def list_objects(settings: Settings, console: Console, kind: ContentKind, reference: str, parent: str | None, *, as_json: bool) -> ExitCode:
    """Prints the objects of a kind directly in a namespace, by name. parent -- with dots between levels; None: the top level."""

    async def run(opened: Settings) -> tuple[tuple[str, ...], Page[str]]:
        await require_schema(opened)
        above = None if parent is None else NamespaceIdentifier.parse(parent.split("."))
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            context, queries = operator_context(_LISTS[kind], warehouse.project_id), catalog.queries
            if above is None or kind == "namespace":
                return above.levels if above else (), await list_namespaces(queries, context, warehouse, above, _ALL)
            return above.levels, await (list_tables if kind == "table" else list_views)(queries, context, warehouse, above, _ALL)

    with opened_database(settings) as opened:
        levels, page = uvloop.run(run(opened))
    assert page.ids is not None
    assert page.protected is not None
    found = list(zip(page.items, page.ids, page.protected, strict=True))
    if as_json:
        written = [_identified(kind, object_id, (*levels, name)) | {"protected": protected} for name, object_id, protected in found]
        console.out(orjson.dumps(written).decode(), highlight=False)
        return ExitCode.OK
    if not found:
        console.out(f"no {kind}s", highlight=False)
        return ExitCode.OK
    table = Table("name", "id", "protected", box=None, pad_edge=False)
    for name, object_id, protected in found:
        table.add_row(cell(".".join((*levels, name))), str(object_id), "yes" if protected else "")
    print_table(console, table)
    return ExitCode.OK


def print_object(settings: Settings, console: Console, kind: ContentKind, reference: str, text: str, *, as_json: bool) -> ExitCode:
    """Prints a namespace with its properties, or a table or view with its metadata. text -- its path with dots, or its id."""

    async def run(opened: Settings) -> dict[str, Any]:
        await require_schema(opened)
        async with open_catalog(opened) as catalog:
            async with catalog.backends.connection() as connection:
                warehouse = await named_warehouse(connection, reference)
                object_id, path = await _named(connection, warehouse, kind, text)
            found = _identified(kind, object_id, path)
            if warehouse.as_of is None:
                context = operator_context(f"get{kind.capitalize()}Protection", warehouse.project_id)
                protection = await load_protection(catalog.queries, context, warehouse, kind, object_id)
                found["protected"] = protection.protected
            return found | await _loaded(catalog, warehouse, kind, path)

    with opened_database(settings) as opened:
        found = uvloop.run(run(opened))
    if as_json:
        console.out(orjson.dumps(found).decode(), highlight=False)
        return ExitCode.OK
    path = found["namespace"] if kind == "namespace" else [*found["namespace"], found["name"]]
    _print_line(console, "name", ".".join(path))
    _print_line(console, "id", found["id"])
    if "protected" in found:
        _print_line(console, "protected", "yes" if found["protected"] else "no")
    if "metadata" in found:
        _print_line(console, "metadata-location", found["metadata-location"])
        _print_metadata(console, found["metadata"])
    for key, value in found.get("metadata", found).get("properties", {}).items():
        _print_line(console, "property", f"{key}={value}")
    return ExitCode.OK


def parsed_tabular(kind: str, text: str) -> TabularIdentifier:
    """A table or view by its path with dots between levels. Raises CommandFailed if it has no namespace, and BadRequest."""
    levels = text.split(".")
    if len(levels) == 1:
        raise CommandFailed(ExitCode.USAGE, f"a {kind} is named NAMESPACE.{kind.upper()}: {printable(text)}")
    return TabularIdentifier.parse(NamespaceIdentifier.parse(levels[:-1]), levels[-1], f"{kind} name")


async def _named(connection: Connection, warehouse: Warehouse, kind: ContentKind, text: str) -> tuple[UUID, tuple[str, ...]]:
    """The id and the path of an object. Raises CommandFailed and CatalogError."""
    object_id = uuid_or_none(text)
    if object_id is not None:
        if warehouse.as_of is not None:
            raise CommandFailed(ExitCode.USAGE, f"in a past state, give the {kind}'s name, not its id")
        if await names.kind_in_warehouse(connection, warehouse.id, object_id) != kind:
            raise no_such_object(kind, text)
        return object_id, (await names.path_names(connection, object_id))[1:]
    if kind == "namespace":
        namespace = NamespaceIdentifier.parse(text.split("."))
        return await names.find_namespace(connection, warehouse.name_lookup, namespace), namespace.levels
    tabular = parsed_tabular(kind, text)
    find = names.find_table if kind == "table" else names.find_view
    return await find(connection, warehouse.name_lookup, tabular), (*tabular.namespace.levels, tabular.name)


async def _loaded(catalog: Application, warehouse: Warehouse, kind: ContentKind, path: tuple[str, ...]) -> dict[str, Any]:
    """The properties of a namespace, or the metadata of a table or view and its location."""
    context, queries = operator_context(_LOADS[kind], warehouse.project_id), catalog.queries
    if kind == "namespace":
        return {"properties": dict((await load_namespace(queries, context, warehouse, NamespaceIdentifier(path))).properties)}
    tabular = TabularIdentifier(NamespaceIdentifier(path[:-1]), path[-1])
    if kind == "view":
        body = await load_view(queries, context, warehouse, tabular)
    else:
        content = (await load_table(queries, context, warehouse, tabular)).body
        assert content is not None, "loaded without an ETag"
        body = joined(content)
    result = orjson.loads(body)
    return {name: result[name] for name in ("metadata-location", "metadata")}


def _identified(kind: ContentKind, object_id: UUID, path: tuple[str, ...]) -> dict[str, Any]:
    """A namespace by all its levels; a table or view by its namespace and its name."""
    if kind == "namespace":
        return {"id": str(object_id), "namespace": path}
    return {"id": str(object_id), "type": kind, "namespace": path[:-1], "name": path[-1]}


def _print_metadata(console: Console, metadata: dict[str, Any]) -> None:
    """What an operator looks for first. A view has versions in place of snapshots."""
    for name in ("location", "format-version", "current-snapshot-id", "current-version-id"):
        if metadata.get(name) is not None:
            _print_line(console, name, str(metadata[name]))
    for name in ("snapshots", "versions"):
        if name in metadata:
            _print_line(console, name, str(len(metadata[name])))
    if "last-updated-ms" in metadata:
        _print_line(console, "last-updated", shown_milliseconds(metadata["last-updated-ms"]))
    schema_id = metadata.get("current-schema-id")
    for version in metadata.get("versions", ()):
        if version["version-id"] == metadata["current-version-id"]:
            schema_id = version["schema-id"]
            for each in version["representations"]:
                _print_line(console, each["dialect"], each["sql"])
    for schema in metadata.get("schemas", ()):
        if schema.get("schema-id") == schema_id:
            for each in schema["fields"]:
                type_name = each["type"] if isinstance(each["type"], str) else each["type"]["type"]
                _print_line(console, "column", f"{each['name']} {type_name}{' required' if each['required'] else ''}")


def _print_line(console: Console, name: str, value: str) -> None:
    console.out(f"{printable(name)}: {printable(value)}", highlight=False)
