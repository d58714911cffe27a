"""The JSON Schemas of events, by CloudEvent type: what `dataschema` of an event names."""

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from api.targets import check_parameters
from domain.errors import NotFound

_ADDRESS = "/management/v1/events/schemas"
# Schemas change with the program alone.
_HEADERS = {"Cache-Control": "public, max-age=3600"}


def add_event_schemas(app: web.Application, schemas: Mapping[str, dict[str, Any]]) -> None:
    """Adds `GET /management/v1/events/schemas` (all of them) and `…/<type>` (one) to an application that has not started."""
    bodies = {name: orjson.dumps(schema) for name, schema in schemas.items()}
    every = orjson.dumps({"schemas": schemas})

    async def list_event_schemas(request: web.Request) -> web.Response:
        check_parameters(request.rel_url.raw_query_string, ())
        return web.Response(body=every, content_type="application/json", headers=_HEADERS)

    async def load_event_schema(request: web.Request) -> web.Response:
        check_parameters(request.rel_url.raw_query_string, ())
        body = bodies.get(request.match_info["type"])
        if body is None:
            raise NotFound(f"No event has the type {request.match_info['type'][:200]!r}; GET {_ADDRESS} lists them")
        return web.Response(body=body, content_type="application/schema+json", headers=_HEADERS)

    app.router.add_get(_ADDRESS, list_event_schemas)
    app.router.add_get(_ADDRESS + "/{type}", load_event_schema)
