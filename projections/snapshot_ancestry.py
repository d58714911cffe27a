"""Whether a table has reached a snapshot: it is or was the current one, or an ancestor of one that is or was."""

from dataclasses import dataclass
from uuid import UUID

import orjson

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.documents import TABLE_KINDS

_SQL = named_sql("icecore.projections", "snapshot_ancestry.sql")
_SNAPSHOTS = 1 + TABLE_KINDS.index("snapshots")
_SNAPSHOT_LOG = 1 + TABLE_KINDS.index("snapshot-log")


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """The current snapshot of a table at its newest version; None if it has none."""

    version: int
    is_live: bool
    current_snapshot_id: int | None


async def read_snapshot_state(connection: Connection, table_id: UUID) -> SnapshotState:
    """Reads the table's newest version."""
    cursor = await connection.execute(_SQL["standing"], {"table_id": table_id}, binary=True)
    row = await cursor.fetchone()
    assert row is not None, "a table that has a name has a row"
    version, status, head = row
    return SnapshotState(version, status == "live", _current_snapshot_id(head))


async def is_ancestor(connection: Connection, table_id: UUID, current_snapshot_id: int | None, snapshot_id: int) -> bool:
    """Whether the snapshot is or was current, or is an ancestor of such a snapshot, including snapshots that have expired since.

    So a snapshot that was reached stays reached. A snapshot to which only a branch or tag refers, or nothing, is not reached.
    """
    if current_snapshot_id == snapshot_id:
        return True
    parameters = {"table_id": table_id, "snapshot_id": snapshot_id, "snapshots": _SNAPSHOTS}
    cursor = await connection.execute(_SQL["added"], parameters, binary=True)
    row = await cursor.fetchone()
    if row is None:
        return False
    # Usually the version that added it also made it current. Then nothing else is read.
    if _current_snapshot_id(row[0]) == snapshot_id:
        return True
    cursor = await connection.execute(_SQL["logged"], {**parameters, "snapshot_log": _SNAPSHOT_LOG}, binary=True)
    # The snapshots that were once current, then their ancestors.
    leading = [current_snapshot_id, *(logged for (logged,) in await cursor.fetchall())]
    cursor = await connection.execute(_SQL["parents"], parameters, binary=True)
    parents: dict[int, int | None] = dict(await cursor.fetchall())
    while leading:
        ancestor = leading.pop()
        if ancestor == snapshot_id:
            return True
        # Removed, so that no path is followed twice, and a cycle in a registered file ends.
        if ancestor is not None and ancestor in parents:
            leading.append(parents.pop(ancestor))
    return False


def _current_snapshot_id(head: bytes) -> int | None:
    """Before v3, -1 means that there is none."""
    current: int | None = orjson.loads(head)["current-snapshot-id"]
    return None if current == -1 else current
