"""Verifies the position that an asynchronous read model has reached."""

from typing import LiteralString

from ..database.postgres import Connection
from .verify_report import VerifyReport

_APPLICATION = "Icecore"


async def tracked_position(connection: Connection, report: VerifyReport, table: str, select: LiteralString) -> int:
    """The position in the tracking table, 0 if it has none. Reports a missing position, and positions of other applications.

    select -- reads application_name and notification_id.
    """
    tracking: dict[str, int] = dict(await (await connection.execute(select)).fetchall())
    position = tracking.pop(_APPLICATION, None)
    if position is None:
        report.add(table, f"application_name {_APPLICATION}", None, "a position", None)
    for name, other in tracking.items():
        report.add(table, f"application_name {name}", None, None, other)
    return position or 0


def check_position(report: VerifyReport, table: str, position: int) -> None:
    """Reports a position that is not in the log."""
    if not 0 <= position <= report.head:
        report.add(table, f"application_name {_APPLICATION}", "notification_id", f"a position up to {report.head}", position)
