"""Small events that refer to large documents: the size of a batch for a sink is limited."""

from pathlib import Path
from types import SimpleNamespace

import psycopg

from icecore.compose import Application
from icecore.log.follow import read_events
from icecore.publishers.cloud_events import encode_json
from icecore.publishers.enricher import EventEnricher
from icecore.publishers.event_filter import EventFilter
from icecore.publishers.publisher import ENRICHED_BYTES_MAX, messages_of
from tests.fixtures.catalog import catalog
from tests.fixtures.command_runs import CommandRun
from tests.integration.history.test_event_pages import as_sinks_have_it
from tests.integration.history.test_event_stream import SUMMARY_BYTES, roll_back

__all__ = ["catalog"]


async def test_a_batch_for_a_sink_is_cut_by_what_its_events_refer_to(catalog: Application, database: str, tmp_path: Path) -> None:
    """Every event is published once, in order. The 38 MB are never in memory together."""
    run = await CommandRun.on(catalog)
    await roll_back(run, tmp_path / "warehouse")
    whole, published, batches, after = await as_sinks_have_it(database), list[bytes](), list[int](), 0
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        lead, enricher = SimpleNamespace(connection=connection), EventEnricher()
        while events := await read_events(connection, after, 500):
            taken, messages = await messages_of(lead, enricher, events, frozenset(), [EventFilter()], "icecore")  # type: ignore[arg-type]
            encoded = [encode_json(message) for message in messages]
            published += encoded
            batches.append(sum(map(len, encoded)))
            after = taken[-1].position
    assert whole == published
    # Plus the states of the two events with the summaries, and one event.
    assert max(batches) <= ENRICHED_BYTES_MAX + 5 * SUMMARY_BYTES < sum(batches)
    assert len(batches) > 5
