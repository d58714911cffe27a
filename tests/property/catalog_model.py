"""A model of a catalog in plain dictionaries: names, objects, and which requests are refused with which error.

It has no events, versions, files or Postgres. It learns what the server chooses (ids, default locations, file names) from an answer once,
and expects it from then on.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

# The properties that Java sets for every new table.
CREATED_PROPERTIES = {"write.parquet.compression-codec": "zstd"}
# The default of the view property `version.history.num-entries`.
VIEW_VERSIONS_KEPT = 10

# Spellings, and which of them are equal case-insensitively, written by hand.
SPELLINGS = {
    "t": "t",
    "T": "t",
    "straße": "strasse",
    "STRASSE": "strasse",
    "i": "i",
    "I": "i",
    "İ": "i with a dot",
    "ı": "i without a dot",
    "a b": "a b",
    "a+b": "a+b",
    "a.b": "a.b",
    "A.B": "a.b",
}

Path = tuple[str, ...]


class Refused(Exception):
    """The expected status and Iceberg type."""

    def __init__(self, status: int, error_type: str) -> None:
        super().__init__(status, error_type)
        self.answer = (status, error_type)


NO_NAMESPACE = (404, "NoSuchNamespaceException")
NO_TABLE = (404, "NoSuchTableException")
NO_VIEW = (404, "NoSuchViewException")
NO_FILE = (404, "NotFoundException")
FILES_MISSING = (409, "FilesMissingException")
TAKEN = (409, "AlreadyExistsException")
NOT_EMPTY = (409, "NamespaceNotEmptyException")
COMMIT_FAILED = (409, "CommitFailedException")
BAD_REQUEST = (400, "BadRequestException")
UNPROCESSABLE = (422, "UnprocessableEntityException")


@dataclass(slots=True)
class Content:
    """The metadata of a table or view as far as the model has it. If `uuid` or `location` is empty, the server chooses it.

    `queries` are the SQL of a view's versions in the order of the document: `select N` with a larger N in each newer version.
    """

    uuid: str = ""
    location: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    columns: int = 1
    schemas: int = 1
    snapshots: tuple[int, ...] = ()
    queries: tuple[str, ...] = ()

    @property
    def current_snapshot(self) -> int | None:
        return self.snapshots[-1] if self.snapshots else None

    def with_query(self, sql: str) -> "Content":
        """A view with a new version. When there are too many, the newest remain and stand first, as in Java."""
        queries = (*self.queries, sql)
        if len(queries) > VIEW_VERSIONS_KEPT:
            queries = tuple(sorted(queries, key=lambda query: int(query.split()[1]), reverse=True)[:VIEW_VERSIONS_KEPT])
        return replace(self, queries=queries)


@dataclass(slots=True)
class Tabular:
    """A table or view with its name. `places` -- every location it claims; `file` -- its metadata location once known."""

    kind: str
    name: str
    content: Content
    places: set[str] = field(default_factory=set)
    file: str | None = None


@dataclass(slots=True)
class Namespace:
    """`location` is empty until it is learned, unless the client named it."""

    name: str
    properties: dict[str, str]
    location: str = ""


@dataclass(slots=True)
class SoftDeleted:
    """A table or view that can be undropped. `id` -- Icecore's, once known. slot -- its namespace and name key."""

    slot: tuple[Path, str]
    tabular: Tabular
    id: str = ""


@dataclass(frozen=True, slots=True)
class File:
    """A metadata file and its content."""

    kind: str
    location: str
    content: Content


Change = Callable[[Content], Content]


class CatalogModel:
    """One warehouse. Every method changes it or raises Refused."""

    def __init__(self, *, exact_names: bool) -> None:
        self.exact_names = exact_names
        self.namespaces: dict[Path, Namespace] = {}
        self.tabulars: dict[tuple[Path, str], Tabular] = {}
        self.files: list[File] = []
        self.deleted: list[SoftDeleted] = []

    @property
    def claiming(self) -> list[Tabular]:
        """The tables and views that claim their places, also soft-deleted ones."""
        return [*self.tabulars.values(), *(each.tabular for each in self.deleted)]

    def key(self, name: str) -> str:
        return name if self.exact_names else SPELLINGS[name]

    def path(self, levels: Sequence[str]) -> Path:
        return tuple(self.key(level) for level in levels)

    # Namespaces

    def create_namespace(self, levels: Sequence[str], properties: Mapping[str, str]) -> Namespace:
        path, location = self.path(levels), properties.get("location", "")
        if path in self.namespaces:
            raise Refused(*TAKEN)
        if path[:-1] and path[:-1] not in self.namespaces:
            raise Refused(*NO_NAMESPACE)
        others = [space.location for space in self.namespaces.values()]
        if location and any(_overlap(location, held) for held in (*others, *(p for t in self.claiming for p in t.places))):
            raise Refused(*BAD_REQUEST)
        created = self.namespaces[path] = Namespace(levels[-1], dict(properties), location)
        return created

    def drop_namespace(self, levels: Sequence[str]) -> None:
        path = self._namespace(levels)
        below = any(other[: len(path)] == path and other != path for other in self.namespaces)
        slots = [*self.tabulars, *(each.slot for each in self.deleted)]
        if below or any(namespace == path for namespace, _ in slots):
            raise Refused(*NOT_EMPTY)
        del self.namespaces[path]

    def move_namespace(self, levels: Sequence[str], destination: Sequence[str]) -> None:
        """Everything below it moves too. Locations stay."""
        source, path = self._namespace(levels), self.path(destination)
        if path[:-1] and path[:-1] not in self.namespaces:
            raise Refused(*NO_NAMESPACE)
        if path != source:
            if path[: len(source)] == source:
                raise Refused(*BAD_REQUEST)
            if path in self.namespaces:
                raise Refused(*TAKEN)

        def moved(old: Path) -> Path:
            return (*path, *old[len(source) :]) if old[: len(source)] == source else old

        self.namespaces = {moved(old): namespace for old, namespace in self.namespaces.items()}
        self.tabulars = {(moved(old), key): tabular for (old, key), tabular in self.tabulars.items()}
        for each in self.deleted:
            each.slot = (moved(each.slot[0]), each.slot[1])
        self.namespaces[path].name = destination[-1]

    def update_properties(self, levels: Sequence[str], removals: Sequence[str], updates: Mapping[str, str]) -> dict[str, list[str]]:
        properties = self.namespaces[self._namespace(levels)].properties
        if set(removals) & set(updates):
            raise Refused(*UNPROCESSABLE)
        if "location" in removals or updates.get("location", properties["location"]) != properties["location"]:
            raise Refused(*BAD_REQUEST)
        removed = [key for key in removals if properties.pop(key, None) is not None]
        properties.update(updates)
        return {"updated": list(updates), "removed": removed, "missing": [key for key in removals if key not in removed]}

    # Tables and views

    def create(self, kind: str, levels: Sequence[str], name: str, content: Content, *, staged: bool = False) -> Tabular | None:
        """Returns None for a staged create, which changes nothing but is refused if the create would be."""
        slot = self._free(levels, name)
        if staged:
            if content.location:
                self._refuse_conflicts(Tabular(kind, name, content), content.location)
            return None
        return self._put(slot, Tabular(kind, name, content))

    def create_by_commit(self, levels: Sequence[str], name: str, content: Content) -> Tabular:
        """The commit that completes a staged create. A table created meanwhile violates its requirement."""
        there = self.tabulars.get((self.path(levels), self.key(name)))
        if there is not None and there.kind == "table":
            raise Refused(*COMMIT_FAILED)
        return self._put(self._free(levels, name), Tabular("table", name, content))

    def register(self, kind: str, levels: Sequence[str], name: str, file: File, *, overwrite: bool = False) -> Tabular:
        there = self.tabulars.get((self.path(levels), self.key(name)))
        takes_over = overwrite and there is not None and there.kind == "table"
        slot = (self.path(levels), self.key(name)) if takes_over else self._free(levels, name)
        registered = there if takes_over and there is not None else Tabular(kind, name, file.content, file=file.location)
        # Checked before the file is read.
        self._refuse_conflicts(registered, file.location)
        if file not in self.files:
            raise Refused(*NO_FILE)
        if not takes_over:
            return self._put(slot, registered)
        assert there is not None
        self._refuse_conflicts(there, file.content.location)
        there.content, there.file = file.content, file.location
        there.places.add(file.content.location)
        return there

    def find(self, kind: str, levels: Sequence[str], name: str) -> Tabular:
        found = self.tabulars.get((self.path(levels), self.key(name)))
        if found is None or found.kind != kind:
            raise Refused(*(NO_TABLE if kind == "table" else NO_VIEW))
        return found

    def commit(self, kind: str, levels: Sequence[str], name: str, changes: Iterable[Change], *, holds: bool) -> Tabular:
        tabular = self.find(kind, levels, name)
        content = self._changed(tabular, changes, holds=holds)
        self._commit(tabular, content)
        return tabular

    def commit_together(self, commits: Sequence[tuple[Sequence[str], str, Sequence[Change], bool]]) -> None:
        """(levels, name, changes, whether the requirements hold) of each table; all or none."""
        if len({(self.path(levels), self.key(name)) for levels, name, _, _ in commits}) < len(commits):
            raise Refused(*BAD_REQUEST)
        tabulars = [self.find("table", levels, name) for levels, name, _, _ in commits]
        pairs = zip(tabulars, commits, strict=True)
        contents = [self._changed(tabular, changes, holds=holds) for tabular, (_, _, changes, holds) in pairs]
        for tabular, content in zip(tabulars, contents, strict=True):
            self._commit(tabular, content)

    def rename(self, kind: str, source: tuple[Sequence[str], str], destination: tuple[Sequence[str], str]) -> None:
        tabular = self.find(kind, *source)
        path = self.path(destination[0])
        if path not in self.namespaces:
            raise Refused(*NO_NAMESPACE)
        slot = (path, self.key(destination[1]))
        if self.tabulars.get(slot, tabular) is not tabular:
            raise Refused(*TAKEN)
        del self.tabulars[self.path(source[0]), self.key(source[1])]
        self.tabulars[slot] = tabular
        tabular.name = destination[1]

    def drop(self, kind: str, levels: Sequence[str], name: str, *, purge: bool = False) -> Tabular:
        """With `purge`, the files in its locations are deleted. The model removes them at once."""
        tabular = self.find(kind, levels, name)
        del self.tabulars[self.path(levels), self.key(name)]
        if purge:
            self.files = [file for file in self.files if not any(file.location.startswith(f"{place}/") for place in tabular.places)]
        return tabular

    def drop_softly(self, kind: str, levels: Sequence[str], name: str) -> SoftDeleted:
        tabular = self.find(kind, levels, name)
        slot = (self.path(levels), self.key(name))
        del self.tabulars[slot]
        self.deleted.append(SoftDeleted(slot, tabular))
        return self.deleted[-1]

    def undrop(self, chosen: Sequence[SoftDeleted], *, force: bool) -> None:
        """All or none. The manifest lists of the model's snapshots do not exist."""
        if not force and any(each.tabular.content.snapshots for each in chosen):
            raise Refused(*FILES_MISSING)
        if any(each not in self.deleted for each in chosen):
            raise Refused(*(NO_TABLE if chosen[0].tabular.kind == "table" else NO_VIEW))
        slots = [each.slot for each in chosen]
        if len({*slots}) < len(slots) or any(slot in self.tabulars for slot in slots):
            raise Refused(*TAKEN)
        for each in chosen:
            self.deleted.remove(each)
            self.tabulars[each.slot] = each.tabular

    # Learning from answers

    def learn_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Learns the location that the server chose."""
        namespace.location = namespace.location or properties["location"]
        namespace.properties["location"] = namespace.location

    def learn(self, tabular: Tabular, metadata_location: str, metadata: Mapping[str, Any]) -> None:
        """Learns what the server chose, and that a file with this content exists."""
        content = tabular.content
        uuid = metadata["table-uuid" if tabular.kind == "table" else "view-uuid"]
        tabular.content = replace(content, uuid=content.uuid or uuid, location=content.location or metadata["location"])
        tabular.places.add(tabular.content.location)
        tabular.file = metadata_location
        file = File(tabular.kind, metadata_location, tabular.content)
        if all(known.location != metadata_location for known in self.files):
            self.files.append(file)

    def names(self, kind: str, path: Path) -> list[str]:
        return sorted(tabular.name for (namespace, _), tabular in self.tabulars.items() if namespace == path and tabular.kind == kind)

    def children(self, path: Path) -> list[str]:
        return sorted(space.name for other, space in self.namespaces.items() if other[:-1] == path and other)

    def _namespace(self, levels: Sequence[str]) -> Path:
        path = self.path(levels)
        if path not in self.namespaces:
            raise Refused(*NO_NAMESPACE)
        return path

    def _free(self, levels: Sequence[str], name: str) -> tuple[Path, str]:
        slot = (self._namespace(levels), self.key(name))
        if slot in self.tabulars:
            raise Refused(*TAKEN)
        return slot

    def _put(self, slot: tuple[Path, str], tabular: Tabular) -> Tabular:
        if tabular.content.location:
            self._refuse_conflicts(tabular, tabular.content.location)
            tabular.places.add(tabular.content.location)
        self.tabulars[slot] = tabular
        return tabular

    def _changed(self, tabular: Tabular, changes: Iterable[Change], *, holds: bool) -> Content:
        if not holds:
            raise Refused(*COMMIT_FAILED)
        content = tabular.content
        for change in changes:
            content = change(content)
        self._refuse_conflicts(tabular, content.location)
        return content

    def _commit(self, tabular: Tabular, content: Content) -> None:
        tabular.content = content
        tabular.places.add(content.location)

    def _refuse_conflicts(self, tabular: Tabular, place: str) -> None:
        others: Collection[Tabular] = [other for other in self.claiming if other is not tabular]
        if any(_overlap(place, held) for other in others for held in other.places):
            raise Refused(*BAD_REQUEST)
        # It may lie in a namespace's location, but not around it.
        if any(f"{space.location}/".startswith(f"{place}/") for space in self.namespaces.values()):
            raise Refused(*BAD_REQUEST)


def _overlap(a: str, b: str) -> bool:
    return f"{a}/".startswith(f"{b}/") or f"{b}/".startswith(f"{a}/")
