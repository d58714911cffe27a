"""Pages of namespaces, tables and views over HTTP, during concurrent changes."""

import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.fixtures.rest_client import RestClient, RestResponse, namespace_path, table_path

LISTINGS: dict[str, tuple[str, Callable[[RestClient, str], RestResponse]]] = {
    "namespaces": ("/namespaces?parent=a", lambda client, name: client.create_namespace("a", name)),
    "tables": ("/namespaces/a/tables?", lambda client, name: client.create_table(["a"], name)),
    "views": ("/namespaces/a/views?", lambda client, name: client.create_view(["a"], name)),
}


@pytest.fixture(params=LISTINGS)
def listing(request: pytest.FixtureRequest) -> tuple[str, Callable[[RestClient, str], RestResponse]]:
    return LISTINGS[request.param]


def names_of(response: RestResponse) -> list[str]:
    listed: dict[str, Any] = response.json
    if "namespaces" in listed:
        return [levels[-1] for levels in listed["namespaces"]]
    return [item["name"] for item in listed["identifiers"]]


def pages(client: RestClient, path: str, size: int | None, between: Callable[[], Any] = lambda: None) -> list[list[str]]:
    """All pages, requested as by Java: an empty token first."""
    token: str | None = ""
    found: list[list[str]] = []
    while token is not None:
        response = client.call("GET", f"{path}&pageToken={quote(token)}" + (f"&pageSize={size}" if size else ""))
        assert 200 == response.status, response.body
        found.append(names_of(response))
        token = response.json["next-page-token"]
        between()
    return found


def test_pages_hold_every_name_once_in_order(client: RestClient, listing: Any) -> None:
    """For any page size, in the order of the name keys."""
    path, create = listing
    names = ["b", "A", "c c", "Ä", "z", "é", "É2", "0", "~"]
    for name in names:
        assert 200 == create(client, name).status
    ordered = sorted(names, key=str.casefold)
    assert ordered == names_of(client.call("GET", path))
    for size in range(1, len(names) + 2):
        found = pages(client, path, size)
        assert ordered == [name for page in found for name in page]
        assert all(len(page) == size for page in found[:-1])
        assert 1 <= len(found[-1]) <= size
    assert [ordered] == pages(client, path, None)


def test_a_listing_of_nothing_is_one_empty_page(client: RestClient, listing: Any) -> None:
    """With a null token, because Java requests pages until it is null."""
    path, _ = listing
    for query in ("&pageToken=", "&pageSize=3", "&pageToken=&pageSize=3", ""):
        response = client.call("GET", path + query)
        assert (200, [], None) == (response.status, names_of(response), response.json["next-page-token"])


def test_what_stays_is_listed_once_while_others_come_and_go(client: RestClient, listing: Any) -> None:
    """Names that exist all the time are on exactly one page, whatever is created and dropped meanwhile."""
    path, create = listing
    staying = [f"s{n:02}" for n in range(12)]
    for name in staying:
        create(client, name)
    changes = iter(range(1000))

    def between() -> None:
        """Creates names before and after the page, and drops one created before and one after it."""
        number = next(changes)
        came = [create(client, name) for name in (f"s{number:02}-behind", f"s{number + 4:02}-before", f"a{number}", f"t{number}")]
        went = [client.call("DELETE", f"{below}{first}{number - 1}") for first in "at" if number]
        assert {200} == {response.status for response in came}
        assert {204} >= {response.status for response in went}

    kind = "n" if path.startswith("/namespaces?") else path.split("/")[-1][0]
    below = {"n": "/namespaces/a%1F", "t": "/namespaces/a/tables/", "v": "/namespaces/a/views/"}[kind]
    found = [name for page in pages(client, path, 2, between) for name in page]
    assert staying == [name for name in found if name in staying]
    assert found == sorted(set(found))
    assert len(found) > len(staying), "names that came before the page are listed too"


def test_pages_are_stable_under_concurrent_inserts(client: RestClient) -> None:
    """Readers that page during a writer's creates get every earlier name once."""
    before = [f"t{n:03}" for n in range(0, 40, 2)]
    for name in before:
        client.create_table(["a"], name)
    stop = threading.Event()
    results: list[list[str]] = []
    written, overlapped = [0], []

    def read() -> None:
        while not stop.is_set():
            begun = written[0]
            results.append([name for page in pages(client, "/namespaces/a/tables?", 3) for name in page])
            overlapped.append(begun < written[0])

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(1, 40, 2):
        assert 200 == client.create_table(["a"], f"t{number:03}").status
        written[0] += 1
    stop.set()
    for reader in readers:
        reader.join()
    assert len(results) >= 2
    assert any(overlapped), "no client read while something was written"
    for found in results:
        assert before == [name for name in found if name in before]
        assert found == sorted(set(found))


def test_a_token_survives_a_drop_of_its_name(client: RestClient) -> None:
    """The last item of a page is dropped. The next page continues after it."""
    for name in ("a", "b", "c"):
        client.create_table(["a"], name)
    first = client.call("GET", "/namespaces/a/tables?pageToken=&pageSize=2").json
    client.drop_table(["a"], "b")
    second = client.call("GET", f"/namespaces/a/tables?pageSize=2&pageToken={first['next-page-token']}").json
    assert (["c"], None) == ([item["name"] for item in second["identifiers"]], second["next-page-token"])


def test_a_token_is_good_for_its_own_listing_only(client: RestClient) -> None:
    """Another namespace, kind or position: 400."""
    client.create_namespace("b")
    position = 0
    for name in ("x", "y"):
        position = client.create_table(["a"], name).position
    token = client.call("GET", "/namespaces/a/tables?pageToken=&pageSize=1").json["next-page-token"]
    for path in ("/namespaces/b/tables", "/namespaces/a/views", "/namespaces"):
        assert (400, "BadRequestException") == client.call("GET", f"{path}?pageToken={token}").error
    assert 400 == client.at(position).call("GET", f"/namespaces/a/tables?pageToken={token}").status
    assert 200 == client.call("GET", f"/namespaces/A/tables?pageToken={token}").status


@pytest.mark.parametrize(
    "query", ["pageToken=x", "pageToken=%F0", "pageSize=0", "pageSize=-1", "pageSize=1.5", "pageSize=many", "pageToken=W10"]
)
def test_what_is_no_page_is_refused(client: RestClient, query: str) -> None:
    """400, never a 500."""
    assert (400, "BadRequestException") == client.call("GET", f"/namespaces/a/tables?{query}").error


def test_a_past_is_paged_too(client: RestClient) -> None:
    """Tokens are valid for the position, whatever happens now."""
    names = [f"t{n}" for n in range(5)]
    for name in names:
        position = client.create_table(["a"], name).position
    then = client.at(position)
    path = f"{namespace_path(['a'])}/tables?"
    between = iter(names)
    found = pages(then, path, 2, lambda: client.call("DELETE", table_path(["a"], next(between))))
    assert names == [name for page in found for name in page]
