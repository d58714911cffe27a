"""One run: a new database and server, clients and faults, then the checks; and the report of several runs."""

import asyncio
import contextlib
import secrets
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from pydantic import SecretStr

from benchmarks.reliability.checks import Evidence, findings, unacknowledged_but_logged
from benchmarks.reliability.cluster import Cluster, Line
from benchmarks.reliability.fault_injection import VARIABLE, Control, sabotage_database
from benchmarks.reliability.history import History
from benchmarks.reliability.nemesis import Nemesis
from benchmarks.reliability.server import SECRET_KEY, Server, serving
from benchmarks.reliability.workload import Workload
from icecore.access.request_context import ANONYMOUS, RequestContext
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.compose import open_catalog
from icecore.domain.project import PROJECT_ID_DEFAULT
from icecore.migrations.apply import apply_migrations
from icecore.settings import Settings
from tests.servers.pgbouncer import pgbouncer

FAULTS = ",".join(
    f"{point}:{action}@{probability}"
    for point in ("commit.before_append", "commit.after_append", "commit.after_metadata_put")
    for action, probability in (("kill", 0.001), ("raise", 0.01), ("hang=2", 0.002))
)
WORKERS = 2
TEMPLATE = "reliability_template"
_VIOLATIONS_SHOWN = 3
Plan = Callable[[Nemesis], Awaitable[None]]


@dataclass(slots=True)
class Report:
    """The result of a run."""

    name: str
    seed: str
    seconds: float
    history: History
    evidence: Evidence
    found: dict[str, list[str]]
    exit_code: int
    workers: int
    notes: list[str] = field(default_factory=list)

    @property
    def red(self) -> set[str]:
        return {name for name, violations in self.found.items() if violations}

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "name": self.name,
            "seed": self.seed,
            "acknowledged": self.history.acknowledged,
            "kills-in-flight": self.history.kills_in_flight(),
            "workers": self.workers,
            "red": {name: self.found[name] for name in sorted(self.red)},
            "notes": self.notes,
        }

    def lines(self) -> list[str]:
        """The report as text: seed, faults, counts, verdict."""
        history = self.history
        mutations = history.mutations
        outcomes = {outcome: sum(m.outcome == outcome for m in mutations) for outcome in ("ok", "fail", "info")}
        hidden = unacknowledged_but_logged(mutations, self.evidence)
        lines = [
            f"{self.name}: seed {self.seed}, {self.seconds:.0f} s",
            f"  faults     {', '.join(f'{count} × {fault}' for fault, count in sorted(history.faults.items())) or 'none'}",
            f"  changes    {outcomes['ok']} acknowledged, {outcomes['fail']} refused, {outcomes['info']} unknown, of which "
            f"{hidden} in the log; {sum(len(m.attempts) for m in mutations)} requests, {len(history.loads)} loads, "
            f"{len(history.bank_reads)} reads of the bank, {len(self.evidence.positions)} events",
            f"  in flight  {history.kills_in_flight()} of {len(history.kills)} kills cut off a commit; {self.workers} workers committed",
        ]
        for name in sorted(self.red):
            violations = self.found[name]
            shown = "; ".join(violations[:_VIOLATIONS_SHOWN])
            lines.append(f"  RED        {name}: {len(violations)} violations: {shown}")
        lines += [f"  note       {note}" for note in self.notes]
        lines.append(f"  verdict    {'green' if not self.red else 'red'}")
        return lines


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """A new folder that is deleted afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="icecore-reliability-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def prepare_template(cluster: Cluster, warehouse_directory: Path) -> None:
    """A migrated database with the warehouse of the clients."""
    await cluster.create_database(TEMPLATE)
    dsn = cluster.dsn(TEMPLATE)
    await apply_migrations(dsn)
    settings = Settings(database_url=SecretStr(dsn), secret_key=SecretStr(SECRET_KEY))
    async with open_catalog(settings) as catalog:
        context = RequestContext("reliability", PROJECT_ID_DEFAULT, ANONYMOUS, "createWarehouse")
        await create_warehouse(catalog.commands, context, CreateWarehouse("demo", {"type": "local", "directory": str(warehouse_directory)}))


async def run(
    cluster: Cluster, name: str, seed: str, plan: Plan, *, control: Control | None = None, faults: str = "", pool_mode: str | None = None
) -> Report:
    """Runs clients and faults against a new server, then the checks.

    pool_mode -- of a PgBouncer between the server and Postgres; None: there is none.
    """
    with contextlib.ExitStack() as opened:
        port = cluster.port
        if pool_mode is not None:
            await cluster.limit_times()
            port = opened.enter_context(pgbouncer(cluster.port, pool_mode))
        return await _run(cluster, name, seed, plan, control, faults, port, transaction_pooled=pool_mode == "transaction")


async def _run(
    cluster: Cluster, name: str, seed: str, plan: Plan, control: Control | None, faults: str, port: int, *, transaction_pooled: bool
) -> Report:
    """port -- of Postgres, or of a PgBouncer in front. transaction_pooled -- it is in transaction mode, so that only requests use it."""
    database = f"r{secrets.token_hex(6)}"
    await cluster.copy_database(database, TEMPLATE)
    line, history, started = Line(port), History(), time.monotonic()
    environment = {"ICECORE_TEST_FAULT": faults, "ICECORE_TEST_FAULT_SEED": seed} if faults else {}
    if control is not None:
        await sabotage_database(control, cluster.dsn(database))
        environment |= {VARIABLE: control.name} if control.in_worker is not None else {}
    await line.start()
    scratch = Path(tempfile.mkdtemp(prefix="icecore-reliability-"))
    workers = WORKERS if control is None else control.workers
    dsn = cluster.dsn(database, line.port)
    if transaction_pooled:
        environment["ICECORE_DATABASE_POOLER_URL"], dsn = dsn, cluster.dsn(database)
    async with serving(dsn, scratch, workers, environment) as server:
        await under_load(server, cluster, line, history, seed, plan)
        exit_code = await server.stop()
    await line.close()
    report = await reported(name, seed, started, history, server, exit_code, cluster.dsn(database))
    if report.red and control is None:
        report.notes.append(f"log of the server: {scratch}")
    else:
        shutil.rmtree(scratch)
    return report


async def reported(name: str, seed: str, started: float, history: History, server: Server, exit_code: int, dsn: str) -> Report:
    """The results of the checks, after the server has ended."""
    history.faults |= server.faults()
    history.kills += server.fault_kills()
    evidence = await Evidence.gathered(history, dsn)
    found = await findings(evidence)
    if exit_code != 0:
        found["away"].append(f"the server ended with {exit_code} when it was asked to")
    committed = len(server.workers_that_committed())
    return Report(name, seed, time.monotonic() - started, history, evidence, found, exit_code, committed)


async def under_load(server: Server, cluster: Cluster, line: Line, history: History, seed: str, plan: Plan) -> None:
    """Runs clients until `plan` ends."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        workload = Workload(server.url, seed, history)
        await workload.set_up(session)
        finished = asyncio.Event()
        working = asyncio.create_task(workload.run(session, finished))
        breaking = asyncio.ensure_future(plan(Nemesis(server, cluster, line, history, seed)))
        await asyncio.wait({working, breaking}, return_when=asyncio.FIRST_COMPLETED)
        finished.set()
        await breaking
        await working
