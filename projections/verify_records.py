"""Verification of what stands beside the log and refers to it: secrets, and the positions of sinks."""

from typing import TYPE_CHECKING

from migrations.named_sql import named_sql
from projections.postgres import Connection

if TYPE_CHECKING:
    from projections.verify import VerifyReport

_SQL = named_sql("projections", "verify_records.sql")


async def check_secrets(connection: Connection, report: "VerifyReport") -> None:
    """Every secret that a warehouse refers to is there; whether it can be decrypted is not looked at."""
    cursor = await connection.execute(_SQL["secrets"], {"generation": report.generation})
    for warehouse_id, version, secret_ref, destroyed_at in await cursor.fetchall():
        key = f"id {secret_ref}, of warehouse_id {warehouse_id}, version {version}"
        if destroyed_at is None:
            report.add("secrets", key, None, (secret_ref,), None)
        else:
            report.add("secrets", key, "destroyed_at", None, destroyed_at)


async def check_sinks(connection: Connection, report: "VerifyReport") -> None:
    """No sink has published, passed over or is to replay what the log does not have."""
    for table, key, column, position in await (await connection.execute(_SQL["sinks"], {"head": report.head})).fetchall():
        report.add(table, key, column, f"a position up to {report.head}", position)
    for key, expected, found in await (await connection.execute(_SQL["skips"])).fetchall():
        report.add("sink_skips", key, "event_id", expected, found)
