"""Limits on the document of one object, which can grow by many small requests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from icecore.compose import Application
from icecore.domain import document_sizes
from tests.fixtures.catalog import served_catalog
from tests.fixtures.rest_client import (
    RestClient,
    RestResponse,
    identifier,
    namespace_path,
    set_properties,
    staged_create_updates,
    table_path,
    view_path,
)
from tests.integration.test_register import register, register_view

BYTES_MAX = 20_000
LARGE = {"large": "x" * BYTES_MAX}
REFUSED = (400, "BadRequestException")


class Bounded(RestClient):
    """A server whose limits can be lowered to BYTES_MAX."""

    lower: Callable[[], None]

    def change(self, kind: str, update: dict[str, Any], *, together: bool = False) -> RestResponse:
        """One update of the object `o`; together: in a transaction."""
        if together:
            change = {"identifier": identifier(["a"], "o"), "requirements": [], "updates": [update]}
            return self.call("POST", "/transactions/commit", {"table-changes": [change]})
        if kind == "namespace":
            body = {"removals": update.get("removals", []), "updates": update.get("updates", {})}
            return self.call("POST", f"{namespace_path(['o'])}/properties", body)
        path = table_path(["a"], "o") if kind == "table" else view_path(["a"], "o")
        return self.call("POST", path, {"requirements": [], "updates": [update]})

    def create(self, kind: str, **properties: str) -> RestResponse:
        match kind:
            case "namespace":
                return self.create_namespace("o", **properties)
            case "view":
                return self.create_view(["a"], "o", properties=properties)
        return self.create_table(["a"], "o", properties=properties)

    def end_staged_create(self) -> RestResponse:
        staged = self.create_table(["a"], "o", **{"stage-create": True}).json["metadata"]
        updates = [*staged_create_updates(staged["table-uuid"], staged["location"]), set_properties(LARGE)]
        return self.commit(["a"], "o", *updates, requirements=[{"type": "assert-create"}])

    def large_file(self, kind: str) -> str:
        """A metadata file from before the limit was lowered, of a dropped table or view."""
        made = self.create(kind, **LARGE)
        location: str = made.json["metadata-location"]
        gone = self.call("POST", f"{table_path(['a'], 'o')}/unregister") if kind == "table" else self.call("DELETE", view_path(["a"], "o"))
        assert gone.status < 300
        return location


@pytest.fixture
def client(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bounded]:
    catalogs: list[Application] = []

    def lower() -> None:
        monkeypatch.setattr(document_sizes, "WHOLE_DOCUMENT_BYTES_MAX", BYTES_MAX)
        monkeypatch.setattr(catalogs[0].commands.large_documents, "bytes_max", BYTES_MAX)

    with served_catalog(database, tmp_path / "warehouse", prepare=catalogs.append) as server:
        opened = Bounded(server.url)
        opened.lower = lower
        assert 200 == opened.create_namespace("a").status
        yield opened
        opened.close()


WAYS = ["create", "end of a staged create", "commit", "transaction", "register", "overwrite"]


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *(("table", way) for way in WAYS),
        *(("view", way) for way in ("create", "commit", "register")),
        *(("namespace", way) for way in ("create", "commit")),
    ],
)
def test_no_way_in_makes_an_object_larger_than_one_may_be(client: Bounded, kind: str, way: str) -> None:
    """400 with the sizes, because a retry would be refused too. The existing object stays usable."""
    location = client.large_file(kind) if way in ("register", "overwrite") else ""
    client.lower()
    if way in ("commit", "transaction", "overwrite"):
        assert 200 == client.create(kind).status
    match way:
        case "create":
            refused = client.create(kind, **LARGE)
        case "end of a staged create":
            refused = client.end_staged_create()
        case "commit" | "transaction":
            refused = client.change(kind, set_properties(LARGE), together=way == "transaction")
        case _ if kind == "view":
            refused = register_view(client, "o", location)
        case _:
            refused = register(client, "o", location, **({"overwrite": True} if way == "overwrite" else {}))
    assert REFUSED == refused.error
    assert f"at most {BYTES_MAX} bytes" in refused.message
    assert ("ICECORE_LARGE_DOCUMENTS_BYTES_MAX" in refused.message) is (kind == "table")
    if way in ("commit", "transaction", "overwrite"):
        assert client.change(kind, set_properties(k="1")).status < 300
    else:
        assert 200 == client.create(kind).status


@pytest.mark.parametrize("kind", ["table", "view", "namespace"])
def test_an_object_does_not_grow_beyond_the_bound_by_small_changes(client: Bounded, kind: str) -> None:
    client.lower()
    assert 200 == client.create(kind).status
    responses = [client.change(kind, set_properties({f"k{number}": "x" * 5_000})) for number in range(4)]
    assert [True, True, True, False] == [response.status < 300 for response in responses]
    assert REFUSED == responses[-1].error


@pytest.mark.parametrize("kind", ["table", "view", "namespace"])
def test_what_is_larger_already_may_shrink_and_stay_and_go(client: Bounded, kind: str) -> None:
    """Objects from before the limit, or from a higher one: everything is permitted that does not enlarge them."""
    assert 200 == client.create(kind, small="1", other="2", **LARGE).status
    client.lower()
    assert REFUSED == client.change(kind, set_properties(k="1")).error
    assert client.change(kind, set_properties(other="3")).status < 300
    for removed in ("small", "large"):
        assert client.change(kind, {"action": "remove-properties", "removals": [removed]}).status < 300
    assert client.change(kind, set_properties(k="1")).status < 300


@pytest.mark.parametrize("kind", ["table", "view", "namespace"])
def test_what_is_larger_already_is_renamed_and_dropped(client: Bounded, kind: str) -> None:
    assert 200 == client.create(kind, **LARGE).status
    client.lower()
    match kind:
        case "table":
            assert 204 == client.rename_table((["a"], "o"), (["a"], "p")).status
            assert 204 == client.drop_table(["a"], "p").status
        case "view":
            assert 204 == client.rename_view((["a"], "o"), (["a"], "p")).status
            assert 204 == client.call("DELETE", view_path(["a"], "p")).status
        case _:
            assert 204 == client.call("DELETE", namespace_path(["o"])).status
