"""The search for tables and views, as in Lakekeeper's management API (`…/warehouse/<id>/search-tabular`)."""

import unicodedata

from aiohttp import web

from ...queries.search_tabulars import search_tabulars
from ..api_request import ApiRequest
from .warehouses import parse_warehouse_id

SEARCH_CODE_POINTS_MAX = 64
"""The rest of a search is ignored, as in Lakekeeper."""


async def search_tabular(call: ApiRequest) -> web.Response:
    """Lakekeeper's SearchTabularResponse."""
    warehouse_id = parse_warehouse_id(call)
    _, fields = await call.fields()
    fields.refuse_unknown(("search",))
    # Names are in this Unicode form.
    text = unicodedata.normalize("NFC", fields.text("search")[:SEARCH_CODE_POINTS_MAX])
    tabulars = [
        {
            "namespace-name": found.namespace,
            "tabular-name": found.name,
            "tabular-id": {"id": found.object_id, "type": found.kind},
            "distance": found.distance,
        }
        for found in await search_tabulars(call.catalog.queries, call.context, warehouse_id, text)
    ]
    return await call.json({"tabulars": tabulars})
