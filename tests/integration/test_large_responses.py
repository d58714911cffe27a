"""Memory for large responses is reserved by the normalized request."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from icecore.api.api_request import LARGE_RESPONSES, RESPONSE_BUDGET
from icecore.api.byte_budget import ByteBudget, LargeResponses
from icecore.compose import Application
from tests.fixtures.catalog import served_catalog
from tests.fixtures.rest_client import RestClient, set_properties
from tests.fixtures.waiting import wait_for
from tests.integration.test_large_tables import metadata_file
from tests.integration.test_projects import Tenants


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


class Served:
    """A server in this process, its clients, and what it knows of large responses."""

    def __init__(self, url: str, app: web.Application) -> None:
        self.client, self.tenants = RestClient(url), Tenants(url)
        self.budget: ByteBudget = app[RESPONSE_BUDGET]
        self._large: LargeResponses = app[LARGE_RESPONSES]

    @property
    def known(self) -> int:
        """How many large responses are known."""
        return len(self._large)

    def wait_until_reserved(self, size: int) -> None:
        """The server releases memory a moment after the client has the response."""
        wait_for(lambda: self.budget.reserved_bytes == size, 10)


@pytest.fixture
def served(database: str, tmp_path: Path) -> Iterator[Served]:
    apps: list[web.Application] = []
    (tmp_path / "lakes").mkdir()
    with served_catalog(
        database,
        tmp_path / "warehouse",
        prepare=lambda catalog: apps.append(catalog.app),
        local_warehouse_roots=(tmp_path / "lakes",),
        skip_storage_validation=True,
    ) as server:
        opened = Served(server.url, apps[0])
        with closing(opened.client), closing(opened.tenants):
            yield opened


def wide(count: int = 10) -> dict[str, str]:
    return {f"p{number}": "x" * 60_000 for number in range(count)}


def test_all_snapshots_and_those_of_refs_are_two_responses(served: Served, tmp_path: Path) -> None:
    """Else a load of the refs would need as much memory as one of all, and the next load of all would be read without any."""
    location = metadata_file(tmp_path, snapshots=3_000)
    file = Path(urlsplit(location).path)
    file.write_text(json.dumps({**json.loads(file.read_text()), "properties": wide(3)}))
    assert 200 == served.client.create_namespace("a").status
    assert 200 == served.client.call("POST", "/namespaces/a/register", {"name": "t", "metadata-location": location}).status
    sizes, known = [], []
    for query in ("", "?snapshots=all", "?snapshots=", "?snapshots=refs", "?snapshots=refs&other=1"):
        loaded = served.client.load_table(["a"], "t", query, Accept_Encoding="identity")
        assert 200 == loaded.status
        sizes.append(len(loaded.body))
        known.append(served.known)
    assert [1, 1, 1, 2, 2] == known
    served.wait_until_reserved(0)
    budget = served.budget
    held = budget.reserved_bytes = budget._bytes_max - (sizes[0] + sizes[3]) // 2
    for query, status in (("?snapshots=refs", 200), ("", 429), ("?snapshots=refs", 200)):
        assert status == served.client.load_table(["a"], "t", query).status
        served.wait_until_reserved(held)


def test_an_object_that_became_small_needs_no_memory(served: Served) -> None:
    """It was refused while there was no memory for the response that it had once."""
    assert 200 == served.client.create_namespace("a").status
    assert 200 == served.client.create_table(["a"], "t", properties=wide()).status
    assert 200 == served.client.load_table(["a"], "t").status
    assert 1 == served.known
    assert 200 == served.client.commit(["a"], "t", {"action": "remove-properties", "removals": [*wide()]}, set_properties(small="1")).status
    assert 200 == served.client.load_table(["a"], "t").status
    assert 0 == served.known


def test_a_page_of_a_listing_needs_less_memory_than_all_of_it(served: Served) -> None:
    """The memory of a listing is reserved while it is read."""
    above = ["x" * 250 for _ in range(8)]
    for depth in range(len(above)):
        assert 200 == served.client.create_namespace(*above[: depth + 1]).status
    for number in range(200):
        assert 200 == served.client.create_namespace(*above, f"{number:03}" + "y" * 250).status
    parent = f"/namespaces?parent={'%1F'.join(above)}"
    whole = served.client.call("GET", parent, headers={"Accept-Encoding": "identity"})
    assert (200, 200) == (whole.status, len(whole.json["namespaces"]))
    served.wait_until_reserved(0)
    budget = served.budget
    held = budget.reserved_bytes = budget._bytes_max - 70_000
    assert 200 == served.client.call("GET", f"{parent}&pageToken=&pageSize=2").status
    served.wait_until_reserved(held)
    assert (429, 0) == (served.client.call("GET", parent).status, served.known)
    served.wait_until_reserved(held)


def test_objects_of_two_projects_are_two(served: Served, tmp_path: Path) -> None:
    """Their warehouses may have one name."""
    project = served.tenants.create("Team")
    served.tenants.new_warehouse("demo", tmp_path / "lakes" / "demo", project)
    known = []
    for of in (None, project):
        headers = {} if of is None else {"x-project-id": of}
        assert 200 == served.client.call("POST", "/namespaces", {"namespace": ["wide"], "properties": wide()}, headers=headers).status
        assert 200 == served.client.call("GET", "/namespaces/wide", headers=headers).status
        known.append(served.known)
    assert [1, 2] == known
