"""WAL bytes per commit with the temporal rows, beside a build that keeps only current rows (current_rows.sql)."""

import psycopg

from benchmarks.bench import NAMESPACE, Bench, UnfitRunError
from benchmarks.blocks import alternate, ratio
from benchmarks.findings import Finding, at_most, of_ratio
from benchmarks.rest import RestCatalog
from icecore.database.named_sql import named_sql

GOAL = at_most(1.3)
_SQL = named_sql("benchmarks", "current_rows.sql")
_SNAPSHOTS_MAX = 100


def run(bench: Bench) -> list[Finding]:
    dsns = {name: bench.local_database(name) for name in ("temporal", "current")}
    with psycopg.connect(dsns["current"], autocommit=True) as connection:
        connection.execute(_SQL["keep_current_only"], prepare=False)
    with bench.catalog("temporal") as temporal, bench.catalog("current") as current:
        for catalog in (temporal, current):
            catalog.create_table(NAMESPACE, "written")
            catalog.add_snapshots(NAMESPACE, "written", _SNAPSHOTS_MAX)
        blocks = alternate(
            bench.rounds,
            {
                "temporal": lambda: _wal_per_commit(bench, temporal, dsns["temporal"]),
                "current": lambda: _wal_per_commit(bench, current, dsns["current"]),
            },
        )
        _check(temporal, current, dsns)
    # The first blocks still write full pages after a checkpoint.
    found = ratio(blocks["temporal"][1:], blocks["current"][1:])
    details = {name: round(sorted(values)[len(values) // 2]) for name, values in blocks.items()}
    return [of_ratio("WAL bytes of an append commit, 100 snapshots kept", found, GOAL, details)]


def _wal_per_commit(bench: Bench, catalog: RestCatalog, dsn: str) -> float:
    """Nothing else writes to this Postgres meanwhile."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        before, wal_before = (_number(connection, name) for name in ("position", "wal"))
        bench.write(catalog, "append_shared", clients=1, table="written", snapshots_max=_SNAPSHOTS_MAX)
        after, wal_after = (_number(connection, name) for name in ("position", "wal"))
    if after - before < 10:
        raise UnfitRunError(f"only {after - before} commits in a block")
    return (wal_after - wal_before) / (after - before)


def _number(connection: psycopg.Connection[tuple[object, ...]], block: str) -> int:
    row = connection.execute(_SQL[block]).fetchone()
    assert row is not None
    return int(str(row[0]))


def _check(temporal: RestCatalog, current: RestCatalog, dsns: dict[str, str]) -> None:
    """Checks that both return whole tables, and that only one build keeps the history."""
    for catalog in (temporal, current):
        assert len(catalog.load(NAMESPACE, "written")["metadata"]["snapshots"]) == _SNAPSHOTS_MAX
    rows = {}
    for name, dsn in dsns.items():
        with psycopg.connect(dsn) as connection:
            row = connection.execute("select count(*) from icecore.table_parts").fetchone()
            assert row is not None
            rows[name] = row[0]
    assert rows["current"] < rows["temporal"], rows
