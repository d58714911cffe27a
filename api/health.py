"""Health of this process, for operators and for the platform that runs it."""

from typing import Any

import orjson
from aiohttp import web

from .api_request import ApiRequest


async def get_health(request: ApiRequest) -> web.Response:
    """200 if the process can serve, else 503 with the reason."""
    state = await request.catalog.health()
    return _state(state, healthy=state.get("status") == "ok")


async def get_liveness(_call: ApiRequest) -> web.Response:
    """200 as long as the process responds, even if Postgres is unreachable, because a restart would not fix that."""
    return _state({"status": "ok"}, healthy=True)


async def get_readiness(request: ApiRequest) -> web.Response:
    """200 if requests should be sent to this process, else 503 with the reason."""
    reason = await request.catalog.unready_reason()
    serving = {"status": "ok", "read-only": True} if request.catalog.read_only else {"status": "ok"}
    return _state(serving if reason is None else {"status": "unavailable", "reason": reason}, healthy=reason is None)


def _state(state: dict[str, Any], *, healthy: bool) -> web.Response:
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    return web.Response(status=200 if healthy else 503, body=orjson.dumps(state), headers=headers)
