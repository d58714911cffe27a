r"""The characters of SQL's LIKE (`%`, `_`, `\`) stand for themselves wherever names and locations are searched or compared.

Names may have `_` only; the others are refused. A location may have `%` if a table is registered with it.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.fixtures.rest_client import RestClient, namespace_path
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog
from tests.fixtures.waiting import wait_for
from tests.integration.test_namespace_trees import TreeClient, content
from tests.integration.test_purge import files
from tests.integration.test_purge_locations import with_snapshot
from tests.integration.test_register import moved, register
from tests.integration.test_search import Search, path

BAD = (400, "BadRequestException")
# What `a_b` and `a%b` match as patterns.
ALIKE = ["a_b", "axb", "aab", "a-b"]
PATTERNS = ["a%b", "%", "a%", r"a\_b", "\\", "a_"]


class Client(Search, TreeClient):
    """Searches, and requests about trees of namespaces in the warehouse `demo`."""


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[CatalogServer]:
    """Without jobs."""
    with served_catalog(database, tmp_path / "demo", jobs=False) as served:
        yield served


@pytest.fixture
def demo(server: CatalogServer) -> Iterator[Client]:
    """Each of ALIKE is a namespace, a namespace in each, and a table in each of those."""
    with closing(Client(server.url)) as opened:
        opened.dsn = server.dsn
        for outer in ALIKE:
            assert 200 == opened.create_namespace(outer).status
            for inner in ALIKE:
                assert 200 == opened.create_namespace(outer, inner).status
                assert 200 == opened.create_table([outer, inner], inner).status
        yield opened


@pytest.mark.parametrize("name", ["a%b", "%", r"a\b", "\\", r"a\_b"])
def test_names_with_percent_or_backslash_are_refused(client: RestClient, name: str) -> None:
    """As the name of a namespace, a table or a view, in a creation, a rename and a registration, and nothing is changed."""
    assert 200 == client.create_table(["a"], "t").status
    body = {"source": {"namespace": ["a"], "name": "t"}, "destination": {"namespace": ["a"], "name": name}}
    location = client.load_table(["a"], "t").json["metadata-location"]
    for answer in (
        client.create_namespace(name),
        client.create_namespace("a", name),
        client.create_table(["a"], name),
        client.create_view(["a"], name),
        client.call("POST", "/tables/rename", body),
        register(client, name, location),
    ):
        assert BAD == answer.error, answer.body
    assert (["t"], []) == (client.table_names("a"), client.view_names("a"))
    assert [] == client.call("GET", "/namespaces?parent=a").json["namespaces"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_request_for_a_pattern_finds_nothing_else(demo: Client, pattern: str) -> None:
    """By a parent, a namespace, a table, and in a search. Nothing is dropped."""
    before = content(demo)
    assert 200 == demo.call("GET", f"/namespaces?parent={quote('a_b')}").status
    for answer in (
        demo.call("GET", f"/namespaces?parent={quote(pattern, safe='')}"),
        demo.call("GET", f"/namespaces?parent={quote('a_b')}%1F{quote(pattern, safe='')}"),
        demo.call("GET", namespace_path([pattern])),
        demo.call("GET", f"{namespace_path([pattern])}/tables"),
        demo.call("GET", f"{namespace_path(['a_b', pattern])}/views"),
        demo.load_table(["a_b", "a_b"], pattern),
        demo.load_table(["a_b", pattern], "a_b"),
        demo.drop_table(["a_b", "a_b"], pattern),
        demo.drop_tree(pattern, query="&force=true"),
        demo.drop_tree("a_b", pattern, query="&force=true"),
    ):
        assert answer.status in (400, 404), answer.body
    assert before == content(demo)
    assert {pattern}.isdisjoint(demo.paths(pattern))


def test_an_underscore_in_a_name_stands_for_itself(demo: Client) -> None:
    """In listings, searches, drops of trees, undrops, renames and moves."""
    demo.soft_delete()
    for outer in ALIKE:
        listed = demo.call("GET", f"/namespaces?parent={outer}").json["namespaces"]
        assert sorted([outer, inner] for inner in ALIKE) == sorted(listed)
    assert ["a_b"] == demo.table_names("a_b", "a_b")
    # A search compares words, and `-` separates them as `_` does. As a pattern it would also find axb and aab.
    nearest = {path(each) for each in demo.search("a_b.a_b.a_b") if each["distance"] == 0}
    assert "a_b.a_b.a_b" in nearest
    assert {each.rpartition(".")[2] for each in nearest} <= {"a_b", "a-b"}
    before = content(demo)
    assert 204 == demo.drop_tree("a_b", "a_b").status
    gone = {each for each in before if each.startswith("a_b.a_b")}
    assert 2 == len(gone)
    assert before.keys() - gone == content(demo).keys()
    assert [["a_b", "a_b"]] == [each["namespace"] for each in demo.deleted_namespaces()]
    assert ["a_b"] == [each["name"] for each in demo.deleted()]
    namespace_id = demo.deleted_namespaces()[0]["id"]
    assert [["a_b", "a_b"]] == [each["namespace"] for each in demo.deleted(f"?namespaceId={namespace_id}")]
    assert 204 == demo.undrop_tree(namespace_id).status
    assert before == content(demo)
    assert 204 == demo.rename_table((["a_b", "a_b"], "a_b"), (["a_b", "a_b"], "axb")).status, (
        "the name axb is taken in other namespaces only"
    )
    assert ["axb"] == demo.table_names("a_b", "a_b")
    assert {each for each in before if each != "a_b.a_b.a_b"} | {"a_b.a_b.axb"} == content(demo).keys()


@pytest.mark.parametrize("named", ["a_b", "a%b"])
def test_locations_with_pattern_characters_claim_only_themselves(
    client: RestClient, shared_catalog: SharedCatalog, warehouse: FreshWarehouse, named: str
) -> None:
    """Tables and namespaces can lie beside it, not in it, and its purge deletes no file of theirs."""
    alike = ["axb", "aab", "a-b", "ab", "a/x/b", "a_bc", "axbc"]
    assert 200 == client.create_table(["a"], "first", location=f"{warehouse.base}/first").status
    file = moved(client.load_table(["a"], "first").json["metadata-location"], warehouse, named)
    assert 204 == client.drop_table(["a"], "first").status
    assert 200 == register(client, "t", file).status
    folders = [with_snapshot(client, warehouse, f"t{number}", each) for number, each in enumerate(alike)]
    assert 200 == client.create_namespace("n", location=f"{warehouse.base}/a1b").status
    assert BAD == client.create_table(["a"], "inside", location=f"{warehouse.base}/{named}/x").error
    assert BAD == register(client, "again", file).error
    kept = {folder: files(folder) for folder in folders}
    assert 204 == client.drop_table(["a"], "t", "?purgeRequested=true").status
    wait_for(lambda: not Path(file.removeprefix("file://")).exists(), 30)
    purging = "select 1 from icecore.tasks where queue = 'tabular_purge' and to_position is null and warehouse_id = %s"
    wait_for(lambda: not shared_catalog.rows(purging, warehouse.id), 30)
    assert kept == {folder: files(folder) for folder in folders}
    for number in range(len(alike)):
        assert 200 == client.load_table(["a"], f"t{number}").status
