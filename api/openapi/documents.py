"""The OpenAPI documents, at Lakekeeper's addresses (`/api-docs/<api>/v1/openapi.json`).

The files beside this module are written by hand; `tests/unit/api/test_openapi.py` compares them with the operations.
"""

import importlib.metadata
from importlib.resources import files

import orjson
from aiohttp import web

from ..api_request import ApiRequest

APIS = ("management", "history")
_HEADERS = {"Cache-Control": "no-cache"}


def load_document(api: str) -> dict[str, object]:
    """The document of one of APIS, with the version of this program."""
    document: dict[str, object] = orjson.loads(files(__package__).joinpath(f"{api}.json").read_bytes())
    information = document["info"]
    assert isinstance(information, dict)
    return {**document, "info": {**information, "version": importlib.metadata.version("icecore")}}


_BODIES = {api: orjson.dumps(load_document(api)) for api in APIS}


async def get_management_document(_call: ApiRequest) -> web.Response:
    return _response("management")


async def get_history_document(_call: ApiRequest) -> web.Response:
    return _response("history")


def _response(api: str) -> web.Response:
    return web.Response(body=_BODIES[api], content_type="application/json", headers=_HEADERS)
