"""Configuration of clients (spec: /v1/config)."""

from aiohttp import web

from ...queries.load_warehouse import load_config
from ..api_request import SEPARATOR, ApiRequest
from ..limits import iso_8601_duration
from ..routing import ROUTES

_PURGE_BY_CATALOG = "rest-catalog-purge"
"""Spark sends the `PURGE` of `DROP TABLE` to the catalog. Without it, Spark deletes the files itself, also those of a table that could be
undropped. Spark up to Iceberg 1.11 does not know it."""


async def get_config(request: ApiRequest) -> web.Response:
    """Returns the prefix of a warehouse, with a position if the client requested a past state, where its store is, and what its operator
    adds. 404 for an unknown warehouse.
    """
    warehouse = await request.named_warehouse(request.query.get("warehouse") or None)
    config = await load_config(request.catalog.queries, request.context, warehouse)
    # The operator cannot set a key that the protocol or the storage profile sets. The order matters if a later version sets more.
    overrides = {**config.overrides, "prefix": warehouse.prefix}
    soft = warehouse.delete_profile.expiration_seconds is not None
    no_deletions = warehouse.profile.soft_deletion_config() if soft else {}
    separator = request.app[SEPARATOR]
    if separator is not None:
        overrides["namespace-separator"] = "".join(f"%{byte:02X}" for byte in separator.encode())
    return await request.json(
        {
            # Clients of Lakekeeper look for the prefix here.
            "defaults": {
                "prefix": warehouse.prefix,
                _PURGE_BY_CATALOG: "true",
                **no_deletions,
                **config.defaults,
                **warehouse.profile.client_config(),
            },
            "overrides": overrides,
            "endpoints": request.app[ROUTES].endpoints,
            "idempotency-key-lifetime": iso_8601_duration(request.catalog.limits.idempotency_key_lifetime),
        }
    )
