"""The causation id of events that no client caused directly."""

import psycopg

from icecore.compose import Application
from tests.fixtures.command_runs import EVERY_KIND, CommandRun

# The topic of an effect, and those of its cause in the same stream; the cause of a task's event is in the stream of its object.
CAUSES = {
    "table.purged.v1": {"table.dropped.v1", "table.expired.v1"},
    "task.deletion-begun.v1": {"table.dropped.v1", "table.expired.v1"},
    "task.attempt-failed.v1": {"table.dropped.v1", "table.expired.v1"},
    "table.expired.v1": {"table.dropped.v1"},
    "view.expired.v1": {"view.dropped.v1"},
    "namespace.expired.v1": {"namespace.dropped.v1"},
    "proposal.approved.v1": {"proposal.opened.v1"},
    "proposal.expired.v1": {"proposal.opened.v1"},
    "proposal.stale.v1": {"proposal.opened.v1"},
}
# Held and approved changes: the cause is in the proposal's stream.
APPROVED = "namespace.properties-changed.v1"


async def test_what_the_server_does_by_itself_names_the_event_that_led_to_it(catalog: Application, database: str) -> None:
    """An expiry has its drop, a purge its drop or expiry, and an approved change and a proposal's end the proposal. Others have none."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    with psycopg.connect(database) as connection:
        events = connection.execute("select topic, originator_id, event_id, causation_id from icecore.events").fetchall()
    caused = {topic for topic, *_, cause in events if cause is not None}
    assert {*CAUSES, APPROVED} == caused
    by_id = {event_id: (topic, stream) for topic, stream, event_id, _ in events}
    for topic, stream, _, cause in events:
        if topic == APPROVED and cause is not None:
            assert "proposal.opened.v1" == by_id[cause][0]
        elif cause is not None:
            assert topic.startswith("task.") or by_id[cause][1] == stream
            assert by_id[cause][0] in CAUSES[topic]
