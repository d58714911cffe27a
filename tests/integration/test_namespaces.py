"""Namespaces over HTTP: nesting, properties, names and their spelling, and the error messages of the compatibility kit."""

import pytest

from tests.fixtures.rest_client import RestClient, namespace_path
from tests.fixtures.shared_server import SharedCatalog

NAMES = ["a b", "a+b", "a.b", "a/b", "a&b;c", "Straße", "İstanbul", "ısı", "名前", "(a,b)", "namespaces", "@home", "=", "~"]


def children(client: RestClient, *levels: str) -> list[list[str]]:
    query = f"?parent={'%1F'.join(levels)}" if levels else ""
    namespaces: list[list[str]] = client.call("GET", f"/namespaces{query}").json["namespaces"]
    return namespaces


def properties(client: RestClient, name: str) -> dict[str, str]:
    """Those that clients set."""
    found: dict[str, str] = client.call("GET", f"/namespaces/{name}").json["properties"]
    return {key: value for key, value in found.items() if key != "location"}


def test_a_namespace_is_created_loaded_listed_and_dropped(client: RestClient) -> None:
    """Its location is one of its properties."""
    created = client.create_namespace("sales", owner="ops")
    location = created.json["properties"]["location"]
    expected = {"namespace": ["sales"], "properties": {"owner": "ops", "location": location}}
    assert (200, expected) == (created.status, created.json)
    loaded = client.call("GET", "/namespaces/sales")
    assert (200, expected) == (loaded.status, loaded.json)
    assert (204, b"") == ((answer := client.call("HEAD", "/namespaces/sales")).status, answer.body)
    assert [["a"], ["sales"]] == children(client)
    dropped = client.call("DELETE", "/namespaces/sales")
    assert (204, b"") == (dropped.status, dropped.body)
    assert dropped.position == created.position + 1
    assert (404, "NoSuchNamespaceException") == client.call("GET", "/namespaces/sales").error
    assert 404 == client.call("HEAD", "/namespaces/sales").status


def test_namespaces_nest_and_a_parent_must_exist(client: RestClient) -> None:
    """A listing has only the next level."""
    refused = client.create_namespace("b", "c")
    assert ((404, "NoSuchNamespaceException"), "Namespace does not exist: b") == (refused.error, refused.message)
    for levels in (("b",), ("b", "c"), ("b", "c", "d")):
        assert 200 == client.create_namespace(*levels).status
    assert [["a"], ["b"]] == children(client)
    assert [["b", "c"]] == children(client, "b")
    assert [["b", "c", "d"]] == children(client, "b", "c")
    assert [] == children(client, "b", "c", "d")
    refused = client.call("GET", "/namespaces?parent=nowhere")
    assert ((404, "NoSuchNamespaceException"), "Namespace does not exist: nowhere") == (refused.error, refused.message)


def test_a_taken_name_is_refused(client: RestClient) -> None:
    """Also if a parent is spelled in another case."""
    for name in ("a", "A"):
        refused = client.create_namespace(name)
        assert ((409, "AlreadyExistsException"), f"Namespace already exists: {name}") == (refused.error, refused.message)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_comes_back_as_it_was_spelled(client: RestClient, name: str) -> None:
    """In bodies, paths and listings, below another level of the same name."""
    assert 200 == client.create_namespace(name).status
    assert 200 == client.create_namespace(name, name).status
    assert [name] in children(client)
    assert [name, name] == client.call("GET", namespace_path([name, name])).json["namespace"]
    assert 200 == client.create_table([name], name).status
    assert [name] == client.table_names(name)
    assert (409, "NamespaceNotEmptyException") == client.call("DELETE", namespace_path([name])).error


@pytest.mark.parametrize(("created", "asked"), [("Straße", "STRASSE"), ("ÄÖ", "äö"), ("İ", "i̇"), ("Σς", "σσ"), ("ABC", "abc")])
def test_names_match_without_case_and_keep_their_spelling(client: RestClient, created: str, asked: str) -> None:
    """Names are compared with Unicode case folding. The listing has the spelling of the creation."""
    assert 200 == client.create_namespace(created).status
    assert 409 == client.create_namespace(asked).status
    assert 200 == client.call("GET", namespace_path([asked])).status
    assert [created] in children(client)
    assert 204 == client.call("DELETE", namespace_path([asked])).status


def test_dotless_i_and_dotted_i_are_other_letters(client: RestClient) -> None:
    """Case folding is independent of languages: the Turkish letters differ from i and from each other."""
    for name in ("i", "ı", "İ"):
        assert 200 == client.create_namespace(name).status
    assert 409 == client.create_namespace("I").status


def test_an_exact_names_warehouse_tells_case_apart(shared_catalog: SharedCatalog) -> None:
    """There `x` and `X` are different names of namespaces and tables."""
    client = shared_catalog.client(shared_catalog.new_warehouse(exact_names=True))
    for name in ("x", "X"):
        assert 200 == client.create_namespace(name).status
    assert (409, "AlreadyExistsException") == client.create_namespace("X").error
    assert [["X"], ["x"]] == children(client)
    for name in ("t", "T"):
        assert 200 == client.create_table(["x"], name).status
    assert ["T", "t"] == client.table_names("x")
    assert (404, "NoSuchTableException") == client.load_table(["X"], "t").error
    client.close()


@pytest.mark.parametrize("kind", ["table", "view", "namespace"])
def test_a_namespace_that_holds_something_is_not_dropped(client: RestClient, kind: str) -> None:
    """Tables, views and namespaces count. Without them it can be dropped."""
    match kind:
        case "table":
            client.create_table(["a"], "x")
        case "view":
            client.create_view(["a"], "x")
        case "namespace":
            client.create_namespace("a", "x")
    refused = client.call("DELETE", "/namespaces/a")
    assert (409, "NamespaceNotEmptyException") == refused.error
    assert "is not empty" in refused.message
    inside = {"table": "/namespaces/a/tables/x", "view": "/namespaces/a/views/x", "namespace": "/namespaces/a%1Fx"}[kind]
    assert 204 == client.call("DELETE", inside).status
    assert 204 == client.call("DELETE", "/namespaces/a").status


def test_dropping_what_is_not_there(client: RestClient) -> None:
    """404 with the kit's message."""
    refused = client.call("DELETE", "/namespaces/b")
    assert ((404, "NoSuchNamespaceException"), "Namespace does not exist: b") == (refused.error, refused.message)


def test_properties_are_set_replaced_and_removed_in_one_step(client: RestClient) -> None:
    """The answer lists what was updated, removed and missing."""
    client.create_namespace("p", keep="1", change="1", drop="1")
    answer = client.call("POST", "/namespaces/p/properties", {"removals": ["drop", "absent"], "updates": {"change": "2", "new": "3"}})
    assert 200 == answer.status
    assert {"updated": ["change", "new"], "removed": ["drop"], "missing": ["absent"]} == answer.json
    assert {"keep": "1", "change": "2", "new": "3"} == properties(client, "p")


@pytest.mark.parametrize(
    ("body", "side"),
    [
        ({"removals": None, "updates": {"x": "1"}}, "updated"),
        ({"updates": {"x": "1"}}, "updated"),
        ({"removals": ["x"], "updates": None}, "missing"),
        ({"removals": ["x"]}, "missing"),
    ],
)
def test_an_absent_or_null_side_of_a_property_update_is_empty(client: RestClient, body: dict[str, object], side: str) -> None:
    """Some clients send null."""
    answer = client.call("POST", "/namespaces/a/properties", body)
    assert 200 == answer.status
    assert {"updated": [], "removed": [], "missing": [], side: ["x"]} == answer.json


def test_a_key_both_set_and_removed_is_refused(client: RestClient) -> None:
    """422 without a change."""
    refused = client.call("POST", "/namespaces/a/properties", {"removals": ["x"], "updates": {"x": "1"}})
    assert (422, "UnprocessableEntityException") == refused.error
    assert {} == properties(client, "a")


def test_an_update_that_changes_nothing_writes_nothing(client: RestClient) -> None:
    """Setting equal values and removing absent ones adds no event."""
    position = client.call("POST", "/namespaces/a/properties", {"updates": {"x": "1"}}).position
    answer = client.call("POST", "/namespaces/a/properties", {"removals": ["y"], "updates": {"x": "1"}})
    assert (200, position) == (answer.status, answer.position)


def test_properties_of_a_missing_namespace(client: RestClient) -> None:
    """404."""
    assert (404, "NoSuchNamespaceException") == client.call("POST", "/namespaces/b/properties", {"updates": {"x": "1"}}).error


def test_a_credential_is_refused_as_a_property(client: RestClient, shared_catalog: SharedCatalog) -> None:
    """Keys known to contain credentials are refused."""
    secret = "a-secret-nobody-may-find"
    refused = client.create_namespace("c", **{"s3.secret-access-key": secret})
    assert 400 == refused.status
    assert secret not in refused.message
    assert 400 == client.call("POST", "/namespaces/a/properties", {"updates": {"s3.secret-access-key": secret}}).status
    assert [] == shared_catalog.rows("select 1 from icecore.events where position(%s::bytea in state) > 0", secret.encode())


def test_concurrent_creation_of_a_name_has_one_winner(client: RestClient) -> None:
    """Of 16 concurrent requests one succeeds; the others get 409."""
    answers = client.together([("POST", "/namespaces", {"namespace": ["race"]}, None)] * 16)
    assert [200] + [409] * 15 == sorted(answer.status for answer in answers)
    assert {(409, "AlreadyExistsException")} == {answer.error for answer in answers if answer.status != 200}


def test_a_namespace_is_not_dropped_under_a_table_that_comes_in(client: RestClient) -> None:
    """A concurrent drop and create: either the table is created or the namespace is dropped."""
    for number in range(8):
        levels = [f"n{number}"]
        client.create_namespace(*levels)
        schema = {"type": "struct", "fields": []}
        drop, create = client.together(
            [
                ("DELETE", namespace_path(levels), None, None),
                ("POST", f"{namespace_path(levels)}/tables", {"name": "t", "schema": schema}, None),
            ]
        )
        assert (drop.status, create.status) in {(204, 404), (409, 200)}
        assert create.status == client.load_table(levels, "t").status
