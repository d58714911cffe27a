"""The log as the pipeline reads it from Postgres, without Spark."""

import asyncio
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from icecore.compose import Application
from icecore.pipeline.event_source import SourceError
from icecore.pipeline.log_source import LogSource
from tests.integration.test_purge_job import a_table, the_warehouse


async def test_a_log_with_a_gap_is_refused(catalog: Application, tmp_path: Path) -> None:
    """Wherever a range begins, and at the end: what is landed is never landed again."""
    await a_table(catalog, await the_warehouse(catalog), "t", tmp_path / "warehouse" / "t")
    source = LogSource(catalog.dsn, UUID(int=0))
    head = await asyncio.to_thread(source.last_position_to_land, 0)
    assert head is not None
    rows = await asyncio.to_thread(lambda: list(source.read([(0, 2), (2, head)])))
    assert [*range(1, head + 1)] == [row[0] for row in rows]
    with psycopg.connect(catalog.dsn) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute("delete from icecore.events where notification_id = %s", [head - 1])
    for after, to, last in ((0, head, 0), (head - 2, head, head - 2), (head - 2, head - 1, head - 2), (head - 1, head + 1, head)):
        with pytest.raises(SourceError, match=f"^The log has a gap after position {last}: run icecore verify$"):
            await asyncio.to_thread(lambda given: list(source.read([given])), (after, to))
