"""Verifies records that refer to the log but are not folded from it: refusals, Idempotency-Keys, old metadata files, secrets, sinks."""

from collections.abc import AsyncGenerator

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.read_models.definitions import Row
from .verify_report import VerifyReport

_SQL = named_sql("icecore.projections", "verify_records.sql")

# Rows fetched at once from one table.
_FETCH_ROWS = 200


async def check_records(connection: Connection, report: VerifyReport) -> None:
    """Checks what refusals and Idempotency-Keys refer to in the log."""
    async for batch in _rows(connection, "refusals"):
        for command_id, last_position, recorded_at, not_before, not_after in batch:
            key = f"command_id {command_id}"
            if last_position < 0 or (last_position > 0 and not_before is None):
                report.add("commands", key, "last_position", f"a position up to {report.head}", last_position)
            else:
                report.add("commands", key, "recorded_at", f"from {not_before} to {not_after}", recorded_at)
    async for batch in _rows(connection, "idempotency"):
        for row in batch:
            _check_key(row, report)


def _check_key(row: Row, report: VerifyReport) -> None:
    project_id, actor, key, command_id, position, recorded_at, object_id, version, status = row[:9]
    last_position, command_recorded_at, event_actor, event_project_id, found_version, has_events, keys = row[9:16]
    own_version, expected_hash, recorded_hash = row[16:]
    where = f"project_id {project_id}, actor {actor}, key {key}"
    if last_position is None:
        report.add("idempotency", where, "command_id", "the id of a command", command_id)
        return
    for column, expected, found in (
        ("position", last_position, position),
        ("recorded_at", command_recorded_at, recorded_at),
        ("actor", event_actor or actor, actor),
        ("project_id", event_project_id or project_id, project_id),
    ):
        if expected != found:
            report.add("idempotency", where, column, expected, found)
    if keys > 1:
        report.add("idempotency", where, "command_id", "a command of this key only", command_id)
    if not 200 <= status < 500 or (has_events and status >= 400):
        report.add("idempotency", where, "status", "from 200 to 399" if has_events else "from 200 to 499", status)
    if (object_id is None) != (version is None) or (object_id is not None and found_version is None):
        report.add("idempotency", where, "object_id, version", "a version in the log", (object_id, version))
    if own_version is not None and own_version != version:
        report.add("idempotency", where, "version", own_version, version)
    if expected_hash != recorded_hash:
        report.add("idempotency", where, "hash", expected_hash, recorded_hash)


async def check_secrets(connection: Connection, report: VerifyReport) -> None:
    """Checks that every secret that a warehouse refers to exists, but not whether it can be decrypted."""
    cursor = await connection.execute(_SQL["secrets"], {"generation": report.generation}, binary=True)
    for warehouse_id, version, secret_ref, destroyed_at in await cursor.fetchall():
        key = f"id {secret_ref}, of warehouse_id {warehouse_id}, version {version}"
        if destroyed_at is None:
            report.add("secrets", key, None, (secret_ref,), None)
        else:
            report.add("secrets", key, "destroyed_at", None, destroyed_at)


async def check_sinks(connection: Connection, report: VerifyReport) -> None:
    """Checks that the positions, skips and replays of sinks are in the log."""
    for table, key, column, position in await (await connection.execute(_SQL["sinks"], {"head": report.head})).fetchall():
        report.add(table, key, column, f"a position up to {report.head}", position)
    for key, expected, found in await (await connection.execute(_SQL["skips"])).fetchall():
        report.add("sink_skips", key, "event_id", expected, found)


async def check_old_metadata_files(connection: Connection, report: VerifyReport) -> None:
    """Checks that files to be deleted are metadata files in locations that their tables have claimed."""
    async for batch in _rows(connection, "old_metadata_files"):
        for key, location, key_is_its_own, is_metadata in batch:
            if key_is_its_own and not is_metadata:
                report.add("old_metadata_files", f"key {key}", "location", "a metadata file", location)
            elif key_is_its_own:
                report.add("old_metadata_files", f"key {key}", "table_id", "a table that has claimed its location", location)
            else:
                report.add("old_metadata_files", f"key {key}", "location", "the file of this key", location)


async def _rows(connection: Connection, block: str) -> AsyncGenerator[list[Row], None]:
    """Yields the rows of a query, _FETCH_ROWS at a time, from a server-side cursor."""
    async with connection.cursor(name=f"verify_{block}") as cursor:
        await cursor.execute(_SQL[block], binary=True)
        while batch := await cursor.fetchmany(_FETCH_ROWS):
            yield batch
