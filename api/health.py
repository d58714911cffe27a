"""Health: whether this process can serve, for operators and for the platform that runs it."""

from typing import Any

import orjson
from aiohttp import web

from .api_request import ApiRequest


async def get_health(call: ApiRequest) -> web.Response:
    """200 where it can, else 503; the body says why not."""
    state = await call.catalog.health()
    return _state(state, healthy=state.get("status") == "ok")


async def get_liveness(_call: ApiRequest) -> web.Response:
    """200 as long as the process answers, whatever becomes of Postgres: a restart would not mend that."""
    return _state({"status": "ok"}, healthy=True)


async def get_readiness(call: ApiRequest) -> web.Response:
    """200 where requests should be sent to this process, else 503 with the reason."""
    reason = await call.catalog.unready_reason()
    return _state({"status": "ok"} if reason is None else {"status": "unavailable", "reason": reason}, healthy=reason is None)


def _state(state: dict[str, Any], *, healthy: bool) -> web.Response:
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    return web.Response(status=200 if healthy else 503, body=orjson.dumps(state), headers=headers)
