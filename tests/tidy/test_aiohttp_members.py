"""The private members of aiohttp that the server uses exist and have the expected types.

No public API limits the memory of a connection whose client sends too much or too slowly. A new version of aiohttp is accepted once these
tests and `tests/integration/test_slow_clients.py` pass with it.
"""

import ast
import asyncio
import tomllib
from collections import deque
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler, _ErrInfo

import icecore.api

CHECKOUT = Path(__file__).parents[2]

STATES = {
    "_messages": deque,
    "_request_count": int,
    "_request_in_progress": bool,
    "_reading_paused": bool,
    "_buffer_paused": bool,
    "_current_request": type(None),
    "_waiter": type(None),
    "_manager": web.Server,
}
"""Members of a new connection, and their values."""
METHODS = {"_pause_reading_for_buffer", "_resume_reading_if_drained"}
RUNNER_METHODS = {"_make_server"}
SITE_STATES = {"_server"}


@pytest_asyncio.fixture
async def connection() -> RequestHandler:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response()

    return RequestHandler(web.Server(handler), loop=asyncio.get_running_loop())


def private_members_used() -> set[str]:
    """Attributes with one leading underscore in api/protocol.py that are not its own."""
    tree = ast.parse((Path(icecore.api.__file__).parent / "protocol.py").read_text())
    own: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__slots__":
            own |= {str(ast.literal_eval(name)) for name in getattr(node.value, "elts", ())}
        elif isinstance(node, ast.ClassDef) and node.name == "_EdgeServer":
            own |= {"_settings", "_pipelined"}
    own |= {"_parse", "_refuse_head", "_refuse_body", "_untaken_bytes"}
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr[1] != "_"}
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[:2] != "__"}
    return (used | {name for name in defined if name.startswith("_")}) - own


def test_no_other_private_members_are_used() -> None:
    assert {*STATES, *METHODS, *RUNNER_METHODS, *SITE_STATES} == private_members_used()


@pytest.mark.parametrize("name", STATES)
async def test_a_connection_has_the_state(connection: RequestHandler, name: str) -> None:
    assert hasattr(connection, name), f"aiohttp {aiohttp.__version__} has no RequestHandler.{name}: api/protocol.py needs another way"
    assert STATES[name] is type(getattr(connection, name))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_connection_has_the_method(name: str) -> None:
    assert callable(getattr(RequestHandler, name, None)), f"aiohttp {aiohttp.__version__} has no RequestHandler.{name}"


@pytest.mark.parametrize("name", sorted(RUNNER_METHODS))
def test_a_runner_makes_its_server_by_the_method(name: str) -> None:
    assert asyncio.iscoroutinefunction(getattr(web.AppRunner, name, None)), f"aiohttp {aiohttp.__version__} has no AppRunner.{name}"


@pytest.mark.parametrize("name", sorted(SITE_STATES))
def test_a_site_has_the_state(name: str) -> None:
    assert name in web.BaseSite.__slots__, f"aiohttp {aiohttp.__version__} has no BaseSite.{name}"


def test_pausing_for_a_buffer_pauses_the_connection() -> None:
    """Otherwise, received data would accumulate while a request is processed."""
    assert RequestHandler._pause_reading_for_buffer is BaseProtocol._pause_reading_for_buffer


def test_a_refused_head_is_described_as_the_parser_does_it() -> None:
    assert ["status", "exc", "message"] == list(_ErrInfo.__annotations__)


def test_a_body_counts_its_bytes() -> None:
    assert "total_bytes" in StreamReader.__slots__


def test_the_version_is_bound() -> None:
    """Package managers do not install a version that may have other private members."""
    dependencies = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert ["aiohttp>=3.14.5,<3.15"] == [each for each in dependencies if each.startswith("aiohttp")]
