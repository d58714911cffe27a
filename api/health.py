"""Health: whether this process can serve."""

import orjson
from aiohttp import web

from .api_request import ApiRequest


async def get_health(call: ApiRequest) -> web.Response:
    """200 where it can, else 503; the body says why not."""
    state = await call.catalog.health()
    status = 200 if state.get("status") == "ok" else 503
    return web.Response(status=status, body=orjson.dumps(state), headers={"Content-Type": "application/json", "Cache-Control": "no-store"})
