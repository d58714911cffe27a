"""Configuration of clients (spec: /v1/config)."""

from aiohttp import web

from ...access.authorization import Resource
from ..api_request import SEPARATOR, ApiRequest
from ..limits import iso_8601_duration
from ..routing import ROUTES


async def get_config(call: ApiRequest) -> web.Response:
    """Returns the prefix of a warehouse, with a position if the client requested a past state, and where its store is. 404 for an
    unknown warehouse.
    """
    warehouse = await call.named_warehouse(call.query.get("warehouse") or None)
    await call.authorize(Resource("warehouse", warehouse.id))
    overrides = {"prefix": warehouse.prefix}
    separator = call.app[SEPARATOR]
    if separator is not None:
        overrides["namespace-separator"] = "".join(f"%{byte:02X}" for byte in separator.encode())
    return await call.json(
        {
            "defaults": warehouse.profile.client_config(),
            "overrides": overrides,
            "endpoints": call.app[ROUTES].endpoints,
            "idempotency-key-lifetime": iso_8601_duration(call.catalog.limits.idempotency_key_lifetime),
        }
    )
