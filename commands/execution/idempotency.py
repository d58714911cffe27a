"""Idempotency-Key: finds the earlier request of a key and replays its response (REST spec, "Idempotency-Key")."""

from dataclasses import dataclass
from datetime import timedelta

from ...access.request_context import RequestContext
from ...database.connections import Connection
from ...database.named_sql import named_sql
from ...domain.errors import UnprocessableEntity
from ...projections import response_bodies, tables, views
from .append_request import IdempotencyRecord
from .command_response import CommandResponse

_SQL = named_sql("icecore.commands.execution", "idempotency.sql")


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The stored result of the first request with a key.

    commits_wait_for_standbys -- whether commits now wait for standbys. That of the first request may not have waited to the end.
    """

    idempotency_record: IdempotencyRecord
    position: int
    operation: str
    commits_wait_for_standbys: bool


async def find(connection: Connection, context: RequestContext) -> StoredResponse | None:
    """The first request with the context's key, if there is one. Raises UnprocessableEntity if it was a different request."""
    cursor = await connection.execute(
        _SQL["find_idempotency_record"],
        {"project_id": context.project_id, "actor": context.principal.id, "key": context.idempotency_key},
        binary=True,
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    status, object_id, version, body, position, operation, request_hash, commits_wait_for_standbys = row
    if request_hash != context.request_hash:
        raise key_reused_error()
    return StoredResponse(IdempotencyRecord(status, object_id, version, body), position, operation, commits_wait_for_standbys)


def key_reused_error() -> UnprocessableEntity:
    return UnprocessableEntity("Idempotency-Key was already used for a different request")


async def replayed_response(connection: Connection, stored: StoredResponse) -> CommandResponse:
    """The first response, byte for byte, built from the row of the object's version at that time."""
    record = stored.idempotency_record
    if record.object_id is None or record.version is None or record.body is not None:
        return CommandResponse(record.status, record.body, stored.position)
    if stored.operation in _OF_VIEWS:
        view = await views.load_version(connection, record.object_id, record.version)
        assert view is not None, "rows outlive keys"
        return CommandResponse(record.status, response_bodies.load_view_result(view), stored.position)
    table = await tables.load_version(connection, record.object_id, record.version)
    assert table is not None, "rows outlive keys"
    body = response_bodies.load_table_result(table) if stored.operation in _LOADING else response_bodies.commit_table_response(table)
    etag = None if stored.operation in _WITHOUT_ETAG else response_bodies.table_etag(table.event_id)
    return CommandResponse(record.status, body, stored.position, etag)


_OF_VIEWS = frozenset({"createView", "registerView", "replaceView"})
# Their response is a LoadTableResult, that of other operations a CommitTableResponse.
_LOADING = frozenset({"createTable", "registerTable"})
# Afterwards there is no table to load.
_WITHOUT_ETAG = frozenset({"unregisterTable"})


async def delete_expired(connection: Connection, lifetime: timedelta) -> int:
    """Deletes the keys that are older than `lifetime`. Returns their number."""
    cursor = await connection.execute(_SQL["delete_expired"], {"lifetime": lifetime})
    return cursor.rowcount
