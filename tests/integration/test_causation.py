"""What led to an event, where no client did."""

import psycopg

from icecore.compose import Catalog
from tests.fixtures.command_runs import EVERY_KIND, CommandRun

# Topic of the effect, and of its cause in the same stream.
CAUSES = {"table.purged.v1": "table.dropped.v1", "proposal.expired.v1": "proposal.opened.v1"}


async def test_what_the_server_does_by_itself_names_the_event_that_led_to_it(catalog: Catalog, database: str) -> None:
    """A purge its drop, an expiry its proposal; what a client asked for names nothing."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    with psycopg.connect(database) as connection:
        events = connection.execute("select topic, originator_id, event_id, causation_id from icecore.events").fetchall()
    caused = {topic for topic, *_, cause in events if cause is not None}
    assert CAUSES.keys() == caused
    by_id = {event_id: (topic, stream) for topic, stream, event_id, _ in events}
    assert all(by_id[cause] == (CAUSES[topic], stream) for topic, stream, _, cause in events if cause is not None)
