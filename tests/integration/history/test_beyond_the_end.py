"""A position or a time beyond the end of the log is refused by every operation, instead of using the current state."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from icecore.api.paging import listing_digest, page_token
from icecore.compose import Application
from tests.fixtures.catalog import PROJECT_ID
from tests.fixtures.operator_commands import icecore
from tests.integration.history.serving import Served
from tests.integration.history.test_event_pages import head

TOMORROW = datetime.now(UTC) + timedelta(days=1)
STREAM = {"Accept": "text/event-stream"}
EVENTS_PARTS = ("events", str(PROJECT_ID), "icecore", "", "")
"""The digest in a page token of events without filters."""

# Requests with {beyond}, a position that the log does not have, and {tomorrow}.
PLACES: dict[str, tuple[str, str, dict[str, str], dict[str, Any] | None]] = {
    "warehouse at a position": ("GET", "/catalog/v1/demo@{beyond}/namespaces", {}, None),
    "warehouse at a time": ("GET", "/catalog/v1/demo@{tomorrow}/namespaces", {}, None),
    "config at a position": ("GET", "/catalog/v1/config?warehouse=demo@{beyond}", {}, None),
    "proposals at a position": ("GET", "/management/v1/proposals?warehouse=demo@{beyond}", {}, None),
    "proposals at a time": ("GET", "/management/v1/proposals?warehouse=demo@{tomorrow}", {}, None),
    "events after": ("GET", "/history/v1/events?after={beyond}", {}, None),
    "events after, waiting": ("GET", "/history/v1/events?after={beyond}&wait-seconds=30", {}, None),
    "events to": ("GET", "/history/v1/events?to={beyond}", {}, None),
    "events by a page token": ("GET", "/history/v1/events?page-token={events_token}", {}, None),
    "stream after": ("GET", "/history/v1/events?after={beyond}", STREAM, None),
    "stream after the last event": ("GET", "/history/v1/events", {**STREAM, "Last-Event-ID": "{beyond}"}, None),
    "proposed events since": ("POST", "/catalog/v1/demo/events", {}, {"since-timestamp-ms": int(TOMORROW.timestamp() * 1000)}),
    "proposed events by a token": ("POST", "/catalog/v1/demo/events", {}, {"continuation-token": "{query_token}"}),
    "proposed events at a position": ("POST", "/catalog/v1/demo@{beyond}/events", {}, {}),
}


async def test_a_position_or_time_beyond_the_end_is_refused(served: Served) -> None:
    """400 with the reason. The same requests with the last position succeed."""
    end = await head(served)
    assert dict.fromkeys(PLACES, (400, True)) == {place: await asked(served, place, end + 1, TOMORROW) for place in PLACES}
    positions = [place for place in PLACES if "time" not in place and place != "proposed events since"]
    assert dict.fromkeys(positions, 200) == {place: (await asked(served, place, end, TOMORROW, ends=True))[0] for place in positions}


async def asked(served: Served, place: str, beyond: int, tomorrow: datetime, *, ends: bool = False) -> tuple[int, bool]:
    """The status, and whether the error is about the end of the log. `ends` -- the response is not read to its end."""
    method, path, headers, body = PLACES[place]
    warehouse = (await served.ask("GET", "/catalog/v1/config?warehouse=demo")).json["overrides"]["prefix"]
    values = {
        "beyond": str(beyond),
        "tomorrow": tomorrow.isoformat().replace("+00:00", "Z"),
        "events_token": page_token(listing_digest(*EVENTS_PARTS, ""), str(beyond)),
        "query_token": page_token(listing_digest("queryEvents", warehouse), str(beyond)),
    }
    path = path.format(**values)
    if ends:
        path = path.replace("&wait-seconds=30", "")
    headers = {name: value.format(**values) for name, value in headers.items()}
    body = None if body is None else {name: value.format(**values) if isinstance(value, str) else value for name, value in body.items()}
    async with served.session.request(method, served.url + path, json=body, headers=headers) as response:
        if response.status == 200 and headers.get("Accept") == STREAM["Accept"]:
            return 200, False
        return response.status, "beyond the end of the log" in await response.text()


@pytest.mark.parametrize(
    "arguments",
    [
        ("log", "--from", "99"),
        ("log", "--follow", "--from", "99"),
        ("sinks", "replay", "printed", "--from", "99"),
        ("sinks", "replay", "printed", "--from", "1", "--to", "99"),
        ("sinks", "skip", "printed", "99", "--reason", "x"),
    ],
    ids=" ".join,
)
def test_the_command_line_refuses_it_too(database: str, arguments: tuple[str, ...]) -> None:
    done = icecore(database, *arguments, ICECORE_SINKS__PRINTED__TYPE="stdout")
    assert (2, "") == (done.returncode, done.stdout), done.stderr
    assert "99 is not in the log, which has no events yet" in done.stderr if arguments[1] == "replay" else "99" in done.stderr


async def test_a_wait_for_what_is_to_come_waits(served: Served, catalog: Application) -> None:
    """Waiting for a future position is the purpose of this operation."""
    end = await head(served)
    assert {"reached": False, "position": end} == (await served.get("/wait", position=end + 1, wait_seconds=0)).json
