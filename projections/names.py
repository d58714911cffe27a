"""The read model of names: finds objects by name and lists them, now or as of a position."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.errors import NoSuchNamespace, NoSuchTable, NoSuchView
from ..domain.identifiers import NamespaceIdentifier, TabularIdentifier, name_key
from ..domain.memory_bytes import memory_bytes
from ..domain.names import ResolvedName

_SQL = named_sql("icecore.projections", "names.sql")
# Name keys are never empty, so all of them sort after this.
_BEFORE_ALL = ""
NAMES_PAGE_SIZE = 2_000
"""Takes about two milliseconds, and a few megabytes if the names are as long as possible."""
# The memory of an id, and of two items in lists.
_OBJECT_BYTES = 120


@dataclass(frozen=True, slots=True)
class NameLookup:
    """Where names are looked up: the warehouse, whether it matches names exactly, and as of which position (None: now)."""

    warehouse_id: UUID
    exact_names: bool
    as_of: int | None

    def key(self, name: str) -> str:
        """The form of a name that is compared."""
        return name_key(name, exact=self.exact_names)

    def namespace_path(self, namespace: NamespaceIdentifier) -> tuple[UUID, tuple[str, ...]]:
        """The key of a namespace. All spellings of one namespace have the same key."""
        return (self.warehouse_id, tuple(map(self.key, namespace.levels)))

    def path(self, identifier: TabularIdentifier) -> tuple[UUID, tuple[str, ...], str]:
        """The key of a table or view."""
        return (*self.namespace_path(identifier.namespace), self.key(identifier.name))


async def find_namespace(connection: Connection, lookup: NameLookup, namespace: NamespaceIdentifier) -> UUID:
    """The namespace's id. Raises NoSuchNamespace."""
    found = await find(connection, lookup, namespace, None)
    if found is None:
        raise NoSuchNamespace(f"Namespace does not exist: {namespace}")
    return found.namespace_id


async def find_table(connection: Connection, lookup: NameLookup, table: TabularIdentifier) -> UUID:
    """The table's id. Raises NoSuchTable."""
    found = await find(connection, lookup, table.namespace, table.name)
    if found is None or found.object_id is None or found.kind != "table":
        raise NoSuchTable(f"Table does not exist: {table}")
    return found.object_id


async def find_view(connection: Connection, lookup: NameLookup, view: TabularIdentifier) -> UUID:
    """The view's id. Raises NoSuchView."""
    found = await find(connection, lookup, view.namespace, view.name)
    if found is None or found.object_id is None or found.kind != "view":
        raise NoSuchView(f"View does not exist: {view}")
    return found.object_id


async def find(connection: Connection, lookup: NameLookup, namespace: NamespaceIdentifier, name: str | None) -> ResolvedName | None:
    """What the name refers to in the namespace, if anything; None if the namespace does not exist."""
    cursor = await connection.execute(
        _SQL["find"],
        {
            "warehouse_id": lookup.warehouse_id,
            "keys": [lookup.key(level) for level in namespace.levels],
            "name_key": None if name is None else lookup.key(name),
            "as_of": lookup.as_of,
        },
    )
    row = await cursor.fetchone()
    return None if row is None else ResolvedName(*row)


async def is_deeper(connection: Connection, namespace_id: UUID, levels: int) -> bool:
    """Whether namespaces are nested more than `levels` deep below a namespace. It reads all namespaces below it, and no tables."""
    row = await (await connection.execute(_SQL["is_deeper"], {"namespace_id": namespace_id, "levels": levels})).fetchone()
    return row == (True,)


async def find_holder_of_name(connection: Connection, namespace_id: UUID, name_key: str) -> ResolvedName | None:
    """The table or view that has the name in the namespace now, without the namespace's location."""
    row = await (await connection.execute(_SQL["taken"], {"namespace_id": namespace_id, "name_key": name_key})).fetchone()
    return None if row is None else ResolvedName(*row)


async def list_names(
    connection: Connection, lookup: NameLookup, parent_id: UUID, kind: str, after: str | None, size: int | None
) -> list[tuple[str, str]]:
    """At most `size` pairs (name, name key) of the objects of one kind in `parent_id`, ordered by key, after the key `after`."""
    return await _list(connection, lookup, parent_id, kind, after, size)


async def _list(
    connection: Connection,
    lookup: NameLookup,
    parent_id: UUID,
    kind: str,
    after: str | None,
    size: int | None,
    *,
    with_objects: bool = False,
) -> list[tuple[Any, ...]]:
    block = "list_objects" if with_objects else "list"
    cursor = await connection.execute(
        _SQL[f"{block}_current" if lookup.as_of is None else f"{block}_as_of"],
        {"parent_id": parent_id, "kind": kind, "after": _BEFORE_ALL if after is None else after, "size": size, "as_of": lookup.as_of},
    )
    return await cursor.fetchall()


@dataclass(frozen=True, slots=True)
class ListedNames:
    """One page: names ordered by their keys, and the key after which the next page begins (None on the last page).

    memory_bytes -- what the lists take in memory. ids, protected -- of the objects, in the order of the names; None if not requested.
    """

    names: list[str]
    next_key: str | None
    memory_bytes: int
    ids: list[UUID] | None = None
    protected: list[bool] | None = None


async def list_page(
    connection: Connection,
    lookup: NameLookup,
    parent_id: UUID,
    kind: str,
    after: str | None,
    size: int | None,
    reserve_memory: Callable[[int], None] = lambda memory_bytes: None,
    *,
    with_objects: bool = False,
) -> ListedNames:
    """At most `size` names after the key `after`; one more is read to see whether there is a next page.

    reserve_memory -- called with the total bytes of the names read so far, after every NAMES_PAGE_SIZE names.
    with_objects -- also the ids and the protection of the objects.
    """
    if size is not None and size < NAMES_PAGE_SIZE:
        rows = await _list(connection, lookup, parent_id, kind, after, size + 1, with_objects=with_objects)
        return _page(rows, size, with_objects=with_objects)
    rows = await _list(connection, lookup, parent_id, kind, after, NAMES_PAGE_SIZE, with_objects=with_objects)
    if len(rows) < NAMES_PAGE_SIZE:
        return _page(rows, size, with_objects=with_objects)
    async with connection.transaction():
        # One snapshot for all steps: otherwise a name that changes meanwhile could be missed or listed twice.
        await connection.execute(_SQL["one_moment"])
        return await _list_in_steps(connection, lookup, parent_id, kind, after, size, reserve_memory, with_objects=with_objects)


async def _list_in_steps(
    connection: Connection,
    lookup: NameLookup,
    parent_id: UUID,
    kind: str,
    after: str | None,
    size: int | None,
    reserve_memory: Callable[[int], None],
    *,
    with_objects: bool,
) -> ListedNames:
    listed: list[str] = []
    ids: list[UUID] = []
    protected: list[bool] = []
    held = 0
    while size is None or len(listed) < size:
        step = NAMES_PAGE_SIZE if size is None else min(NAMES_PAGE_SIZE, size - len(listed))
        rows = await _list(connection, lookup, parent_id, kind, after, step + 1, with_objects=with_objects)
        page = _page(rows, step, with_objects=with_objects)
        listed += page.names
        ids += page.ids or ()
        protected += page.protected or ()
        held += page.memory_bytes
        reserve_memory(held)
        after = page.next_key
        if after is None:
            break
    return ListedNames(listed, after, held, *((ids, protected) if with_objects else ()))


def _page(rows: list[tuple[Any, ...]], size: int | None, *, with_objects: bool) -> ListedNames:
    page = rows if size is None else rows[:size]
    names = [row[0] for row in page]
    next_key = page[-1][1] if len(page) < len(rows) else None
    if not with_objects:
        return ListedNames(names, next_key, memory_bytes(names))
    return ListedNames(names, next_key, memory_bytes(names) + _OBJECT_BYTES * len(page), [row[2] for row in page], [row[3] for row in page])


class NamedObject(NamedTuple):
    """The name of an object and the id of its parent (None for a warehouse)."""

    parent_id: UUID | None
    name: str


async def names_above(connection: Connection, object_ids: Sequence[UUID], as_of: int | None = None) -> dict[UUID, NamedObject]:
    """The names of these objects and of all their parents by id, as of a position or the latest; dropped objects included."""
    cursor = await connection.execute(_SQL["names_above"], {"ids": list(object_ids), "as_of": as_of}, binary=True)
    return {row[0]: NamedObject(*row[1:]) for row in await cursor.fetchall()}


def levels(above: Mapping[UUID, NamedObject], namespace_id: UUID) -> tuple[str, ...]:
    """The levels of a namespace, outermost first, of what `names_above` has found."""
    found_levels: list[str] = []
    at: UUID | None = namespace_id
    # The outermost one is the warehouse, which has no parent.
    while at is not None and (found := above.get(at)) is not None and found.parent_id is not None:
        found_levels.append(found.name)
        at = found.parent_id
    return tuple(reversed(found_levels))


async def names_at(connection: Connection, objects: Sequence[tuple[UUID, int]]) -> list[tuple[UUID, UUID | None, str, int, int | None]]:
    """The names of objects and of all their parents, as of the position given with each.

    Returns (id, id of the parent, name, position from which it has that name, position of its next name); no parent for a warehouse.
    """
    parameters = {"ids": [object_id for object_id, _ in objects], "positions": [position for _, position in objects]}
    return await (await connection.execute(_SQL["names_at"], parameters, binary=True)).fetchall()


async def kind_in_warehouse(connection: Connection, warehouse_id: UUID, object_id: UUID) -> str | None:
    """The kind of a namespace, table or view that exists in the warehouse; None if it does not."""
    row = await (await connection.execute(_SQL["kind_in_warehouse"], {"warehouse_id": warehouse_id, "object_id": object_id})).fetchone()
    return None if row is None else row[0]


async def renamed_parents(connection: Connection, after: int, up_to: int) -> list[UUID]:
    """The warehouses and namespaces that were renamed or moved by events after one position and up to another."""
    cursor = await connection.execute(_SQL["renamed_parents"], {"after": after, "upto": up_to}, binary=True)
    return [row[0] for row in await cursor.fetchall()]


async def described(connection: Connection, object_id: UUID) -> str:
    """The newest name of an object with its namespaces, and its id, for messages."""
    return f"{'.'.join((await path_names(connection, object_id))[1:])} ({object_id})"


async def path_names(connection: Connection, object_id: UUID, as_of: int | None = None) -> tuple[str, ...]:
    """The names on the path to an object, from the warehouse to itself, as `names_above` reads them; empty if it had no name."""
    known = await names_above(connection, [object_id], as_of)
    path: list[str] = []
    above: UUID | None = object_id
    while above is not None and (found := known.get(above)) is not None:
        path.append(found.name)
        above = found.parent_id
    return tuple(reversed(path))
