"""Proposals: one row for each version, and its queries."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.errors import NoSuchProposal
from ..domain.proposal import ProposalState, ProposalStatus

ReserveMemory = Callable[[bytes], Awaitable[None]]

LISTED_BYTES_MAX = 16 * 1024 * 1024
"""Limit on the stored documents of one page, which Postgres parses to omit their commands. The last one may exceed it."""

_SQL = named_sql("icecore.projections", "proposals.sql")


async def read_state(
    connection: Connection, proposal_id: UUID, reserve_memory: ReserveMemory | None = None
) -> tuple[ProposalState, int] | None:
    """The newest state, and the generation it was read from. `reserve_memory` is called with its JSON before that is parsed."""
    row = await (await connection.execute(_SQL["state"], {"proposal_id": proposal_id}, binary=True)).fetchone()
    if row is None:
        return None
    if reserve_memory is not None:
        await reserve_memory(row[-2])
    return _state(row), row[-1]


async def find(connection: Connection, proposal_id: UUID, reserve_memory: ReserveMemory | None = None) -> ProposalState:
    """The newest state. Raises NoSuchProposal. `reserve_memory` as in `read_state`."""
    found = await read_state(connection, proposal_id, reserve_memory)
    if found is None:
        raise no_such_proposal(proposal_id)
    return found[0]


async def is_in_project(connection: Connection, project_id: UUID, proposal_id: UUID) -> bool:
    """Whether the proposal exists in the project."""
    row = await (await connection.execute(_SQL["in_project"], {"project_id": project_id, "proposal_id": proposal_id})).fetchone()
    assert row is not None, "one row"
    return bool(row[0])


def no_such_proposal(proposal_id: UUID) -> NoSuchProposal:
    return NoSuchProposal(f"Proposal does not exist: {proposal_id}")


async def read_versions(connection: Connection, wanted: Sequence[tuple[UUID, int]]) -> dict[tuple[UUID, int], ProposalState]:
    """States by id and version, without their commands."""
    parameters = {"ids": [proposal_id for proposal_id, _ in wanted], "versions": [version for _, version in wanted]}
    cursor = await connection.execute(_SQL["versions"], parameters, binary=True)
    return {(row[0], row[1]): _state(row) for row in await cursor.fetchall()}


async def open_for(connection: Connection, warehouse_id: UUID, command_key: str) -> UUID | None:
    """The open proposal for a change, if there is one. It may have expired already."""
    row = await (await connection.execute(_SQL["open_for"], {"warehouse_id": warehouse_id, "command_key": command_key})).fetchone()
    return None if row is None else row[0]


async def due(connection: Connection, now_ms: int, limit: int) -> list[UUID]:
    """Open proposals that have expired, oldest first."""
    return [row[0] for row in await (await connection.execute(_SQL["due"], {"now_ms": now_ms, "limit": limit})).fetchall()]


async def read_page(
    connection: Connection,
    *,
    project_id: UUID,
    warehouse_id: UUID | None,
    status: ProposalStatus | None,
    as_of: int | None,
    after: UUID | None,
    size: int,
) -> tuple[list[ProposalState], bool]:
    """Proposals of a project, without their commands, oldest first, after the id `after`; as of a position if it is given.

    Returns at most `size`, fewer if they reach LISTED_BYTES_MAX, and whether there are more.
    """
    block = "list_open" if status == "open" and as_of is None else "list"
    # One more is read to see whether there is a next page.
    parameters = {"warehouse_id": warehouse_id, "status": status, "as_of": as_of, "after": after, "size": size + 1}
    cursor = await connection.execute(_SQL[block], {**parameters, "project_id": project_id, "bytes_max": LISTED_BYTES_MAX}, binary=True)
    rows = await cursor.fetchall()
    page = [_state(row[:-1]) for row in rows[:size]]
    return page, bool(rows) and rows[0][-1] > len(page)


async def have_moved_on(connection: Connection, newest_events: Mapping[UUID, UUID], parents: Sequence[UUID]) -> bool:
    """Whether the newest event of an object differs from that in `newest_events`, or one of `parents` no longer exists."""
    parameters = {"ids": [*newest_events], "event_ids": [*newest_events.values()], "parents": parents}
    row = await (await connection.execute(_SQL["moved_on"], parameters)).fetchone()
    assert row is not None
    return bool(row[0])


def _state(row: tuple[Any, ...]) -> ProposalState:
    proposal_id, version, event_id, warehouse_id, status, operation, command_key, hook, reason, expires_at_ms, document, _ = row
    rest = orjson.loads(document)
    return ProposalState(
        proposal_id,
        version,
        event_id,
        warehouse_id,
        status,
        operation,
        command_key,
        rest["command"],
        rest["actor"],
        hook,
        reason,
        rest["opened-at-ms"],
        expires_at_ms,
        rest["objects"],
        rest["decided-by"],
        rest["decision-reason"],
    )
