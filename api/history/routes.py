"""The addresses of history, added to the application."""

from aiohttp import web

from api.call import Call
from api.edge import OPERATION
from api.history import events, wait
from api.history.event_source import EVENTS, EventSource
from api.history.event_stream import LARGE_EVENTS
from api.history.large_events import LargeEvents
from api.routing import Operation

OPERATIONS = (
    Operation("listEvents", "GET", "/history/v1/events", events.list_events, parameters=events.LIST_PARAMETERS),
    Operation("loadEvent", "GET", "/history/v1/events/{event_id}", events.load_event, parameters=frozenset({"dialect"})),
    Operation("wait", "GET", "/history/v1/wait", wait.wait, parameters=wait.PARAMETERS),
)


def add_history(app: web.Application, source: EventSource) -> None:
    """Adds them to an application that has not started; who waits comes to an end when it shuts down."""
    app[EVENTS] = source
    app[LARGE_EVENTS] = LargeEvents()
    for operation in OPERATIONS:
        _add(app, operation)
    app.on_shutdown.append(_stop)


def _add(app: web.Application, operation: Operation) -> None:
    async def serve(request: web.Request) -> web.StreamResponse:
        request[OPERATION] = operation
        return await operation.handler(Call(request.app, request, operation, request.match_info))

    app.router.add_route(operation.method, operation.path, serve)


async def _stop(app: web.Application) -> None:
    app[EVENTS].stop()
