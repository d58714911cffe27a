"""Tokens of clients (spec: /v1/oauth/tokens). Icecore has no authentication yet, so there are none."""

from aiohttp import web

from ..api_request import ApiRequest
from ..errors import UnsupportedGrantType


async def get_token(request: ApiRequest) -> web.Response:
    """Raises UnsupportedGrantType. The body is not read, because it contains a credential."""
    raise UnsupportedGrantType
