"""The operations of the history API."""

from ..api_request import PROJECT_PARAMETER
from ..routing import Operation
from . import events, wait

_EVENTS = "/history/v1/events"

OPERATIONS = (
    Operation("listEvents", "GET", _EVENTS, events.list_events, long_lived=True, parameters=events.LIST_PARAMETERS),
    Operation("loadEvent", "GET", f"{_EVENTS}/{{event_id}}", events.load_event, parameters=frozenset({"dialect", PROJECT_PARAMETER})),
    Operation("wait", "GET", "/history/v1/wait", wait.wait, long_lived=True, parameters=wait.PARAMETERS),
)
