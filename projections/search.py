"""Searches tables and views by name or id. projections/asynchronous/search.py indexes the names."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.errors import BadRequest
from ..domain.identifiers import NamespaceIdentifier, parse_path_name
from ..domain.read_models.search import distance, search_terms
from . import names
from .names import NameLookup

_SQL = named_sql("icecore.projections", "search.sql")

FOUND_MAX = 10
"""As many as in Lakekeeper."""
_CANDIDATES_MAX = 500
"""So many names with rare terms of the search are compared with it by their terms."""
_COMPARED_MAX = 50
"""So many of them, and so many tables and views in namespaces among them, are compared with it by their paths."""
_NAMESPACES_MAX = 5
_NAMESPACES_BELOW_MAX = 100


@dataclass(frozen=True, slots=True)
class FoundTabular:
    """distance -- from 0 to below 1, lower is better (domain/read_models/search.py); None: found by an id."""

    kind: Literal["table", "view"]
    object_id: UUID
    namespace: tuple[str, ...]
    name: str
    distance: float | None


async def find_by_id(connection: Connection, warehouse_id: UUID, object_id: UUID) -> list[FoundTabular]:
    """The table or view with the id, or tables and views in the namespace with the id."""
    parameters = _parameters([object_id], deep=False, limit=FOUND_MAX)
    inside = await (await connection.execute(_SQL["tabulars_in"], parameters, binary=True)).fetchall()
    return [*await _paths(connection, warehouse_id, [object_id, *(tabular_id for (tabular_id,) in inside)])][:FOUND_MAX]


async def find_by_name(connection: Connection, warehouse_id: UUID, exact_names: bool, text: str) -> list[FoundTabular]:
    """At most FOUND_MAX tables and views whose names or paths resemble the text, the nearest first.

    A table with exactly this path or name is among them, others if they share one of the text's rarer trigrams.
    """
    terms = search_terms(warehouse_id, text)
    found = await (await connection.execute(_SQL["frequencies"], {"terms": terms}, binary=True)).fetchall()
    ids = set(await _with_path(connection, warehouse_id, exact_names, text))
    namespace_ids: list[UUID] = []
    if rare := _rare(found):
        parameters = {"terms": terms, "rare": rare, "candidates": _CANDIDATES_MAX, "limit": _COMPARED_MAX}
        # Planned for these terms: if most names have them, their index entries would take longer than reading names until there are enough.
        similar = await connection.execute(_SQL["similar"], parameters, prepare=False, binary=True)
        for object_id, kind in await similar.fetchall():
            (namespace_ids.append if kind == "namespace" else ids.add)(object_id)
    if namespace_ids:
        parameters = _parameters(namespace_ids[:_NAMESPACES_MAX], deep=True, limit=_COMPARED_MAX)
        inside = await connection.execute(_SQL["tabulars_in"], parameters, binary=True)
        ids.update(tabular_id for (tabular_id,) in await inside.fetchall())
    nearest = [
        FoundTabular(each.kind, each.object_id, each.namespace, each.name, compared)
        for each in await _paths(connection, warehouse_id, ids)
        if (compared := distance(text, (*each.namespace, each.name))) < 1
    ]
    return sorted(nearest, key=lambda each: (each.distance, len(each.namespace), each.namespace, each.name))[:FOUND_MAX]


def _rare(frequencies: Iterable[tuple[int, int]]) -> list[int]:
    """The terms, the rarest first, that together have at most _CANDIDATES_MAX names; at least one."""
    rare: list[int] = []
    names = 0
    for term, objects in frequencies:
        names += objects
        if rare and names > _CANDIDATES_MAX:
            break
        rare.append(term)
    return rare


async def _with_path(connection: Connection, warehouse_id: UUID, exact_names: bool, text: str) -> list[UUID]:
    """The table or view whose path this is, which no limit may hide."""
    *levels, name = text.split(".")
    try:
        namespace, name = NamespaceIdentifier.parse(levels), parse_path_name(name, "name")
    except BadRequest:
        return []
    found = await names.find(connection, NameLookup(warehouse_id, exact_names, None), namespace, name)
    return [] if found is None or found.object_id is None else [found.object_id]


def _parameters(namespace_ids: list[UUID], *, deep: bool, limit: int) -> dict[str, object]:
    return {"namespace_ids": namespace_ids, "deep": deep, "namespaces": _NAMESPACES_BELOW_MAX, "limit": limit}


async def _paths(connection: Connection, warehouse_id: UUID, ids: Iterable[UUID]) -> list[FoundTabular]:
    """The tables and views among the objects that exist in the warehouse."""
    cursor = await connection.execute(_SQL["paths"], {"ids": [*ids], "warehouse_id": warehouse_id}, binary=True)
    return [
        FoundTabular(kind, object_id, tuple(namespace), name, None)
        for object_id, kind, (*namespace, name) in await cursor.fetchall()
        if kind != "namespace"
    ]
