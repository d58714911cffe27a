"""The calls of each operation by the hour, as in Lakekeeper: counted once, in their project, without a wait for the request."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from icecore.access import endpoint_statistics
from icecore.access.endpoint_statistics import KEPT_DAYS, EndpointStatistics
from icecore.compose import Application
from icecore.projections.endpoint_statistics import NO_WAREHOUSE
from tests.fixtures.asynchronous import rows
from tests.fixtures.catalog import PROJECT_ID, CatalogServer, served_catalog
from tests.fixtures.readme import pieces
from tests.fixtures.rest_client import RestClient
from tests.fixtures.waiting import wait_for
from tests.integration.test_projects import DEFAULT, Tenants
from tests.servers.paths import ROOT

ADDRESS = "/management/v1/endpoint-statistics"
ALL = {"warehouse": {"type": "all"}}
LIST = "GET /catalog/v1/{prefix}/namespaces"
CREATE = "POST /catalog/v1/{prefix}/namespaces"
ROWS = "select project_id, warehouse_id, http_route, status_code, count from icecore.endpoint_statistics order by 1, 2, 3, 4"


@pytest.fixture
def server(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CatalogServer]:
    monkeypatch.setattr(endpoint_statistics, "FLUSH_SECONDS", 0.1)
    with served_catalog(database, tmp_path / "demo", jobs=False, local_warehouse_roots=(tmp_path,), skip_storage_validation=True) as served:
        yield served


@pytest.fixture
def tenants(server: CatalogServer) -> Iterator[Tenants]:
    with closing(Tenants(server.url)) as client:
        yield client


def entries(tenants: Tenants, **body: Any) -> list[dict[str, Any]]:
    """The calls in all hours of a response, without those of this operation itself."""
    response = tenants.send("POST", ADDRESS, ALL | body)
    assert 200 == response.status, response.body
    found: list[dict[str, Any]] = [each for hour in response.json["called-endpoints"] for each in hour]
    return [each for each in found if not each["http-route"].endswith("/endpoint-statistics")]


def counted(tenants: Tenants, number: int, **body: Any) -> list[dict[str, Any]]:
    """The calls, once so many are counted."""
    return wait_for(lambda: ((found := entries(tenants, **body)) and sum(each["count"] for each in found) >= number and found) or [], 20)


def test_calls_are_counted_by_route_status_and_warehouse(server: CatalogServer, tenants: Tenants) -> None:
    """In Lakekeeper's form: `updated-at` is null after one call, and the time of the hour is its end."""
    warehouse_id = rows(server.dsn, "select warehouse_id from icecore.warehouses")[0][0]
    before = datetime.now(UTC)
    with closing(RestClient(server.url, "demo")) as client:
        for _ in range(3):
            assert 200 == client.call("GET", "/namespaces").status
        assert 200 == client.create_namespace("n").status
        assert 409 == client.create_namespace("n").status
    assert 200 == tenants.send("GET", "/management/v1/warehouse").status
    assert 404 == tenants.send("GET", "/catalog/v1/none/namespaces").status
    assert 404 == tenants.send("GET", "/nowhere").status
    found = {(each["http-route"], each["status-code"]): each for each in counted(tenants, 6)}
    ours = {"warehouse-id": str(warehouse_id), "warehouse-name": "demo"}
    assert ours | {"count": 3} == {name: found[LIST, 200][name] for name in (*ours, "count")}
    assert ours | {"count": 1, "updated-at": None} == {name: found[CREATE, 409][name] for name in (*ours, "count", "updated-at")}
    first, last = (datetime.fromisoformat(found[LIST, 200][name]) for name in ("created-at", "updated-at"))
    assert before - timedelta(seconds=1) <= first < last <= datetime.now(UTC)
    listed = found["GET /management/v1/warehouse", 200]
    assert (None, None, 1) == (listed["warehouse-id"], listed["warehouse-name"], listed["count"])
    assert (LIST, 404) not in found, "a warehouse that does not exist has no project"
    command = pieces((ROOT / "docs" / "how-to" / "projects.md").read_text())["endpoint statistics"].replace(
        "http://127.0.0.1:8181", server.url
    )
    shown = json.loads(subprocess.run(["bash", "-e", "-c", command], capture_output=True, text=True, timeout=60, check=True).stdout)
    assert found[LIST, 200] in shown["called-endpoints"][0]
    (end, *_) = shown["timestamps"]
    assert timedelta() <= datetime.fromisoformat(end) - last <= timedelta(hours=1)


def test_they_are_filtered_by_warehouse_and_status(server: CatalogServer, tenants: Tenants, tmp_path: Path) -> None:
    warehouse_id = str(rows(server.dsn, "select warehouse_id from icecore.warehouses")[0][0])
    other = tenants.new_warehouse("other", tmp_path / "other", None)
    with closing(RestClient(server.url, "demo")) as client:
        assert 200 == client.create_namespace("n").status
        assert 409 == client.create_namespace("n").status
    assert 200 == tenants.send("GET", f"/management/v1/warehouse/{other}").status
    counted(tenants, 4)
    of_warehouse = {"warehouse": {"type": "warehouse-id", "id": warehouse_id}}
    assert {CREATE} == {each["http-route"] for each in entries(tenants, **of_warehouse) if each["status-code"] == 409}
    assert [409] == [each["status-code"] for each in entries(tenants, **of_warehouse, **{"status-codes": [409, 500]})]
    assert [] == entries(tenants, **{"status-codes": []})
    of_other = entries(tenants, warehouse={"type": "warehouse-id", "id": other})
    assert ["GET /management/v1/warehouse/{warehouse_id}"] == [each["http-route"] for each in of_other]
    unmapped = entries(tenants, warehouse={"type": "unmapped"})
    assert {"POST /management/v1/warehouse"} == {each["http-route"] for each in unmapped}
    tenants.send("DELETE", f"/management/v1/warehouse/{other}")
    assert None is next(each for each in entries(tenants) if each["warehouse-id"] == other)["warehouse-name"]


def test_a_project_sees_its_own_calls_only(server: CatalogServer, tenants: Tenants, tmp_path: Path) -> None:
    project = tenants.create("other")
    warehouse_id = tenants.new_warehouse("wh", tmp_path / "wh", project)
    (demo,) = tenants.send("GET", "/management/v1/warehouse", project=DEFAULT).json["warehouses"]
    assert 200 == tenants.send("GET", f"/management/v1/warehouse/{warehouse_id}", project=project).status
    for body in (ALL, {"warehouse": {"type": "warehouse-id", "id": warehouse_id}}):
        (hour,) = wait_for(lambda body=body: tenants.send("POST", ADDRESS, body, project=project).json["called-endpoints"], 20)  # type: ignore[misc]
        assert demo["id"] not in {each["warehouse-id"] for each in hour}
    refused = tenants.send("POST", ADDRESS, {"warehouse": {"type": "warehouse-id", "id": demo["id"]}}, project=project)
    assert (404, "NoSuchWarehouseException") == refused.error


def test_a_call_that_names_a_warehouse_of_another_project_is_of_none(server: CatalogServer, tenants: Tenants, tmp_path: Path) -> None:
    """Otherwise the id, which was answered with 404, would be shown to exist, with its name."""
    other = tenants.new_warehouse("secret", tmp_path / "secret", tenants.create("other"))
    missing = (404, "NoSuchWarehouseException")
    assert missing == tenants.send("GET", f"/management/v1/warehouse/{other}", project=DEFAULT).error
    assert missing == tenants.send("GET", f"/management/v1/warehouse/{uuid4()}", project=DEFAULT).error
    (refused,) = counted(tenants, 2, **{"status-codes": [404]})
    assert (2, None, None) == (refused["count"], refused["warehouse-id"], refused["warehouse-name"])


def test_a_name_of_another_project_that_was_counted_before_is_not_shown(server: CatalogServer, tenants: Tenants, tmp_path: Path) -> None:
    """Earlier versions counted such calls with the warehouse."""
    other = tenants.new_warehouse("secret", tmp_path / "secret", tenants.create("other"))
    now = datetime.now(UTC)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        values = (PROJECT_ID, now.replace(minute=0, second=0, microsecond=0), other, "GET /x", now, now)
        connection.execute("insert into icecore.endpoint_statistics values (%s, %s, %s, %s, 404, 1, %s, %s)", values)
    (found,) = [each for each in counted(tenants, 1) if each["http-route"] == "GET /x"]
    assert (None, None) == (found["warehouse-id"], found["warehouse-name"])


def test_windows_follow_each_other_without_gap_or_overlap(server: CatalogServer, tenants: Tenants) -> None:
    """Hour by hour with the tokens, back and forth."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for hours in range(50):
            values = (PROJECT_ID, now - timedelta(hours=hours), NO_WAREHOUSE, f"GET /{hours}", now, now)
            connection.execute("insert into icecore.endpoint_statistics values (%s, %s, %s, %s, 200, 1, %s, %s)", values)

    def routes(body: dict[str, Any]) -> list[str]:
        return [each["http-route"] for hour in body["called-endpoints"] for each in hour if each["http-route"].startswith("GET /")]

    newest = tenants.send("POST", ADDRESS, ALL).json
    assert [f"GET /{hours}" for hours in range(24)] == routes(newest)
    assert 24 == len(newest["timestamps"]) == len(newest["called-endpoints"])
    assert (now + timedelta(hours=1)).isoformat() == newest["timestamps"][0]
    paged = ALL | {"range-specifier": {"type": "page-token", "token": newest["previous-page-token"]}}
    before = tenants.send("POST", ADDRESS, paged).json
    assert [f"GET /{hours}" for hours in range(24, 48)] == routes(before)
    again = tenants.send("POST", ADDRESS, ALL | {"range-specifier": {"type": "page-token", "token": before["next-page-token"]}}).json
    assert routes(newest) == routes(again)
    window = {"type": "window", "end": (now - timedelta(hours=2)).isoformat(), "interval": "PT3H"}
    body = tenants.send("POST", ADDRESS, ALL | {"range-specifier": window}).json
    assert ["GET /2", "GET /3", "GET /4"] == routes(body)
    after = tenants.send("POST", ADDRESS, ALL | {"range-specifier": {"type": "page-token", "token": body["next-page-token"]}}).json
    assert ["GET /0", "GET /1"] == routes(after)
    assert routes(body) == routes(tenants.send("POST", ADDRESS, ALL | {"range-specifier": {**window, "interval": "P0DT180M"}}).json)


REFUSED: list[dict[str, Any]] = [
    {},
    {"warehouse": None},
    {"warehouse": {"type": "some"}},
    {"warehouse": {"type": "warehouse-id"}},
    {"warehouse": {"type": "warehouse-id", "id": "demo"}},
    {"warehouse": {"type": "warehouse-id", "id": str(NO_WAREHOUSE)}},
    {"warehouse": {"type": "all", "id": str(uuid4())}},
    ALL | {"status-codes": [99]},
    ALL | {"status-codes": [600]},
    ALL | {"status-codes": ["200"]},
    ALL | {"status-codes": [200] * 101},
    ALL | {"range-specifier": {}},
    ALL | {"range-specifier": {"type": "window"}},
    ALL | {"range-specifier": {"type": "window", "end": "2026-01-01T00:00:00Z"}},
    ALL | {"range-specifier": {"type": "window", "end": "2026-01-01", "interval": "P1D"}},
    *(
        ALL | {"range-specifier": {"type": "window", "end": "2026-01-01T00:00:00Z", "interval": interval}}
        for interval in ("", "P", "PT", "P1M", "P1Y", "P0D", "-P1D", "P93D", "1D", "P1DT", "P1.5D", "PT999999H", "p1d")
    ),
    ALL | {"range-specifier": {"type": "page-token"}},
    ALL | {"range-specifier": {"type": "page-token", "token": "x"}},
    ALL | {"more": 1},
]


def test_a_request_that_means_nothing_is_refused(tenants: Tenants) -> None:
    for body in REFUSED:
        assert (400, "BadRequestException") == tenants.send("POST", ADDRESS, body).error, body


def test_tokens_of_others_and_the_end_of_time(tenants: Tenants) -> None:
    """A token belongs to its filter, and windows end with the years that there are."""
    token = tenants.send("POST", ADDRESS, ALL).json["next-page-token"]
    paged = {"warehouse": {"type": "unmapped"}, "range-specifier": {"type": "page-token", "token": token}}
    assert (400, "BadRequestException") == tenants.send("POST", ADDRESS, paged).error
    for end in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        window = {"type": "window", "end": end, "interval": "P92D"}
        body = tenants.send("POST", ADDRESS, ALL | {"range-specifier": window}).json
        for name in ("previous-page-token", "next-page-token"):
            answer = tenants.send("POST", ADDRESS, ALL | {"range-specifier": {"type": "page-token", "token": body[name]}})
            assert 200 == answer.status, answer.body


async def test_counts_are_kept_while_postgres_is_away(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call is counted once, by a later flush."""
    statistics = EndpointStatistics(catalog.backends)
    statistics.count(PROJECT_ID, None, "GET /before-the-start", 200)
    monkeypatch.setattr(endpoint_statistics, "FLUSH_SECONDS", 0.05)
    statistics.start()
    add_calls = endpoint_statistics.add_calls

    async def failing(*_: Any) -> None:
        raise psycopg.OperationalError("away")

    monkeypatch.setattr(endpoint_statistics, "add_calls", failing)
    for _ in range(20):
        statistics.count(PROJECT_ID, None, "GET /x", 200)
        await asyncio.sleep(0.02)
    assert [] == rows(catalog.dsn, ROWS)
    monkeypatch.setattr(endpoint_statistics, "add_calls", add_calls)
    statistics.count(PROJECT_ID, None, "GET /x", 200)
    await statistics.close()
    assert [(PROJECT_ID, NO_WAREHOUSE, "GET /x", 200, 21)] == rows(catalog.dsn, ROWS)


async def test_two_processes_add_to_the_same_hour(catalog: Application) -> None:
    both = [EndpointStatistics(catalog.backends) for _ in range(2)]
    for each in both:
        each.start()
        for route in ("GET /b", "GET /a"):
            each.count(PROJECT_ID, None, route, 200)
    await asyncio.gather(*(each.close() for each in both))
    assert [(PROJECT_ID, NO_WAREHOUSE, route, 200, 2) for route in ("GET /a", "GET /b")] == rows(catalog.dsn, ROWS)


async def test_ids_that_are_no_warehouse_s_are_not_kept(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that makes ids up fills neither the memory nor the table."""
    monkeypatch.setattr(endpoint_statistics, "_COUNTERS_MAX", 50)
    statistics = EndpointStatistics(catalog.backends)
    statistics.start()
    for _ in range(200):
        statistics.count(PROJECT_ID, uuid4(), "GET /x", 404)
    assert 51 >= len(statistics._counters)
    await statistics.close()
    assert [(PROJECT_ID, NO_WAREHOUSE, "GET /x", 404, 200)] == rows(catalog.dsn, ROWS)


async def test_ids_that_a_client_makes_up_take_no_place_of_other_projects(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_statistics, "_PROJECT_COUNTERS_MAX", 20)
    monkeypatch.setattr(endpoint_statistics, "_COUNTERS_MAX", 50)
    other, warehouse = uuid4(), uuid4()
    statistics = EndpointStatistics(catalog.backends)
    statistics.start()
    for _ in range(200):
        statistics.count(PROJECT_ID, uuid4(), "GET /x", 404)
    statistics.count(other, warehouse, "GET /x", 200)
    assert (other, warehouse) in {(project_id, warehouse_id) for project_id, _, warehouse_id, *_ in statistics._counters}
    await statistics.close()


async def test_old_hours_are_deleted(catalog: Application) -> None:
    """After KEPT_DAYS."""
    with psycopg.connect(catalog.dsn, autocommit=True) as connection:
        for days in (KEPT_DAYS - 1, KEPT_DAYS + 1):
            at = datetime.now(UTC) - timedelta(days=days)
            values = (PROJECT_ID, at, NO_WAREHOUSE, f"GET /{days}", at, at)
            connection.execute("insert into icecore.endpoint_statistics values (%s, %s, %s, %s, 200, 1, %s, %s)", values)
    statistics = EndpointStatistics(catalog.backends)
    statistics.start()
    statistics.count(PROJECT_ID, None, "GET /now", 200)
    await statistics.close()
    assert {f"GET /{KEPT_DAYS - 1}", "GET /now"} == {route for _, _, route, *_ in rows(catalog.dsn, ROWS)}


def test_a_read_only_server_counts_nothing(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may read a standby."""
    monkeypatch.setattr(endpoint_statistics, "FLUSH_SECONDS", 0.05)
    with served_catalog(database, tmp_path / "demo", jobs=False) as served, closing(RestClient(served.url, "demo")) as client:
        client.create_namespace("n")
    before = rows(database, ROWS)
    assert before
    with (
        served_catalog(database, tmp_path / "demo", jobs=False, read_only=True) as served,
        closing(RestClient(served.url, "demo")) as client,
    ):
        assert 200 == client.call("GET", "/namespaces").status
    assert before == rows(database, ROWS)
    assert {UUID(DEFAULT)} == {project_id for project_id, *_ in before}


TOUCHED = """
select relname, coalesce(seq_scan, 0) + coalesce(idx_scan, 0) + n_tup_ins + n_tup_upd + n_tup_del from pg_stat_user_tables
where schemaname = 'icecore' and relname in
  ('endpoint_statistics', 'warehouse_statistics', 'statistics_tracking', 'search_names', 'search_terms', 'search_tracking')
  and coalesce(seq_scan, 0) + coalesce(idx_scan, 0) + n_tup_ins + n_tup_upd + n_tup_del > 0 order by 1
"""


def test_a_commit_touches_no_table_of_the_statistics_and_the_search(database: str, tmp_path: Path) -> None:
    """No statement, so no WAL. The calls are written when the server stops, or half a minute later."""
    with served_catalog(database, tmp_path / "demo", jobs=False) as served, closing(RestClient(served.url, "demo")) as client:
        assert 200 == client.create_namespace("n").status
        assert 200 == client.create_table(["n"], "t").status
        for number in range(20):
            update = {"action": "set-properties", "updates": {"number": str(number)}}
            assert 200 == client.call("POST", "/namespaces/n/tables/t", {"requirements": [], "updates": [update]}).status
        # Sessions report what they did when they end, or a second later.
        ended = "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity where application_name like 'icecore-%'"
        assert rows(database, ended + " and datname = current_database()")[0][0] > 0
        assert [] == rows(database, TOUCHED)
        assert [] == rows(database, ROWS)
    assert 20 == next(
        count
        for _, _, route, _, count in rows(database, ROWS)
        if route == "POST /catalog/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    )
    assert "endpoint_statistics" in {name for name, _ in rows(database, TOUCHED)}
