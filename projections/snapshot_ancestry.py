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
class Standing:
    """Where a table stands at its newest version; no current snapshot is None."""

    version: int
    is_live: bool
    current_snapshot_id: int | None


async def read_snapshot_state(connection: Connection, table_id: UUID) -> Standing:
    """The table's newest version."""
    cursor = await connection.execute(_SQL["standing"], {"table_id": table_id}, binary=True)
    row = await cursor.fetchone()
    assert row is not None, "a table that has a name has a row"
    version, status, head = row
    return Standing(version, status == "live", _current_snapshot_id(head))


async def is_ancestor(connection: Connection, table_id: UUID, current_snapshot_id: int | None, snapshot_id: int) -> bool:
    """Whether the snapshot is the current one, was it, or is an ancestor of one that is or was; those that expired since included.

    So what was reached stays reached. A snapshot that only a branch or tag leads to, or nothing, is in the table and not reached.
    """
    if current_snapshot_id == snapshot_id:
        return True
    parameters = {"table_id": table_id, "snapshot_id": snapshot_id, "snapshots": _SNAPSHOTS}
    cursor = await connection.execute(_SQL["added"], parameters, binary=True)
    row = await cursor.fetchone()
    if row is None:
        return False
    # The version that brought it mostly made it the current one too: then nothing else is read.
    if _current_snapshot_id(row[0]) == snapshot_id:
        return True
    cursor = await connection.execute(_SQL["logged"], {**parameters, "snapshot_log": _SNAPSHOT_LOG}, binary=True)
    # What was once the current snapshot, and then what leads to one of these.
    leading = [current_snapshot_id, *(logged for (logged,) in await cursor.fetchall())]
    cursor = await connection.execute(_SQL["parents"], parameters, binary=True)
    parents: dict[int, int | None] = dict(await cursor.fetchall())
    while leading:
        ancestor = leading.pop()
        if ancestor == snapshot_id:
            return True
        # Taken out, so that no way is gone twice, and a circle in what somebody registered ends.
        if ancestor is not None and ancestor in parents:
            leading.append(parents.pop(ancestor))
    return False


def _current_snapshot_id(head: bytes) -> int | None:
    """-1 stands for none below v3."""
    current: int | None = orjson.loads(head)["current-snapshot-id"]
    return None if current == -1 else current
