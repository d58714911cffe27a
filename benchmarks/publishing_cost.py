"""The cost of a sink to commits: statements and WAL bytes of the sessions that commit, with a sink and without.

Statements are counted in Postgres's log by session, WAL by Postgres 18's counters of each session. The publisher's own session is reported
separately in the details.
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

# A tolerance for pages that split in only one of the databases, because ids are random.
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
    """A session of Postgres: its application, and the WAL it has written."""

    name: str
    wal_bytes: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """Values per commit, by the name of the sessions."""

    statements: Json
    wal_bytes: Json


def cost(bench: Bench, sinks: dict[str, Json]) -> list[Finding]:
    """The cost by type of sink, beside a server without a sink."""
    counted = _counted(bench, {"nothing": {}, **{kind: sink_settings("published", sink) for kind, sink in sinks.items()}})
    without = counted.pop("nothing")
    findings = []
    for kind, beside in counted.items():
        details = {"commits": COMMITS, "with": asdict(beside), "without": asdict(without)}
        figures = {
            "statements": (beside.statements[_COMMITS_IT] / without.statements[_COMMITS_IT], STATEMENT_GOAL),
            "bytes of WAL": (beside.wal_bytes[_COMMITS_IT] / without.wal_bytes[_COMMITS_IT], WAL_GOAL),
        }
        for what, (figure, goal) in figures.items():
            findings.append(Finding(f"{kind}: {what} per commit, with a sink against none", figure, "×", goal, details=details))
    return findings


def _counted(bench: Bench, variants: dict[str, dict[str, str]]) -> dict[str, _Counted]:
    """COMMITS commits of one client, one after the other, to a server of each variant, so that nothing is due to concurrency.

    The servers run at the same time, so that the delay of Postgres's statistics is waited for once.
    """
    with contextlib.ExitStack() as opened:
        servers = {name: opened.enter_context(_server(bench, f"costs_{name}", settings)) for name, settings in variants.items()}
        log = opened.enter_context(_logged(next(iter(servers.values())).connection))
        # Warm-up, so that all sessions exist and have prepared their statements.
        for server in servers.values():
            server.commit()
            server.until_published()
        time.sleep(_REPORT_SECONDS)
        before = {name: server.sessions() for name, server in servers.items()}
        at = log.stat().st_size
        for server in servers.values():
            server.commit()
        logged = Counter(int(pid) for pid in _STATEMENT.findall(log.read_bytes()[at:]))
        # The last event is counted once it is published. The next heartbeat is not counted.
        for server in servers.values():
            server.until_published()
        time.sleep(_REPORT_SECONDS)
        return {name: _difference(before[name], server.sessions(), logged) for name, server in servers.items()}


def _difference(before: dict[int, _Session], after: dict[int, _Session], logged: Counter[int]) -> _Counted:
    if not {pid for pid, session in after.items() if session.name == _COMMITS_IT} <= before.keys():
        raise UnfitRunError("a session that commits was opened while its WAL was counted")
    statements: Counter[str] = Counter()
    written: Counter[str] = Counter()
    for pid, session in after.items():
        if pid in logged:
            statements[session.name] += logged[pid]
        written[session.name] += session.wal_bytes - (before[pid].wal_bytes if pid in before else 0)
    return _Counted(
        {name: count / COMMITS for name, count in statements.items()},
        {name: round(count / COMMITS, 1) for name, count in written.items()},
    )


@dataclass(frozen=True, slots=True)
class _Server:
    """One of our servers, and a session that queries its database."""

    catalog: RestCatalog
    connection: psycopg.Connection[tuple[object, ...]]

    def commit(self) -> None:
        for number in range(COMMITS):
            self.catalog.commit(NAMESPACE, _TABLE, work.properties_body({"turn": f"{number:04d}"}))

    def until_published(self) -> None:
        """Waits until the sink, if any, has moved its row to the end of the log."""
        until = time.monotonic() + _FLUSH_SECONDS_MAX
        while self.connection.execute(_BEHIND).fetchone() != (0,):
            if time.monotonic() > until:
                raise UnfitRunError("the sink does not come to the end of the log")
            time.sleep(0.05)

    def sessions(self) -> dict[int, _Session]:
        """The sessions by process id. Idle sessions have reported their statistics after ten seconds."""
        found = self.connection.execute(_SESSIONS)
        return {int(str(pid)): _Session(str(name), int(str(count))) for pid, name, count in found}


@contextlib.contextmanager
def _server(bench: Bench, database: str, settings: dict[str, str]) -> Iterator[_Server]:
    dsn = bench.local_database(database)
    with (
        bench.served(database, settings=settings) as service,
        contextlib.closing(service.catalog()) as catalog,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        catalog.create_namespace(NAMESPACE)
        catalog.create_table(NAMESPACE, _TABLE)
        yield _Server(catalog, connection)


@contextlib.contextmanager
def _logged(connection: psycopg.Connection[tuple[object, ...]]) -> Iterator[Path]:
    """Postgres logs every statement while the block runs; yields the log file."""
    row = connection.execute("select current_setting('data_directory') || '/' || pg_current_logfile()").fetchone()
    assert row is not None
    _set_logging(connection, "all")
    try:
        yield Path(str(row[0]))
    finally:
        _set_logging(connection, "none")


def _set_logging(connection: psycopg.Connection[tuple[object, ...]], which: str) -> None:
    """Applies to all open sessions, which read the setting before their next statement."""
    connection.execute(sql.SQL("alter system set log_statement = {}").format(which))
    connection.execute("select pg_reload_conf()")
