"""What an event refers to, as of its position: names that led to it, the row it made and the row before, read for a batch at once.

Rows of the read models never change once their position is passed, and a rebuild gives equal bytes: so does every read here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

import orjson

from database.connections import Connection
from database.named_sql import named_sql
from domain.documents import TABLE_KINDS, Json
from domain.held_bytes import held_bytes
from domain.proposal import ProposalState
from domain.recorded import RecordedEvent
from projections import proposals

_SQL = named_sql("publishers", "pointers.sql")
_SNAPSHOTS = 1 + TABLE_KINDS.index("snapshots")
# Events that leave every name in a path as it was; any other of these nouns empties the cache.
_NAMES_KEPT = frozenset({"warehouse.created", "namespace.created", "namespace.properties-changed"})

SnapshotKey = tuple[UUID, int, int]
"""Its table, the version that made it the current one, its id."""
_ANY_BYTES = 2**63 - 1

_PATHS_BYTES_MAX = 256 * 1024
"""Some hundred ordinary paths, or seven of the longest: 200 readers at a time have their own each."""


@dataclass(frozen=True, slots=True)
class Path:
    """The way to a thing, outermost first; the first is the warehouse."""

    ids: tuple[UUID, ...]
    names: tuple[str, ...]


@dataclass(slots=True)
class TabularRow:
    """A table or view at one version; `body` is the table's head or the view's document."""

    namespace_id: UUID
    name: str
    metadata_location: str
    body: bytes | None
    _parsed: Json | None = None

    @property
    def document(self) -> Json:
        if self._parsed is None:
            assert self.body is not None, "of a row before the event's, only where the event replaced all of it"
            self._parsed = orjson.loads(self.body)
        return self._parsed


@dataclass(slots=True)
class Pointers:
    """What one batch refers to, by the positions of its events.

    rows, rows_before -- a table's or view's row as the event left it, and as the event found it. paths -- to the thing itself, to what a
    table or view lies in, to a proposal's warehouse. paths_before -- to what a table or view lay in, where it was moved.
    """

    rows: dict[int, TabularRow] = field(default_factory=dict)
    rows_before: dict[int, TabularRow] = field(default_factory=dict)
    paths: dict[int, Path] = field(default_factory=dict)
    paths_before: dict[int, Path] = field(default_factory=dict)
    snapshots: dict[tuple[UUID, int], Json] = field(default_factory=dict)
    proposals: dict[tuple[UUID, int], ProposalState] = field(default_factory=dict)


@dataclass(slots=True)
class _WantedPath:
    """A path to read as of a position, and where it goes: to every event of the batch from there on that has the same."""

    object_id: UUID
    position: int
    places: list[tuple[dict[int, Path], int]] = field(default_factory=list)
    path: Path | None = None

    def found(self, path: Path) -> None:
        self.path = path
        for place, position in self.places:
            place[position] = path


class PointerReader:
    """Reads pointers for batches that follow one another in the order of the log."""

    def __init__(self) -> None:
        self._paths: dict[UUID, Path] = {}
        self._paths_bytes = 0

    async def read(self, connection: Connection, events: Sequence[RecordedEvent], wanted: Sequence[RecordedEvent]) -> Pointers:
        """The pointers of those `wanted` of `events`, which come after those of every call before."""
        found = Pointers()
        for block in ("tables", "views"):
            noun = block[:-1]
            positions = [event.position for event in wanted if event.topic.partition(".")[0] == noun]
            if positions:
                cursor = await connection.execute(_SQL[block], {"positions": positions}, binary=True)
                for row in await cursor.fetchall():
                    found.rows[row[0]] = TabularRow(*row[1:5])
                    if row[5] is not None:
                        found.rows_before[row[0]] = TabularRow(*row[5:9])
        proposed = [(event.stream_id, event.version) for event in wanted if event.topic.startswith("proposal.")]
        if proposed:
            found.proposals = await proposals.read_versions(connection, proposed)
        await self._read_paths(connection, events, {event.position for event in wanted}, found)
        return found

    async def _read_paths(self, connection: Connection, events: Sequence[RecordedEvent], told: set[int], found: Pointers) -> None:
        wanted: list[_WantedPath] = []
        # Where a thing's path is the same as at an earlier event of the batch: it is read once.
        newest: dict[UUID, _WantedPath] = {}
        for event in events:
            noun, _, rest = event.topic.partition(".")
            if noun in ("warehouse", "namespace") and f"{noun}.{rest.rpartition('.')[0]}" not in _NAMES_KEPT:
                self._forget_paths()
                newest.clear()
            if event.position not in told:
                continue
            for place, object_id in zip((found.paths, found.paths_before), _named_objects(event, noun, found), strict=False):
                known = self._paths.get(object_id)
                if known is not None:
                    place[event.position] = known
                    continue
                if object_id not in newest:
                    newest[object_id] = _WantedPath(object_id, event.position)
                    wanted.append(newest[object_id])
                newest[object_id].places.append((place, event.position))
        if wanted:
            parameters = {"ids": [each.object_id for each in wanted], "positions": [each.position for each in wanted]}
            cursor = await connection.execute(_SQL["paths"], parameters, binary=True)
            for number, ids, names in await cursor.fetchall():
                wanted[number - 1].found(Path(tuple(ids), tuple(names)))
        for object_id, each in newest.items():
            if each.path is not None:
                self._keep_path(object_id, each.path)

    def _keep_path(self, object_id: UUID, path: Path) -> None:
        size = held_bytes((object_id, path.ids, path.names))
        if self._paths_bytes + size > _PATHS_BYTES_MAX:
            self._forget_paths()
        self._paths[object_id] = path
        self._paths_bytes += size

    def _forget_paths(self) -> None:
        self._paths.clear()
        self._paths_bytes = 0

    async def read_snapshots(
        self, connection: Connection, found: Pointers, wanted: Sequence[SnapshotKey | None], bytes_max: int | None
    ) -> list[int]:
        """Adds snapshots that events refer to without holding them, as many as `bytes_max` and one more; the bytes of each, 0 of None."""
        sizes = [0] * len(wanted)
        asked = [(number, key) for number, key in enumerate(wanted) if key is not None]
        if not asked:
            return sizes
        ids, versions, snapshot_ids = (list(column) for column in zip(*(key for _, key in asked), strict=True))
        bound = _ANY_BYTES if bytes_max is None else bytes_max
        parameters = {"ids": ids, "versions": versions, "snapshot_ids": snapshot_ids, "kind": _SNAPSHOTS, "bytes_max": bound}
        cursor = await connection.execute(_SQL["snapshots"], parameters, binary=True)
        for row, size, body in await cursor.fetchall():
            number, (table_id, _, snapshot_id) = asked[row]
            sizes[number] = size
            if body is not None:
                found.snapshots[table_id, snapshot_id] = orjson.loads(body)
        return sizes


def _named_objects(event: RecordedEvent, noun: str, found: Pointers) -> tuple[UUID, ...]:
    """Those whose paths the event is told with: what a table or view lies in (and lay in), a proposal's warehouse, else itself."""
    if noun == "proposal":
        return (event.warehouse_id,)
    if noun not in ("table", "view"):
        return (event.stream_id,)
    row = found.rows.get(event.position)
    if row is None:
        return ()
    before = found.rows_before.get(event.position)
    if before is None or before.namespace_id == row.namespace_id:
        return (row.namespace_id,)
    return (row.namespace_id, before.namespace_id)
