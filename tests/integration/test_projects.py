"""Projects: created, listed, loaded, renamed and deleted, and no answer of one contains a thing of another."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.commands.execution.append_request import AppendRequest
from icecore.commands.execution.executor import CommandExecutor
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.namespaces.drop_namespace_tree import plan_namespace_drop
from icecore.commands.projects.change_project import delete_project
from icecore.commands.warehouses.change_warehouse import delete_warehouse
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.compose import Application
from icecore.domain.commands import CreateNamespace, DropNamespace
from icecore.domain.errors import NoSuchProject, ProjectNotEmpty
from icecore.domain.identifiers import NamespaceIdentifier
from icecore.domain.project import DEFAULT_PROJECT_NAME, PROJECT_ID_DEFAULT, DeleteProject
from icecore.domain.warehouse import DeleteWarehouse
from icecore.projections.verify import verify
from tests.fixtures.catalog import CatalogServer, before_append, context, opened_catalog, served_catalog
from tests.fixtures.operator_commands import operator_on
from tests.fixtures.rest_client import SCHEMA, RestClient, RestResponse

DEFAULT = str(PROJECT_ID_DEFAULT)
NO_PROJECT = (404, "NoSuchProjectException")
NO_WAREHOUSE = (404, "NoSuchWarehouseException")
TAKEN = (409, "AlreadyExistsException")
BAD = (400, "BadRequestException")


class Tenants(RestClient):
    """Requests with whole paths, in the project of the header unless they name none."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._root = ""

    def send(self, method: str, path: str, body: Any = None, *, project: str | None = None, key: object = None) -> RestResponse:
        return self.call_root(method, path, body, key=key, headers={} if project is None else {"x-project-id": project})

    def create(self, name: str, **more: Any) -> str:
        created = self.send("POST", "/management/v1/project", {"project-name": name, **more})
        assert 201 == created.status, created.body
        return str(created.json["project-id"])

    def projects(self) -> list[tuple[str, str]]:
        listed = self.send("GET", "/management/v1/project-list").json["projects"]
        return [(each["project-id"], each["project-name"]) for each in listed]

    def new_warehouse(self, name: str, directory: Path, project: str | None) -> str:
        body = {"warehouse-name": name, "storage-profile": {"type": "local", "directory": str(directory)}}
        created = self.send("POST", "/management/v1/warehouse", body, project=project)
        assert 201 == created.status, created.body
        return str(created.json["id"])


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    directory = tmp_path / "lakes"
    directory.mkdir()
    return directory


@pytest.fixture
def server(database: str, tmp_path: Path, roots: Path) -> Iterator[CatalogServer]:
    with served_catalog(database, tmp_path / "demo", local_warehouse_roots=(roots,), skip_storage_validation=True) as served:
        yield served


@pytest.fixture
def tenants(server: CatalogServer) -> Iterator[Tenants]:
    with closing(Tenants(server.url)) as client:
        yield client


def test_a_project_is_created_listed_loaded_renamed_and_deleted(tenants: Tenants, server: CatalogServer) -> None:
    """With the paths and bodies of Lakekeeper's management API."""
    assert [(DEFAULT, DEFAULT_PROJECT_NAME)] == tenants.projects()
    project = tenants.create("Équipe")
    assert [(DEFAULT, DEFAULT_PROJECT_NAME), (project, "Équipe")] == tenants.projects()
    loaded = {"project-id": project, "project-name": "Équipe"}
    assert loaded == tenants.send("GET", "/management/v1/project", project=project).json
    assert loaded == tenants.send("GET", f"/management/v1/project/{project}").json
    renamed = tenants.send("POST", "/management/v1/project/rename", {"new-name": "Team"}, project=project)
    assert (200, b"") == (renamed.status, renamed.body)
    assert 200 == tenants.send("POST", f"/management/v1/project/{project}/rename", {"new-name": "Team B"}).status
    assert "Team B" == tenants.send("GET", f"/management/v1/project/{project}").json["project-name"]
    assert 204 == tenants.send("DELETE", "/management/v1/project", project=project).status
    assert [(DEFAULT, DEFAULT_PROJECT_NAME)] == tenants.projects()
    for method, path, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/rename", {"new-name": "x"})):
        assert NO_PROJECT == tenants.send(method, f"/management/v1/project{path}", body, project=project).error
    with psycopg.connect(server.dsn) as connection:
        rows = connection.execute("select topic, project_id from icecore.events where starts_with(topic, 'project.') order by 1").fetchall()
    assert ["project.created.v1", "project.deleted.v1", "project.renamed.v1", "project.renamed.v1"] == [row[0] for row in rows]
    assert {UUID(project)} == {row[1] for row in rows}, "its own events are in the project"
    report = asyncio.run(verify(server.dsn))
    assert report.ok, report


def test_the_client_may_choose_the_id_once(tenants: Tenants) -> None:
    """An id is never used again, because the events of the deleted project keep it."""
    chosen = str(uuid4())
    assert chosen == tenants.create("a", **{"project-id": chosen})
    assert 204 == tenants.send("DELETE", f"/management/v1/project/{chosen}").status
    for project_id in (chosen, DEFAULT):
        again = tenants.send("POST", "/management/v1/project", {"project-name": "b", "project-id": project_id})
        assert TAKEN == again.error
    for project_id in ("team", str(UUID(int=2**128 - 1))):
        assert BAD == tenants.send("POST", "/management/v1/project", {"project-name": "b", "project-id": project_id}).error


def test_the_id_of_anything_else_is_refused_at_once(tenants: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was decided again until the deadline, each time with an append."""
    decided = 0
    add = AppendRequest.add

    def counted(append_request: AppendRequest, *arguments: Any, **more: Any) -> Any:
        nonlocal decided
        decided += 1
        return add(append_request, *arguments, **more)

    (demo,) = tenants.send("GET", "/management/v1/warehouse").json["warehouses"]
    monkeypatch.setattr(AppendRequest, "add", counted)
    assert TAKEN == tenants.send("POST", "/management/v1/project", {"project-name": "b", "project-id": demo["id"]}).error
    assert 0 == decided


def test_a_change_through_the_former_name_of_a_project_reaches_the_new_one(tenants: Tenants, roots: Path) -> None:
    """The server has cached what the name referred to before."""
    path = "/catalog/w/a/wh/v1/namespaces"
    first = tenants.create("a")
    tenants.new_warehouse("wh", roots / "first", first)
    assert 200 == tenants.send("GET", path).status
    assert 200 == tenants.send("POST", f"/management/v1/project/{first}/rename", {"new-name": "b"}).status
    assert NO_PROJECT == tenants.send("POST", path, {"namespace": ["late"]}).error
    second = tenants.create("a")
    tenants.new_warehouse("wh", roots / "second", second)
    assert 200 == tenants.send("POST", path, {"namespace": ["n"]}).status
    assert [[["n"]], []] == [tenants.send("GET", f"/catalog/w/{name}/wh/v1/namespaces").json["namespaces"] for name in "ab"]


@pytest.mark.parametrize("name", ["", "a/b", "a@b", "a\x00", "x" * 256, str(UUID(int=5))])
def test_a_name_that_cannot_be_one_is_refused(tenants: Tenants, name: str) -> None:
    for path, body in (("", {"project-name": name}), ("/rename", {"new-name": name})):
        assert BAD == tenants.send("POST", f"/management/v1/project{path}", body).error
    assert [(DEFAULT, DEFAULT_PROJECT_NAME)] == tenants.projects()


def test_names_of_projects_are_unique_and_ignore_case(tenants: Tenants) -> None:
    """Also the first name of the default project, which is free once that is renamed."""
    project = tenants.create("Team")
    for taken in ("TEAM", "default project"):
        assert TAKEN == tenants.send("POST", "/management/v1/project", {"project-name": taken}).error
    assert TAKEN == tenants.send("POST", "/management/v1/project/rename", {"new-name": "team"}).error
    assert 200 == tenants.send("POST", "/management/v1/project/rename", {"new-name": "TEAM"}, project=project).status
    assert 200 == tenants.send("POST", "/management/v1/project/rename", {"new-name": "Main"}).status
    tenants.create("default project")
    assert TAKEN == tenants.send("POST", "/management/v1/project", {"project-name": "main"}).error


def test_a_project_is_deleted_only_when_it_is_empty(tenants: Tenants, roots: Path) -> None:
    """A deleted warehouse does not count. The default project can be deleted too."""
    project = tenants.create("Team")
    warehouse = tenants.new_warehouse("lake", roots / "lake", project)
    refused = tenants.send("DELETE", "/management/v1/project", project=project)
    assert (409, "ProjectNotEmptyException") == refused.error
    assert 204 == tenants.send("DELETE", f"/management/v1/warehouse/{warehouse}", project=project).status
    assert 204 == tenants.send("DELETE", "/management/v1/project", project=project).status
    assert (409, "ProjectNotEmptyException") == tenants.send("DELETE", "/management/v1/project").error
    (demo,) = tenants.send("GET", "/management/v1/warehouse").json["warehouses"]
    assert 204 == tenants.send("DELETE", f"/management/v1/warehouse/{demo['id']}").status
    assert 204 == tenants.send("DELETE", "/management/v1/project").status
    assert [] == tenants.projects()
    body = {"warehouse-name": "w", "storage-profile": {"type": "local", "directory": str(roots / "w")}}
    assert NO_PROJECT == tenants.send("POST", "/management/v1/warehouse", body).error
    assert NO_PROJECT == tenants.send("GET", "/management/v1/warehouse").error


def test_a_repeated_request_creates_one_project(tenants: Tenants) -> None:
    """By its Idempotency-Key."""
    key, body = uuid4(), {"project-name": "Team"}
    first, second = (tenants.send("POST", "/management/v1/project", body, key=key) for _ in range(2))
    assert (201, first.json) == (second.status, second.json)
    assert 2 == len(tenants.projects())


@pytest.mark.parametrize("first", ["creation", "deletion"])
async def test_nothing_is_created_in_a_project_after_its_deletion(
    catalog: Application, roots: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """A warehouse that is created while its project is deleted: the one that is appended first wins, and the other is decided again."""
    commands = catalog.commands
    assert isinstance(commands, CommandExecutor)
    await _without_warehouses(catalog)
    creating = create_warehouse(
        commands, context("createWarehouse"), CreateWarehouse("w", {"type": "local", "directory": str(roots)}), needs_review=False
    )
    deletion = delete_project(commands, context("deleteProject"), DeleteProject())
    other, held = (deletion, "createWarehouse") if first == "deletion" else (creating, "deleteProject")
    submit, done = commands.committer.submit_batch, []

    async def after_the_other(append_requests: list[AppendRequest]) -> Any:
        if append_requests[0].context.operation == held and not done:
            done.append(True)
            await other
        return await submit(append_requests)

    monkeypatch.setattr(commands.committer, "submit_batch", after_the_other)
    late, refusal = (creating, NoSuchProject) if first == "deletion" else (deletion, ProjectNotEmpty)
    with pytest.raises(refusal):
        await late


async def _without_warehouses(catalog: Application) -> None:
    demo = await resolve_warehouse(catalog.backends, PROJECT_ID_DEFAULT, "demo")
    await delete_warehouse(catalog.commands, context("deleteWarehouse"), demo, DeleteWarehouse())


@pytest.fixture
def two(tenants: Tenants, roots: Path) -> dict[str, str]:
    """The projects `a` and `b`, each with a warehouse `lake` with a table, a view and events: ids by name."""
    ids: dict[str, str] = {}
    for name in ("a", "b"):
        project = ids[name] = tenants.create(name)
        warehouse = ids[f"{name} lake"] = tenants.new_warehouse("lake", roots / name, project)
        created = tenants.send("POST", f"/catalog/v1/{warehouse}/namespaces", {"namespace": [f"of-{name}"]}, project=project)
        assert 200 == created.status, created.body
        table = {"name": f"table-of-{name}", "schema": SCHEMA}
        assert 200 == tenants.send("POST", f"/catalog/v1/lake/namespaces/of-{name}/tables", table, project=project).status
    return ids


def test_no_response_of_one_project_contains_a_thing_of_another(tenants: Tenants, two: dict[str, str], roots: Path) -> None:
    """Each route is asked in the project `a` for the things of `b`: by id and by name."""
    a, b, theirs = two["a"], two["b"], two["b lake"]
    (event,) = tenants.send("GET", "/history/v1/events?types=io.icecore.table.created.v1", project=b).json["events"]
    catalog, their_table = f"/catalog/v1/{theirs}", event["data"]["table"]["id"]
    for method, path, body, error in [
        ("GET", f"/catalog/v1/config?warehouse={theirs}", None, NO_WAREHOUSE),
        ("GET", "/catalog/v1/config?warehouse=b/lake", None, BAD),
        ("GET", f"/catalog/v1/config?warehouse={b}/lake", None, BAD),
        ("GET", "/catalog/v1/config?warehouse=nobody/lake", None, BAD),
        ("GET", f"{catalog}/namespaces", None, NO_WAREHOUSE),
        ("POST", f"{catalog}/namespaces", {"namespace": ["mine"]}, NO_WAREHOUSE),
        ("GET", f"{catalog}/namespaces/of-b/tables/table-of-b", None, NO_WAREHOUSE),
        ("DELETE", f"{catalog}/namespaces/of-b/tables/table-of-b", None, NO_WAREHOUSE),
        ("POST", f"{catalog}/events", {}, NO_WAREHOUSE),
        ("GET", f"/catalog/w/{theirs}/v1/namespaces", None, NO_WAREHOUSE),
        ("GET", f"/management/v1/warehouse/{theirs}", None, NO_WAREHOUSE),
        ("GET", f"/management/v1/warehouse/{theirs}/statistics", None, NO_WAREHOUSE),
        ("POST", f"/management/v1/warehouse/{theirs}/rename", {"new-name": "mine"}, NO_WAREHOUSE),
        ("POST", f"/management/v1/warehouse/{theirs}/deactivate", None, NO_WAREHOUSE),
        ("POST", f"/management/v1/warehouse/{theirs}/activate", None, NO_WAREHOUSE),
        ("POST", f"/management/v1/warehouse/{theirs}/protection", {"protected": True}, NO_WAREHOUSE),
        ("POST", f"/management/v1/warehouse/{theirs}/format-version-policy", {"allowed-format-versions": [3]}, NO_WAREHOUSE),
        ("POST", f"/management/v1/warehouse/{theirs}/config", {"overrides": {"updates": {"a": "b"}}}, NO_WAREHOUSE),
        ("DELETE", f"/management/v1/warehouse/{theirs}", None, NO_WAREHOUSE),
        ("GET", f"/management/v1/warehouse/{theirs}/actions", None, NO_WAREHOUSE),
        ("GET", f"/management/v1/warehouse/{theirs}/table/{their_table}/actions", None, NO_WAREHOUSE),
        ("GET", f"/management/v1/warehouse/{two['a lake']}/table/{their_table}/actions", None, (404, "NoSuchTableException")),
        ("GET", f"/management/v1/warehouse/{theirs}/table/{their_table}/protection", None, NO_WAREHOUSE),
        ("GET", f"/management/v1/warehouse/{two['a lake']}/table/{their_table}/protection", None, (404, "NoSuchTableException")),
        ("POST", f"/management/v1/warehouse/{theirs}/table/{their_table}/protection", {"protected": True}, NO_WAREHOUSE),
        ("POST", f"/management/v1/warehouse/{theirs}/storage/validate-access", None, NO_WAREHOUSE),
        ("POST", f"/management/v1/warehouse/{theirs}/storage-credential", {"new-storage-credential": None}, NO_WAREHOUSE),
        ("GET", f"/management/v1/proposals?warehouse={theirs}", None, NO_WAREHOUSE),
        ("GET", f"/management/v1/project/{b}", None, BAD),
        ("DELETE", f"/management/v1/project/{b}", None, BAD),
        ("GET", f"/management/v1/warehouse?projectId={b}", None, BAD),
        ("GET", f"/history/v1/events?warehouses={theirs}", None, NO_WAREHOUSE),
        ("GET", f"/history/v1/events?projectId={b}", None, BAD),
        ("GET", f"/history/v1/events/{event['id']}", None, (404, "NotFoundException")),
        ("GET", f"/history/v1/wait?warehouse={theirs}&namespace=of-b&table=table-of-b&snapshot-id=1", None, NO_WAREHOUSE),
    ]:
        refused = tenants.send(method, path, body, project=a)
        assert error == refused.error, path
        assert "of-b" not in refused.message, path
    mine = tenants.send("GET", "/management/v1/warehouse", project=a).json["warehouses"]
    assert [two["a lake"]] == [each["id"] for each in mine]
    for path in ("/history/v1/events", "/catalog/v1/lake/namespaces", "/catalog/v1/lake/namespaces/of-a/tables"):
        body = tenants.send("GET", path, project=a).body.decode()
        assert "of-a" in body
        assert "of-b" not in body
        assert b not in body, path
    # Nothing of `b` was changed.
    assert 200 == tenants.send("GET", f"{catalog}/namespaces/of-b/tables/table-of-b", project=b).status


def test_the_events_of_a_project_are_its_own(tenants: Tenants, two: dict[str, str]) -> None:
    """Those of the project itself, its warehouses and their objects; read page by page, as a stream, and by an id."""
    for name in ("a", "b"):
        events = tenants.send("GET", "/history/v1/events", project=two[name]).json["events"]
        assert {two[name]} == {event["project"] for event in events}
        assert ["project.created", "warehouse.created", "namespace.created", "table.created"] == [
            event["type"].removeprefix("io.icecore.").removesuffix(".v1") for event in events
        ]
        assert {"project": {"id": two[name], "name": name}} == events[0]["data"]
        by_parameter = tenants.send("GET", f"/history/v1/events/{events[0]['id']}?projectId={two[name]}")
        assert events[0] == by_parameter.json
    default = tenants.send("GET", "/history/v1/events").json["events"]
    assert {DEFAULT} == {event["project"] for event in default}
    assert ["io.icecore.warehouse.created.v1"] == [event["type"] for event in default]


def test_the_log_names_the_project_of_what_is_not_in_the_default_one(tenants: Tenants, two: dict[str, str], server: CatalogServer) -> None:
    """As in `PROJECT/WAREHOUSE`, by its current name."""
    renamed = tenants.send("POST", f"/management/v1/project/{two['b']}/rename", {"new-name": "c"})
    assert 200 == renamed.status, renamed.body
    code, printed, _ = operator_on(server.dsn)("log")
    assert 0 == code
    assert "demo v1" in printed
    assert all(f"  {text} v1" in printed for text in ("a/lake:of-a.table-of-a", "c/lake:of-b.table-of-b", "a/lake", "c/lake")), printed
    assert "/c v" not in printed
    assert "was" not in next(line for line in printed.splitlines() if "project renamed" in line)
    assert [" c v2"] == [line[-5:] for line in printed.splitlines() if "project renamed" in line]


def test_the_command_line_says_which_projects_have_a_warehouse_of_that_name(
    tenants: Tenants, two: dict[str, str], server: CatalogServer
) -> None:
    """If the default one has none."""
    operator = operator_on(server.dsn)
    expected = "icecore: Warehouse does not exist in the default project: LAKE; other projects have a/LAKE, b/LAKE\n"
    for command in (
        ("warehouse", "get", "LAKE"),
        ("table", "list", "LAKE", "of-a"),
        ("table", "deleted", "LAKE"),
        ("undrop", "LAKE", two["a"]),
    ):
        assert (1, "", expected) == operator(*command)
    assert (1, "", "icecore: Warehouse does not exist: sea\n") == operator("warehouse", "get", "sea")
    assert 0 == operator("warehouse", "get", "a/LAKE")[0]
    assert (1, "", "icecore: Warehouse does not exist: a/sea\n") == operator("warehouse", "get", "a/sea")


def test_an_idempotency_key_belongs_to_a_project(tenants: Tenants, two: dict[str, str]) -> None:
    """The same key in another project is another key: neither its response nor a 422 reveals it."""
    key, body = uuid4(), {"namespace": ["keyed"]}
    path = "/catalog/v1/lake/namespaces"
    for name in ("a", "b"):
        assert 200 == tenants.send("POST", path, body, project=two[name], key=key).status
        assert 200 == tenants.send("GET", f"{path}/keyed", project=two[name]).status
    different = tenants.send("POST", path, {"namespace": ["other"]}, project=two["a"], key=key)
    assert (422, "UnprocessableEntityException") == different.error


def test_a_taken_location_does_not_name_the_object_of_another_project(
    tenants: Tenants, two: dict[str, str], database: str, roots: Path
) -> None:
    """Neither an overlapping warehouse nor an overlapping table: errors name neither the project nor the object."""
    profile = {"type": "local", "directory": str(roots / "b" / "below")}
    body = {"warehouse-name": "w", "storage-profile": profile}
    overlapping = tenants.send("POST", "/management/v1/warehouse", body, project=two["a"])
    assert 400 == overlapping.status
    with psycopg.connect(database, autocommit=True) as connection:
        # As if two tables in storage that warehouses of both projects reach.
        connection.execute("update icecore.location_claims set key = replace(key, %s, %s)", [f"{roots}/b/", f"{roots}/a/x/"])
        ((claimed,),) = connection.execute(
            "select key from icecore.location_claims where kind = 'tabular' and key like '%/a/x/%'"
        ).fetchall()
    location = claimed.partition("|")[2].removesuffix("/")
    table = {"name": "t", "schema": SCHEMA, "location": location}
    taken = tenants.send("POST", "/catalog/v1/lake/namespaces/of-a/tables", table, project=two["a"])
    assert BAD == taken.error
    for refused in (overlapping, taken):
        for theirs in ("of-b", "table-of-b", two["b"], two["b lake"], "lake"):
            assert theirs not in refused.message.replace(location, "").replace(str(roots), ""), refused.message


def test_the_names_of_other_projects_are_free(tenants: Tenants, two: dict[str, str], roots: Path) -> None:
    """Both have a warehouse `lake`, and the default project can have one too."""
    tenants.new_warehouse("lake", roots / "default", None)
    assert (
        TAKEN
        == tenants.send(
            "POST",
            "/management/v1/warehouse",
            {"warehouse-name": "lake", "storage-profile": {"type": "local", "directory": str(roots / "x")}},
            project=two["a"],
        ).error
    )


@pytest.mark.parametrize("reference", ["lake", "b lake"])
async def test_a_command_that_is_decided_again_stays_in_its_project(
    tenants: Tenants, two: dict[str, str], database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roots: Path, reference: str
) -> None:
    """Its warehouse, named or by its id, is changed meanwhile, and other projects have one of that name. A dry run stays there too."""
    two["default lake"] = tenants.new_warehouse("lake", roots / "default", None)
    project = UUID(two["b"])

    async def change() -> None:
        path = f"/management/v1/warehouse/{two['b lake']}/protection"
        assert 200 == (await asyncio.to_thread(tenants.send, "POST", path, {"protected": True})).status

    async with opened_catalog(database, tmp_path / "demo") as process:
        lake = await resolve_warehouse(process.backends, project, two.get(reference, reference))
        appends = before_append(monkeypatch, process, change)
        in_project = replace(context("createNamespace"), project_id=project)
        await create_namespace(process.commands, in_project, lake, CreateNamespace(NamespaceIdentifier(("late",)), {}))
        assert 2 == len(appends)
        for name, expected in (("a", [["of-a"]]), ("b", [["late"], ["of-b"]]), ("default", [])):
            listed = tenants.send("GET", f"/catalog/v1/{two[f'{name} lake']}/namespaces").json["namespaces"]
            assert expected == sorted(listed), name
        drop = DropNamespace(NamespaceIdentifier(("of-b",)), recursive=True)
        plan = await plan_namespace_drop(process.commands, replace(in_project, operation="dropNamespace"), lake, drop)
    assert ["of-b", "table-of-b"] == sorted(each.object.path[-1] for each in plan.drops)


@pytest.mark.parametrize("header", ["team", str(UUID(int=7)), "00000000-0000-0000-0000-00000000000g"])
def test_a_project_that_does_not_exist_is_not_found(tenants: Tenants, header: str) -> None:
    for path in ("/management/v1/project", "/management/v1/warehouse", "/management/v1/proposals", "/history/v1/events"):
        assert NO_PROJECT == tenants.send("GET", path, project=header).error, path
    assert 404 == tenants.send("GET", "/catalog/v1/config?warehouse=demo", project=header).status


def test_a_request_without_a_project_is_in_that_of_its_warehouse(tenants: Tenants, two: dict[str, str]) -> None:
    """A client sends no header, only the prefix that /v1/config gave it: an id, which is unique on the server."""
    theirs = two["b lake"]
    for reference in (theirs, "b/lake", f"{two['b']}/lake", f"B/{theirs}"):
        config = tenants.send("GET", f"/catalog/v1/config?warehouse={reference}")
        assert theirs == config.json["overrides"]["prefix"], reference
    for base in ("/catalog/w/b/lake", f"/catalog/w/{two['b']}/{theirs}", "/catalog/w/b%2Flake"):
        for below in ("/v1/namespaces", f"/v1/{theirs}/namespaces"):
            assert [["of-b"]] == tenants.send("GET", f"{base}{below}").json["namespaces"], f"{base}{below}"
    assert NO_WAREHOUSE == tenants.send("GET", f"/catalog/w/b/lake/v1/{two['a lake']}/namespaces").error, "the base path names the project"
    created = tenants.send("POST", f"/catalog/v1/{theirs}/namespaces", {"namespace": ["late"]})
    assert 200 == created.status
    events = tenants.send("GET", "/history/v1/events?types=io.icecore.namespace.created.v1", project=two["b"]).json["events"]
    assert [["of-b"], ["late"]] == [event["data"]["namespace"]["name"] for event in events]
    assert NO_WAREHOUSE == tenants.send("GET", "/catalog/v1/config?warehouse=lake").error, "a name is that of the default project"
    for reference, error in (("nobody/lake", NO_PROJECT), ("/lake", BAD), ("b/", BAD), ("b/nothing", NO_WAREHOUSE)):
        assert error == tenants.send("GET", f"/catalog/v1/config?warehouse={reference}").error, reference


def test_a_management_request_without_a_project_is_in_that_of_its_warehouse(tenants: Tenants, two: dict[str, str]) -> None:
    """As in Lakekeeper. With the header of another project, it does not exist."""
    path = f"/management/v1/warehouse/{two['b lake']}"
    for method, below, body, status in [
        ("GET", "", None, 200),
        ("GET", "/statistics", None, 200),
        ("GET", "/actions", None, 200),
        ("GET", "/deleted-tabulars", None, 200),
        ("POST", "/deactivate", None, 200),
        ("POST", "/activate", None, 200),
        ("POST", "/rename", {"new-name": "sea"}, 200),
        ("DELETE", "", None, 409),
    ]:
        assert NO_WAREHOUSE == tenants.send(method, f"{path}{below}", body, project=two["a"]).error, below
        assert status == tenants.send(method, f"{path}{below}", body).status, below
    events = tenants.send("GET", "/history/v1/events?types=io.icecore.warehouse.renamed.v1", project=two["b"]).json["events"]
    assert [two["b"]] == [event["project"] for event in events]
    assert NO_WAREHOUSE == tenants.send("GET", f"/management/v1/warehouse/{UUID(int=7)}").error


def test_a_renamed_project_is_found_by_its_new_name_at_once(tenants: Tenants, two: dict[str, str]) -> None:
    assert 200 == tenants.send("GET", "/catalog/v1/b%2Flake/namespaces").status
    assert 200 == tenants.send("POST", "/management/v1/project/rename", {"new-name": "c"}, project=two["b"]).status
    assert NO_PROJECT == tenants.send("GET", "/catalog/v1/b%2Flake/namespaces").error
    assert 200 == tenants.send("GET", "/catalog/v1/c%2Flake/namespaces").status


def test_an_empty_project_id_is_refused(tenants: Tenants) -> None:
    refused = tenants.send("GET", "/management/v1/warehouse", project="")
    assert (BAD, "Invalid project id: must not be empty") == (refused.error, refused.message)


def test_without_a_default_project_a_request_must_name_one(database: str, tmp_path: Path) -> None:
    """The default project still exists, and is named like any other."""
    with served_catalog(database, tmp_path / "demo", default_project=False) as served, closing(Tenants(served.url)) as client:
        for path in ("/management/v1/project", "/management/v1/warehouse", "/history/v1/events", "/catalog/v1/config?warehouse=demo"):
            refused = client.send("GET", path)
            assert BAD == refused.error, path
            assert "x-project-id" in refused.message
            assert 200 == client.send("GET", path, project=DEFAULT).status, path
        for reference in (f"{DEFAULT_PROJECT_NAME}/demo".replace(" ", "%20"), f"{DEFAULT}/demo"):
            prefix = client.send("GET", f"/catalog/v1/config?warehouse={reference}").json["overrides"]["prefix"]
            assert 200 == client.send("GET", f"/catalog/v1/{prefix}/namespaces").status
        assert 200 == client.send("GET", "/management/v1/project-list").status
        assert 200 == client.send("GET", f"/management/v1/warehouse/{prefix}").status, "the id names the project"


def test_the_attacks_find_a_leak(tenants: Tenants, two: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: without the filter by project, the events of one are in the answer of another."""
    monkeypatch.setattr("icecore.publishers.pull._CloudEvents._may_match", lambda self, event: True)
    assert "of-b" in json.dumps(tenants.send("GET", "/history/v1/events", project=two["a"]).json)
