"""Memory for large responses is reserved by the normalized request."""

from pathlib import Path

from icecore.api.api_request import LARGE_RESPONSES
from icecore.api.byte_budget import LargeResponses
from icecore.compose import Application
from tests.fixtures.catalog import served_catalog
from tests.fixtures.rest_client import RestClient


def test_spellings_of_an_address_and_moments_of_a_past_are_one(database: str, tmp_path: Path) -> None:
    """Otherwise each spelling would read a response before it is known that there is no memory for it."""
    known: list[LargeResponses] = []

    def prepare(catalog: Application) -> None:
        known.append(catalog.app[LARGE_RESPONSES])

    with served_catalog(database, tmp_path / "warehouse", prepare=prepare) as server:
        client = RestClient(server.url)
        wide = {"namespace": ["wide"], "properties": {f"p{number}": "x" * 60_000 for number in range(10)}}
        position = client.call("POST", "/namespaces", wide).position
        assert 200 == client.call("POST", "/namespaces", {"namespace": ["other"]}).status
        now = ["demo/namespaces/wide", "demo/namespaces/w%69de", "%64emo/namespaces/%77ide"]
        then = [f"demo@{position}/namespaces/wide", f"demo@{position + 1}/namespaces/wide", f"demo%40{position}/namespaces/wide"]
        found = []
        for path in now + then:
            assert 200 == client.call_root("GET", f"/{path}").status
            found.append(len(known[0]))
        client.close()
    assert [1, 1, 1, 2, 2, 2] == found
