"""JSON Schemas of events by CloudEvent type; `dataschema` of an event names them."""

import orjson
from aiohttp import web

from ...domain.errors import NotFound
from ..api_request import ApiRequest
from ..path_parameters import decode_segment

ADDRESS = "/management/v1/events/schemas"
# Schemas change only with the program.
_HEADERS = {"Cache-Control": "public, max-age=3600"}


async def list_event_schemas(request: ApiRequest) -> web.Response:
    body = orjson.dumps({"schemas": request.catalog.event_schemas})
    return web.Response(body=body, content_type="application/json", headers=_HEADERS)


async def load_event_schema(request: ApiRequest) -> web.Response:
    name = decode_segment(request.segments["type"], "event type")
    schema = request.catalog.event_schemas.get(name)
    if schema is None:
        raise NotFound(f"Event type does not exist: {name[:200]!r}; GET {ADDRESS} lists all types")
    return web.Response(body=orjson.dumps(schema), content_type="application/schema+json", headers=_HEADERS)
