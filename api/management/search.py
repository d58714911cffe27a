"""The search for tables and views, as in Lakekeeper's management API (`…/warehouse/<id>/search-tabular`)."""

import unicodedata

from aiohttp import web

from ...queries.search_tabulars import FoundTabular, search_tabulars
from ..api_request import ApiRequest
from .warehouses import parse_warehouse_id

SEARCH_CODE_POINTS_MAX = 64
"""The rest of a search is ignored, as in Lakekeeper."""


async def search_tabular(request: ApiRequest) -> web.Response:
    """Lakekeeper's SearchTabularResponse."""
    warehouse_id = parse_warehouse_id(request)
    _, fields = await request.read_body_fields()
    fields.refuse_unknown(("search",))
    found = await search_tabulars(request.catalog.queries, request.context, warehouse_id, search_text(fields.text("search")))
    return await request.json({"tabulars": [found_tabular(each) for each in found]})


def search_text(text: str) -> str:
    """The part of a search that counts, in the Unicode form of names."""
    return unicodedata.normalize("NFC", text[:SEARCH_CODE_POINTS_MAX])


def found_tabular(found: FoundTabular) -> dict[str, object]:
    """Lakekeeper's SearchTabular."""
    return {
        "namespace-name": found.namespace,
        "tabular-name": found.name,
        "tabular-id": {"id": found.object_id, "type": found.kind},
        "distance": found.distance,
    }
