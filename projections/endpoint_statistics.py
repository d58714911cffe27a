"""Reads and writes the calls of each operation by the hour, which access/endpoint_statistics.py counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.projections", "endpoint_statistics.sql")

NO_WAREHOUSE = UUID(int=0)


@dataclass(frozen=True, slots=True)
class EndpointCalls:
    """The calls of one operation in one hour that had one status.

    hour -- its beginning, in UTC. http_route -- such as `GET /catalog/v1/{prefix}/namespaces`. warehouse_id -- None: of no warehouse.
    warehouse_name -- None also for a deleted one. first_at, last_at -- of the first and the last call.
    """

    hour: datetime
    http_route: str
    status_code: int
    count: int
    warehouse_id: UUID | None
    warehouse_name: str | None
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class CountedCalls:
    """Calls to be added; warehouse_id -- as the request named it."""

    project_id: UUID
    hour: datetime
    warehouse_id: UUID
    http_route: str
    status_code: int
    count: int
    first_at: datetime
    last_at: datetime


async def add_calls(connection: Connection, calls: Sequence[CountedCalls]) -> None:
    await connection.execute(
        _SQL["add"],
        {
            "project_ids": [each.project_id for each in calls],
            "hours": [each.hour for each in calls],
            "warehouse_ids": [each.warehouse_id for each in calls],
            "http_routes": [each.http_route for each in calls],
            "status_codes": [each.status_code for each in calls],
            "counts": [each.count for each in calls],
            "first_at": [each.first_at for each in calls],
            "last_at": [each.last_at for each in calls],
        },
    )


async def forget_calls(connection: Connection, before: datetime) -> None:
    """Deletes the calls of hours that began before."""
    await connection.execute(_SQL["forget"], {"before": before})


async def read_calls(
    connection: Connection,
    project_id: UUID,
    *,
    after: datetime,
    upto: datetime,
    warehouse_id: UUID | None,
    status_codes: Sequence[int] | None,
    limit: int,
) -> list[EndpointCalls]:
    """At most `limit`, of the hours that begin after `after` and not after `upto`, the newest first.

    warehouse_id -- only of this warehouse, or of none (NO_WAREHOUSE); None: of all. status_codes -- only with these; None: with any.
    """
    parameters = {
        "project_id": project_id,
        "after": after,
        "upto": upto,
        "warehouse_id": warehouse_id,
        "status_codes": None if status_codes is None else [*status_codes],
        "limit": limit,
    }
    rows = await (await connection.execute(_SQL["page"], parameters, binary=True)).fetchall()
    return [
        EndpointCalls(
            hour.astimezone(UTC),
            route,
            status,
            count,
            None if of == NO_WAREHOUSE else of,
            name,
            first.astimezone(UTC),
            last.astimezone(UTC),
        )
        for hour, route, status, count, of, name, first, last in rows
    ]
