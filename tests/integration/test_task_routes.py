"""Tasks over HTTP, as Lakekeeper's clients send requests, and at the command line."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from icecore.access.request_context import ANONYMOUS
from icecore.commands.tasks.attempts import FailedAttempt, record_failure
from icecore.domain.task import TaskOf
from icecore.projections.verify import verify
from tests.fixtures.catalog import CatalogServer, opened_catalog, served_catalog
from tests.fixtures.operator_commands import icecore, operator_on
from tests.fixtures.rest_client import RestResponse
from tests.integration.test_projects import Tenants
from tests.integration.test_soft_deletion import DAY, Client

NO_TASK = (404, "NoSuchTaskException")


class Tasks(Client):
    """Requests about the tasks of the warehouse `demo`. url -- of the server."""

    url = ""

    def tasks(self, **body: Any) -> list[dict[str, Any]]:
        response = self.call_warehouse("POST", "/task/list", body)
        assert 200 == response.status, response.body
        found: list[dict[str, Any]] = response.json["tasks"]
        return found

    def control(self, action: dict[str, Any] | str, *ids: str, key: object = None) -> RestResponse:
        body = {"action": {"action-type": action} if isinstance(action, str) else action, "task-ids": ids}
        return self.call_warehouse("POST", "/task/control", body, key=key)


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[CatalogServer]:
    """Without jobs, so tasks wait."""
    with served_catalog(database, tmp_path / "demo", jobs=False) as served:
        yield served


@pytest.fixture
def client(server: CatalogServer) -> Iterator[Tasks]:
    with closing(Tasks(server.url)) as client:
        client.dsn, client.url = server.dsn, server.url
        assert 200 == client.create_namespace("n").status
        for name in ("t", "u"):
            assert 200 == client.create_table(["n"], name).status
            assert 204 == client.drop(name, "?purgeRequested=true").status
        yield client


def test_tasks_are_listed_and_loaded_in_lakekeeper_s_form(client: Tasks) -> None:
    """Newest first, in pages; a task has its object and its attempts."""
    newest, oldest = client.tasks()
    assert (["n", "u"], ["n", "t"]) == (newest["entity-name"], oldest["entity-name"])
    assert ("tabular_purge", "SCHEDULED", 0, None) == tuple(oldest[name] for name in ("queue-name", "status", "attempt", "parent-task-id"))
    assert {"type", "table-id"} == {*oldest["entity"]}
    first = client.call_warehouse("POST", "/task/list", {"page-size": 1}).json
    assert [newest["task-id"]] == [each["task-id"] for each in first["tasks"]]
    assert [oldest["task-id"]] == [each["task-id"] for each in client.tasks(**{"page-size": 1, "page-token": first["next-page-token"]})]
    loaded = client.call_warehouse("GET", f"/task/by-id/{oldest['task-id']}?numAttempts=3").json
    assert (oldest["task-id"], [], {"files-may-be-deleted": False}) == (loaded["task-id"], loaded["attempts"], loaded["execution-details"])
    assert [] == client.tasks(status=["SUCCESS", "RUNNING"])
    assert [] == client.tasks(**{"queue-name": ["tabular_expiration"]})
    assert [newest["task-id"]] == [each["task-id"] for each in client.tasks(entities=[newest["entity"]])]
    assert [] == client.tasks(entities=[{"type": "view", "view-id": newest["entity"]["table-id"]}])
    with closing(Tenants(client.url)) as tenants:
        listed = tenants.send("POST", "/management/v1/project/task/list", {})
    assert {"tasks": [], "next-page-token": None} == listed.json


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000001Z", "2020-01-01T00:00:00Z"])
def test_everything_was_created_after_an_early_moment(client: Tasks, moment: str) -> None:
    assert 2 == len(client.tasks(**{"created-after": moment}))


def test_tasks_are_listed_up_to_a_moment(client: Tasks) -> None:
    """Inclusive. A client that asks for what has waited for long would else see every task."""
    _, oldest = client.tasks()
    assert [] == client.tasks(**{"created-before": "2020-01-01T00:00:00Z"})
    assert [oldest] == client.tasks(**{"created-before": oldest["created-at"]})


async def test_a_failed_attempt_is_loaded_in_lakekeeper_s_form(client: Tasks, server: CatalogServer) -> None:
    """With its error and how long it ran, as an ISO 8601 duration. In milliseconds, clients would show a minute as 17 hours."""
    _, oldest = client.tasks()
    task = TaskOf(UUID(oldest["task-id"]), "tabular_purge", "table", UUID(oldest["entity"]["table-id"]), "scheduled")
    started_at = "2026-01-02T03:04:05.000Z"
    started_at_ms = int(datetime.fromisoformat(started_at).timestamp() * 1_000)
    async with opened_catalog(server.dsn, server.warehouse_directory) as catalog:
        catalog.commands.now_ms = lambda: started_at_ms + 61_500
        error = "The object store does not respond"
        await record_failure(catalog.commands, ANONYMOUS, FailedAttempt(task, UUID(client.prefix), 1, started_at_ms, 1.0, error))
    (attempt,) = client.call_warehouse("GET", f"/task/by-id/{oldest['task-id']}").json["attempts"]
    assert attempt == {
        "attempt": 1,
        "status": "FAILED",
        "scheduled-for": started_at,
        "started-at": started_at,
        "duration": "PT61.500S",
        "message": error,
        "created-at": started_at,
        "progress": 0.0,
        "execution-details": None,
    }


def test_tasks_are_controlled_all_or_none(client: Tasks) -> None:
    """The key of a repeated request returns the same."""
    newest, oldest = (each["task-id"] for each in client.tasks())
    unknown, key = str(uuid4()), uuid4()
    assert NO_TASK == client.control("cancel", oldest, unknown).error
    assert ["SCHEDULED"] * 2 == [each["status"] for each in client.tasks()]
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert 204 == client.control({"action-type": "run-at", "scheduled-for": later}, newest).status
    assert datetime.fromisoformat(later) - timedelta(seconds=1) < datetime.fromisoformat(client.tasks()[0]["scheduled-for"])
    assert [204] * 2 == [client.control("cancel", newest, oldest, key=key).status for _ in range(2)]
    assert (409, "TaskFinishedException") == client.control("run-now", newest).error
    assert ["CANCELLED"] * 2 == [each["status"] for each in client.tasks()]


def test_an_expiry_is_not_controlled(client: Tasks) -> None:
    """Only an undrop ends it."""
    client.soft_delete(7 * DAY)
    assert 200 == client.create_table(["n"], "w").status
    assert 204 == client.drop("w").status
    [expiry] = client.tasks(**{"queue-name": ["tabular_expiration"]})
    for action in ("stop", "cancel", "run-now"):
        refused = client.control(action, expiry["task-id"])
        assert (409, "ExpirationFixedException") == refused.error
        assert "undrop it instead" in refused.message
    assert 204 == client.undrop_all().status
    assert ["CANCELLED"] == [each["status"] for each in client.tasks(**{"queue-name": ["tabular_expiration"]})]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"action": {"action-type": "pause"}, "task-ids": []}, "action-type"),
        ({"action": {"action-type": "run-at"}, "task-ids": []}, "scheduled-for"),
        ({"action": {"action-type": "stop"}}, "task-ids"),
        ({"action": {"action-type": "stop"}, "task-ids": ["x"]}, "task-ids"),
        ({"action": "stop", "task-ids": []}, "action"),
        ({"action": {"action-type": "stop"}, "task-ids": [str(uuid4())] * 2}, "more than once"),
        ({"action": {"action-type": "run-at", "scheduled-for": "2999-01-01T00:00:00Z"}, "task-ids": []}, "scheduled-for"),
    ],
)
def test_a_wrong_request_is_refused(client: Tasks, body: dict[str, Any], message: str) -> None:
    refused = client.call_warehouse("POST", "/task/control", body)
    assert (400, "BadRequestException") == refused.error
    assert message in refused.message


def test_a_queue_is_configured(client: Tasks) -> None:
    """By a setting that it has, within bounds."""
    address, name = "/task-queue/tabular_purge/config", "max-seconds-since-last-heartbeat"
    assert None is client.call_warehouse("GET", address).json[name]
    assert 204 == client.call_warehouse("POST", address, {"queue-config": {}, name: 600}).status
    assert 600 == client.call_warehouse("GET", address).json[name]
    for queue, body, error in (
        ("tabular_purge", {"queue-config": {}, name: 59}, "InvalidQueueConfig"),
        ("tabular_purge", {"queue-config": {"workers": 2}}, "InvalidQueueConfig"),
        ("tabular_expiration", {"queue-config": {}, name: 600}, "InvalidQueueConfig"),
        ("nothing", {"queue-config": {}}, "QueueNotFound"),
    ):
        assert (400, error) == client.call_warehouse("POST", f"/task-queue/{queue}/config", body).error
    assert 600 == client.call_warehouse("GET", address).json[name]


_SAME = ("task-id", "project-id", "warehouse-id", "queue-name", "entity", "entity-name", "status", "attempt", "task-data")


def test_a_queue_is_configured_at_the_command_line(client: Tasks, server: CatalogServer) -> None:
    """As over HTTP, with the same names."""
    run = partial(operator_on(server.dsn), "task", "queue-config")

    def configured() -> Any:
        # Another connection, because the server closes one that is idle for so long.
        with closing(Tasks(server.url)) as again:
            return again.call_warehouse("GET", "/task-queue/tabular_purge/config").json

    line, name = "tabular_purge  an attempt without progress ends after", "max-seconds-since-last-heartbeat"
    assert (0, f"{line} 1h (default)\n", "") == run("demo", "tabular_purge")
    assert (0, f"{line} 10m\n", "") == run("demo", "tabular_purge", "--heartbeat", "10m")
    code, printed, _ = run("demo", "tabular_purge", "--json")
    assert (0, 600, configured()) == (code, json.loads(printed)[name], json.loads(printed))
    for arguments, said in (
        (("tabular_purge", "--heartbeat", "59s"), "60"),
        (("tabular_purge", "--heartbeat", "ten"), "--heartbeat must be a whole number with d, h, m or s"),
        (("tabular_purge", "--heartbeat", "10m", "--reset"), "give either --heartbeat or --reset"),
        (("tabular_expiration", "--heartbeat", "10m"), "tabular_expiration"),
        (("purge",), "tabular_purge"),
    ):
        code, printed, error = run("demo", *arguments)
        assert (2, "", True) == (code, printed, said in error), error
    assert 600 == configured()[name], "a refused command changed it"
    assert (0, f"{line} 1h (default)\n", "") == run("demo", "tabular_purge", "--reset")
    assert (0, "tabular_expiration  no settings\n", "") == run("demo", "tabular_expiration")
    assert None is configured()[name]


def test_the_command_line_does_what_the_page_says(client: Tasks, server: CatalogServer) -> None:
    """List, get and control."""
    newest, oldest = (each["task-id"] for each in client.tasks())

    def run(*arguments: str) -> tuple[int, str, str]:
        done = icecore(server.dsn, "task", *arguments)
        return done.returncode, done.stdout, done.stderr

    code, printed, _ = run("list", "demo")
    assert 0 == code
    assert all(text in printed for text in (newest, oldest, "tabular_purge", "SCHEDULED", "n.t", "n.u"))
    _, shown, _ = run("get", "demo", newest)
    (scheduled,) = [line.removeprefix("scheduled-for: ") for line in shown.splitlines() if line.startswith("scheduled-for: ")]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", scheduled)
    assert scheduled in printed, "both show times alike"
    code, printed, _ = run("list", "demo", "--status", "SCHEDULED", "--queue", "tabular_purge", "--limit", "1", "--json")
    assert (0, [newest]) == (code, [each["task-id"] for each in json.loads(printed)])
    assert (0, "no tasks\n", "") == run("list", "demo", "--queue", "tabular_expiration")
    assert (0, "", "") == run("run-at", "demo", "2026-12-24T18:00:00Z", newest)
    assert (0, "", "") == run("run-now", "demo", newest)
    assert (0, "", "") == run("cancel", "demo", newest)
    code, printed, _ = run("get", "demo", newest)
    assert (0, True) == (code, "status: CANCELLED" in printed)
    code, printed, _ = run("get", "demo", oldest, "--json")
    # Another connection, because the server has closed one that was idle for so long.
    with closing(Tasks(server.url)) as again:
        loaded, listed = again.call_warehouse("GET", f"/task/by-id/{oldest}").json, again.tasks()
    found = json.loads(printed)
    assert (0, loaded.keys(), []) == (code, found.keys(), found["attempts"])
    assert [loaded[name] for name in _SAME] == [found[name] for name in _SAME]
    assert all(datetime.fromisoformat(loaded[name]) == datetime.fromisoformat(found[name]) for name in ("created-at", "scheduled-for"))
    code, printed, _ = run("list", "demo", "--json")
    assert (0, [each["entity"] for each in listed]) == (code, [each["entity"] for each in json.loads(printed)])
    unknown = str(uuid4())
    assert (1, "", f"icecore: Task does not exist: {unknown}\n") == run("stop", "demo", unknown)
    code, _, said = run("cancel", "demo", oldest, oldest)
    assert (2, True) == (code, "each once" in said)
    code, _, said = run("run-at", "demo", "2026-12-24T18:00:00", oldest)
    assert (2, True) == (code, "must have a zone" in said)
    assert asyncio.run(verify(server.dsn)).ok
