"""What a sink costs the commits beside it: statements and bytes of WAL of the sessions that commit, with a sink and without.

Statements are those Postgres logs, by session; WAL is what Postgres 18 counts for each session. So what the publisher's own session
reads and writes (its row) stands apart, in the details.
"""

import contextlib
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from benchmarks import work
from benchmarks.bench import NAMESPACE, Bench, UnfitRunError
from benchmarks.brokers import sink_settings
from benchmarks.findings import Finding, Json, at_most
from benchmarks.rest import RestCatalog

# A little room for pages that split in the one database and not in the other: ids are random.
WAL_GOAL = at_most(1.01)
STATEMENT_GOAL = at_most(1.0)
COMMITS = 200
_TABLE = "counted"
_FLUSH_SECONDS_MAX = 30.0
_REPORT_SECONDS = 11.0
_BEHIND = """
select coalesce((select max(notification_id) from icecore.events) - min(position), 0) from icecore.sinks
"""
_COMMITS_IT = "icecore-committer"
_SESSIONS = """
select a.pid, a.application_name, w.wal_bytes::bigint
from pg_stat_activity a cross join lateral pg_stat_get_backend_wal(a.pid) w
where a.datname = current_database() and a.application_name like 'icecore-%'
"""
_STATEMENT = re.compile(rb"^\S+ \S+ \S+ \[(\d+)\] LOG:  (?:statement|execute)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Session:
    """One of Postgres's: whose it is, and the WAL it has written."""

    name: str
    wal_bytes: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """Per commit, by the name of the sessions."""

    statements: Json
    wal_bytes: Json


def cost(bench: Bench, sinks: dict[str, Json]) -> list[Finding]:
    """By kind of sink, beside a server without any."""
    without = _counted(bench, "costs_nothing", {})
    findings = []
    for kind, sink in sinks.items():
        beside = _counted(bench, f"costs_{kind}", sink_settings("told", sink))
        details = {"commits": COMMITS, "with": asdict(beside), "without": asdict(without)}
        figures = {
            "statements": (beside.statements[_COMMITS_IT] / without.statements[_COMMITS_IT], STATEMENT_GOAL),
            "bytes of WAL": (beside.wal_bytes[_COMMITS_IT] / without.wal_bytes[_COMMITS_IT], WAL_GOAL),
        }
        for what, (figure, goal) in figures.items():
            findings.append(Finding(f"{kind}: {what} per commit, with a sink against none", figure, "×", goal, details=details))
    return findings


def _counted(bench: Bench, database: str, settings: dict[str, str]) -> _Counted:
    """COMMITS commits of one client, one after the other: what they need, and nothing that comes of crowding."""
    dsn = bench.local_database(database)
    with bench.served(database, settings=settings) as service, contextlib.closing(service.catalog()) as catalog:
        catalog.create_namespace(NAMESPACE)
        catalog.create_table(NAMESPACE, _TABLE)
        with psycopg.connect(dsn, autocommit=True) as connection, _logged(connection) as log:
            # Once before: then all sessions are there, and have prepared what they run again and again.
            _commit(catalog)
            _until_told(connection)
            before, at = _sessions(connection), log.stat().st_size
            _commit(catalog)
            logged = log.read_bytes()[at:]
            # The last event is still told, to be counted too; the next heartbeat is none of the commits'.
            _until_told(connection)
            after = _sessions(connection)
    committers = {pid for pid, session in after.items() if session.name == _COMMITS_IT}
    if not committers <= before.keys():
        raise UnfitRunError("a session that commits was opened while its WAL was counted")
    statements = Counter(after[int(pid)].name for pid in _STATEMENT.findall(logged) if int(pid) in after)
    written: Counter[str] = Counter()
    for pid, session in after.items():
        written[session.name] += session.wal_bytes - (before[pid].wal_bytes if pid in before else 0)
    return _Counted(
        {name: count / COMMITS for name, count in statements.items()},
        {name: round(count / COMMITS, 1) for name, count in written.items()},
    )


@contextlib.contextmanager
def _logged(connection: psycopg.Connection[tuple[object, ...]]) -> Iterator[Path]:
    """Postgres writes every statement down while the block runs; the file."""
    row = connection.execute("select current_setting('data_directory') || '/' || pg_current_logfile()").fetchone()
    assert row is not None
    _set_logging(connection, "all")
    try:
        yield Path(str(row[0]))
    finally:
        _set_logging(connection, "none")


def _set_logging(connection: psycopg.Connection[tuple[object, ...]], which: str) -> None:
    """Of all that is open: a session takes it up before its next statement."""
    connection.execute(sql.SQL("alter system set log_statement = {}").format(which))
    connection.execute("select pg_reload_conf()")


def _commit(catalog: RestCatalog) -> None:
    for number in range(COMMITS):
        catalog.commit(NAMESPACE, _TABLE, work.properties_body({"turn": f"{number:04d}"}))


def _until_told(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Waits until the sink, where there is one, has moved its row to the end of the log."""
    until = time.monotonic() + _FLUSH_SECONDS_MAX
    while connection.execute(_BEHIND).fetchone() != (0,):
        if time.monotonic() > until:
            raise UnfitRunError("the sink does not come to the end of the log")
        time.sleep(0.05)


def _sessions(connection: psycopg.Connection[tuple[object, ...]]) -> dict[int, _Session]:
    """By process id, once all of them have said what they did: a session that is idle does so after ten seconds."""
    time.sleep(_REPORT_SECONDS)
    return {int(str(pid)): _Session(str(name), int(str(count))) for pid, name, count in connection.execute(_SESSIONS)}
