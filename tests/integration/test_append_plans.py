"""The query plans of `icecore.append` on Debian's Postgres with default settings, with JIT on.

Plans are made while tables are small and cached while they grow, until statistics change.
"""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest
from uuid_utils.compat import uuid7

from icecore.commands.execution import preloaded_parts
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.domain.commands import CreateNamespace
from icecore.domain.identifiers import NamespaceIdentifier
from icecore.migrations.apply import apply_migrations
from tests.fixtures.catalog import context, opened_catalog
from tests.fixtures.command_runs import EVERY_KIND, CommandRun
from tests.servers.postgres import debian_postgres

# Much larger than the small tables; no table that a command uses has as many rows.
_ROWS_ADDED = 20_000
_ROWS_READ_MAX = 5_000
# Logs every statement of the functions with its executed plan. Only the test updates statistics.
_LOGGED = (
    "-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 -c auto_explain.log_nested_statements=on "
    "-c auto_explain.log_analyze=on -c auto_explain.log_timing=off -c auto_explain.log_format=json "
    "-c log_line_prefix=%a/ -c autovacuum=off -c fsync=off"
)
_PLAN = re.compile(r"^icecore-committer/LOG:  duration: .*?plan:\n((?:\t.*\n)+)", re.MULTILINE)

# Unrelated rows in the middle of every key.
_GROW = """
set session_replication_role = replica;
insert into icecore.events
  select gen_random_uuid(), e.originator_version, e.topic, e.state, 1000000 + n, gen_random_uuid(), gen_random_uuid(), e.recorded_at,
         e.actor, e.project_id, e.warehouse_id, e.request_id, null, null, null, e.hash
  from generate_series(1, {rows}) n, (select * from icecore.events where notification_id = 1) e;
insert into icecore.commands select gen_random_uuid(), null, 0, now() from generate_series(1, {rows});
insert into icecore.idempotency
  select project_id, actor, gen_random_uuid(), gen_random_uuid(), request_hash, operation, status, null, null, 1, null, now(), hash
  from icecore.idempotency, generate_series(1, {rows});
insert into icecore.claims
  select kind, scope, key || n, gen_random_uuid()
  from generate_series(1, {rows}) n, (select distinct on (kind) * from icecore.claims order by kind) c;
insert into icecore.location_claims select key || n || '/', gen_random_uuid(), kind
  from generate_series(1, {rows}) n, (select distinct on (kind) * from icecore.location_claims order by kind) l;
insert into icecore.names
  select generation, gen_random_uuid(), n, case when n % 2 = 0 then n + 1 end, gen_random_uuid(), kind, name, name_key
  from generate_series(1, {rows}) n, (select * from icecore.names limit 1) c;
insert into icecore.table_parts
  select generation, gen_random_uuid(), kind, n, valid_from, null, snapshot_id, body
  from generate_series(1, {rows}) n, (select * from icecore.table_parts limit 1) p;
insert into icecore.preloaded_parts select gen_random_uuid(), 1, now() from generate_series(1, {rows});
insert into icecore.old_metadata_files
  select 'test|' || n || '/', gen_random_uuid(), gen_random_uuid(), '' from generate_series(1, {rows}) n;
"""


@pytest.fixture
def shipped(open_directory: Path) -> Iterator[tuple[str, Path]]:
    """A migrated database on Debian's Postgres, and its server log."""
    directory = open_directory / "cluster"
    with debian_postgres(_LOGGED, directory) as dsn:
        asyncio.run(apply_migrations(dsn))
        yield dsn, directory / "log"


def plans_in(log: str) -> list[dict[str, Any]]:
    return [orjson.loads(found) for found in _PLAN.findall(log)]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def rows_read(node: dict[str, Any]) -> int:
    """The rows that a scan read, including those it filtered out."""
    unwanted = sum(count for name, count in node.items() if name.startswith("Rows Removed by"))
    return int((node["Actual Rows"] + unwanted) * node["Actual Loops"])


async def test_every_statement_of_the_append_finds_its_rows_by_a_key_and_is_not_compiled(
    shipped: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with plans from when the tables were small: no sequential scan, no scan of a wrong index, no JIT."""
    monkeypatch.setattr("icecore.database.connection.OPTIONS", "")  # As with a pooler that drops options.
    dsn, log = shipped
    async with opened_catalog(dsn, tmp_path / "warehouse") as catalog:
        await every_kind(catalog, "demo")
    with psycopg.connect(dsn, autocommit=True) as connection:
        # As Postgres does by itself after the fifth use of a statement.
        connection.execute("alter database postgres set plan_cache_mode = force_generic_plan")
        connection.execute("vacuum analyze")
    async with opened_catalog(dsn, tmp_path / "warehouse") as catalog:
        for name in ("other", "third"):
            (tmp_path / name).mkdir()
            command = CreateWarehouse(name, {"type": "local", "directory": str(tmp_path / name)})
            await create_warehouse(catalog.commands, context("createWarehouse"), command, needs_review=False)
        await every_kind(catalog, "other")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(_GROW.format(rows=_ROWS_ADDED))  # type: ignore[arg-type]  # a number
        before = len(log.read_text())
        await every_kind(catalog, "third")
    plans = plans_in(log.read_text()[before:])
    scanned = [(plan["Query Text"], node) for plan in plans for node in nodes(plan["Plan"]) if "Relation Name" in node]
    touched = {node["Relation Name"] for _, node in scanned}
    assert {"events", "commands", "idempotency", "claims", "location_claims", "names", "table_parts", "preloaded_parts"} <= touched
    assert "old_metadata_files" in touched
    of_tables = {f"{node['Node Type']} of {node['Relation Name']}: {text}" for text, node in scanned if node["Node Type"] == "Seq Scan"}
    assert set() == of_tables
    assert set() == {f"{text}\n{node}" for text, node in scanned if node["Node Type"].endswith("Scan") and rows_read(node) > _ROWS_READ_MAX}
    assert set() == {plan["Query Text"] for plan in plans if "JIT" in plan}


async def every_kind(catalog: Any, warehouse: str) -> None:
    """Every command, registrations with parts written beforehand, and one with an Idempotency-Key."""
    run = await CommandRun.on(catalog, warehouse)
    with pytest.MonkeyPatch.context() as registering:
        registering.setattr(preloaded_parts, "PARTS_APPENDED_MAX", 1)
        for step in EVERY_KIND:
            await run.step(step)
    keyed = context("createNamespace", key=uuid7(), request_hash=b"h")
    await create_namespace(catalog.commands, keyed, run.warehouse, CreateNamespace(NamespaceIdentifier(("keyed",)), {}))
