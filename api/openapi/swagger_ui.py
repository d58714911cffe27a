"""Swagger UI with the OpenAPI documents. Its files come from the package flask-swagger-ui, whose Flask is not imported."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from aiohttp import web

from ...domain.errors import NotFound
from ..api_request import ApiRequest
from ..path_parameters import decode_segment

ADDRESS = "/swagger-ui"
_PAGE = "index.html"
_OWN_FILES = (_PAGE, "initializer.js")
_PACKAGE = "flask_swagger_ui"
_PACKAGE_FILES = ("swagger-ui.css", "swagger-ui-bundle.js", "favicon-16x16.png", "favicon-32x32.png")
_HEADERS = {
    "Cache-Control": "no-cache",
    # The page contains what documents say, and requests nothing from elsewhere. Swagger UI sets styles of elements.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


async def redirect_to_page(_call: ApiRequest) -> web.Response:
    """To the address with a slash, because the page's own references are relative."""
    return web.Response(status=308, headers={"Location": f"{ADDRESS.removeprefix('/')}/"})


async def get_page(_call: ApiRequest) -> web.FileResponse:
    return _file(_PAGE)


async def get_file(request: ApiRequest) -> web.FileResponse:
    return _file(decode_segment(request.segments["file"], "file name"))


def _file(name: str) -> web.FileResponse:
    """The page, or one of its files. Raises NotFound, also if the package is not installed."""
    directory = _directory()
    if directory is None:
        raise NotFound("Swagger UI is not installed: install Icecore with the extra swagger-ui")
    if name in _OWN_FILES:
        return web.FileResponse(Path(__file__).with_name(name), headers=_HEADERS)
    if name in _PACKAGE_FILES:
        return web.FileResponse(directory / name, headers=_HEADERS)
    raise NotFound(f"File does not exist: {name[:200]!r}")


@cache
def _directory() -> Path | None:
    """The folder with Swagger UI's files; None if the package is not installed."""
    spec = find_spec(_PACKAGE)
    return None if spec is None or spec.origin is None else Path(spec.origin).with_name("dist")
